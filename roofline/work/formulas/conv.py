"""Convolutions as implicit matrix products. Zeros of the padding are not discounted."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from roofline.work.record import Product
from roofline.work.registry import Work, formula


def _layout(x: Tensor) -> str:
    """How a convolution's tensor lies in memory."""
    channels_last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(x.dim())
    if channels_last is not None and x.is_contiguous(memory_format=channels_last) and not x.is_contiguous():
        return "channels_last"
    return "contiguous"


def _attributes(
    x: Tensor,
    weight: Tensor,
    stride: Sequence[int],
    padding: Any,
    dilation: Sequence[int],
    transposed: bool,
    groups: int,
    output_size: Sequence[int],
) -> dict[str, Any]:
    """Geometry, as `predict` needs it."""
    return {
        "kernel": tuple(weight.shape[2:]), "stride": tuple(stride), "padding": tuple(padding),
        "dilation": tuple(dilation), "groups": groups, "transposed": transposed, "layout": _layout(x),
        "input_size": tuple(x.shape[2:]), "output_size": tuple(output_size),
        "in_channels": weight.shape[0] if transposed else weight.shape[1] * groups,
        "out_channels": weight.shape[1] * groups if transposed else weight.shape[0],
    }  # fmt: skip


def _implicit_gemm(sites: int, weight: Tensor, groups: int, transposed: bool) -> Product:
    """The product behind it, per group: m sites, n channels made, k products summed.

    `sites` are batch x the positions the kernel is laid on: output positions, or input positions if transposed.
    """
    k_size = prod(weight.shape[2:])
    if transposed:
        return Product(groups, sites, weight.shape[1] * k_size, weight.shape[0] // groups)
    return Product(groups, sites, weight.shape[0] // groups, weight.shape[1] * k_size)


def _positions(x: Tensor, weight: Tensor) -> int:
    """Batch x spatial size; an input without a batch has one axis less than the weight."""
    spatial = weight.dim() - 2
    return prod(x.shape[x.dim() - spatial :]) * (x.shape[0] if x.dim() == weight.dim() else 1)


def _flops(product: Product, x: Tensor) -> int:
    return (8 if x.is_complex() else 2) * product.batch * product.m * product.n * product.k


@formula(
    "convolution", "_convolution", "convolution_overrideable", "cudnn_convolution", "cudnn_convolution_transpose",
    kind="conv",
)  # fmt: skip
def convolution(
    x: Tensor, weight: Tensor, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool = False,
    output_padding: Any = (), groups: int = 1, *_: Any, output: Tensor,
) -> Work:  # fmt: skip
    """2 x kernel elements x input channels per group, for every output element.

    Transposed: every *input* position times the kernel and the output channels of its group, wherever those land.
    """
    sites = _positions(x if transposed else output, weight)
    product = _implicit_gemm(sites, weight, groups, transposed)
    attributes = _attributes(x, weight, stride, padding, dilation, transposed, groups, output.shape[2:])
    return Work(flops=_flops(product, x), product=product, attributes=attributes)


@formula(
    "mkldnn_convolution", "mkldnn._convolution_pointwise", "thnn_conv2d", "_slow_conv2d_forward",
    "slow_conv3d_forward", "_conv_depthwise2d", "conv_depthwise3d", "slow_conv_dilated2d", "slow_conv_dilated3d",
    kind="conv",
)  # fmt: skip
def plain_convolution(x: Tensor, weight: Tensor, *rest: Any, output: Tensor) -> Work:
    """The library's own entry points: the same count, groups read off the weight."""
    groups = x.shape[1] // max(1, weight.shape[1])
    product = _implicit_gemm(_positions(output, weight), weight, groups, False)
    return Work(
        flops=_flops(product, x),
        product=product,
        attributes={"groups": groups, "kernel": tuple(weight.shape[2:])},
    )


@formula("cudnn_convolution_relu", "cudnn_convolution_add_relu", kind="conv")
def fused_convolution(x: Tensor, weight: Tensor, *rest: Any, output: Tensor) -> Work:
    """Convolution with an epilogue: the epilogue rides on the store."""
    return plain_convolution(x, weight, output=output)


@formula("convolution_backward", "convolution_backward_overrideable", kind="conv")
def convolution_backward(
    grad: Tensor, x: Tensor, weight: Tensor, bias_sizes: Any, stride: Any, padding: Any, dilation: Any,
    transposed: bool, output_padding: Any, groups: int, output_mask: Sequence[bool],
) -> Work:  # fmt: skip
    """dX and dW pair the same elements as the forward did: each wanted one costs as much as the forward."""
    sites = _positions(x if transposed else grad, weight)
    product = _implicit_gemm(sites, weight, groups, transposed)
    wanted = bool(output_mask[0]) + bool(output_mask[1])
    attributes = _attributes(x, weight, stride, padding, dilation, transposed, groups, grad.shape[2:])
    attributes["gradients"] = tuple(bool(wanted) for wanted in output_mask)
    unread: dict[int | str, int] = {}
    if not output_mask[0]:
        unread[2] = 0
    if not output_mask[1]:
        unread[1] = 0
    return Work(flops=wanted * _flops(product, x), product=product, attributes=attributes, read_bytes=unread)


@formula("conv_tbc", kind="conv")
def conv_tbc(x: Tensor, weight: Tensor, *_: Any, output: Tensor) -> Work:
    """Time x batch x channel convolution, weight (kernel, in, out)."""
    product = Product(1, output.shape[0] * output.shape[1], weight.shape[2], weight.shape[0] * weight.shape[1])
    return Work(flops=_flops(product, x), product=product, attributes={"groups": 1, "kernel": (weight.shape[0],)})


@formula("torchvision.deform_conv2d", kind="conv")
def deform_conv2d(x: Tensor, weight: Tensor, *rest: Any, output: Tensor) -> Work:
    """Deformed sampling, then the products of an ordinary convolution: 2 x weight elements per output element."""
    product = _implicit_gemm(_positions(output, weight), weight, x.shape[1] // weight.shape[1], False)
    return Work(flops=_flops(product, x), product=product, attributes={"kernel": tuple(weight.shape[2:])})


@formula("torchvision._deform_conv2d_backward", kind="conv")
def deform_conv2d_backward(grad: Tensor, x: Tensor, weight: Tensor, *_: Any) -> Work:
    """Gradients of the sampled columns and of the weight, always both: twice the forward."""
    forward = deform_conv2d(x, weight, output=grad)
    return Work(flops=2 * forward.flops, product=forward.product, attributes=forward.attributes)

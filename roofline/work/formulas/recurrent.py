"""Recurrent layers: every cell step multiplies its input and its state with all weight matrices of the layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from roofline.work.record import Product
from roofline.work.registry import Work, formula


def rnn_work(weights: Sequence[Tensor], cells: int, **attributes: Any) -> Work:
    """`cells` = batch x steps (packed: the sum of the lengths). 2 flops per cell and element of each weight matrix."""
    matrices = [w for w in weights if w.dim() == 2]
    elements = sum(w.numel() for w in matrices)
    widest = max(matrices, key=Tensor.numel)
    return Work(
        flops=2 * cells * elements, elementwise_flops=12 * cells * max(w.shape[0] for w in matrices),
        product=Product(1, cells, widest.shape[0], widest.shape[1]), attributes={"cells": cells, **attributes},
    )  # fmt: skip


def rnn_backward_work(
    layers: Sequence[Sequence[Tensor]], cells: int, first_cells: int, *, directions: int, input_gradient: bool,
    state_gradient: bool, weight_gradient: bool = True,
) -> Work:  # fmt: skip
    """`layers`: the weight matrices of each layer and direction, in order: input, hidden and maybe a projection.

    dW of every matrix over all cells; dX of the input matrix except in a first layer whose input needs none; dH over
    all steps but the first (`first_cells` cells) unless the initial state needs a gradient.
    """
    flops = 0
    for index, matrices in enumerate(layers):
        flops += weight_gradient * 2 * cells * sum(w.numel() for w in matrices)
        if index >= directions or input_gradient:
            flops += 2 * cells * matrices[0].numel()
        flops += 2 * (cells - (0 if state_gradient else first_cells)) * matrices[1].numel()
        flops += sum(2 * cells * w.numel() for w in matrices[2:])
    widest = max((w for matrices in layers for w in matrices), key=Tensor.numel)
    return Work(flops=flops, elementwise_flops=24 * cells * widest.shape[0], product=Product(1, cells, *widest.shape))


@formula("mkldnn_rnn_layer", kind="recurrent")
def mkldnn_rnn_layer(x: Tensor, w_ih: Tensor, w_hh: Tensor, *rest: Any) -> Work:
    """One layer, one direction, (steps, batch, features)."""
    return rnn_work([w_ih, w_hh], x.shape[0] * x.shape[1])


@formula("mkldnn_rnn_layer_backward", kind="recurrent")
def mkldnn_rnn_layer_backward(x: Tensor, w_ih: Tensor, w_hh: Tensor, *rest: Any) -> Work:
    """dW and dX of both matrices; the initial state's gradient is not counted, as in the other recurrent backwards."""
    cells = x.shape[0] * x.shape[1]
    return rnn_backward_work([[w_ih, w_hh]], cells, x.shape[1], directions=1, input_gradient=True, state_gradient=False)


@formula("_cudnn_rnn", "miopen_rnn", kind="recurrent")
def cudnn_rnn(x: Tensor, weight: Sequence[Tensor], *rest: Any, output: Any) -> Work:
    """All layers and directions in one op: (steps, batch, features), or packed rows."""
    cells = x.shape[0] * x.shape[1] if x.dim() == 3 else x.shape[0]
    return rnn_work(weight, cells)


@formula("_cudnn_rnn_backward", "miopen_rnn_backward", kind="recurrent")
def cudnn_rnn_backward(x: Tensor, weight: Sequence[Tensor], *rest: Any, output: Any) -> Work:
    """dW and dX of every matrix: at most twice the forward."""
    return Work(flops=2 * cudnn_rnn(x, weight, output=output).flops)


@formula("quantized_lstm", "quantized_gru", kind="recurrent")
def quantized_rnn(x: Tensor, state: Any, params: Sequence[Any], *rest: Any) -> Work:
    """Dynamically quantised: the packed parameters hold the matrices."""
    matrices = []
    for packed in params:
        for weight in packed.__getstate__()[0][4] if hasattr(packed, "__getstate__") else ():
            matrices.append(weight.unpack()[0])
    return rnn_work(matrices, x.shape[0] * (x.shape[1] if x.dim() == 3 else 1))

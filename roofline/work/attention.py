"""Which attention kernel the target runs, and `scaled_dot_product_attention` as that one op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.attention
from torch import Tensor

from roofline.work.formulas.attention import BACKWARD, attention_work
from roofline.work.fused import Fused, run_as_one
from roofline.work.operators import take_apart
from roofline.work.recorder import Recorder

_OPS = {
    "flash": "aten._scaled_dot_product_flash_attention",
    "efficient": "aten._scaled_dot_product_efficient_attention",
    "cudnn": "aten._scaled_dot_product_cudnn_attention",
    "cpu": "aten._scaled_dot_product_flash_attention_for_cpu",
}
_HALF = (torch.float16, torch.bfloat16)


def intercepted(recorder: Recorder, attention: str) -> dict[str, Callable[..., Any]]:
    """The handler of `aten.scaled_dot_product_attention`."""

    def sdpa(
        func: Any, q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
        is_causal: bool = False, **kwargs: Any,
    ) -> Tensor:  # fmt: skip
        if q.is_nested:
            return take_apart(func, q, k, v, attn_mask, dropout_p, is_causal, **kwargs)
        backend = choose(q, k, v, attn_mask, dropout_p, is_causal, recorder.target, attention)
        if (q.is_cuda and attention == "auto") or (q.is_cpu and backend == "cpu"):
            return take_apart(func, q, k, v, attn_mask, dropout_p, is_causal, **kwargs)
        if q.is_cuda or backend == "math":
            with torch.nn.attention.sdpa_kernel(_enum(backend)):
                return take_apart(func, q, k, v, attn_mask, dropout_p, is_causal, **kwargs)
        return _as_one(recorder, backend, func, q, k, v, attn_mask, dropout_p, is_causal, kwargs)

    return {"scaled_dot_product_attention": sdpa}


_HERE = [torch.nn.attention.SDPBackend.FLASH_ATTENTION, torch.nn.attention.SDPBackend.MATH]
"""What computes the values on a CPU, whichever of the GPU's kernels is traced."""
_ENUMS = {"math": "MATH", "flash": "FLASH_ATTENTION", "efficient": "EFFICIENT_ATTENTION", "cudnn": "CUDNN_ATTENTION"}


def _enum(backend: str) -> Any:
    return getattr(torch.nn.attention.SDPBackend, _ENUMS[backend])


def choose(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    dropout_p: float,
    causal: bool,
    target: str,
    attention: str,
) -> str:
    """ "flash", "efficient", "cudnn", "cpu" (its own fused kernel) or "math".

    "auto" follows torch's order for a CUDA device, within the backends that the program leaves enabled: flash for
    16-bit floats without a mask and up to 256 channels per head, else memory-efficient up to fp32, else products.
    Grouped heads count as fused for fp32 too.
    """
    if attention == "math" or q.dim() != 4 or 0 in q.shape or 0 in k.shape:
        return "math"
    enabled = torch.backends.cuda
    if target == "cpu":
        fits = q.shape[-1] == v.shape[-1] and q.dtype in (torch.float64, torch.float32, *_HALF) and dropout_p == 0
        return (
            "cpu" if fits and enabled.flash_sdp_enabled() and not (mask is not None and mask.requires_grad) else "math"
        )
    if attention != "auto":
        return attention
    same_size = q.shape[-1] == k.shape[-1] == v.shape[-1]
    square = not causal or q.shape[-2] == k.shape[-2]
    if (
        q.dtype in _HALF
        and mask is None
        and same_size
        and q.shape[-1] <= 256
        and square
        and enabled.flash_sdp_enabled()
    ):
        return "flash"
    if q.dtype in (torch.float32, *_HALF) and enabled.mem_efficient_sdp_enabled():
        return "efficient"
    only_cudnn = q.dtype in _HALF and enabled.cudnn_sdp_enabled() and not enabled.math_sdp_enabled()
    return "cudnn" if only_cudnn else "math"


def _as_one(
    recorder: Recorder, backend: str, func: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout_p: float,
    causal: bool, kwargs: dict[str, Any],
) -> Tensor:  # fmt: skip
    def run(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, ...]:
        like_kernel = _result(backend, q, v)
        if q.is_meta:
            return (like_kernel.requires_grad_(q.requires_grad),)
        with torch.nn.attention.sdpa_kernel(_HERE):
            found = take_apart(func, q, k, v, mask, dropout_p, causal, **kwargs)
        return (found if found.stride() == like_kernel.stride() else like_kernel.copy_(found),)

    facts: dict[str, Any] = {
        "backend": "flash" if backend == "cpu" else backend,
        "causal": causal,
        "kv_heads": k.shape[-3],
        "heads": q.shape[-3],
    }
    shapes = (tuple(q.shape), tuple(k.shape), tuple(v.shape))
    fused = Fused(
        op=_OPS[backend], kind="attention", work=attention_work(*shapes, **facts),
        backward=lambda needed: attention_work(*shapes, BACKWARD, **facts), run=run,
        statistics_bytes=4 * q.shape[0] * q.shape[1] * q.shape[2],
    )  # fmt: skip
    return run_as_one(recorder, fused, (q, k, v) if mask is None else (q, k, v, mask))


def _result(backend: str, q: Tensor, v: Tensor) -> Tensor:
    """The kernel's result in its memory layout: flash keeps that of q, others write (batch, length, heads, size)."""
    if backend in ("flash", "cpu") and q.shape[-1] == v.shape[-1]:
        return torch.empty_like(q.detach().transpose(1, 2)).transpose(1, 2)
    batch, heads, length, _ = q.shape
    return q.new_empty(batch, length, heads, v.shape[-1]).transpose(1, 2)

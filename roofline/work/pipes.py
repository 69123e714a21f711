"""Which pipe executes a product: decided by its dtype and by torch's precision switches as they are at the call."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch

from roofline.work.record import Kind

_BY_DTYPE = {
    torch.float16: "tensor_fp16_fp32",
    torch.bfloat16: "tensor_bf16_fp32",
    torch.float64: "tensor_fp64",
    torch.complex128: "tensor_fp64",
    torch.complex32: "tensor_fp16_fp32",
    torch.int8: "tensor_int8",
    torch.uint8: "tensor_int8",
    torch.qint8: "tensor_int8",
    torch.quint8: "tensor_int8",
    torch.float8_e4m3fn: "tensor_fp8_e4m3",
    torch.float8_e4m3fnuz: "tensor_fp8_e4m3",
    torch.float8_e5m2: "tensor_fp8_e5m2",
    torch.float8_e5m2fnuz: "tensor_fp8_e5m2",
}


def pipe_of(dtype: torch.dtype, kind: Kind, target: str) -> str | None:
    """The pipe ceiling for matrix work in `dtype`; None where no pipe is known (wide integers, booleans)."""
    if dtype in (torch.float32, torch.complex64):
        return "tensor_tf32" if target == "cuda" and tf32_allowed(kind) else "fp32"
    return _BY_DTYPE.get(dtype)


def tf32_allowed(kind: Kind) -> bool:
    """Whether torch's switches let fp32 products (cuBLAS) or convolutions and recurrent layers (cuDNN) run as TF32."""
    if kind in ("conv", "recurrent"):
        owner: Any = torch.backends.cudnn
        chain: tuple[Any, ...] = (getattr(owner, "conv" if kind == "conv" else "rnn", None), owner, torch.backends)
    else:
        owner = torch.backends.cuda.matmul
        chain = (owner, torch.backends)
    for level in chain:
        precision = getattr(level, "fp32_precision", "none") if level is not None else "none"
        if precision != "none":
            return precision == "tf32"
    return bool(owner.allow_tf32) if not _has_precision_switches() else False


@lru_cache(maxsize=1)
def _has_precision_switches() -> bool:
    """torch >= 2.9 has `fp32_precision`; before, `allow_tf32` is all there is."""
    return hasattr(torch.backends.cuda.matmul, "fp32_precision")

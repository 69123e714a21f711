"""Question: how many flops a second do all cores of a CPU reach in a product of matrices? (torch and NumPy)

Formula: o = a b^T with square a, b of side n, as in a linear layer; 2 n^3 flops a launch.
fp32, fp64         torch (MKL, oneDNN) and NumPy (OpenBLAS). The names are those of a GPU's vector pipes: on a CPU
                   the same units serve products and everything else
tensor_bf16_fp32   torch (oneDNN): bf16 operands, fp32 sums, bf16 result, by AMX, AVX-512 or NEON where the CPU has
                   them; elsewhere it is the rate of torch's emulation, far below fp32
Normally distributed operands. The best library product stands for the pipe: a bare loop of FMAs might be a few
percent faster, but a layer is not.
Cannot show: small, thin or batched products; convolutions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from roofline.kernels.microkernel import Arena, Job, Microkernel, Variant, relative_error
from roofline.machine.record import Device

DTYPES = {"fp32": "float32", "fp64": "float64", "tensor_bf16_fp32": "bfloat16"}
TOLERANCES = {"fp32": 1e-5, "fp64": 1e-13, "tensor_bf16_fp32": 5e-3}
"""Above the rounding of the result (2^-24, 2^-53, 2^-9), below that of a narrower product (bf16 in fp32: 1e-3)."""
_FLOPS_PER_CORE = {"float32": 5e8, "float64": 2.5e8, "bfloat16": 1e9}
_FLOPS_PER_CORE_EMULATED = 1e7
"""Flops of a product for each core: 5 ms at 1e11 flops a second in fp32, 10 ms at 1e9 in emulated bf16."""
_STEP = 128


def bf16_supported() -> bool:
    """Whether oneDNN finds instructions for bf16 products here; torch's emulation is up to a hundred times slower."""
    supported = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)
    return bool(supported and supported())


def side(flops: float) -> int:
    """Side of a square product of about that many flops: a multiple of 128."""
    return max(1, round((flops / 2) ** (1 / 3) / _STEP)) * _STEP


def sizes(dtype: str, cores: int) -> tuple[int, ...]:
    """Sides to try: products of some milliseconds on any number of cores, and of twice the flops."""
    emulated = dtype == "bfloat16" and not bf16_supported()
    n = side(cores * (_FLOPS_PER_CORE_EMULATED if emulated else _FLOPS_PER_CORE[dtype]))
    return (n,) if emulated else (n, side(4 * n**3))


def torch_product(a: Any, b: Any, out: Any) -> None:
    """out = a b^T; a: (m, k), b: (n, k), out: (m, n) tensors."""
    torch.mm(a, b.t(), out=out)


def numpy_product(a: Any, b: Any, out: Any) -> None:
    """out = a b^T; a: (m, k), b: (n, k), out: (m, n) tensors."""
    np.matmul(a.numpy(), b.numpy().T, out=out.numpy())


def _prepare(dtype: str, product: Callable[[Any, Any, Any], None], n: int, arena: Arena, scale: float) -> Job:
    m = max(1, round(n * scale))
    a, b, out = arena.random((m, n), dtype), arena.random((n, n), dtype), arena.empty((m, n), dtype)
    return Job(lambda _: product(a, b, out), 2.0 * m * n * n, lambda: _error(dtype, product, arena))


def _error(dtype: str, product: Callable[[Any, Any, Any], None], arena: Arena) -> float:
    m, n, k = 97, 131, 331  # odd: edges of every blocking take part
    a, b, out = arena.random((m, k), dtype), arena.random((n, k), dtype), arena.empty((m, n), dtype)
    product(a, b, out)
    reference = (a.double()[:, None] * b.double()).sum(2)  # made without the library that is checked
    return relative_error(out, reference)


def _microkernel(ceiling: str, backend: str, product: Callable[[Any, Any, Any], None]) -> Microkernel:
    dtype = DTYPES[ceiling]

    def variants(device: Device) -> tuple[Variant, ...]:
        cores = device.sm_count or 1
        return tuple(Variant(f"{n}^3", {"n": n, "threads": cores}) for n in sizes(dtype, cores))

    def prepare(variant: Variant, arena: Arena, scale: float) -> Job:
        return _prepare(dtype, product, variant.options["n"], arena, scale)

    return Microkernel(ceiling, backend, variants, prepare, TOLERANCES[ceiling])


MICROKERNELS = (
    *(_microkernel(ceiling, "torch", torch_product) for ceiling in DTYPES),
    *(_microkernel(ceiling, "numpy", numpy_product) for ceiling in ("fp32", "fp64")),
)

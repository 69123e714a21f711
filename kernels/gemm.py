"""Question: how many flops a second does the best library product reach whose operands come from memory? (torch)

Formula: o = a b^T with a (m, k), b (n, k), as in a linear layer; 2 m n k flops a launch.
fp16, bf16, fp32, fp64   torch.mm; sums in fp32 (fp64), result in the operands' type
tf32                     fp32 operands, products in TF32
fp8                      torch._scaled_mm: e4m3, scale 1, fast accumulation, result in bf16
int8                     torch._int_mm: result in int32
Bytes: each launch takes the next operands out of a pool larger than the last-level cache, so they come from DRAM.
Normally distributed operands (int8: uniform): products of zeros run up to a tenth faster, as they need less power.
Cannot show: thin or batched products, fused epilogues, what another library reaches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from itertools import cycle, product
from math import isqrt, prod
from typing import Any
from weakref import WeakValueDictionary

import torch

from roofline.kernels.microkernel import Arena, Job, Microkernel, Variant, relative_error
from roofline.machine.record import Device

AXES = ("m", "n", "k")
POWERS = (2048, 4096, 8192, 16384)
BETWEEN = (3072, 4096, 6144, 8192, 12288)
"""Sizes near which m and n fill whole waves of tiles."""
DEPTHS = (2048, 4096, 6144, 8192, 12288, 16384)
TILE = 128
"""Side of the square that the tiles of library kernels are made of."""
_CACHES = 4
"""The pool is at least this many times the last-level cache."""
_SETS = 32
_MEMORY_SHARE = 8


@dataclass(frozen=True)
class Product:
    """One kind of library product."""

    operand: str
    result: str
    multiply: Callable[[Any, Any, Any], Any]
    """a: (m, k), b^T: (k, n), column-major, out: (m, n)."""
    tolerance: float
    capability: tuple[int, int] = (0, 0)
    largest: int = 16384
    """Largest m, n and k: slow pipes saturate earlier and would take long."""
    precision: str | None = None
    """torch's switch for products of fp32."""


def _mm(a: Any, bt: Any, out: Any) -> None:
    torch.mm(a, bt, out=out)


def _scaled(a: Any, bt: Any, out: Any) -> None:
    one = _one(a.device)
    torch._scaled_mm(a, bt, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True, out=out)


def _integer(a: Any, bt: Any, out: Any) -> None:
    torch._int_mm(a, bt, out=out)


# Tolerances: above the rounding of the result (2^-11, 2^-9, 2^-24, 2^-53; TF32 operands 2^-11, fp8's fast accumulation
# 14 bits), below that of the next narrower type. Integers are exact.
PRODUCTS = {
    "gemm_fp16": Product("float16", "float16", _mm, 2e-3, (5, 3)),
    "gemm_bf16": Product("bfloat16", "bfloat16", _mm, 1e-2, (8, 0)),
    "gemm_tf32": Product("float32", "float32", _mm, 3e-3, (8, 0), precision="tf32"),
    "gemm_fp32": Product("float32", "float32", _mm, 2e-5, largest=8448, precision="ieee"),
    "gemm_fp64": Product("float64", "float64", _mm, 1e-13, largest=8448),
    "gemm_fp8": Product("float8_e4m3fn", "bfloat16", _scaled, 2e-2, (8, 9)),
    "gemm_int8": Product("int8", "int32", _integer, 0.0, (7, 5)),
}


@cache
def _one(device: Any) -> Any:
    return torch.ones((), dtype=torch.float32, device=device)


@contextmanager
def fp32_products(precision: str) -> Iterator[None]:
    """Products of fp32 in "ieee" or "tf32" while the context is open; afterwards torch's switch stands as before."""
    switch = torch.backends.cuda.matmul
    if hasattr(switch, "fp32_precision"):  # torch 2.9
        before = switch.fp32_precision
        switch.fp32_precision = precision
        try:
            yield
        finally:
            switch.fp32_precision = before
    else:
        setting = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(setting)


def wave_steps(sm_count: int) -> tuple[int, int]:
    """Steps of m and n (either way round) with which 128 x 128 tiles fill whole waves: 132 SMs → 11 x 128, 12 x 128."""
    small = next(p for p in range(isqrt(sm_count), 0, -1) if sm_count % p == 0)
    return TILE * small, TILE * (sm_count // small)


def near(size: int, step: int) -> int:
    """The multiple of `step` nearest to `size`; one step at least."""
    return max(1, round(size / step)) * step


def axes(ceiling: str, device: Device) -> dict[str, tuple[int, ...]]:
    """The lattice of shapes: m and n powers of two and whole waves, k also between; what fits the memory."""
    product = PRODUCTS[ceiling]
    memory = device.memory_bytes or 8 << 30
    most = min(product.largest, isqrt(memory // (3 * _MEMORY_SHARE * _item_bytes(product.operand))))
    waves = {near(size, step) for size in BETWEEN for step in wave_steps(device.sm_count or 1)}
    sides = tuple(sorted(size for size in waves.union(POWERS) if size <= most))
    return {"m": sides, "n": sides, "k": tuple(k for k in DEPTHS if k <= most)}


def starts(ceiling: str, device: Device) -> tuple[Variant, ...]:
    """Shapes to begin with: squares, whole waves both ways round, tall and wide; three depths."""
    small, large = wave_steps(device.sm_count or 1)
    lattice = axes(ceiling, device)
    pairs = [(8192, 8192), (4096, 4096)]
    pairs += [(near(s, a), near(s, b)) for s in (8192, 4096) for a, b in ((small, large), (large, small))]
    pairs += [(16384, 4096), (4096, 16384)]
    depths = cycle(k for k in (8192, 4096, 16384) if k in lattice["k"])
    shapes = [(4096, 4096, 4096), *((m, n, k) for (m, n), k in zip(pairs, depths, strict=False))]
    smallest = product(*(sizes[:1] for sizes in lattice.values()))
    fitting: list[tuple[int, ...]] = [shape for shape in dict.fromkeys(shapes) if _inside(lattice, shape)]
    return tuple(map(variant, fitting or smallest))


def _inside(lattice: Mapping[str, tuple[int, ...]], shape: tuple[int, int, int]) -> bool:
    return all(size in lattice[axis] for size, axis in zip(shape, AXES, strict=True))


def variant(shape: tuple[int, ...]) -> Variant:
    """The variant of a shape (m, n, k)."""
    return Variant(" x ".join(map(str, shape)), dict(zip(AXES, shape, strict=True)))


def _item_bytes(dtype: str) -> int:
    return getattr(torch, dtype).itemsize


@dataclass(frozen=True, eq=False)
class Pool:
    """Memory that all jobs of a kind share; it is given back with the last of them."""

    values: Any
    """1-d, random."""
    results: Any
    """1-d, poisoned."""

    def operands(self, m: int, n: int, k: int) -> list[tuple[Any, Any, Any]]:
        """Distinct (a, b^T, out), one for each launch until the memory is used up."""
        each, outs = (m + n) * k, self.results.numel() // (m * n)
        return [
            (
                self.values[i * each :][: m * k].view(m, k),
                self.values[i * each + m * k :][: n * k].view(n, k).t(),
                self.results[i % outs * m * n :][: m * n].view(m, n),
            )
            for i in range(min(_SETS, self.values.numel() // each))
        ]


_pools: WeakValueDictionary[tuple[Any, ...], Pool] = WeakValueDictionary()


def _pool(ceiling: str, arena: Arena, m: int, n: int, k: int) -> Pool:
    """Room for any shape of the lattice, and larger than the last-level cache."""
    product, device = PRODUCTS[ceiling], arena.device
    lattice = axes(ceiling, device)
    side, depth = max((*lattice["m"], m, n)), max((*lattice["k"], k))
    beyond_cache = _CACHES * (device.l2_bytes or 4 << 20)
    values = max(2 * side * depth, beyond_cache // _item_bytes(product.operand))
    results = max(side * side, beyond_cache // _item_bytes(product.result))
    key = (ceiling, arena.torch_device, arena.zeros, values, results)
    pool = _pools.get(key)
    if pool is None:
        pool = Pool(arena.random((values,), product.operand), arena.empty((results,), product.result))
        _pools[key] = pool
    return pool


def error(result: Any, a: Any, bt: Any) -> float:
    """Relative error of rows and columns spread over the result against float64; infinite if anything is unwritten."""
    if result.is_floating_point() and not bool(result.isfinite().all()):
        return float("inf")
    rows = torch.linspace(0, result.shape[0] - 1, 61, device=result.device).long()
    columns = torch.linspace(0, result.shape[1] - 1, 67, device=result.device).long()
    return relative_error(result[rows][:, columns], a[rows].double() @ bt[:, columns].double())


def prepare(ceiling: str, variant: Variant, arena: Arena, scale: float) -> Job:
    """Variant, arena, scale of the work → job; less work is a smaller k, which leaves the waves as they are."""
    product = PRODUCTS[ceiling]
    m, n, k = (variant.options[axis] for axis in AXES)
    k = near(round(k * scale), 64)
    pool = _pool(ceiling, arena, m, n, variant.options["k"])
    operands = pool.operands(m, n, k)
    run = partial(_run, product, pool, operands)
    return Job(run, 2.0 * prod((m, n, k)), partial(_check, run, operands[0]), pool.values.nbytes)


def _run(product: Product, pool: Pool, operands: list[tuple[Any, Any, Any]], launch: int) -> None:
    """One product; `pool` is here to stay alive as long as the job."""
    with fp32_products(product.precision) if product.precision else nullcontext():
        product.multiply(*operands[launch % len(operands)])


def _check(run: Callable[[int], None], first: tuple[Any, Any, Any]) -> float:
    a, bt, out = first
    out.fill_(float("nan") if out.is_floating_point() else torch.iinfo(out.dtype).min)
    run(0)
    return error(out, a, bt)


def _microkernel(ceiling: str) -> Microkernel:
    product = PRODUCTS[ceiling]

    def lattice(device: Device) -> Mapping[str, tuple[int, ...]]:
        return axes(ceiling, device)

    return Microkernel(
        ceiling,
        "torch",
        partial(starts, ceiling),
        partial(prepare, ceiling),
        product.tolerance,
        product.capability,
        axes=lattice,
    )


MICROKERNELS = tuple(_microkernel(ceiling) for ceiling in PRODUCTS)

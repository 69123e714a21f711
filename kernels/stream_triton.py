"""Question: how many bytes a second move between DRAM and the SMs, by direction? (Triton)

read   s = sum(b)        4 bytes an element
write  a = f(index)      4
copy   a = b             8
triad  a = b + q c       12
All fp32 random data; the bytes are the compulsory ones. Buffers far larger than the last-level cache, rotated.
Cannot show: bandwidth of strided or random access, or of buffers that fit in a cache.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from roofline.kernels import streams
from roofline.kernels.microkernel import Arena, Job, Microkernel, Variant
from roofline.machine.record import Device


@triton.jit
def read_kernel(b, out, n, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    """b: (n,) fp32; out: (programs,) fp32 gets each program's sum. Programs step through b together."""
    start = tl.program_id(0).to(tl.int64) * BLOCK
    step = tl.num_programs(0).to(tl.int64) * BLOCK
    total = tl.zeros((BLOCK,), tl.float32)
    for first in tl.range(start, n, step, num_stages=STAGES):
        index = first + tl.arange(0, BLOCK)
        total += tl.load(b + index, mask=index < n, other=0.0)
    tl.store(out + tl.program_id(0), tl.sum(total))


@triton.jit
def write_kernel(a, n, seed, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    """a: (n,) int32 gets index * 0x9E3779B1 + seed: pseudo-random bits, cheap to make and to verify."""
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    word = index.to(tl.int32) * -1640531535 + seed
    tl.store(a + index, word, mask=index < n)


@triton.jit
def copy_kernel(a, b, n, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    """a, b: (n,) fp32; a = b."""
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(a + index, tl.load(b + index, mask=index < n), mask=index < n)


@triton.jit
def triad_kernel(a, b, c, q, n, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    """a, b, c: (n,) fp32; a = b + q c."""
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = index < n
    tl.store(a + index, tl.load(b + index, mask=mask) + q * tl.load(c + index, mask=mask), mask=mask)


def _variant(block: int, warps: int, per_sm: int = 0, stages: int = 1) -> Variant:
    grid = f", {per_sm} programs/SM, {stages} stages" if per_sm else ""
    return Variant(
        f"{block} elements, {warps} warps{grid}",
        {"BLOCK": block, "warps": warps, "per_sm": per_sm, "STAGES": stages},
    )


def read_variants(device: Device) -> tuple[Variant, ...]:
    """A persistent grid with several loads in flight."""
    return tuple(_variant(*row) for row in ((8192, 8, 4, 2), (4096, 8, 4, 3), (2048, 8, 8, 3), (2048, 4, 8, 4)))


def write_variants(device: Device) -> tuple[Variant, ...]:
    """One to four 16-byte accesses per thread, full grid."""
    return tuple(_variant(*row) for row in ((1024, 8), (512, 4), (2048, 16), (1024, 4)))


def grid_of(variant: Variant, n: int, device: Device) -> int:
    """Programs to launch for n elements."""
    per_sm, block = variant.options["per_sm"], variant.options["BLOCK"]
    return per_sm * (device.sm_count or 1) if per_sm else -(-n // block)


def launch(operation: str, variant: Variant, grid: int, tensors: list[Any]) -> None:
    """Runs one operation on the tensors it needs: read (b, out), write (a), copy (a, b), triad (a, b, c)."""
    o = variant.options
    meta = {"BLOCK": o["BLOCK"], "STAGES": o["STAGES"], "num_warps": o["warps"]}
    n = tensors[0].numel()
    if operation == "read":
        read_kernel[(grid,)](tensors[0], tensors[1], n, **meta)
    elif operation == "write":
        write_kernel[(grid,)](streams.as_words(tensors[0]), n, streams.SEED, **meta)
    elif operation == "copy":
        copy_kernel[(grid,)](tensors[0], tensors[1], n, **meta)
    else:
        triad_kernel[(grid,)](tensors[0], tensors[1], tensors[2], streams.Q, n, **meta)


def partial_sums(variant: Variant, b: Any, grid: int) -> Any:
    """Float64 sums in the order of `read_kernel`: element i belongs to program (i // BLOCK) mod grid."""
    import torch

    block = variant.options["BLOCK"]
    padded = torch.nn.functional.pad(b, (0, -b.numel() % (block * grid)))
    return padded.view(-1, grid, block).sum((0, 2), dtype=torch.float64)


def _prepare(operation: str, variant: Variant, arena: Arena, scale: float) -> Job:
    return streams.prepare(
        operation,
        arena,
        scale,
        lambda n: grid_of(variant, n, arena.device),
        lambda grid, tensors: launch(operation, variant, grid, tensors),
        lambda b, grid: partial_sums(variant, b, grid),
    )


def _microkernel(operation: str) -> Microkernel:
    def prepare(variant: Variant, arena: Arena, scale: float) -> Job:
        return _prepare(operation, variant, arena, scale)

    variants = read_variants if operation == "read" else write_variants
    return Microkernel(f"dram_{operation}", "triton", variants, prepare, streams.TOLERANCE[operation], (7, 0))


MICROKERNELS = tuple(_microkernel(operation) for operation in streams.OPERATIONS)

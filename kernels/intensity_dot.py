"""Question: what rate does the tensor pipe reach at each arithmetic intensity, when an operand streams from DRAM?

Each program takes P tiles of A (fp32) from DRAM, adds them up, rounds the sum to fp16 and multiplies it R times by
a resident B. P > 1 only for intensities that one product with the narrowest B exceeds.
Formula: flops = 2 m n k x R x groups x programs (adding up the tiles is not counted).
Bytes: 4 m k x P x groups x programs, all read: the intensity is n R / (2 P) flop/byte.
Cannot show: two streamed operands; the pipe's other operand types, whose roofs differ in height alone.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import triton
import triton.language as tl

from roofline.kernels.intensity import INTENSITIES
from roofline.kernels.microkernel import Arena, Job, Microkernel, Variant, relative_error
from roofline.kernels.raw import clock_hz
from roofline.kernels.tensor_dot import cycles, nanoseconds
from roofline.machine.record import Device


@triton.jit
def _tiles(a, offsets, group, P, tiles, M: tl.constexpr, K: tl.constexpr, SUMMED: tl.constexpr):
    """Sum of the P tiles of a group, (M, K) fp32; behind the last of all tiles comes the first again."""
    first = group * P
    total = tl.load(a + (first % tiles).to(tl.int64) * M * K + offsets)
    if SUMMED:
        for p in tl.range(1, P, num_stages=3):
            total += tl.load(a + ((first + p) % tiles).to(tl.int64) * M * K + offsets)
    return total


@triton.jit(do_not_specialize=["tiles", "start", "groups", "P", "R"])
def intensity_dot_kernel(
    a,
    bt,
    out,
    ticks,
    tiles,
    start,
    groups,
    P,
    R,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    SUMMED: tl.constexpr,
    CLOCK: tl.constexpr,
):
    """a: (tiles, M, K) fp32, bt: (N, K) fp16, out: (programs, M, N) fp32 gets R x sum of (sum of P tiles) @ bt.T.

    Programs take groups in turn, from group `start` on; the next one is on its way while the products are made.
    ticks: (programs, 2) gets cycles and nanoseconds of each program, if CLOCK.
    """
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    offsets = rows[:, None] * K + inner[None, :]
    if CLOCK:
        began, ns = cycles(), nanoseconds()
    right = tl.trans(tl.load(bt + columns[:, None] * K + inner[None, :]))
    acc = tl.zeros((M, N), tl.float32)
    step = tl.num_programs(0)
    group = start + tl.program_id(0)
    following = _tiles(a, offsets, group, P, tiles, M, K, SUMMED)
    for g in range(groups):
        left = following.to(tl.float16)
        if g + 1 < groups:
            following = _tiles(a, offsets, group + (g + 1) * step, P, tiles, M, K, SUMMED)
        for _ in range(R):
            acc = tl.dot(left, right, acc)
    tile = out + tl.program_id(0).to(tl.int64) * M * N
    tl.store(tile + rows[:, None] * N + columns[None, :], acc)
    if CLOCK:
        tl.store(ticks + 2 * tl.program_id(0), cycles() - began)
        tl.store(ticks + 2 * tl.program_id(0) + 1, nanoseconds() - ns)


CEILING = "tensor_fp16_fp32"
M, K, WARPS = 64, 64, 4
TILE_BYTES = 4 * M * K
WIDTHS = (256, 128, 64, 32, 16)
LAUNCH_FLOPS = 8e9  # per SM; with the bytes of the whole array as the other bound, a launch takes about a millisecond


def shape(intensity: Fraction, widest: int) -> tuple[int, int, int]:
    """(n, R, P) with n R / (2 P) = intensity: the widest B that divides it, or several tiles to one product."""
    for n in (n for n in WIDTHS if n <= widest):
        products = 2 * intensity / n
        if products.denominator == 1:
            return n, products.numerator, 1
    products = 2 * intensity / WIDTHS[-1]
    return WIDTHS[-1], products.numerator, products.denominator


def variants(device: Device) -> tuple[Variant, ...]:
    """One variant per point of the sweep; B is as wide as one instruction of the architecture takes."""
    widest = 256 if (device.compute_capability or "8.0").split(".")[0] in ("9", "10") else 128
    points = ((intensity, *shape(intensity, widest)) for intensity in INTENSITIES)
    return tuple(
        Variant(f"{intensity} flop/B: {M}x{n}x{K}, {p} tiles, {r} products", {"N": n, "R": r, "P": p}, float(intensity))
        for intensity, n, r, p in points
    )


def programs_per_sm(variant: Variant) -> int:
    """As many as registers and shared memory let be resident at once on every architecture."""
    return 2 if variant.options["N"] == 256 or variant.options["P"] > 1 else 3


def meta(variant: Variant) -> dict[str, Any]:
    """Compile-time arguments of a point."""
    return {"M": M, "N": variant.options["N"], "K": K, "SUMMED": variant.options["P"] > 1, "CLOCK": True}


def groups_of(variant: Variant, array_bytes: int, sms: int, scale: float) -> int:
    """Groups that each program takes in a launch: about once through the array, or a launch's flops; one at least."""
    wanted = scale * min(array_bytes, LAUNCH_FLOPS * sms / variant.x)
    programs = programs_per_sm(variant) * sms
    return max(1, int(wanted / (TILE_BYTES * variant.options["P"] * programs)))


def reference(a: Any, bt: Any, programs: int, groups: int, o: Any) -> Any:
    """Float64 products in the kernel's order of tiles: (programs, M, N); a: (tiles, M, K)."""
    import torch

    order = torch.arange(groups * programs * o["P"], device=a.device) % len(a)
    sums = a[order].view(groups, programs, o["P"], M, K).sum(2)
    return o["R"] * (sums.half().double() @ bt.double().T).sum(0)


def prepare(variant: Variant, arena: Arena, scale: float) -> Job:
    """Variant, arena, scale of the work → job. Each launch goes on where the one before has stopped."""
    o, sms = variant.options, arena.device.sm_count or 1
    array = arena.arrays(4, 1.0)[2]
    tiles = 4 * array.numel() // TILE_BYTES
    programs = programs_per_sm(variant) * sms
    groups = groups_of(variant, 4 * array.numel(), sms, scale)
    bt = arena.random((o["N"], K), "float16")
    out, ticks = arena.empty((programs, M, o["N"]), "float32"), arena.empty((programs, 2), "int64")

    def launch(a: Any, count: int, target: Any, start: int, steps: int) -> None:
        constants = meta(variant)
        arguments = (a, bt, target, ticks, count, start, steps, o["P"], o["R"])
        intensity_dot_kernel[(len(target),)](*arguments, **constants, num_warps=WARPS)

    def check() -> float:
        a, small = arena.random((37, M, K), "float32"), arena.empty((3, M, o["N"]), "float32")
        launch(a, 37, small, 0, 2)
        return relative_error(small, reference(a, bt, 3, 2, o))

    def run(i: int) -> None:
        launch(array, tiles, out, i * groups * programs % tiles, groups)

    flops = 2.0 * M * o["N"] * K * o["R"] * groups * programs
    return Job(run, flops, check, 4 * array.numel(), lambda: clock_hz(ticks))


def _microkernel() -> Microkernel:
    return Microkernel(
        CEILING, "triton", variants, prepare, 1e-3, (8, 0), sweep="flops_per_byte", bandwidth="dram_read"
    )


SWEEPS = (_microkernel(),)

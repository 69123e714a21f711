"""Question: how many flops a second do the tensor pipes execute, by operand and accumulator type? (Triton `tl.dot`)

Formula: flops = 2 m n k x loops x programs.
Bytes: each program loads its two operand tiles once and stores its accumulator once; in the loop nothing leaves the SM.
acc <- acc + A B, again and again on the same random tiles: each product depends on the one before through acc.
Cannot show: what a matrix product reaches that has to fetch its operands (that is the GEMM ceiling).
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from roofline.kernels.microkernel import Arena, Job, Microkernel, Variant, relative_error
from roofline.kernels.raw import clock_hz
from roofline.machine.record import Device


@triton.jit
def cycles():
    """Clock ticks of this SM."""
    return tl.inline_asm_elementwise("mov.u64 $0, %clock64;", "=l", [], dtype=tl.int64, is_pure=False, pack=1)


@triton.jit
def nanoseconds():
    """The GPU's wall clock."""
    return tl.inline_asm_elementwise("mov.u64 $0, %globaltimer;", "=l", [], dtype=tl.int64, is_pure=False, pack=1)


@triton.jit
def dot_kernel(
    a,
    bt,
    out,
    ticks,
    loops,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    ACC: tl.constexpr,
    PRECISION: tl.constexpr,
    CLOCK: tl.constexpr,
):
    """a: (M, K), bt: (N, K), both row-major; out: (programs, M, N) of type ACC gets loops x (a @ bt.T).

    ticks: (programs, 2) gets cycles and nanoseconds of each program, if CLOCK (the interpreter has no clock).
    """
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    left = tl.load(a + rows[:, None] * K + inner[None, :])
    right = tl.trans(tl.load(bt + columns[:, None] * K + inner[None, :]))
    acc = tl.zeros((M, N), ACC)
    if CLOCK:
        start, ns = cycles(), nanoseconds()
    for _ in range(loops):
        acc = tl.dot(left, right, acc, input_precision=PRECISION, out_dtype=ACC)
    tile = out + tl.program_id(0).to(tl.int64) * M * N
    tl.store(tile + rows[:, None] * N + columns[None, :], acc)
    if CLOCK:
        tl.store(ticks + 2 * tl.program_id(0), cycles() - start)
        tl.store(ticks + 2 * tl.program_id(0) + 1, nanoseconds() - ns)


# ceiling → (operand dtype, accumulator dtype, spread of the random operands, tolerance, first compute capability)
PIPES: dict[str, tuple[str, str, float, float, tuple[int, int]]] = {
    "tensor_fp16_fp16": ("float16", "float16", 0.02, 5e-2, (8, 0)),
    "tensor_fp16_fp32": ("float16", "float32", 1.0, 1e-3, (8, 0)),
    "tensor_bf16_fp32": ("bfloat16", "float32", 1.0, 1e-3, (8, 0)),
    "tensor_tf32": ("float32", "float32", 1.0, 3e-3, (8, 0)),
    "tensor_fp8_e4m3": ("float8_e4m3fn", "float32", 1.0, 1e-2, (8, 9)),
    "tensor_fp8_e5m2": ("float8_e5m2", "float32", 1.0, 1e-2, (8, 9)),
    "tensor_int8": ("int8", "int32", 1.0, 0.0, (8, 0)),
}
_ACCUMULATORS = {"float16": tl.float16, "float32": tl.float32, "int32": tl.int32}
_ITEM_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float8_e4m3fn": 1, "float8_e5m2": 1, "int8": 1}


def variants(ceiling: str, device: Device) -> tuple[Variant, ...]:
    """Tiles m x n with k of 64 bytes or a multiple, warps, programs per SM: large tiles where wgmma exists."""
    major = int((device.compute_capability or "8.0").split(".")[0])
    item = _ITEM_BYTES[PIPES[ceiling][0]]
    large = (
        (128, 256, 128, 8, 1),
        (64, 256, 128, 4, 2),
        (128, 256, 256, 8, 1),
        (128, 128, 128, 4, 2),
        (128, 256, 64, 8, 1),
    )
    small = ((128, 128, 64, 8, 1), (64, 128, 64, 4, 2), (128, 128, 32, 8, 2), (64, 64, 64, 4, 4), (128, 64, 64, 4, 2))
    return tuple(
        Variant(
            f"{m}x{n}x{k_bytes // item}, {warps} warps, {per_sm} programs/SM",
            {"M": m, "N": n, "K": max(16, k_bytes // item), "warps": warps, "per_sm": per_sm},
        )
        for m, n, k_bytes, warps, per_sm in (large if major in (9, 10) else small)
    )


def meta(ceiling: str, variant: Variant) -> dict[str, Any]:
    """Compile-time arguments of `dot_kernel`."""
    o = variant.options
    precision = "tf32" if ceiling == "tensor_tf32" else "ieee"
    return {
        **{key: o[key] for key in ("M", "N", "K")},
        "ACC": _ACCUMULATORS[PIPES[ceiling][1]],
        "PRECISION": precision,
        "CLOCK": True,
    }


def _prepare(ceiling: str, variant: Variant, arena: Arena, scale: float) -> Job:
    dtype, accumulator, spread, _, _ = PIPES[ceiling]
    o = variant.options
    programs = (arena.device.sm_count or 1) * o["per_sm"]
    a = arena.random((o["M"], o["K"]), dtype, spread)
    bt = arena.random((o["N"], o["K"]), dtype, spread)
    out = arena.empty((programs, o["M"], o["N"]), accumulator)
    ticks = arena.empty((programs, 2), "int64")
    per_loop = 2.0 * o["M"] * o["N"] * o["K"] * programs
    loops = max(2, int(scale * LAUNCH_FLOPS * (arena.device.sm_count or 1) / per_loop))

    def launch(count: int) -> None:
        dot_kernel[(programs,)](a, bt, out, ticks, count, **meta(ceiling, variant), num_warps=o["warps"])

    def check() -> float:
        launch(3)
        return relative_error(out, 3 * (a.double() @ bt.double().T).expand_as(out))

    return Job(lambda _: launch(loops), per_loop * loops, check, clock_hz=lambda: clock_hz(ticks))


LAUNCH_FLOPS = 1.6e10  # per SM: two milliseconds at 8 TFLOP/s an SM


def _microkernel(ceiling: str) -> Microkernel:
    def prepare(variant: Variant, arena: Arena, scale: float) -> Job:
        return _prepare(ceiling, variant, arena, scale)

    _, _, _, tolerance, capability = PIPES[ceiling]
    return Microkernel(ceiling, "triton", lambda device: variants(ceiling, device), prepare, tolerance, capability)


MICROKERNELS = tuple(_microkernel(ceiling) for ceiling in PIPES)

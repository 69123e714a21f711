"""Question: how many fused multiply-adds a second do the vector pipes (fp32, fp16x2, bf16x2, fp64) execute?

Formula: flops = 2 x lanes x chains x unroll x loops x threads, lanes = 1 (fp32, fp64) or 2 (packed halves).
Bytes: each thread reads and writes `chains` values once, outside the loop: nothing at the loop's intensity.
Every chain x <- a x + b depends on itself only; `chains` of them hide the pipe's latency. a is next to -1, so the
values swing between two random numbers and neither settle nor overflow: the operands keep toggling as real data would.
Cannot show: what a kernel reaches that also loads operands; the tensor pipes.
"""

from __future__ import annotations

import struct
from typing import Any

from roofline.kernels.microkernel import Arena, Job, Microkernel, Variant, relative_error
from roofline.kernels.raw import STOPWATCH, clock_hz, launcher
from roofline.machine.record import Device

OPERATION = r"""
#if defined(FP32)
typedef float T;
__device__ __forceinline__ T fma_(T x, T a, T b) { return fmaf(x, a, b); }
#elif defined(FP64)
typedef double T;
__device__ __forceinline__ T fma_(T x, T a, T b) { return fma(x, a, b); }
#else
typedef unsigned int T;  // two packed halves
__device__ __forceinline__ T fma_(T x, T a, T b) {
    T d;
#if defined(FP16X2)
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(x), "r"(a), "r"(b));
#else
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(x), "r"(a), "r"(b));
#endif
    return d;
}
#endif
"""
SOURCE = (
    STOPWATCH
    + OPERATION
    + r"""
extern "C" __global__ void __launch_bounds__(THREADS)
fma_loop(const T* x0, T* out, T a, T b, int loops, long long* ticks) {
    const Stopwatch stopwatch;
    const int total = gridDim.x * THREADS, id = blockIdx.x * THREADS + threadIdx.x;
    T x[CHAINS];
#pragma unroll
    for (int c = 0; c < CHAINS; ++c) x[c] = x0[c * total + id];
#pragma unroll 1
    for (int i = 0; i < loops; ++i) {
#pragma unroll
        for (int u = 0; u < UNROLL; ++u)
#pragma unroll
            for (int c = 0; c < CHAINS; ++c) x[c] = fma_(x[c], a, b);
    }
#pragma unroll
    for (int c = 0; c < CHAINS; ++c) out[c * total + id] = x[c];
    stopwatch.stop(ticks);
}
"""
)

OPCODES = {"fp32": "FFMA", "fp64": "DFMA", "fp16x2": "HFMA2", "bf16x2": "HFMA2"}
"""SASS instruction each pipe's loop consists of: chains x unroll of them."""
TORCH_DTYPE = {"fp32": "float32", "fp64": "float64", "fp16x2": "float16", "bf16x2": "bfloat16"}
FACTOR, SUMMAND = -0.99609375, 0.6015625  # exact in bfloat16
"""For the check: the swing decays, so that each missing step shows."""
SWING = {"fp32": -1 + 2.0**-24, "fp16x2": -1 + 2.0**-11, "bf16x2": -1 + 2.0**-8, "fp64": -1 + 2.0**-53}
"""For timing: the number next above -1 of each type has a full mantissa, and the swing decays by less than rounding."""


def variants(device: Device) -> tuple[Variant, ...]:
    """Chains x threads x unroll x resident blocks per SM; hundreds of instructions per loop hide its overhead."""
    rows = ((8, 256, 128, 8), (16, 256, 64, 4), (8, 1024, 32, 2), (16, 128, 32, 16), (8, 512, 64, 4), (4, 1024, 32, 2))
    return tuple(
        Variant(
            f"{chains} chains, {threads} threads, unroll {unroll}, {blocks} blocks/SM",
            {"CHAINS": chains, "THREADS": threads, "UNROLL": unroll, "BLOCKS": blocks},
        )
        for chains, threads, unroll, blocks in rows
    )


def compile_options(ceiling: str, variant: Variant) -> dict[str, int]:
    """Macros that select the pipe and the variant."""
    return {ceiling.upper(): 1, **{key: variant.options[key] for key in ("CHAINS", "THREADS", "UNROLL")}}


def argument(value: float, ceiling: str) -> Any:
    """A kernel argument of the pipe's type; both halves of a packed one."""
    import numpy as np

    if ceiling == "fp32":
        return np.float32(value)
    if ceiling == "fp64":
        return np.float64(value)
    word = (
        struct.unpack("<H", struct.pack("<e", value))[0]
        if ceiling == "fp16x2"
        else (struct.unpack("<I", struct.pack("<f", value))[0] >> 16)
    )
    return np.uint32(word << 16 | word)


def reference(x0: Any, steps: int) -> Any:
    """`steps` fused multiply-adds, each exact in float64 (but for fp64 itself), then rounded to the dtype of `x0`."""
    x = x0
    for _ in range(steps):
        x = (x.double() * FACTOR + SUMMAND).to(x0.dtype)
    return x


def _prepare(ceiling: str, variant: Variant, arena: Arena, scale: float) -> Job:
    import numpy as np

    o = variant.options
    lanes = 2 if ceiling.endswith("x2") else 1
    grid = (arena.device.sm_count or 1) * o["BLOCKS"]
    threads = grid * o["THREADS"]
    shape = (o["CHAINS"] * threads * lanes,)
    x0 = arena.random(shape, TORCH_DTYPE[ceiling])
    out = arena.empty(shape, TORCH_DTYPE[ceiling])
    ticks = arena.empty((grid, 2), "int64")
    launch = launcher(SOURCE, "fma_loop", compile_options(ceiling, variant), arena.torch_device.index)
    a, b = argument(SWING[ceiling], ceiling), argument(0.0 if arena.zeros else SUMMAND, ceiling)
    # Resident warps differ between variants; equal total work makes their launches equally long.
    per_loop = 2 * lanes * o["CHAINS"] * o["UNROLL"] * threads
    loops = max(2, int(scale * LAUNCH_FLOPS[ceiling] * (arena.device.sm_count or 1) / per_loop))

    def run(_: int) -> None:
        launch(grid, o["THREADS"], (x0, out, a, b, np.int32(loops), ticks))

    def check() -> float:
        launch(grid, o["THREADS"], (x0, out, argument(FACTOR, ceiling), b, np.int32(2), ticks))
        return relative_error(out, reference(x0, 2 * o["UNROLL"]))

    return Job(run, float(per_loop) * loops, check, clock_hz=lambda: clock_hz(ticks))


# Per SM; a few milliseconds on the slowest pipe of each kind, so that launch and tail are well below 0.5 %.
LAUNCH_FLOPS = {"fp32": 2e9, "fp16x2": 4e9, "bf16x2": 4e9, "fp64": 1e9}


def _microkernel(ceiling: str, tolerance: float, capability: tuple[int, int]) -> Microkernel:
    def prepare(variant: Variant, arena: Arena, scale: float) -> Job:
        return _prepare(ceiling, variant, arena, scale)

    return Microkernel(ceiling, "cupy", variants, prepare, tolerance, capability)


MICROKERNELS = (
    _microkernel("fp32", 1e-5, (3, 0)),
    _microkernel("fp16x2", 1e-3, (5, 3)),
    _microkernel("bf16x2", 1e-2, (8, 0)),
    _microkernel("fp64", 1e-14, (3, 0)),
)

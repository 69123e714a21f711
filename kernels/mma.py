"""Question: how many flops a second do the fp64 tensor pipes execute? (inline PTX `mma`, operands in registers)

Formula: flops = 2 m n k x tiles x unroll x loops x warps.
Bytes: each warp loads its fragments once and stores its accumulators once; in the loop nothing leaves the registers.
acc[t] <- acc[t] + A B for `tiles` independent accumulators, which hide the pipe's latency.
Cannot show: what a matrix product reaches that has to fetch its operands (that is the GEMM ceiling).
"""

from __future__ import annotations

from typing import Any

from roofline.kernels.microkernel import Arena, Job, Microkernel, Variant, relative_error
from roofline.kernels.raw import STOPWATCH, clock_hz, launcher
from roofline.machine.record import Device

# Fragments (g = lane / 4, t = lane % 4): A[g + 8 (i % 2)][t + 4 (i / 2)], B[t + 4 i][g], C[g + 8 (i / 2)][2 t + i % 2].
SOURCE = (
    STOPWATCH
    + r"""
#define M (ROWS8 * 8)
#define K (STEPS4 * 4)
#define A_REGS (ROWS8 * STEPS4)
#define B_REGS STEPS4
#define C_REGS (ROWS8 * 2)
__device__ __forceinline__ void mma(double* c, const double* a, const double* b) {
#if ROWS8 == 2
    asm("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7,%8,%9,%10,%11}, {%12,%13,%14,%15}, {%0,%1,%2,%3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]),
          "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
#else
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
        : "+d"(c[0]), "+d"(c[1]) : "d"(a[0]), "d"(b[0]));
#endif
}
// a: (M, K) row-major, b: (K, 8) row-major, out: (warps, TILES, M, 8)
extern "C" __global__ void __launch_bounds__(THREADS)
mma_fp64(const double* a, const double* b, double* out, int loops, long long* ticks) {
    const Stopwatch stopwatch;
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    double fa[A_REGS], fb[B_REGS], c[TILES][C_REGS];
#pragma unroll
    for (int i = 0; i < A_REGS; ++i) fa[i] = a[(g + 8 * (i % ROWS8)) * K + t + 4 * (i / ROWS8)];
#pragma unroll
    for (int i = 0; i < B_REGS; ++i) fb[i] = b[(t + 4 * i) * 8 + g];
#pragma unroll
    for (int n = 0; n < TILES * C_REGS; ++n) c[n / C_REGS][n % C_REGS] = 0;
#pragma unroll 1
    for (int i = 0; i < loops; ++i)
#pragma unroll
        for (int u = 0; u < UNROLL; ++u)
#pragma unroll
            for (int n = 0; n < TILES; ++n) mma(c[n], fa, fb);
    double* tile = out + (long long)((blockIdx.x * THREADS + threadIdx.x) / 32) * TILES * M * 8;
#pragma unroll
    for (int n = 0; n < TILES; ++n)
#pragma unroll
        for (int i = 0; i < C_REGS; ++i) tile[(n * M + g + 8 * (i / 2)) * 8 + 2 * t + i % 2] = c[n][i];
    stopwatch.stop(ticks);
}
"""
)

LAUNCH_FLOPS = 1e9  # per SM


def variants(device: Device) -> tuple[Variant, ...]:
    """m16n8k16 exists from sm_90 on, m8n8k4 from sm_80; tiles x threads x blocks per SM."""
    hopper = tuple(int(x) for x in (device.compute_capability or "8.0").split(".")) >= (9, 0)
    shapes = ((2, 4, 4, 256, 2), (2, 4, 2, 512, 2), (2, 4, 8, 256, 1)) if hopper else ()
    rows = (*shapes, (1, 1, 16, 256, 2), (1, 1, 8, 256, 4), (1, 1, 8, 512, 2))
    return tuple(
        Variant(
            f"m{8 * rows8}n8k{4 * steps}, {tiles} tiles, {threads} threads, {blocks} blocks/SM",
            {
                "ROWS8": rows8,
                "STEPS4": steps,
                "TILES": tiles,
                "UNROLL": 16 // steps,
                "THREADS": threads,
                "BLOCKS": blocks,
            },
        )
        for rows8, steps, tiles, threads, blocks in rows
    )


def compile_options(variant: Variant) -> dict[str, int]:
    """Macros of a variant."""
    return {key: value for key, value in variant.options.items() if key != "BLOCKS"}


def prepare(variant: Variant, arena: Arena, scale: float) -> Job:
    """Variant, arena, scale of the work → job."""
    import numpy as np

    o = variant.options
    m, k, sms = 8 * o["ROWS8"], 4 * o["STEPS4"], arena.device.sm_count or 1
    grid = sms * o["BLOCKS"]
    warps = grid * o["THREADS"] // 32
    a, b = arena.random((m, k), "float64"), arena.random((k, 8), "float64")
    out = arena.empty((warps, o["TILES"], m, 8), "float64")
    ticks = arena.empty((grid, 2), "int64")
    per_loop = 2.0 * m * 8 * k * o["TILES"] * o["UNROLL"] * warps
    loops = max(2, int(scale * LAUNCH_FLOPS * sms / per_loop))
    call = launcher(SOURCE, "mma_fp64", compile_options(variant), arena.torch_device.index)

    def launch(count: int) -> None:
        call(grid, o["THREADS"], (a, b, out, np.int32(count), ticks))

    def check() -> float:
        launch(2)
        expected: Any = 2 * o["UNROLL"] * (a @ b)
        return relative_error(out, expected.expand_as(out))

    return Job(lambda _: launch(loops), per_loop * loops, check, clock_hz=lambda: clock_hz(ticks))


MICROKERNELS = (Microkernel("tensor_fp64", "cupy", variants, prepare, 1e-13, (8, 0)),)

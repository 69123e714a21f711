"""Question: what rate does a vector pipe reach at each arithmetic intensity, when its operands stream from DRAM?

y = F(x), where F is so many fused multiply-adds; each thread reads and writes one or two 16-byte vectors.
Formula: flops = 2 x lanes x fmas x rounds x threads, lanes = 1 (fp32, fp64) or 2 (fp16x2).
Bytes: 32 x vectors x threads: every vector is read and written once, so the intensity is a matter of fmas alone.
The words of the large arrays are taken as they are: a few in a hundred of the halves are no numbers, and stay so.
Cannot show: the same intensity with reads alone, or from a cache; the tensor pipe (see intensity_dot.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from roofline.kernels import fma, stream_cuda
from roofline.kernels.microkernel import Arena, Job, Microkernel, Variant, relative_error
from roofline.kernels.raw import STOPWATCH, clock_hz, launcher
from roofline.machine.record import Device

SOURCE = (
    STOPWATCH
    + fma.OPERATION
    + stream_cuda.ACCESS
    + r"""
#if defined(FP64)
#define PER_VECTOR 2
__device__ __forceinline__ T join(float low, float high) {
    return __hiloint2double(__float_as_int(high), __float_as_int(low));
}
__device__ __forceinline__ void unpack(T* t, float4 v) { t[0] = join(v.x, v.y); t[1] = join(v.z, v.w); }
__device__ __forceinline__ float word(T t, int high) {
    return __int_as_float(high ? __double2hiint(t) : __double2loint(t));
}
__device__ __forceinline__ float4 pack(const T* t) {
    return make_float4(word(t[0], 0), word(t[0], 1), word(t[1], 0), word(t[1], 1));
}
#else
#define PER_VECTOR 4
#if defined(FP32)
#define AS_WORD(t) (t)
#define AS_FLOAT(t) (t)
#else
#define AS_WORD(t) __float_as_uint(t)
#define AS_FLOAT(t) __uint_as_float(t)
#endif
__device__ __forceinline__ void unpack(T* t, float4 v) {
    t[0] = AS_WORD(v.x); t[1] = AS_WORD(v.y); t[2] = AS_WORD(v.z); t[3] = AS_WORD(v.w);
}
__device__ __forceinline__ float4 pack(const T* t) {
    return make_float4(AS_FLOAT(t[0]), AS_FLOAT(t[1]), AS_FLOAT(t[2]), AS_FLOAT(t[3]));
}
#endif
#define CHAINS (VECTORS * PER_VECTOR)

extern "C" __global__ void __launch_bounds__(THREADS)
intensity(float4* y, const float4* x, T a, T b, int rounds, long long* ticks) {
    const Stopwatch stopwatch;
    const long long first = (long long)blockIdx.x * THREADS * VECTORS + threadIdx.x;
    float4 v[VECTORS];
    T chain[CHAINS];
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) v[k] = load(x + first + k * THREADS);
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) unpack(chain + k * PER_VECTOR, v[k]);
#pragma unroll 1
    for (int r = 0; r < rounds; ++r) {
#pragma unroll
        for (int i = 0; i < FMAS; ++i) chain[i % CHAINS] = fma_(chain[i % CHAINS], a, b);
    }
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) store(y + first + k * THREADS, pack(chain + k * PER_VECTOR));
    stopwatch.stop(ticks);
}
"""
)

PIPES = ("fp32", "fp16x2", "fp64")
INTENSITIES = tuple(Fraction(n, 32) * 2**octave for octave in range(17) for n in (2, 3))[:-1]
"""1/16 … 4096 flop/byte, in octaves and half-way between."""
_VECTOR_BYTES = 32  # 16 read, 16 written
_BODY = 512
_THREADS = 256
_BLOCKS_PER_SM = 24  # whole waves of blocks for SMs that hold 1024, 1536 or 2048 threads


def lanes(ceiling: str) -> int:
    """Multiply-adds of one instruction and thread."""
    return 2 if ceiling.endswith("x2") else 1


def shape(ceiling: str, intensity: Fraction) -> tuple[int, int, int] | None:
    """(vectors, fmas, rounds) of a thread; None if no whole number of instructions gives that intensity.

    One vector moves data best, as in a copy; two give the pipe enough chains where it is what binds. Fewer than 1024
    multiply-adds are written out, more are rounds of 512, whose overhead is below 1 %.
    """
    per_vector = intensity * _VECTOR_BYTES / (2 * lanes(ceiling))
    vectors = 1 if per_vector.denominator == 1 and per_vector <= 32 else 2
    total = per_vector * vectors
    if total.denominator != 1:
        return None
    rounds = total.numerator // _BODY if total >= 2 * _BODY else 1
    return vectors, total.numerator // rounds, rounds


def variants(ceiling: str, device: Device) -> tuple[Variant, ...]:
    """One variant per point of the sweep."""
    found = ((intensity, shape(ceiling, intensity)) for intensity in INTENSITIES)
    policy = stream_cuda.variants("copy", device)[0].options["POLICY"]
    return tuple(
        Variant(
            f"{intensity} flop/B: {numbers[1]} fma x {numbers[2]}, {numbers[0]} x 16 B/thread",
            {"VECTORS": numbers[0], "FMAS": numbers[1], "ROUNDS": numbers[2], "POLICY": policy},
            float(intensity),
        )
        for intensity, numbers in found
        if numbers
    )


def compile_options(ceiling: str, variant: Variant) -> dict[str, int | str]:
    """Macros of a point: the pipe, the multiply-adds of a round, loads and stores as the best copy has them."""
    o = variant.options
    hints: Mapping[str, int | str] = {"POLICY": o["POLICY"], "HINT": '""', "STORE_HINT": '""'}
    return {ceiling.upper(): 1, "THREADS": _THREADS, "VECTORS": o["VECTORS"], "FMAS": o["FMAS"], **hints}


# Per SM; with the bytes of the whole array as the other bound, a launch takes one to a few milliseconds.
LAUNCH_FLOPS = {"fp32": 1e9, "fp16x2": 2e9, "fp64": 5e8}


def grid_of(ceiling: str, variant: Variant, array_bytes: int, sms: int, scale: float) -> int:
    """Blocks of a launch: whole waves, as many as the array holds or as do the flops of a launch, but one at least."""
    per_block = 16 * variant.options["VECTORS"] * _THREADS
    wanted = scale * min(array_bytes, LAUNCH_FLOPS[ceiling] * sms / variant.x / 2)
    waves = max(1, int(wanted / per_block / (_BLOCKS_PER_SM * sms)))
    return min(waves * _BLOCKS_PER_SM * sms, array_bytes // per_block)


def reference(ceiling: str, variant: Variant, x: Any, rounds: int) -> Any:
    """What a launch makes of x, (blocks, vectors, threads, 16 bytes in numbers of the pipe's type)."""
    import torch

    blocks, vectors, threads, items = x.shape
    groups = x.view(blocks, vectors, threads, -1, lanes(ceiling)).permute(1, 3, 0, 2, 4)
    chains = groups.reshape(-1, blocks, threads, lanes(ceiling))
    each, more = divmod(variant.options["FMAS"], len(chains))  # the first `more` chains get one more
    done = fma.reference(chains, rounds * each)
    done = torch.cat((fma.reference(done[:more], rounds), done[more:]))
    done = done.view(vectors, -1, blocks, threads, lanes(ceiling))
    return done.permute(2, 0, 3, 1, 4).reshape(blocks, vectors, threads, items)


def prepare(ceiling: str, variant: Variant, arena: Arena, scale: float) -> Job:
    """Pipe, point, arena, scale of the work → job. Launches go through the arrays, so that nothing is cached."""
    import numpy as np

    o, sms = variant.options, arena.device.sm_count or 1
    arrays = arena.arrays(4, 1.0)
    grid = grid_of(ceiling, variant, 4 * arrays[0].numel(), sms, scale)
    n = grid * _THREADS * 4 * o["VECTORS"]  # 32-bit words of a launch
    parts = arrays[0].numel() // n
    ticks = arena.empty((grid, 2), "int64")
    call = launcher(SOURCE, "intensity", compile_options(ceiling, variant), arena.torch_device.index)
    a, b = fma.argument(fma.SWING[ceiling], ceiling), fma.argument(fma.SUMMAND, ceiling)

    def run(i: int) -> None:
        first = i // 2 % parts * n
        target, source = (array[first : first + n] for array in (arrays[i % 2], arrays[2 + i % 2]))
        call(grid, _THREADS, (target, source, a, b, np.int32(o["ROUNDS"]), ticks))

    def check() -> float:
        dtype, rounds = fma.TORCH_DTYPE[ceiling], min(2, o["ROUNDS"])
        items = {"fp32": 4, "fp64": 2}.get(ceiling, 8)
        x = arena.random((3, o["VECTORS"], _THREADS, items), dtype)
        y = arena.empty(tuple(x.shape), dtype)
        call(3, _THREADS, (y, x, fma.argument(fma.FACTOR, ceiling), b, np.int32(rounds), arena.empty((3, 2), "int64")))
        return relative_error(y, reference(ceiling, variant, x, rounds))

    flops = 2.0 * lanes(ceiling) * o["FMAS"] * o["ROUNDS"] * grid * _THREADS
    return Job(run, flops, check, 4 * n, lambda: clock_hz(ticks))


TOLERANCES = {"fp32": 1e-5, "fp16x2": 1e-3, "fp64": 1e-14}


def _microkernel(ceiling: str) -> Microkernel:
    def points(device: Device) -> tuple[Variant, ...]:
        return variants(ceiling, device)

    def run(variant: Variant, arena: Arena, scale: float) -> Job:
        return prepare(ceiling, variant, arena, scale)

    capability = (5, 3) if ceiling == "fp16x2" else (3, 5)
    return Microkernel(
        ceiling, "cupy", points, run, TOLERANCES[ceiling], capability, sweep="flops_per_byte", bandwidth="dram_copy"
    )


SWEEPS = tuple(_microkernel(ceiling) for ceiling in PIPES)

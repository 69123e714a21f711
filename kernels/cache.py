"""Question: how many bytes a second do the L1 and L2 caches deliver or take, and from what working set on no longer?

Formula: bytes = chunk x sweeps x blocks.
l1_read         all blocks sweep one small set: after the first sweep every load hits L1
l2_read         each block sweeps a chunk of its own past L1 (`.cg`): every byte is asked of an L2 slice once
l2_read_shared  all blocks sweep the same set past L1, each from its own start: neighbouring SMs that ask for one line
                at a time are answered by one request, so more is delivered than L2's slices read (counters: about half)
l2_write        each block writes a chunk of its own
Random words; read sums are whole numbers and exact.
Cannot show: what a kernel reaches that also computes; the near and the far half of a partitioned L2 apart.
"""

from __future__ import annotations

from roofline.kernels.microkernel import Arena, Job, Microkernel, Variant
from roofline.kernels.raw import launcher
from roofline.kernels.streams import SEED, written
from roofline.machine.record import Device

SOURCE = r"""
typedef unsigned int word;
#define STEP (THREADS * VECTORS)
#define EACH_VECTOR _Pragma("unroll") for (int k = 0; k < VECTORS; ++k)

__device__ __forceinline__ void read_run(const uint4* p, int count, word& sum) {
#pragma unroll 1
    for (int left = count; left > 0; left -= STEP, p += STEP) {
        uint4 v[VECTORS];
        EACH_VECTOR asm volatile("ld.global" HINT ".v4.u32 {%0,%1,%2,%3}, [%4];"
            : "=r"(v[k].x), "=r"(v[k].y), "=r"(v[k].z), "=r"(v[k].w) : "l"(p + k * THREADS));
        EACH_VECTOR sum += v[k].x + v[k].y + v[k].z + v[k].w;
    }
}
// stride4 = 0: one set for all blocks, each starting elsewhere; else each block has a chunk of its own
extern "C" __global__ void __launch_bounds__(THREADS)
cache_read(const uint4* set, word* out, int chunk4, int stride4, int sweeps) {
    const int start = stride4 ? 0 : (int)((long long)blockIdx.x * chunk4 / gridDim.x / STEP) * STEP;
    const uint4* first = set + (long long)blockIdx.x * stride4 + threadIdx.x;
    word sum = 0;
#pragma unroll 1
    for (int s = 0; s < sweeps; ++s) {
        read_run(first + start, chunk4 - start, sum);
        read_run(first, start, sum);
    }
    out[blockIdx.x * THREADS + threadIdx.x] = sum;
}
extern "C" __global__ void __launch_bounds__(THREADS)
cache_write(uint4* set, word seed, int chunk4, int stride4, int sweeps) {
    const int first = blockIdx.x * stride4 + threadIdx.x;
#pragma unroll 1
    for (int s = 0; s < sweeps; ++s)
#pragma unroll 1
        for (int i = first, left = chunk4; left > 0; left -= STEP, i += STEP)
            EACH_VECTOR {
                const word w = (word)(i + k * THREADS) * 4u * 0x9E3779B1u + seed;
                asm volatile("st.global.cg.v4.u32 [%0], {%1,%2,%3,%4};" :: "l"(set + i + k * THREADS),
                    "r"(w), "r"(w + 0x9E3779B1u), "r"(w + 2u * 0x9E3779B1u), "r"(w + 3u * 0x9E3779B1u) : "memory");
            }
}
"""

HINTS = {"l1_read": ".ca", "l2_read": ".cg", "l2_read_shared": ".cg", "l2_write": ".cg"}
LAUNCH_BYTES = {"l1_read": 4e8, "l2_read": 1e8, "l2_read_shared": 2e8, "l2_write": 5e7}  # per SM and launch: 2 ms or so


def set_bytes(ceiling: str, device: Device) -> int:
    """Default working set: 64 KiB for L1; for L2 a quarter of it, well inside even where its halves keep copies."""
    return 64 << 10 if ceiling == "l1_read" else (device.l2_bytes or 4 << 20) // 4


def variants(device: Device) -> tuple[Variant, ...]:
    """Vectors in flight per thread x threads x blocks per SM."""
    rows = ((4, 512, 2), (2, 1024, 2), (2, 512, 4), (8, 256, 4), (4, 256, 8), (1, 1024, 2))
    return tuple(
        Variant(f"{v} x 16 B, {t} threads, {b} blocks/SM", {"VECTORS": v, "THREADS": t, "BLOCKS": b})
        for v, t, b in rows
    )


def compile_options(ceiling: str, variant: Variant) -> dict[str, int | str]:
    """Macros of a variant."""
    return {"THREADS": variant.options["THREADS"], "VECTORS": variant.options["VECTORS"], "HINT": f'"{HINTS[ceiling]}"'}


def chunk_vectors(ceiling: str, variant: Variant, grid: int, size: int) -> tuple[int, int]:
    """(16-byte vectors that a block sweeps, distance between the blocks' chunks; 0 = all sweep the same)."""
    step = variant.options["VECTORS"] * variant.options["THREADS"]
    private = ceiling in ("l2_read", "l2_write")
    chunk = max(1, round(size / 16 / step / (grid if private else 1))) * step
    return chunk, chunk if private else 0


def prepare(ceiling: str, variant: Variant, arena: Arena, scale: float, size: int | None = None) -> Job:
    """`size`: bytes of the whole working set, rounded to what the variant can sweep."""
    import numpy as np

    threads = variant.options["THREADS"]
    grid = (arena.device.sm_count or 1) * variant.options["BLOCKS"]
    chunk, stride = chunk_vectors(ceiling, variant, grid, size or set_bytes(ceiling, arena.device))
    words = arena.random((4 * (chunk * grid if stride else chunk),), "int32")
    out = arena.empty((grid, threads), "int32")
    per_sweep = 16.0 * chunk * grid
    sweeps = max(2, int(scale * LAUNCH_BYTES[ceiling] * (arena.device.sm_count or 1) / per_sweep))
    kernel = "cache_write" if ceiling.endswith("write") else "cache_read"
    call = launcher(SOURCE, kernel, compile_options(ceiling, variant), arena.torch_device.index)
    second = np.uint32(SEED) if kernel == "cache_write" else out

    def launch(count: int) -> None:
        call(grid, threads, (words, second, np.int32(chunk), np.int32(stride), np.int32(count)))

    def check() -> float:
        launch(3)
        if kernel == "cache_write":
            return float((words != written(words.numel(), words.device)).sum())
        swept = words.long().view(grid if stride else 1, -1).sum(1)
        return float(((out.long().sum(1) - 3 * swept) % 2**32 != 0).sum())

    return Job(lambda _: launch(sweeps), per_sweep * sweeps, check, 4 * words.numel())


def _microkernel(ceiling: str) -> Microkernel:
    def run(variant: Variant, arena: Arena, scale: float) -> Job:
        return prepare(ceiling, variant, arena, scale)

    return Microkernel(ceiling, "cupy", variants, run, 0.0, (3, 5))


MICROKERNELS = tuple(_microkernel(ceiling) for ceiling in HINTS)

_POINT = {"VECTORS": 2, "THREADS": 256, "BLOCKS": 4}
"""How every point of a sweep is run: small steps, and resident at once on every architecture."""


def points(ceiling: str, device: Device) -> tuple[Variant, ...]:
    """One variant per working set, two per octave: l1_read 16 KiB … 2 MiB, l2_read its smallest set … 4 x L2."""
    grid = (device.sm_count or 1) * _POINT["BLOCKS"]
    first, octaves = (8 << 10, 7) if ceiling == "l1_read" else ((device.l2_bytes or 4 << 20) // 32, 6)
    sizes = set()
    for size in (*(first * n << octave for octave in range(octaves) for n in (2, 3)), first << octaves + 1):
        chunk, stride = chunk_vectors(ceiling, Variant("", _POINT), grid, size)
        sizes.add(16 * chunk * (grid if stride else 1))
    return tuple(Variant(f"working set {size} B", _POINT, float(size)) for size in sorted(sizes))


def _sweep(ceiling: str) -> Microkernel:
    def run(variant: Variant, arena: Arena, scale: float) -> Job:
        return prepare(ceiling, variant, arena, scale, round(variant.x))

    return Microkernel(
        ceiling, "cupy", lambda device: points(ceiling, device), run, 0.0, (3, 5), sweep="bytes", bandwidth="dram_read"
    )


SWEEPS = tuple(_sweep(ceiling) for ceiling in ("l1_read", "l2_read"))

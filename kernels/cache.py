"""Question: how many bytes a second do the L1 and L2 caches deliver or take, and from what working set on no longer?

Formula: bytes = 16 x vectors of the set x sweeps x blocks. Every block sweeps the whole set from its own start, so all
of the set is read by every SM; L1 is bypassed (`.cg`) when L2 is asked. Random words; read sums are whole numbers and exact.
Cannot show: what a kernel reaches that also computes; the near and the far half of a partitioned L2 apart.
"""

from __future__ import annotations

from typing import Any

from roofline.kernels.microkernel import Arena, Job, Microkernel, Variant
from roofline.kernels.raw import launcher
from roofline.kernels.streams import MULTIPLIER, SEED, written
from roofline.machine.record import Device

SOURCE = r"""
typedef unsigned int word;
#define EACH_VECTOR _Pragma("unroll") for (int k = 0; k < VECTORS; ++k)
#define SWEEP \
    const int start = (long long)blockIdx.x * n4 / gridDim.x / THREADS * THREADS; \
    _Pragma("unroll 1") for (int s = 0; s < sweeps; ++s) \
    _Pragma("unroll 1") for (int i = start + threadIdx.x, left = n4; left > 0; left -= THREADS * VECTORS)

extern "C" __global__ void __launch_bounds__(THREADS) cache_read(const uint4* set, word* out, int n4, int sweeps) {
    word sum = 0;
    SWEEP {
        uint4 v[VECTORS];
        EACH_VECTOR {
            asm volatile("ld.global" HINT ".v4.u32 {%0,%1,%2,%3}, [%4];"
                : "=r"(v[k].x), "=r"(v[k].y), "=r"(v[k].z), "=r"(v[k].w) : "l"(set + i));
            i += THREADS;
            if (i >= n4) i -= n4;
        }
        EACH_VECTOR sum += v[k].x + v[k].y + v[k].z + v[k].w;
    }
    out[blockIdx.x * THREADS + threadIdx.x] = sum;
}
extern "C" __global__ void __launch_bounds__(THREADS) cache_write(uint4* set, word seed, int n4, int sweeps) {
    SWEEP {
        EACH_VECTOR {
            const word w = (word)i * 4u * 0x9E3779B1u + seed;
            asm volatile("st.global.cg.v4.u32 [%0], {%1,%2,%3,%4};"
                :: "l"(set + i), "r"(w), "r"(w + 0x9E3779B1u), "r"(w + 2u * 0x9E3779B1u), "r"(w + 3u * 0x9E3779B1u) : "memory");
            i += THREADS;
            if (i >= n4) i -= n4;
        }
    }
}
"""

HINTS = {"l1_read": ".ca", "l2_read": ".cg", "l2_write": ".cg"}


def set_bytes(ceiling: str, device: Device) -> int:
    """Default working set: 16 KiB for L1; for L2 the power of two nearest a fifth of it, which every SM shares."""
    if ceiling == "l1_read":
        return 16 << 10
    l2 = device.l2_bytes or (4 << 20)
    return max(1 << 20, 1 << ((l2 // 5).bit_length() - 1))


def variants(ceiling: str, device: Device) -> tuple[Variant, ...]:
    """Vectors in flight per thread x threads x blocks per SM."""
    rows = ((2, 512, 4), (4, 512, 2), (2, 256, 8), (4, 256, 4), (1, 1024, 2), (2, 1024, 2))
    return tuple(
        Variant(f"cuda {v} x 16 B, {t} threads, {b} blocks/SM", {"VECTORS": v, "THREADS": t, "BLOCKS": b})
        for v, t, b in rows
        if set_bytes(ceiling, device) % (16 * v * t) == 0
    )


def compile_options(ceiling: str, variant: Variant) -> dict[str, int | str]:
    """Macros of a variant."""
    return {"THREADS": variant.options["THREADS"], "VECTORS": variant.options["VECTORS"], "HINT": f'"{HINTS[ceiling]}"'}


def _reference_sums(words: Any, grid: int, threads: int, sweeps: int) -> Any:
    """Sum over each block of what its threads read, modulo 2**32: `sweeps` times the whole set. (grid,) int64."""
    return (words.long().sum() * sweeps % 2**32).expand(grid)


def prepare(ceiling: str, variant: Variant, arena: Arena, scale: float, size: int | None = None) -> Job:
    """`size`: working set in bytes, a multiple of 16 x vectors x threads."""
    import numpy as np
    import torch

    o = variant.options
    grid = (arena.device.sm_count or 1) * o["BLOCKS"]
    size = size or set_bytes(ceiling, arena.device)
    n4 = size // 16
    words = arena.random((4 * n4,), "int32")
    out = arena.empty((grid * o["THREADS"],), "int32")
    sweeps = max(2, int(scale * LAUNCH_BYTES[ceiling] * (arena.device.sm_count or 1) / (size * grid)))
    kernel = "cache_write" if ceiling.endswith("write") else "cache_read"
    call = launcher(SOURCE, kernel, compile_options(ceiling, variant), arena.torch_device.index)
    second = np.uint32(SEED) if kernel == "cache_write" else out

    def launch(count: int) -> None:
        call(grid, o["THREADS"], (words, second, np.int32(n4), np.int32(count)))

    def check() -> float:
        launch(3)
        if kernel == "cache_write":
            return float((words != written(4 * n4, words.device)).sum())
        sums = (out.long() % 2**32).view(grid, -1).sum(1) % 2**32
        return float(torch.ne(sums, _reference_sums(words, grid, o["THREADS"], 3)).sum())

    return Job(lambda _: launch(sweeps), float(size) * grid * sweeps, check, size)


LAUNCH_BYTES = {"l1_read": 4e8, "l2_read": 2e8, "l2_write": 1e8}  # per SM and launch: 2 ms or so
assert MULTIPLIER % 2**32 == 0x9E3779B1


def _microkernel(ceiling: str) -> Microkernel:
    def run(variant: Variant, arena: Arena, scale: float) -> Job:
        return prepare(ceiling, variant, arena, scale)

    return Microkernel(ceiling, "cupy", lambda device: variants(ceiling, device), run, 0.0, (3, 5))


MICROKERNELS = tuple(_microkernel(ceiling) for ceiling in HINTS)

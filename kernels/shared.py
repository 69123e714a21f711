"""Question: how many bytes a second does shared memory deliver?

Formula: bytes = 16 x loads x loops x threads. Conflict-free 16-byte loads; each loop reads the block's whole tile.
The loads are volatile, so that none is hoisted although the tile does not change; the audit counts them.
Cannot show: bank conflicts, stores, asynchronous copies.
"""

from __future__ import annotations

from roofline.kernels.microkernel import Arena, Job, Microkernel, Variant
from roofline.kernels.raw import launcher
from roofline.machine.record import Device

SOURCE = r"""
extern "C" __global__ void __launch_bounds__(THREADS) shared_read(const uint4* source, unsigned* out, int loops) {
    __shared__ uint4 tile[THREADS * LOADS];
#pragma unroll
    for (int k = 0; k < LOADS; ++k) tile[k * THREADS + threadIdx.x] = source[k * THREADS + threadIdx.x];
    __syncthreads();
    const unsigned address = (unsigned)__cvta_generic_to_shared(tile + threadIdx.x);
    unsigned sum = 0;
#pragma unroll 1
    for (int i = 0; i < loops; ++i) {
#pragma unroll
        for (int k = 0; k < LOADS; ++k) {
            uint4 v;
            asm volatile("ld.volatile.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(address + k * THREADS * 16));
            sum += v.x + v.y + v.z + v.w;
        }
    }
    out[blockIdx.x * THREADS + threadIdx.x] = sum;
}
"""

LAUNCH_BYTES = 4e8  # per SM


def variants(device: Device) -> tuple[Variant, ...]:
    """Loads per loop x threads x blocks per SM; the tile stays within 48 KiB."""
    rows = ((8, 256, 4), (4, 512, 4), (8, 128, 8), (2, 1024, 2), (4, 256, 8))
    return tuple(
        Variant(f"{n} x 16 B, {t} threads, {b} blocks/SM", {"LOADS": n, "THREADS": t, "BLOCKS": b}) for n, t, b in rows
    )


def compile_options(variant: Variant) -> dict[str, int]:
    """Macros of a variant."""
    return {key: variant.options[key] for key in ("LOADS", "THREADS")}


def prepare(variant: Variant, arena: Arena, scale: float) -> Job:
    """Variant, arena, scale of the work → job."""
    import numpy as np

    o = variant.options
    grid = (arena.device.sm_count or 1) * o["BLOCKS"]
    source = arena.random((4 * o["LOADS"] * o["THREADS"],), "int32")
    out = arena.empty((grid, o["THREADS"]), "int32")
    per_loop = 16.0 * o["LOADS"] * o["THREADS"] * grid
    loops = max(2, int(scale * LAUNCH_BYTES * (arena.device.sm_count or 1) / per_loop))
    call = launcher(SOURCE, "shared_read", compile_options(variant), arena.torch_device.index)

    def launch(count: int) -> None:
        call(grid, o["THREADS"], (source, out, np.int32(count)))

    def check() -> float:
        launch(3)
        expected = source.long().view(o["LOADS"], o["THREADS"], 4).sum((0, 2)) * 3
        return float(((out.long() - expected) % 2**32 != 0).sum())

    return Job(lambda _: launch(loops), per_loop * loops, check, 16 * o["LOADS"] * o["THREADS"])


MICROKERNELS = (Microkernel("shared_read", "cupy", variants, prepare, 0.0, (3, 5)),)

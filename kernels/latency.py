"""Question: how long does one load take that depends on the one before, from L1, L2 and DRAM?

One thread follows a chain of pointers, one cache line each, in random order through a set that fits the level or not.
Work is counted in loads; the ceiling is seconds per load. DRAM: the set is 4 x the last-level cache, so misses of
the address translation are part of it, as they are for a program.
Cannot show: latency under load.
"""

from __future__ import annotations

from typing import Any

from roofline.kernels.microkernel import Arena, Job, Microkernel, Variant
from roofline.kernels.raw import launcher
from roofline.machine.record import Device

SOURCE = r"""
extern "C" __global__ void chase(const void** cursor, int hops) {
    const void* p = *cursor;
#pragma unroll 1
    for (int i = 0; i < hops; i += 16) {
#pragma unroll
        for (int k = 0; k < 16; ++k) asm volatile("ld.global" HINT ".u64 %0, [%0];" : "+l"(p));
    }
    *cursor = p;  // the next launch goes on from here, so that a cold set stays cold
}
"""

LINE_BYTES = 128
HINTS = {"latency_l1": ".ca", "latency_l2": ".cg", "latency_dram": ".cg"}
HOPS = {"latency_l1": 1 << 17, "latency_l2": 1 << 15, "latency_dram": 1 << 13}  # a few milliseconds each


def set_bytes(ceiling: str, device: Device) -> int:
    """Working set of a level."""
    l2 = device.l2_bytes or (4 << 20)
    return {"latency_l1": 16 << 10, "latency_l2": max(512 << 10, l2 // 16), "latency_dram": 4 * l2}[ceiling]


def variants(device: Device) -> tuple[Variant, ...]:
    """There is one way to ask."""
    return (Variant("1 thread, 128 B lines in random order"),)


def compile_options(ceiling: str) -> dict[str, str]:
    """Macros."""
    return {"HINT": f'"{HINTS[ceiling]}"'}


def _chain(lines: int, arena: Arena) -> tuple[Any, Any]:
    """A random cycle through all lines: (memory of absolute addresses, order of the lines)."""
    import torch

    order = torch.randperm(lines, device=arena.torch_device)
    memory = torch.empty((lines, LINE_BYTES // 8), dtype=torch.int64, device=arena.torch_device)
    memory[order, 0] = memory.data_ptr() + order.roll(-1) * LINE_BYTES
    return memory, order


def _prepare(ceiling: str, arena: Arena, scale: float) -> Job:
    import numpy as np

    lines = set_bytes(ceiling, arena.device) // LINE_BYTES
    memory, order = _chain(lines, arena)
    cursor = arena.empty((1,), "int64").fill_(memory.data_ptr())
    if ceiling == "latency_dram":
        arena.empty((lines, LINE_BYTES // 8), "int64")  # writing it drives the chain just built out of the cache
    hops = int(HOPS[ceiling] * scale)
    call = launcher(SOURCE, "chase", compile_options(ceiling), arena.torch_device.index)

    def launch(count: int) -> None:
        call(1, 1, (cursor, np.int32(count)))

    def check() -> float:
        cursor.fill_(memory.data_ptr() + int(order[0]) * LINE_BYTES)
        launch(64)
        return float(int(cursor) != memory.data_ptr() + int(order[64 % lines]) * LINE_BYTES)

    return Job(lambda _: launch(hops), float(hops), check, lines * LINE_BYTES)


def _microkernel(ceiling: str) -> Microkernel:
    def prepare(variant: Variant, arena: Arena, scale: float) -> Job:
        return _prepare(ceiling, arena, scale)

    return Microkernel(ceiling, "cupy", variants, prepare, 0.0, (3, 5))


MICROKERNELS = tuple(_microkernel(ceiling) for ceiling in HINTS)

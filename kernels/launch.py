"""Question: how long does the host or the device need per kernel when the kernels themselves are empty?

eager  seconds per PyTorch op on one element, back to back: what a launch-bound model pays per op
graph  seconds per kernel when the same ops are replayed as a CUDA graph
Cannot show: the cost of ops that allocate, or of several streams.
"""

from __future__ import annotations

from roofline.kernels.microkernel import Arena, Job, Microkernel, Variant, relative_error
from roofline.machine.record import Device

OPS = 1000
GRAPHS = 8
"""Captures of the same ops differ by some percent, so the ops are spread over several that follow each other."""


def variants(device: Device) -> tuple[Variant, ...]:
    """There is one way to ask."""
    return (Variant(f"{OPS} in-place adds on one element"),)


def _prepare(ceiling: str, arena: Arena, scale: float) -> Job:
    import torch

    x = arena.random((1,), "float32")
    ops = int(OPS * scale)

    def burst(count: int) -> None:
        for _ in range(count):
            x.add_(1.0)

    def check() -> float:
        before = x.clone()
        burst(10)
        return relative_error(x, before + 10)

    if ceiling == "launch_eager":
        return Job(lambda _: burst(ops), float(ops), check)
    burst(1)
    torch.cuda.synchronize(arena.torch_device)
    graphs = [torch.cuda.CUDAGraph() for _ in range(GRAPHS)]
    with torch.cuda.stream(torch.cuda.Stream(arena.torch_device)):
        for graph in graphs:  # torch.cuda.graph() would collect garbage each time, seconds in all
            graph.capture_begin()
            burst(ops // GRAPHS)
            graph.capture_end()

    def replay(_: int) -> None:
        for graph in graphs:
            graph.replay()

    return Job(replay, float(ops // GRAPHS * GRAPHS), check)


def _microkernel(ceiling: str) -> Microkernel:
    def prepare(variant: Variant, arena: Arena, scale: float) -> Job:
        return _prepare(ceiling, arena, scale)

    return Microkernel(ceiling, "torch", variants, prepare, 1e-5)


MICROKERNELS = (_microkernel("launch_eager"), _microkernel("launch_graph"))

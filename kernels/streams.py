"""What the Triton and the CUDA form of the DRAM streams share: buffers, rotation, bytes, references."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from roofline.kernels.microkernel import Arena, Job, relative_error

OPERATIONS = ("read", "write", "copy", "triad")
ARRAYS = {"read": 1, "write": 1, "copy": 2, "triad": 3}
"""Arrays that an operation touches: bytes of a launch = 4 n x arrays."""
TOLERANCE = {"read": 1e-4, "write": 0.0, "copy": 0.0, "triad": 1e-6}
Q = 0.4375
SEED = 123456789
MULTIPLIER = -1640531535  # 0x9E3779B1 as a signed 32-bit word


def as_words(tensor: Any) -> Any:
    """The same memory seen as 32-bit integers."""
    import torch

    return tensor.view(torch.int32)


def written(n: int, device: Any) -> Any:
    """What `write` must leave behind: (n,) int32."""
    import torch

    index = torch.arange(n, device=device, dtype=torch.int64)
    return (index * MULTIPLIER + SEED).to(torch.int32)


def prepare(
    operation: str,
    arena: Arena,
    scale: float,
    grid_of: Callable[[int], int],
    launch: Callable[[int, list[Any]], None],
    partial_sums: Callable[[Any, int], Any],
) -> Job:
    """The job of one operation: `launch(grid, tensors)` runs it once, `partial_sums` is the reference of `read`.

    Two arrays are written in turn and two are read in turn; what is read is never written, so it stays random.
    """
    arrays = arena.arrays(4, scale)
    n = arrays[0].numel()
    grid = grid_of(n)
    sums = arena.empty((grid,), "float32") if operation == "read" else None

    def tensors(i: int) -> list[Any]:
        target, sources = arrays[i % 2], [arrays[2 + i % 2], arrays[3 - i % 2]]
        return [sources[0], sums] if operation == "read" else [target, *sources][: ARRAYS[operation]]

    def check() -> float:
        return _error(operation, arena, grid_of, launch, partial_sums)

    return Job(lambda i: launch(grid, tensors(i)), 4.0 * n * ARRAYS[operation], check, 4 * n)


def _error(operation: str, arena: Arena, grid_of: Any, launch: Any, partial_sums: Any) -> float:
    n = 4 * 1_234_567  # neither a multiple of a block nor of the grid
    b, c = arena.random((n,), "float32"), arena.random((n,), "float32")
    if operation == "read":
        out = arena.empty((grid_of(n),), "float32")
        launch(grid_of(n), [b, out])
        return relative_error(out, partial_sums(b, grid_of(n)))
    a = arena.empty((n,), "float32")
    launch(grid_of(n), [a, b, c][: ARRAYS[operation]])
    if operation == "write":
        return relative_error(as_words(a), written(n, a.device))
    return relative_error(a, b if operation == "copy" else b.double() + Q * c.double())

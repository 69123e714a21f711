"""The contract of every file in this folder: what a microkernel is and what it hands to the measuring engine.

A microkernel answers one hardware question. It offers variants (best guess first), prepares one of them on a device,
states the work of one launch, and can compare its output with a reference. It never times anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from roofline.machine.record import Device


@dataclass(frozen=True)
class Variant:
    """One way to run a microkernel: tuning options that leave its result unchanged, or one point of a sweep."""

    name: str
    options: Mapping[str, int] = field(default_factory=dict)
    x: float = 0.0
    """Where on its sweep it lies, if it is a point of one: bytes of the working set, or flops per byte."""


@dataclass(frozen=True)
class Job:
    """A variant ready to run: one call of `run` enqueues one sample."""

    run: Callable[[int], None]
    """Enqueues launch number i; i rotates the buffers."""
    work: float
    """Flops, bytes or launches of one call of `run`, in the ceiling's unit."""
    check: Callable[[], float]
    """Runs the kernel on a small case and returns its relative error against a reference."""
    buffer_bytes: int = 0
    """Bytes of each buffer the launch sweeps."""
    clock_hz: Callable[[], float] | None = None
    """Clock that the SMs themselves counted during the last launch."""


class Arena(Protocol):
    """Device memory for microkernels, filled with random data."""

    device: Device
    torch_device: Any
    zeros: bool
    """Whether `random` gives zeros for once; a microkernel that makes operands of its own does the same."""

    def arrays(self, count: int, scale: float) -> list[Any]:
        """`count` distinct 1-d float32 tensors, equally long, far larger than the last-level cache."""

    def random(self, shape: tuple[int, ...], dtype: str, spread: float = 1.0) -> Any:
        """A small tensor of normally distributed random numbers (uniform whole numbers for integers)."""

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        """A small tensor poisoned with NaN (or the smallest integer), so that unwritten output shows."""


@dataclass(frozen=True)
class Microkernel:
    """A question to the hardware and the code that answers it."""

    ceiling: str
    """Name in machine/ceilings.py."""
    backend: str
    """triton, cupy, torch or numpy: what must be usable."""
    variants: Callable[[Device], tuple[Variant, ...]]
    prepare: Callable[[Variant, Arena, float], Job]
    """Variant, arena, scale of the work (1 = full) → job."""
    tolerance: float
    """Largest relative error of `Job.check` that is believed."""
    minimum_capability: tuple[int, int] = (0, 0)
    """Compute capability below which the hardware lacks the pipe."""
    axes: Callable[[Device], Mapping[str, tuple[int, ...]]] | None = None
    """Option → the values it can take, rising: a lattice that is searched from `variants` on. None: no search."""
    sweep: Literal["bytes", "flops_per_byte"] | None = None
    """What its variants differ in, if they are not rivals but points of a sweep of the ceiling, rising."""
    bandwidth: str = ""
    """Sweep of the intensity: the memory ceiling that bounds it below the ridge point."""


def relative_error(result: Any, reference: Any) -> float:
    """Largest absolute difference over the largest reference value; NaN anywhere gives infinity. Torch tensors."""
    difference = (result.double() - reference.double()).abs().max().item()
    size = reference.double().abs().max().item()
    return difference / size if difference == difference and size > 0 else float("inf")

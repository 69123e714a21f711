"""The seam to the hardware. The engine sees devices only through `Bench`; tests put a fake or a replay behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from roofline.kernels.microkernel import Job, Microkernel, Variant
from roofline.machine.record import Device, Health


class Bench(Protocol):
    """A device on which jobs can be prepared, timed and watched."""

    device: Device
    software: Mapping[str, str]
    environment: Mapping[str, str]
    warnings: list[str]
    """Doubts that concern the whole run: busy device, smaller buffers."""

    def microkernels(self) -> tuple[Microkernel, ...]:
        """Every microkernel written for this kind of device."""

    def unusable(self, kernel: Microkernel) -> str | None:
        """Why this microkernel cannot run here; None if it can."""

    def prepare(self, kernel: Microkernel, variant: Variant, scale: float, zeros: bool = False) -> Job:
        """A job of `scale` times the full work, on random data or zeros; raises RooflineError if it cannot be built."""

    def compile(self, kernels: Sequence[Microkernel], variants: int) -> None:
        """Compiles the first `variants` variants of each microkernel, in parallel; failures show up in `prepare`."""

    def rest(self, seconds: float) -> None:
        """Lets the device cool down."""

    def time(self, job: Job, launches: int) -> list[float]:
        """Seconds of each of `launches` back-to-back launches."""

    def watch(self) -> AbstractContextManager[Callable[[], Health]]:
        """While the context is open, sensors are sampled; the callable returns their medians so far."""

    def limit(self, ceiling: str, health: Health) -> tuple[float, str] | None:
        """Physical limit of a ceiling at the observed clocks and what it was derived from."""

    def release(self) -> None:
        """Gives cached device memory back between ceilings."""


Progress = Callable[[str, float], Any]
"""Called with what is being done and the share of the whole that is finished, 0 to 1."""

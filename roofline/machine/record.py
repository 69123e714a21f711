"""MACHINE: what a device can do. Ceilings, each with the source of its number.

Base SI units throughout; the unit stands in each field's name or in `Ceiling.unit`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from roofline.errors import MissingCeiling

SCHEMA_VERSION = 1

Unit = Literal["flops_per_s", "ops_per_s", "bytes_per_s", "s"]


@dataclass(frozen=True, kw_only=True)
class Device:
    """The hardware, as its driver and its data sheet describe it. None: not known."""

    name: str
    kind: Literal["cuda", "cpu", "other"]
    vendor: str | None = None
    architecture: str | None = None
    compute_capability: str | None = None
    sm_count: int | None = None
    """Streaming multiprocessors of a GPU, or cores of a CPU."""
    base_clock_hz: float | None = None
    boost_clock_hz: float | None = None
    memory_clock_hz: float | None = None
    memory_bus_bits: int | None = None
    memory_type: str | None = None
    memory_bytes: int | None = None
    l2_bytes: int | None = None
    """The last-level cache."""
    tdp_w: float | None = None
    ecc: bool | None = None
    fp32_accumulate: Literal["full", "half"] | None = None
    """Rate of tensor products with an fp32 accumulator, relative to an fp16 one."""
    uuid: str | None = None
    launch_year: int | None = None
    launch_price_usd: float | None = None
    notes: str = ""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One variant of a microkernel, tried briefly."""

    variant: str
    value: float | None
    """Rate or seconds, in the ceiling's unit; None if the variant failed."""
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Health:
    """What the device's own sensors said while a ceiling was measured: medians over the samples taken."""

    clock_hz: float | None = None
    """SM clock: as the SMs themselves counted it, if the microkernel could ask them, else as the sensor said."""
    sensor_clock_hz: float | None = None
    """SM clock as the sensor said; under a power limit it can be a tenth too high."""
    memory_clock_hz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    throttle: tuple[str, ...] = ()
    """Reasons the driver gave for holding the clock back during the measurement."""
    samples: int = 0


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """How a measured ceiling came about."""

    backend: str
    variant: str
    work: float
    """Flops, bytes or launches of one sample; value = work / median(samples_s), or its inverse for seconds."""
    samples_s: tuple[float, ...]
    low: float
    high: float
    """95 % interval of the median, in the ceiling's unit."""
    converged: bool
    """False: the time budget ended before the interval was narrow enough."""
    burst: float | None = None
    """Rate in the first milliseconds after a rest, before a power limit acts; the value itself is the sustained one."""
    health: Health = Health()
    limit: float | None = None
    """Physical limit at the observed clock: lanes x clock, or pin rate."""
    limit_basis: str = ""
    error: float | None = None
    """Relative error of the output against the reference."""
    zeros: float | None = None
    """Rate on operands that are all zero, if asked for: what data cost in power, and so in clock."""
    scaling: float | None = None
    """Time per unit of work at half the work, relative to the full work; 1 is ideal."""
    buffer_bytes: int | None = None
    data: str = "random"
    trials: tuple[Trial, ...] = ()
    flags: tuple[str, ...] = ()
    """Doubts about this number, each a sentence."""


@dataclass(frozen=True, kw_only=True)
class Ceiling:
    """One rate limit: a pipe, a memory level with a direction, or an overhead in seconds."""

    name: str
    value: float
    unit: Unit
    source: str
    """"measured", or where the data sheet's number was published."""
    measurement: Measurement | None = None
    published: float | None = None
    """The data sheet's number for the same ceiling, if one is known."""

    @property
    def measured(self) -> bool:
        """Whether the number was measured on the device rather than copied from a data sheet."""
        return self.measurement is not None


@dataclass(frozen=True, kw_only=True)
class SweepPoint:
    """One point of a sweep."""

    x: float
    """Bytes of the working set, or flops per byte."""
    value: float
    clock_hz: float | None = None
    """SM clock, as the SMs counted it or else as the sensor said."""
    power_w: float | None = None
    throttle: tuple[str, ...] = ()
    """Reasons the driver gave for holding the clock back."""
    note: str = ""
    """Why the point lies below the model, if it does: clock, power, occupancy."""


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A ceiling as a function of something: bandwidth of the working set, the measured roof of the intensity."""

    name: str
    ceiling: str = ""
    """The pipe or memory level that is swept."""
    bandwidth: str = ""
    """The memory ceiling that bounds the points beyond: of low intensity, or of large sets."""
    x_unit: Literal["bytes", "flops_per_byte"]
    unit: Unit
    points: tuple[SweepPoint, ...]


@dataclass(frozen=True, kw_only=True)
class CounterAudit:
    """One launch of a microkernel, held against the hardware's own counters."""

    ceiling: str
    variant: str
    """Backend and variant."""
    quantity: str
    """What was counted: bytes, flops, ops, loads or kernels."""
    counters: tuple[str, ...]
    claimed: float
    counted: float | None
    """None if it could not be counted; `note` says why."""
    ratio: float | None
    """Counted over claimed."""
    ok: bool | None
    """Whether they agree within `tolerance`; None if it could not be counted."""
    tolerance: float
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """When, with what software and in what state of the device a machine was measured."""

    created: str
    """UTC, ISO 8601."""
    effort: str
    method_version: int
    roofline_version: str
    software: Mapping[str, str] = field(default_factory=dict)
    """Name → version of everything that took part: driver, cuda, torch, triton, cupy, numpy, python, os."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Threads, affinity, visible devices and whatever else changes a number."""
    duration_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A device and its ceilings."""

    name: str
    device: Device
    ceilings: tuple[Ceiling, ...]
    not_measured: Mapping[str, str] = field(default_factory=dict)
    """Ceiling name → why it could not be measured here."""
    sweeps: tuple[Sweep, ...] = ()
    audits: tuple[CounterAudit, ...] = ()
    """Empty if the counters were not asked, or not permitted: then `warnings` has the reason."""
    warnings: tuple[str, ...] = ()
    provenance: Provenance | None = None
    """None for a data-sheet machine: there each ceiling names its source."""
    schema_version: int = SCHEMA_VERSION

    def get(self, name: str) -> Ceiling | None:
        """The ceiling of that name, or None."""
        return next((c for c in self.ceilings if c.name == name), None)

    def ceiling(self, name: str) -> Ceiling:
        """The ceiling of that name; `MissingCeiling` says why it is not there."""
        found = self.get(name)
        if found is None:
            reason = self.not_measured.get(name, "it was neither measured nor published")
            have = ", ".join(c.name for c in self.ceilings) or "none"
            raise MissingCeiling(f"{self.name} has no ceiling '{name}': {reason}. It has: {have}.")
        return found

    @property
    def measured(self) -> bool:
        """Whether this machine was measured (by `roofline.probe`) rather than read from a data sheet."""
        return self.provenance is not None

"""PREDICTION: how long a traced program takes on a machine, what the time is made of, and how sure that is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import exp, hypot

import numpy as np

from roofline.analysis import rules
from roofline.analysis.constants import Calibration, shipped
from roofline.analysis.demand import Demand, demand
from roofline.analysis.equations import TERMS, Times, times
from roofline.analysis.hardware import Hardware, hardware
from roofline.analysis.software import AS_TRACED, Software
from roofline.errors import UsageError
from roofline.machine.record import Machine
from roofline.work.record import Trace

ASSUMED_LOG_ERROR = 0.15
"""Added in quadrature to the interval for each attribute of a machine that had to be assumed."""


@dataclass(frozen=True, kw_only=True)
class PredictedCall:
    """One op call with its predicted time."""

    index: int
    op: str
    module: str
    scope: tuple[str, ...]
    kind: str
    seconds: float
    terms: Mapping[str, float]
    """What the seconds are made of; they sum to them."""

    @property
    def binding(self) -> str:
        """The largest term; "none" for an empty call."""
        return max(self.terms, key=lambda term: self.terms[term], default="none")


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """A program on a machine."""

    name: str
    machine: str
    software: Software
    seconds: float
    low_s: float
    high_s: float
    """Interval that held-out measurements fell into as often as `coverage` says."""
    coverage: float
    calls: tuple[PredictedCall, ...]
    waiting_s: float
    """Time in which the device waits for the host; 0 if the device is the slower one."""
    host_s: float
    """Time that the host needs to issue all op calls."""
    clock_hz: float
    """Clock under the power limit at this program's load."""
    memory_bytes: int
    """Weights and the most activations alive at once; libraries' workspaces come on top."""
    memory_available_bytes: int | None
    sources: Mapping[str, str]
    """Attribute of the machine → where it came from."""
    warnings: tuple[str, ...]

    @property
    def fits(self) -> bool | None:
        """Whether weights and activations fit in the device's memory; None if its size is unknown."""
        return None if self.memory_available_bytes is None else self.memory_bytes <= self.memory_available_bytes

    @cached_property
    def terms(self) -> Mapping[str, float]:
        """Cause → seconds; they sum to `seconds`."""
        sums = {term: sum(call.terms.get(term, 0.0) for call in self.calls) for term in TERMS}
        sums["host"] = self.waiting_s
        return {term: value for term, value in sums.items() if value > 0}

    @property
    def bound(self) -> str:
        """The largest term."""
        return max(self.terms, key=lambda term: self.terms[term], default="none")

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Attributes that had to be assumed, each with what was assumed."""
        return tuple(f"{name} {source}" for name, source in self.sources.items() if source.startswith("assumed"))

    def by_layer(self) -> dict[str, float]:
        """Innermost module → seconds of its own calls; the host's part is not in it."""
        return self._sums(lambda call: (call.module,))

    def by_module(self) -> dict[str, float]:
        """Module → seconds of everything that ran while it did."""
        return self._sums(lambda call: call.scope)

    def by_kind(self) -> dict[str, float]:
        """Kernel class → seconds."""
        return self._sums(lambda call: (call.kind,))

    def _sums(self, keys: Callable[[PredictedCall], tuple[str, ...]]) -> dict[str, float]:
        sums: dict[str, float] = {}
        for call in self.calls:
            for key in keys(call):
                sums[key] = sums.get(key, 0.0) + call.seconds
        return sums


def predict(
    trace: Trace, machine: Machine, *, software: Software = AS_TRACED, calibration: Calibration | None = None
) -> Prediction:
    """Seconds of `trace` on `machine`, from a data sheet or, better, from a measured machine.

    `software` states what neither knows (TF32 switches, fused attention, ECC, host speed). `MissingCeiling` if the
    machine lacks what every prediction needs, `UsageError` for an empty trace or one of a CPU.
    """
    return Model(trace, software, calibration).on(machine)


class Model:
    """A trace made ready for predictions on many machines."""

    def __init__(self, trace: Trace, software: Software = AS_TRACED, calibration: Calibration | None = None) -> None:
        if not trace.calls:
            raise UsageError(f"the trace of {trace.name} has no op calls; there is nothing to predict.")
        if trace.target != "cuda":
            raise UsageError(f"the trace is of a {trace.target.upper()}; take it with target='cuda' to predict a GPU.")
        self.trace, self.software = trace, software
        self.calibration = calibration or shipped()
        self.constants = self.calibration.values
        self.demand: Demand = demand(trace, software)

    def hardware(self, machine: Machine) -> Hardware:
        """The attributes that decide, under this software's ECC state."""
        return hardware(machine, self.software.ecc)

    def times(self, machine: Hardware) -> Times:
        """Seconds of every kernel."""
        return times(self.demand, machine, self.constants, self.software.host_s)

    def seconds(self, machine: Hardware) -> float:
        """Seconds of the whole program."""
        return float(np.squeeze(self.times(machine).seconds))

    def on(self, machine: Machine) -> Prediction:
        """The prediction for one machine."""
        attributes = self.hardware(machine)
        found = self.times(attributes)
        seconds, host_s = float(np.squeeze(found.seconds)), float(np.squeeze(found.host_s))
        device_s = float(found.kernel.sum())
        half = self._half_width(attributes, host_s >= device_s)
        memory = self.trace.weight_bytes + self.trace.peak_activation_bytes
        return Prediction(
            name=self.trace.name, machine=machine.name, software=self.software, seconds=seconds,
            low_s=seconds * exp(-half), high_s=seconds * exp(half), coverage=self.calibration.coverage,
            calls=self._calls(found), waiting_s=max(0.0, host_s - device_s), host_s=host_s,
            clock_hz=rules.top_clock(attributes, self.constants) * float(np.squeeze(found.clock)),
            memory_bytes=memory, memory_available_bytes=attributes.memory_bytes, sources=attributes.sources,
            warnings=self._warnings(machine, attributes, memory),
        )  # fmt: skip

    def _half_width(self, machine: Hardware, host_bound: bool) -> float:
        """Half of the interval in ln(seconds): wider for training, for the host's part and for every assumption."""
        plain = not host_bound and not self.demand.trained_parameters
        half = self.calibration.log_error if plain else self.calibration.host_log_error
        assumed = [s for name, s in machine.sources.items() if s.startswith("assumed") and name != "ecc"]
        return hypot(half, ASSUMED_LOG_ERROR * len(assumed) ** 0.5)

    def _calls(self, found: Times) -> tuple[PredictedCall, ...]:
        shares = _terms(found, self.demand, self.constants.overlap)
        seconds, terms = np.zeros(len(self.trace.calls)), np.zeros((len(shares), len(self.trace.calls)))
        position = {call.index: place for place, call in enumerate(self.trace.calls)}
        places = np.array([position[int(index)] for index in self.demand.call])
        np.add.at(seconds, places, found.kernel)
        for i, share in enumerate(shares.values()):
            np.add.at(terms[i], places, share)
        return tuple(
            PredictedCall(
                index=call.index, op=call.op, module=call.module, scope=call.scope, kind=call.kind,
                seconds=float(seconds[place]),
                terms={name: float(terms[i, place]) for i, name in enumerate(shares) if terms[i, place] > 0},
            )
            for place, call in enumerate(self.trace.calls)
        )  # fmt: skip

    def _warnings(self, machine: Machine, attributes: Hardware, memory: int) -> tuple[str, ...]:
        found = list(machine.warnings)
        available = attributes.memory_bytes
        if available is not None and memory > available:
            found.append(
                f"{self.trace.name} needs {memory / 1e9:.3g} GB for weights and activations; {machine.name} has "
                f"{available / 1e9:.3g} GB: it will not run there, and the time is what it would take if it did."
            )
        unknown = sorted(self.trace.uncounted)
        if unknown:
            found.append(f"no formula for {', '.join(unknown)}: timed by bytes and elements alone.")
        return tuple(found)


def _terms(found: Times, asked: Demand, overlap: float) -> dict[str, np.ndarray]:
    """What each kernel's seconds are made of; the parts sum to them.

    A product's p-norm is shared in proportion to part^p; other classes belong to the one limit that binds.
    """
    product = np.isin(asked.equation, ("product", "attention"))
    parts = np.stack([found.math, found.l2, found.dram, np.broadcast_to(found.issue, found.math.shape)])
    top = np.maximum(parts.max(axis=0), 1e-300)
    power = np.where(product, (parts / top) ** overlap, parts == top)
    weights = power / np.maximum(power.sum(axis=0), 1e-300)
    inner = found.kernel - found.launch - found.layout
    names = ("math", "l2", "dram", "issue")
    return {**dict(zip(names, weights * inner, strict=True)), "layout": found.layout, "launch": found.launch}

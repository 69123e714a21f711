"""A probe: measures every ceiling of a device, one after the other, and keeps what it has when something fails."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from time import monotonic

from roofline import __version__
from roofline.errors import RooflineError, UsageError
from roofline.kernels.microkernel import Microkernel
from roofline.machine.record import Ceiling, Machine, Provenance, Sweep
from roofline.measure.bench import Bench, Progress
from roofline.measure.ceiling import measure_ceiling
from roofline.measure.plan import select, select_sweeps
from roofline.measure.stopping import EFFORTS, Effort
from roofline.measure.sweep import measure_sweep

METHOD_VERSION = 1
"""Raised whenever a change of method changes the numbers."""
_ALL = 1000
"""More variants than any microkernel has."""
INTERRUPTED = "interrupted by the user"


class ProbeInterrupted(KeyboardInterrupt):
    """Ctrl-C during a probe; `machine` holds what was measured until then."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(INTERRUPTED)
        self.machine = machine


def _silent(text: str, share: float) -> None:
    pass


def probe(
    device: str = "auto",
    effort: str = "quick",
    only: Sequence[str] | None = None,
    progress: Progress = _silent,
    zeros: bool = False,
) -> Machine:
    """Measure the ceilings of one device: "auto" (the current GPU, else the CPU), "cuda:N" or "cpu".

    `effort`: quick, standard or thorough. `only`: names of ceilings, groups or sweeps. `zeros`: arithmetic once more on
    operands that are all zero. Raises DeviceError if the device is not usable, UsageError for unknown names,
    ProbeInterrupted on Ctrl-C.
    """
    from roofline.measure.devices import open_bench

    if effort not in EFFORTS:
        raise UsageError(f"effort '{effort}' is unknown; expected one of {', '.join(EFFORTS)}.")
    return measure_machine(open_bench(device), replace(EFFORTS[effort], zeros=zeros), only, progress)


@dataclass
class _Findings:
    """What a probe has found so far."""

    ceilings: list[Ceiling] = field(default_factory=list)
    sweeps: list[Sweep] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    def interrupted(self, wanted: Iterable[str]) -> None:
        """Names the reason for everything wanted that there is neither a result nor a reason for."""
        finished = {*self.failed, *(c.name for c in self.ceilings), *(s.name for s in self.sweeps)}
        self.failed.update({name: INTERRUPTED for name in wanted if name not in finished})


def measure_machine(
    bench: Bench, effort: Effort, only: Sequence[str] | None = None, progress: Progress = _silent
) -> Machine:
    """Every selected ceiling and sweep of a bench; those that fail are listed with their reason."""
    import scipy.stats  # noqa: F401  # a second of import, kept out of the first measurement

    started, created = monotonic(), datetime.now(timezone.utc)
    plan, sweeps = _plan(bench, effort, only)
    found = _Findings()

    def result() -> Machine:
        return Machine(
            name=bench.device.name,
            device=bench.device,
            ceilings=tuple(found.ceilings),
            not_measured=found.failed,
            sweeps=tuple(found.sweeps),
            warnings=tuple(dict.fromkeys(bench.warnings)),
            provenance=Provenance(
                created=created.isoformat(timespec="seconds"),
                effort=effort.name,
                method_version=METHOD_VERSION,
                roofline_version=__version__,
                software=bench.software,
                environment=bench.environment,
                duration_s=monotonic() - started,
            ),
        )

    try:
        progress("compiling", 0.0)
        share = len(plan) / max(1, len(plan) + len(sweeps))
        _measure_ceilings(bench, plan, effort, found, lambda text, done: progress(text, share * done))
        _measure_sweeps(bench, sweeps, effort, found, lambda text, done: progress(text, share + (1 - share) * done))
    except KeyboardInterrupt:
        found.interrupted((*plan, *sweeps))
        raise ProbeInterrupted(result()) from None
    progress("done", 1.0)
    return result()


def _plan(
    bench: Bench, effort: Effort, only: Sequence[str] | None
) -> tuple[dict[str, list[Microkernel]], dict[str, Microkernel]]:
    """Ceilings and sweeps to measure; UsageError if a sweep is asked for that this effort leaves out."""
    microkernels = bench.microkernels()
    plan, sweeps = select(microkernels, only), select_sweeps(microkernels, only)
    if effort.sweep_s:
        return plan, sweeps
    if only and sweeps:
        raise UsageError(f"effort '{effort.name}' sweeps nothing, but {', '.join(sweeps)} is asked for; use standard.")
    return plan, {}


def _measure_ceilings(
    bench: Bench, plan: Mapping[str, list[Microkernel]], effort: Effort, found: _Findings, progress: Progress
) -> None:
    bench.compile([kernel for kernels in plan.values() for kernel in kernels], effort.variants)
    for done, (name, kernels) in enumerate(plan.items()):
        progress(name, done / len(plan))
        try:
            found.ceilings.append(measure_ceiling(bench, kernels, effort))
        except RooflineError as error:
            found.failed[name] = str(error)
        bench.release()


def _measure_sweeps(
    bench: Bench, sweeps: Mapping[str, Microkernel], effort: Effort, found: _Findings, progress: Progress
) -> None:
    if sweeps:
        bench.compile(tuple(sweeps.values()), _ALL)
    for done, (name, kernel) in enumerate(sweeps.items()):
        progress(name, done / len(sweeps))
        sweep, failed = measure_sweep(bench, kernel, effort.sweep_s, found.ceilings)
        found.sweeps += [sweep] if sweep else []
        found.failed.update(failed)
        bench.release()

"""A probe: measures every ceiling of a device, one after the other, and keeps what it has when something fails."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from time import monotonic

from roofline import __version__
from roofline.errors import RooflineError, UsageError
from roofline.machine.record import Ceiling, Machine, Provenance
from roofline.measure.bench import Bench, Progress
from roofline.measure.ceiling import measure_ceiling
from roofline.measure.plan import select
from roofline.measure.stopping import EFFORTS, Effort

METHOD_VERSION = 1
"""Raised whenever a change of method changes the numbers."""
INTERRUPTED = "interrupted by the user"


class ProbeInterrupted(KeyboardInterrupt):
    """Ctrl-C during a probe; `machine` holds what was measured until then."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(INTERRUPTED)
        self.machine = machine


def _silent(text: str, share: float) -> None:
    pass


def probe(
    device: str = "auto", effort: str = "quick", only: Sequence[str] | None = None, progress: Progress = _silent
) -> Machine:
    """Measure the ceilings of one device: "auto" (the current GPU, else the CPU), "cuda:N" or "cpu".

    `effort`: quick, standard or thorough. `only`: names of ceilings or groups. Raises DeviceError if the device is not
    usable, UsageError for unknown names, ProbeInterrupted on Ctrl-C.
    """
    from roofline.measure.devices import open_bench

    if effort not in EFFORTS:
        raise UsageError(f"effort '{effort}' is unknown; expected one of {', '.join(EFFORTS)}.")
    return measure_machine(open_bench(device), EFFORTS[effort], only, progress)


def measure_machine(
    bench: Bench, effort: Effort, only: Sequence[str] | None = None, progress: Progress = _silent
) -> Machine:
    """Every selected ceiling of a bench; those that fail are listed with their reason."""
    import scipy.stats  # noqa: F401  # a second of import, kept out of the first measurement

    started, created = monotonic(), datetime.now(timezone.utc)
    plan = select(bench.microkernels(), only)
    ceilings: list[Ceiling] = []
    failed: dict[str, str] = {}

    def result() -> Machine:
        return Machine(
            name=bench.device.name,
            device=bench.device,
            ceilings=tuple(ceilings),
            not_measured=failed,
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
        bench.compile([kernel for kernels in plan.values() for kernel in kernels], effort.variants)
        for done, (name, kernels) in enumerate(plan.items()):
            progress(name, done / len(plan))
            try:
                ceilings.append(measure_ceiling(bench, kernels, effort))
            except RooflineError as error:
                failed[name] = str(error)
            bench.release()
    except KeyboardInterrupt:
        failed.update(
            {name: INTERRUPTED for name in plan if name not in failed and name not in {c.name for c in ceilings}}
        )
        raise ProbeInterrupted(result()) from None
    progress("done", 1.0)
    return result()

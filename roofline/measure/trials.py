"""Tries the variants of microkernels briefly: all that are written down, or those that a guided search proposes.

Under a power limit a rate depends on what ran before: after a light load the same product is up to 15 % faster. So a
search runs its first point before and after every other one, for longer than that one itself: it sets the clock, and
the rate over that of the first point at the same time is what compares. The best are then timed in turns, longer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from roofline.errors import RooflineError
from roofline.kernels.microkernel import Job, Microkernel, Variant
from roofline.machine.ceilings import BY_NAME
from roofline.machine.record import Trial, Unit
from roofline.measure.bench import Bench
from roofline.measure.search import Point, search
from roofline.measure.statistics import median
from roofline.measure.stopping import Effort

TRIAL_LAUNCHES = 5
LONGEST_S = 0.006
"""Where there is a whole lattice to choose from, points that would take longer for one launch are passed over."""
_FINALISTS = 6
_NEAR_BEST = 3
"""Variants of a tensor microkernel differ by less than the power limit makes the clock wander: a final decides."""
_ROUNDS = 3
_FINAL = 1.0
"""Time of one turn of a finalist, in trials."""


@dataclass(frozen=True)
class Candidate:
    """A variant that was tried."""

    kernel: Microkernel
    variant: Variant
    job: Job = field(repr=False)
    value: float

    @property
    def name(self) -> str:
        """Backend and variant, as printed."""
        return f"{self.kernel.backend}: {self.variant.name}"


def rate(unit: Unit, work: float, seconds: float) -> float:
    """Work a second, or seconds per unit of work for ceilings that are times."""
    return seconds / work if unit == "s" else work / seconds


def try_all(bench: Bench, kernels: Sequence[Microkernel], effort: Effort) -> tuple[list[Candidate], tuple[Trial, ...]]:
    """Every variant that ran, and what came of all that were tried."""
    candidates: list[Candidate] = []
    trials: list[Trial] = []
    for kernel in kernels:
        one = _Trials(bench, kernel, effort)
        if kernel.axes:
            one.search(kernel.axes(bench.device))
        else:
            for variant in kernel.variants(bench.device)[: effort.variants]:
                one.attempt(variant)
            if BY_NAME[kernel.ceiling].group == "tensor" and len(one.candidates) > 1:
                one.final(_NEAR_BEST)
        candidates += one.candidates
        trials += one.trials
    return candidates, tuple(trials)


def settle(bench: Bench, job: Job, effort: Effort) -> None:
    """Launches until the clocks have found their level under this load."""
    windows: list[list[float]] = []
    launches = TRIAL_LAUNCHES
    while not effort.settling.settled(windows):
        windows.append(bench.time(job, launches))
        launches = max(3, min(2000, int(effort.settling.window_s / median(windows[-1]))))


class _Trials:
    """The trials of one microkernel."""

    def __init__(self, bench: Bench, kernel: Microkernel, effort: Effort) -> None:
        self._bench, self._kernel, self._effort = bench, kernel, effort
        self.candidates: list[Candidate] = []
        self.trials: list[Trial] = []

    def attempt(self, variant: Variant) -> float | None:
        """Rate of a variant; None if it failed."""
        return self._guarded(variant, self._brief)

    def search(self, axes: Mapping[str, tuple[int, ...]]) -> None:
        """A guided search from the written variants on, and a final among the best: only they remain candidates."""
        names = tuple(axes)
        known = {tuple(v.options.values()): v for v in self._kernel.variants(self._bench.device)}

        def rate_of(point: Point) -> float | None:
            return self._guarded(known.get(point) or _variant(names, point), self._at_one_clock)

        search(rate_of, list(axes.values()), list(known), self._effort.shapes)
        self.final(_FINALISTS)
        self.candidates = self.candidates[:_FINALISTS]

    def _guarded(self, variant: Variant, rate_of: Callable[[Job], float | None]) -> float | None:
        name = f"{self._kernel.backend}: {variant.name}"
        try:
            job = self._bench.prepare(self._kernel, variant, 1.0)
            value = rate_of(job)
        except RooflineError as error:
            self.trials.append(Trial(variant=name, value=None, reason=str(error)))
            return None
        if value is not None:
            self.candidates.append(Candidate(self._kernel, variant, job, value))
            self.trials.append(Trial(variant=name, value=value))
        return value

    def _brief(self, job: Job) -> float:
        first = min(self._bench.time(job, 2))
        samples = self._bench.time(job, max(TRIAL_LAUNCHES, min(500, int(self._effort.trial_s / first))))
        return rate(BY_NAME[self._kernel.ceiling].unit, job.work, median(samples))

    def _at_one_clock(self, job: Job) -> float | None:
        """Rate of a job at the clock that the first job sets; None if a launch would take long."""
        if not self.candidates:
            settle(self._bench, job, self._effort)
            return self._hot(job, self._effort.trial_s, self._brief(job))
        first = self.candidates[0]
        if job.work > LONGEST_S * max(c.value for c in self.candidates):
            return None
        self._bench.time(job, 1)  # loads the library's kernel
        before = self._hot(first.job, self._effort.trial_s / 2, first.value)
        value = self._hot(job, self._effort.trial_s / 4, first.value)
        after = self._hot(first.job, self._effort.trial_s / 4, first.value)
        return value * first.value / ((before + after) / 2)

    def _hot(self, job: Job, seconds: float, expected: float) -> float:
        """Rate in the second half of about so many seconds of launches at the expected rate."""
        samples = self._bench.time(job, max(4, min(500, int(seconds * expected / job.work))))
        return job.work / median(samples[len(samples) // 2 :])

    def final(self, count: int) -> None:
        """The best `count` once more in turns, so that all meet one state of the power limit; they come first then."""
        if not self.candidates:
            return
        ranked = sorted(self.candidates, key=lambda c: -c.value)
        best = ranked[:count]
        rates: list[list[float]] = [[] for _ in best]
        for turn in range(_ROUNDS):
            for i in range(len(best))[:: -1 if turn % 2 else 1]:
                rates[i].append(self._hot(best[i].job, _FINAL * self._effort.trial_s, best[i].value))
        finalists = [replace(c, value=median(r)) for c, r in zip(best, rates, strict=True)]
        lowest = min(c.value for c in finalists)
        self.candidates = [*finalists, *(replace(c, value=min(c.value, lowest)) for c in ranked[count:])]
        values = {c.name: c.value for c in finalists}
        self.trials = [replace(t, value=values.get(t.variant, t.value)) for t in self.trials]


def _variant(names: tuple[str, ...], point: Point) -> Variant:
    return Variant(" x ".join(map(str, point)), dict(zip(names, point, strict=True)))

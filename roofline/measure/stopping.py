"""When to stop measuring: small pure rules, tried with synthetic numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from roofline.measure.statistics import median, relative_width

Verdict = Literal["continue", "converged", "budget spent"]


@dataclass(frozen=True)
class StoppingRule:
    """Stop when the 95 % interval of the median is narrow enough, but not before `minimum_s`, nor after `budget_s`."""

    width: float
    minimum_s: float
    budget_s: float

    def verdict(self, samples_s: Sequence[float]) -> Verdict:
        """What to do after these samples; time is the sum of the samples, so a replay decides alike."""
        spent = sum(samples_s)
        if spent >= self.minimum_s and relative_width(samples_s) <= self.width:
            return "converged"
        return "budget spent" if spent >= self.budget_s else "continue"


@dataclass(frozen=True)
class SettlingRule:
    """Warm-up is over when the medians of the last three windows agree within `spread`, or after `budget_s`."""

    spread: float
    window_s: float
    budget_s: float

    def settled(self, windows_s: Sequence[Sequence[float]]) -> bool:
        """Whether measuring may begin after these windows of samples."""
        if sum(map(sum, windows_s)) >= self.budget_s:
            return True
        last = [median(window) for window in windows_s[-3:]]
        return len(last) == 3 and max(last) - min(last) <= self.spread * min(last)


@dataclass(frozen=True)
class Effort:
    """How much time a probe may take."""

    name: str
    variants: int
    """Variants of each microkernel that are tried."""
    trial_s: float
    """Time of one trial."""
    rest_s: float
    """Pause before the burst of a pipe that may meet the power limit; 0: no burst is measured."""
    settling: SettlingRule
    stopping: StoppingRule
    shapes: int = 60
    """Points of a lattice that a guided search tries."""
    sweep_s: float = 0.0
    """Time of one point of a sweep; 0: nothing is swept."""
    zeros: bool = False
    """Whether arithmetic is measured once more on operands that are all zero."""


EFFORTS = {
    effort.name: effort
    for effort in (
        Effort("quick", 2, 0.01, 0.0, SettlingRule(0.02, 0.02, 0.2), StoppingRule(0.005, 0.1, 0.3), shapes=4),
        Effort(
            "standard",
            5,
            0.03,
            0.5,
            SettlingRule(0.01, 0.05, 0.6),
            StoppingRule(0.005, 0.5, 1.5),
            shapes=40,
            sweep_s=0.02,
        ),
        Effort("thorough", 99, 0.1, 2.0, SettlingRule(0.005, 0.1, 3.0), StoppingRule(0.002, 2.0, 10.0), sweep_s=0.3),
    )
}

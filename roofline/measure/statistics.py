"""Robust statistics of timing samples: pure functions of plain sequences."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median as _median

CONFIDENCE = 0.95
MINIMUM_SAMPLES = 6
"""Fewer samples cannot bound a median at 95 %: 2 x 0.5**5 > 0.05."""


def median(samples: Sequence[float]) -> float:
    """The middle sample, or the mean of the middle two."""
    return _median(samples)


def median_interval(samples: Sequence[float]) -> tuple[float, float]:
    """Distribution-free 95 % interval of the median (order statistics, binomial); infinite below six samples."""
    if len(samples) < MINIMUM_SAMPLES:
        return float("-inf"), float("inf")
    from scipy.stats import binom

    # Smallest d with P(B <= d - 1) > 2.5 %: the d-th smallest and d-th largest sample bound the median.
    depth = int(binom.ppf((1 - CONFIDENCE) / 2, len(samples), 0.5))
    ordered = sorted(samples)
    return ordered[depth - 1], ordered[len(ordered) - depth]


def relative_width(samples: Sequence[float]) -> float:
    """Width of the interval of the median over the median."""
    low, high = median_interval(samples)
    return (high - low) / median(samples)

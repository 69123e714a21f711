"""What the points of a sweep say: the roof they should reach, why they fall short of it, where a cache ends."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import exp, log

from roofline.machine.record import Ceiling, Machine, Sweep, SweepPoint

SHORT = 0.05
"""A point further below the model than this share has a reason named."""
SLOWER = 0.01
"""Clocks that differ by more than this share are not the same."""
NEAR_POWER_LIMIT = 0.97
_STEP = 1.25
"""A bandwidth that falls by less than this factor shows no capacity."""


def roof(pipe: Ceiling, bandwidth: Ceiling, intensity: float) -> float:
    """The model: flops a second that bandwidth and pipe allow at an intensity."""
    return min(pipe.value, bandwidth.value * intensity)


def reason(point: SweepPoint, pipe: Ceiling, bandwidth: Ceiling, power_limit_w: float | None) -> str:
    """Why a point lies more than 5 % below the model: power, clock, else occupancy; "" if it does not.

    power: the limit is reached, or the driver says so. clock: below the one at which the pipe's ceiling was measured.
    occupancy: neither; too few threads or operands under way to hide the latency of memory and pipe behind each other.
    """
    if point.value >= (1 - SHORT) * roof(pipe, bandwidth, point.x):
        return ""
    at_limit = point.power_w and power_limit_w and point.power_w >= NEAR_POWER_LIMIT * power_limit_w
    if at_limit or any("power" in why.lower() for why in point.throttle):
        return "power"
    usual_hz = pipe.measurement.health.clock_hz if pipe.measurement else None
    if point.clock_hz and usual_hz and point.clock_hz < (1 - SLOWER) * usual_hz:
        return "clock"
    return "occupancy"


def capacity_step(points: Sequence[SweepPoint]) -> float | None:
    """Bytes of the working set at which the bandwidth falls through the middle (on a log scale) between the best
    and the last point, interpolated; None if it falls by less than a quarter.
    """
    if not points:
        return None
    best = max(range(len(points)), key=lambda i: points[i].value)
    high, low = points[best].value, points[-1].value
    if high < _STEP * low:
        return None
    middle = (high * low) ** 0.5
    # The last crossing: a dip before it is noise or a cache's neighbour, not its end.
    a, b = [(p, q) for p, q in pairwise(points[best:]) if p.value > middle >= q.value][-1]
    share = log(a.value / middle) / log(a.value / b.value)
    return exp(log(a.x) + share * log(b.x / a.x))


def bounds(machine: Machine, sweep: Sweep) -> tuple[Ceiling, Ceiling] | None:
    """The pipe and the bandwidth that make the model roof of a sweep; None unless the machine has both."""
    pipe, bandwidth = machine.get(sweep.ceiling), machine.get(sweep.bandwidth)
    return (pipe, bandwidth) if pipe and bandwidth else None

"""Measures one ceiling: tries the variants, checks the best against its reference, then measures it properly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from roofline.errors import BackendUnavailable, CheckFailed, RooflineError
from roofline.kernels.microkernel import Job, Microkernel
from roofline.machine.ceilings import BY_NAME
from roofline.machine.record import Ceiling, Health, Measurement, Trial
from roofline.measure import limits
from roofline.measure.bench import Bench
from roofline.measure.statistics import median, median_interval
from roofline.measure.stopping import Effort, Verdict
from roofline.measure.trials import TRIAL_LAUNCHES, Candidate, rate, settle, try_all

_BATCH_S = 0.02
_BURST_LAUNCHES = 8
_POWER_LIMITED = ("tensor", "vector")
_LIBRARY = ("gemm", "conv")
_SHARE, _TURNS = 0.5, 3
"""The share of the work at which time is compared with the full work, and in how many turns."""


def measure_ceiling(bench: Bench, kernels: Sequence[Microkernel], effort: Effort) -> Ceiling:
    """The ceiling that these microkernels compete for; raises RooflineError with the reason if none can be believed."""
    usable = [(kernel, bench.unusable(kernel)) for kernel in kernels]
    reasons = [reason for _, reason in usable if reason]
    candidates, trials = try_all(bench, [kernel for kernel, reason in usable if not reason], effort)
    refused = [t.reason for t in trials if t.value is None]
    unit = BY_NAME[kernels[0].ceiling].unit
    for best in sorted(candidates, key=lambda c: c.value, reverse=unit != "s"):
        error, reason = _checked(best)
        if not reason:
            return _measure(bench, best, effort, error, trials)
        refused.append(reason)
        trials = tuple(replace(t, reason=refused[-1]) if t.variant == best.name else t for t in trials)
    if candidates:
        raise CheckFailed("; ".join(refused))
    raise BackendUnavailable(
        "; ".join(dict.fromkeys([*reasons, *refused])) or "no microkernel is written for this device"
    )


def _checked(candidate: Candidate) -> tuple[float, str]:
    """Relative error of the output, and why the variant cannot be believed; "" if it can."""
    tolerance = candidate.kernel.tolerance
    try:
        error = candidate.job.check()
    except RooflineError as failure:
        return inf, f"{candidate.name}: its output could not be checked: {failure}"
    if error <= tolerance:
        return error, ""
    return error, f"{candidate.name}: output differs from the reference by {error:.2g} (at most {tolerance:g})"


def _measure(bench: Bench, best: Candidate, effort: Effort, error: float, trials: tuple[Trial, ...]) -> Ceiling:
    kind, job = BY_NAME[best.kernel.ceiling], best.job
    burst_s = _burst(bench, job, effort) if effort.rest_s and kind.group in _POWER_LIMITED else None
    settle(bench, job, effort)
    samples_s, health, verdict = _sample(bench, job, effort)
    scaling = None if kind.group in _LIBRARY else _scaling(bench, best)
    value = rate(kind.unit, job.work, median(samples_s))
    low, high = sorted(rate(kind.unit, job.work, s) for s in median_interval(samples_s))
    bound = bench.limit(kind.name, health)
    measurement = Measurement(
        backend=best.kernel.backend,
        variant=best.variant.name,
        work=job.work,
        samples_s=tuple(samples_s),
        low=low,
        high=high,
        converged=verdict == "converged",
        health=health,
        burst=rate(kind.unit, job.work, burst_s) if burst_s else None,
        limit=bound[0] if bound else None,
        limit_basis=bound[1] if bound else "",
        error=error,
        zeros=_on_zeros(bench, best, effort) if effort.zeros and kind.group in _POWER_LIMITED else None,
        scaling=scaling,
        buffer_bytes=job.buffer_bytes or None,
        trials=trials,
        flags=_flags(value, bound, health, scaling, verdict == "converged", effort),
    )
    return Ceiling(name=kind.name, value=value, unit=kind.unit, source="measured", measurement=measurement)


def _sample(bench: Bench, job: Job, effort: Effort) -> tuple[list[float], Health, Verdict]:
    """Samples until the rule stops, what the sensors (and the SMs' own clocks) said meanwhile, and why it stopped."""
    samples_s: list[float] = []
    clocks_hz: list[float] = []
    with bench.watch() as health:
        while (verdict := effort.stopping.verdict(samples_s)) == "continue":
            samples_s += bench.time(job, _batch(samples_s))
            if job.clock_hz:
                clocks_hz.append(job.clock_hz())
        observed = health()
    return samples_s, replace(observed, clock_hz=median(clocks_hz)) if clocks_hz else observed, verdict


def _burst(bench: Bench, job: Job, effort: Effort) -> float:
    """Median seconds of the first launches after a rest."""
    bench.rest(effort.rest_s)
    return median(bench.time(job, _BURST_LAUNCHES)[1:])


def _on_zeros(bench: Bench, best: Candidate, effort: Effort) -> float:
    """Rate on operands that are all zero, when the clocks have settled."""
    job = bench.prepare(best.kernel, best.variant, 1.0, zeros=True)
    settle(bench, job, effort)
    samples_s = bench.time(job, _batch(bench.time(job, TRIAL_LAUNCHES)))
    return rate(BY_NAME[best.kernel.ceiling].unit, job.work, median(samples_s))


def _flags(
    value: float,
    bound: tuple[float, str] | None,
    health: Health,
    scaling: float | None,
    converged: bool,
    effort: Effort,
) -> tuple[str, ...]:
    unsteady = (
        ()
        if converged
        else (f"unsteady: interval wider than {effort.stopping.width:.1%} after {effort.stopping.budget_s:g} s",)
    )
    return (*limits.doubts(value, bound, health, scaling), *unsteady)


def _batch(samples_s: Sequence[float]) -> int:
    """Launches that fill one batch; six at least, so that the first batch can bound the median."""
    return max(6, min(1000, int(_BATCH_S / median(samples_s)))) if samples_s else 6


def _scaling(bench: Bench, best: Candidate) -> float:
    """Time per unit of work at half the work, relative to that at full work; in turns, so that both meet one clock.

    Not asked of a library's products: half of one is another product.
    """
    half = bench.prepare(best.kernel, best.variant, _SHARE)
    full_s: list[float] = []
    half_s: list[float] = []
    for _ in range(_TURNS):
        full_s += bench.time(best.job, TRIAL_LAUNCHES + 1)[1:]
        half_s += bench.time(half, 2 * TRIAL_LAUNCHES + 1)[1:]
    return (median(half_s) / half.work) / (median(full_s) / best.job.work)

"""Measures a ceiling as a function of something: bandwidth of the working set, rate of the arithmetic intensity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from roofline.errors import CheckFailed, RooflineError
from roofline.kernels.microkernel import Microkernel, Variant
from roofline.machine.ceilings import BY_NAME
from roofline.machine.record import Ceiling, Sweep, SweepPoint
from roofline.machine.sweeps import reason
from roofline.measure.bench import Bench
from roofline.measure.statistics import median

_KINDS = {"bytes": "working_set", "flops_per_byte": "intensity"}
_WARM_UP = 3
_FEWEST, _MOST = 5, 500


def sweep_name(kernel: Microkernel) -> str:
    """What its sweep is called: intensity_fp32, working_set_l2_read."""
    return f"{_KINDS[kernel.sweep or 'bytes']}_{kernel.ceiling}"


def measure_sweep(
    bench: Bench, kernel: Microkernel, seconds: float, ceilings: Sequence[Ceiling] = ()
) -> tuple[Sweep | None, dict[str, str]]:
    """The sweep, `seconds` per point, and what of it could not be measured: name (and point) → reason.

    Points that fall short of the roof made of `ceilings` say why. None if no point could be measured.
    """
    whole = sweep_name(kernel)
    why = bench.unusable(kernel)
    if why:
        return None, {whole: why}
    points: list[SweepPoint] = []
    failed: dict[str, str] = {}
    for variant in kernel.variants(bench.device):
        try:
            points.append(_point(bench, kernel, variant, seconds))
        except RooflineError as error:
            failed[f"{whole}: {variant.name}"] = str(error)
    if not points:
        return None, {whole: "; ".join(dict.fromkeys(failed.values())) or "no microkernel is written for this device"}
    sweep = Sweep(
        name=whole,
        ceiling=kernel.ceiling,
        bandwidth=kernel.bandwidth,
        x_unit=kernel.sweep or "bytes",
        unit=BY_NAME[kernel.ceiling].unit,
        points=tuple(points),
    )
    return explained(sweep, {c.name: c for c in ceilings}, bench.device.tdp_w), failed


def explained(sweep: Sweep, ceilings: Mapping[str, Ceiling], power_limit_w: float | None) -> Sweep:
    """The sweep of an intensity with a reason at every point below the roof; others, and without ceilings, as it is."""
    pipe, bandwidth = ceilings.get(sweep.ceiling), ceilings.get(sweep.bandwidth)
    if sweep.x_unit != "flops_per_byte" or pipe is None or bandwidth is None:
        return sweep
    points = tuple(replace(p, note=reason(p, pipe, bandwidth, power_limit_w)) for p in sweep.points)
    return replace(sweep, points=points)


def _point(bench: Bench, kernel: Microkernel, variant: Variant, seconds: float) -> SweepPoint:
    job = bench.prepare(kernel, variant, 1.0)
    error = job.check()
    if not error <= kernel.tolerance:
        raise CheckFailed(f"output differs from the reference by {error:.2g} (at most {kernel.tolerance:g})")
    launches = max(_FEWEST, min(_MOST, int(seconds / min(bench.time(job, _WARM_UP)))))
    with bench.watch() as health:
        samples_s = bench.time(job, launches)
        clock_hz = job.clock_hz() if job.clock_hz else None
        observed = health()
    return SweepPoint(
        x=variant.x,
        value=job.work / median(samples_s),
        clock_hz=clock_hz or observed.clock_hz,
        power_w=observed.power_w,
        throttle=observed.throttle,
    )

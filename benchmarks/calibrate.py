"""Fits the constants of the time model and writes roofline/analysis/constants.json: `make calibrate`.

Least squares on ln(seconds), robust (soft L1), with the published value of each constant as a prior: 44 published
throughputs, the H200's networks (each weighing a tenth), and its kernel classes. The interval comes from predictions of
GPUs that the fit did not see. About five minutes on two cores.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from points import ClassPoint, Point, class_points, h200_points, published, recording
from priors import PRIORS, Prior
from scipy.optimize import least_squares

from roofline.analysis.constants import PATH, Calibration, Constant, Constants, save
from roofline.analysis.equations import times

SIGMA, CLASS_SIGMA, H200_WEIGHT = 0.08, 0.08, 0.1
COVERAGE = 0.8
"""Share of points that the interval shall hold: unseen GPUs and other networks, both groups counting the same."""


@dataclasses.dataclass(frozen=True)
class Fit:
    """Fitted constants, their relative spreads and the optimiser's position (ln of the values)."""

    constants: Constants
    spread: dict[str, float]
    position: np.ndarray


def soft(residual: np.ndarray) -> np.ndarray:
    """Residuals whose squares grow linearly far out, so that one odd board does not move the constants."""
    return np.sign(residual) * np.sqrt(2 * (np.sqrt(1 + residual**2) - 1))


def class_seconds(point: ClassPoint, constants: Constants) -> np.ndarray:
    """Predicted seconds of one kernel class."""
    predicted = times(point.demand, point.machine, constants)
    if point.label[-1] == "layout":
        return predicted.layout.sum(axis=-1)
    return ((predicted.kernel - predicted.layout) * point.members).sum(axis=-1)


def seconds(point: Point, constants: Constants) -> float:
    """Predicted seconds of one point."""
    return float(np.squeeze(times(point.demand, point.machine, constants).seconds))


def log_errors(points: Sequence[Point], constants: Constants) -> np.ndarray:
    """ln(predicted / measured) of each point."""
    return np.array([np.log(seconds(point, constants) / point.seconds) for point in points])


def fit(
    points: Sequence[Point], classes: Sequence[ClassPoint] = (), priors: dict[str, Prior] | None = None,
    start: np.ndarray | None = None,
) -> Fit:  # fmt: skip
    """The constants that fit `points` and `classes` best, pulled towards `priors`."""
    priors = PRIORS if priors is None else priors
    free = [name for name, prior in priors.items() if prior.spread > 0]
    mean = np.log([priors[name].value for name in free])
    spread = np.array([priors[name].spread for name in free])
    measured = np.log([point.seconds for point in points])
    weights = np.array([point.weight for point in points]) / SIGMA

    def constants(positions: np.ndarray) -> Constants:
        fixed = {name: prior.value for name, prior in priors.items() if prior.spread == 0}
        return Constants(**fixed, **{name: np.exp(positions[:, i : i + 1]) for i, name in enumerate(free)})

    def residuals(positions: np.ndarray) -> np.ndarray:
        values, variants = constants(positions), len(positions)
        whole = [np.broadcast_to(times(p.demand, p.machine, values).seconds, (variants,)) for p in points]
        parts = [soft((np.log(np.stack(whole, axis=-1)) - measured) * weights)]
        if classes:
            predicted = np.stack([np.broadcast_to(class_seconds(c, values), (variants,)) for c in classes], axis=-1)
            parts.append(soft(np.log(predicted / [c.seconds for c in classes]) / CLASS_SIGMA))
        return np.concatenate([*parts, (positions - mean) / spread], axis=-1)

    def jacobian(position: np.ndarray) -> np.ndarray:
        step = 1e-4
        shifted = residuals(np.vstack([position, position + step * np.eye(len(position))]))
        return ((shifted[1:] - shifted[0]) / step).T

    start = mean if start is None else start
    found = least_squares(lambda x: residuals(x[None])[0], start, jac=jacobian, xtol=1e-4, ftol=1e-5, max_nfev=40)
    covariance = np.linalg.inv(found.jac.T @ found.jac)
    values = constants(found.x[None])
    plain = {f.name: float(np.squeeze(getattr(values, f.name))) for f in dataclasses.fields(values)}
    return Fit(Constants(**plain), dict(zip(free, np.sqrt(np.diag(covariance)), strict=True)), found.x)


def left_out(
    points: Sequence[Point], groups: Sequence[set[str]], others: Sequence[Point] = (),
    classes: Sequence[ClassPoint] = (), priors: dict[str, Prior] | None = None, start: np.ndarray | None = None,
) -> tuple[list[Point], np.ndarray]:  # fmt: skip
    """Every point predicted by constants fitted without its group: the points in order, and their ln errors."""
    tested: list[Point] = []
    errors: list[np.ndarray] = []
    for group in groups:
        test = [point for point in points if point.group in group]
        train = [point for point in points if point.group not in group]
        seen = [c for c in classes if c.label[0] not in group]
        constants = fit([*train, *others], seen, priors, start).constants
        tested += test
        errors.append(log_errors(test, constants))
    return tested, np.concatenate(errors)


def constant(name: str, found: Fit) -> Constant:
    """A constant with everything the data file says about it."""
    prior = PRIORS[name]
    return Constant(
        name=name, value=float(f"{getattr(found.constants, name):.4g}"),
        spread=float(f"{found.spread.get(name, 0.0):.2g}"), prior=prior.value, prior_spread=prior.spread,
        unit=prior.unit, meaning=prior.meaning, source=prior.source,
    )  # fmt: skip


def main() -> None:
    """Fit, cross-validate, write the data file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=PATH)
    options = parser.parse_args()
    public = published()
    timed = [row for row in recording()["rows"] if "seconds" in row]
    print(f"{len(public)} published points; tracing {len(timed)} runs of the H200", flush=True)
    own, traces = h200_points(timed, H200_WEIGHT)
    classes = class_points(traces)
    found = fit([*public, *own], classes)
    _, unseen = left_out(public, [{gpu} for gpu in gpus(public)], own, classes)  # from the priors: nothing seen
    errors = np.abs(log_errors(own, found.constants))
    plain = np.array([point.label[2] == "infer" and not host_bound(point, found.constants) for point in own])
    calibration = Calibration(
        constants=tuple(constant(name, found) for name in PRIORS),
        log_error=float(f"{half_width(np.abs(unseen), errors[plain]):.3g}"),
        host_log_error=float(f"{np.quantile(errors[~plain], COVERAGE):.3g}"), coverage=COVERAGE,
        fitted_on=f"{len(public)} published throughputs, {len(own)} runs and {len(classes)} kernel classes of an H200",
        created=time.strftime("%Y-%m-%d"),
    )  # fmt: skip
    save(calibration, options.out)
    print(f"interval ± {calibration.log_error:.3f} in ln(seconds); written: {options.out}")


def half_width(*groups: np.ndarray) -> float:
    """The smallest error that holds `COVERAGE` of the points, every group weighing the same."""
    errors = np.concatenate(groups)
    weights = np.concatenate([np.full(len(group), 1 / len(group) / len(groups)) for group in groups])
    order = np.argsort(errors)
    return float(errors[order][np.searchsorted(np.cumsum(weights[order]), COVERAGE)])


def host_bound(point: Point, constants: Constants) -> bool:
    """Whether the host takes longer to issue the program than the device to run it."""
    predicted = times(point.demand, point.machine, constants)
    return float(np.squeeze(predicted.host_s)) > float(predicted.kernel.sum())


def gpus(points: Sequence[Point]) -> list[str]:
    """The groups in order."""
    return list(dict.fromkeys(point.group for point in points))


if __name__ == "__main__":
    main()

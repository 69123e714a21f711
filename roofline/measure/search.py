"""Guided search for the fastest point of a lattice: pure arithmetic, fed by a function that gives a point's rate.

The rate is modelled as a product of one factor per axis and value: log rate = mean + sum of effects, fitted by ridge
regression to what was tried, the best points weighing most. The next point is the untried one that the model promises
most of. So each measurement teaches something about every point that shares a value with it; a walk from neighbour to
neighbour would be lost in the jagged rates of matrix products, whose tiles fill the last wave or do not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

Point = tuple[int, ...]

_RIDGE = 0.5
_FOCUS = 20.0
"""Weight of a point a share d below the best: exp(-20 d), so that the model is right where it matters."""


class Model:
    """Log rate as a sum of effects of the values on each axis."""

    def __init__(self, axes: Sequence[Sequence[int]]) -> None:
        self.points: list[Point] = list(product(*axes))
        keys = [(axis, value) for axis, values in enumerate(axes) for value in values]
        self._columns = {key: column for column, key in enumerate(keys)}
        self._rows = np.array([self._row(point) for point in self.points]).reshape(len(self.points), -1)

    def _row(self, point: Point) -> np.ndarray:
        row = np.zeros(len(self._columns))
        row[[self._columns[axis, value] for axis, value in enumerate(point)]] = 1
        return row

    def promise(self, tried: dict[Point, float]) -> np.ndarray:
        """What the model expects of each of `points`, up to a constant; `tried`: point → rate, all above zero."""
        x = np.array([self._row(point) for point in tried])
        y = np.log(list(tried.values()))
        weight = np.exp(_FOCUS * (y - y.max()))
        y = y - np.average(y, weights=weight)
        normal = x.T @ (x * weight[:, None]) + _RIDGE * np.eye(x.shape[1])
        return self._rows @ np.linalg.solve(normal, x.T @ (weight * y))


def search(
    rate: Callable[[Point], float | None], axes: Sequence[Sequence[int]], starts: Sequence[Point], budget: int
) -> dict[Point, float]:
    """Points tried → their rates, in the order tried; at most `budget` of them, `starts` (any points) first.

    `rate` gives None for a point that cannot be measured: it is passed over and does not count.
    """
    tried: dict[Point, float] = {}
    refused: set[Point] = set()

    def attempt(point: Point) -> None:
        value = rate(point)
        if value is None:
            refused.add(point)
        else:
            tried[point] = value

    for point in dict.fromkeys(starts):
        if len(tried) < budget:
            attempt(point)
    model = Model([sorted({*axis, *(start[i] for start in starts)}) for i, axis in enumerate(axes)])
    while tried and len(tried) < budget:
        promise = model.promise(tried)
        order = np.argsort(-promise, kind="stable")
        following = next((p for p in (model.points[i] for i in order) if p not in tried and p not in refused), None)
        if following is None:
            break
        attempt(following)
    return tried

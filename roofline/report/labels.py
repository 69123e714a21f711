"""Where labels go so that none covers another: pure geometry, in pixels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Box(NamedTuple):
    """An upright rectangle."""

    left: float
    bottom: float
    right: float
    top: float

    def overlaps(self, other: Box) -> bool:
        """Whether the two share any area."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.bottom < other.top
            and other.bottom < self.top
        )

    def inside(self, other: Box) -> bool:
        """Whether this lies wholly within `other`."""
        return (
            self.left >= other.left
            and self.right <= other.right
            and self.bottom >= other.bottom
            and self.top <= other.top
        )


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Positions at least `gap` apart, in the order of `wanted` and near it, within `low`…`high` if they fit.

    Least squares under the gap: less i x gap, it is isotonic regression (pool adjacent violators).
    """
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    blocks: list[tuple[float, int]] = []
    for rank, index in enumerate(order):
        total, count = wanted[index] - rank * gap, 1
        while blocks and blocks[-1][0] / blocks[-1][1] >= total / count:
            before = blocks.pop()
            total, count = total + before[0], count + before[1]
        blocks.append((total, count))
    flat = [total / count for total, count in blocks for _ in range(count)]
    top = max(low, high - gap * (len(wanted) - 1))
    positions = [0.0] * len(wanted)
    for rank, index in enumerate(order):
        positions[index] = min(max(flat[rank], low), top) + rank * gap
    return positions


def clusters(values: Sequence[float], ratio: float) -> list[list[int]]:
    """Indices of positive `values`, rising, grouped while each is within `ratio` of its group's first."""
    groups: list[list[int]] = []
    for index in sorted(range(len(values)), key=lambda i: values[i]):
        if groups and values[index] <= values[groups[-1][0]] * ratio:
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups


def _candidates(x: float, y: float, width: float, height: float, reach: float) -> Iterator[Box]:
    """Boxes around a point, nearest first; below and to the right first, where a roof leaves room."""
    for radius in range(12, int(reach), 14):
        for degrees in (-30, -60, 0, -90, 30, -120, 60, 180, 150, 90, 120):
            cx = x + radius * math.cos(math.radians(degrees))
            cy = y + radius * math.sin(math.radians(degrees))
            left = cx if abs(degrees) < 90 else cx - width / 2 if abs(degrees) == 90 else cx - width
            yield Box(left, cy - height / 2, left + width, cy + height / 2)


def arrange(
    points: Sequence[tuple[float, float]],
    sizes: Sequence[tuple[float, float]],
    taken: Sequence[Box],
    frame: Box,
    reach: float = 400,
) -> list[Box | None]:
    """A free box of each size near its point, inside `frame`, first points first; None where none is left."""
    occupied = list(taken)
    boxes: list[Box | None] = []
    for (x, y), (width, height) in zip(points, sizes, strict=True):
        free = (
            box
            for box in _candidates(x, y, width, height, reach)
            if box.inside(frame) and not any(box.overlaps(other) for other in occupied)
        )
        box = next(free, None)
        boxes.append(box)
        if box is not None:
            occupied.append(box)
    return boxes

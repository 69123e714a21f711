"""Where labels go so that none covers another: pure geometry, in pixels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

Point = tuple[float, float]


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

    def holds(self, point: Point) -> bool:
        """Whether the point lies within."""
        return self.left <= point[0] <= self.right and self.bottom <= point[1] <= self.top

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


def _turn(a: Point, b: Point, c: Point) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def cross(a: Point, b: Point, c: Point, d: Point) -> bool:
    """Whether the segments a–b and c–d cross."""
    return _turn(a, b, c) * _turn(a, b, d) < 0 and _turn(c, d, a) * _turn(c, d, b) < 0


def _through(a: Point, b: Point, box: Box) -> bool:
    """Whether the segment a–b passes through the box, by its diagonals."""
    low, high = (box.left, box.bottom), (box.right, box.top)
    return cross(a, b, low, high) or cross(a, b, (box.left, box.top), (box.right, box.bottom))


def anchor(point: Point, box: Box) -> Point:
    """Where the line from a point meets its label: the middle of the label's nearer end."""
    return (box.left if box.left + box.right > 2 * point[0] else box.right, (box.bottom + box.top) / 2)


def _wide(width: float, height: float) -> bool:
    """Whether a label is a name rather than a number."""
    return width > 4 * height


def _candidates(x: float, y: float, width: float, height: float, reach: float) -> Iterator[Box]:
    """Boxes around a point, nearest first: names below, where a roof leaves room, numbers above."""
    below, above = (-92, -75, -110, -50, -30, 0), (100, 120, 80, 60, 150, 180)
    turns = (*below, *above) if _wide(width, height) else (*above, *below)
    for radius in range(12, int(reach), 12):
        for degrees in turns:
            cx = x + radius * math.cos(math.radians(degrees))
            cy = y + radius * math.sin(math.radians(degrees))
            left = cx if abs(degrees) < 90 else cx - width
            yield Box(left, cy - height / 2, left + width, cy + height / 2)


def arrange(
    points: Sequence[Point],
    sizes: Sequence[tuple[float, float]],
    taken: Sequence[Box],
    lines: Sequence[tuple[Point, Point]],
    frame: Box,
) -> list[Box | None]:
    """A free box of each size near its point and inside `frame`, numbers first; None where none is left.

    Boxes cover neither each other nor `taken` nor `lines`; the leaders from points to boxes cross neither
    boxes nor leaders, unless there is no other way.
    """
    placed: list[tuple[Point, Point, Box]] = []
    boxes: list[Box | None] = [None] * len(points)

    def covers(box: Box) -> bool:
        solid = any(box.overlaps(other) for other in (*taken, *(b for _, _, b in placed)))
        return solid or any(_through(*line, box) for line in lines)

    def tangles(point: Point, box: Box) -> bool:
        end = anchor(point, box)
        own = [other for other in taken if other.holds(point)]
        foreign = (other for other in taken if not any(other.overlaps(mark) for mark in own))
        over = any(_through(point, end, other) for other in foreign)
        return over or any(
            cross(point, end, a, b) or _through(a, b, box) or _through(point, end, other)
            for a, b, other in placed
        )

    for index in sorted(range(len(points)), key=lambda i: (_wide(*sizes[i]), points[i])):
        point = points[index]
        reach = 0.6 * (frame.top - frame.bottom)
        free = [b for b in _candidates(*point, *sizes[index], reach) if b.inside(frame) and not covers(b)]
        boxes[index] = next((b for b in free if not tangles(point, b)), free[0] if free else None)
        if (box := boxes[index]) is not None:
            placed.append((point, anchor(point, box), box))
    return boxes

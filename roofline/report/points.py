"""The points of a placement figure: layers as marks on the roof, coincident ones together, all named."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from roofline.analysis.place import PlacedSum

_STEP = 0.04
"""Layers whose intensity and rate agree within about this share are drawn as one mark."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """One mark: layers of one kind at one place."""

    names: tuple[str, ...]
    kind: str
    intensity: float | None
    """None: nothing is computed, only moved; drawn at the left edge."""
    rate: float | None
    floor_s: float
    counted_apart: bool
    """Intensity and rate are of element-wise work, as there is no matrix work."""


def _place(row: PlacedSum) -> tuple[float | None, float | None, bool]:
    """Intensity, rate, and whether they are of element-wise work."""
    flops = row.flops or row.elementwise_flops
    moved = row.bytes_read + row.bytes_written
    if not flops or not moved:
        return None, None, not row.flops
    return flops / moved, flops / row.floor_s, not row.flops


def points(rows: Iterable[PlacedSum]) -> list[Point]:
    """Marks for the rows that take time, slowest first; empty ones have no place on logarithmic axes."""
    groups: dict[object, list[PlacedSum]] = {}
    for row in rows:
        if row.floor_s > 0:
            x, y, apart = _place(row)
            where = (round(math.log(x) / _STEP), round(math.log(y) / _STEP)) if x and y else None
            groups.setdefault((row.kind, apart, where), []).append(row)
    return sorted(map(_point, groups.values()), key=lambda point: -point.floor_s)


def _point(rows: Sequence[PlacedSum]) -> Point:
    slowest = max(rows, key=lambda row: row.floor_s)
    x, y, apart = _place(slowest)
    return Point(
        names=tuple(row.name or "(root)" for row in rows),
        kind=slowest.kind,
        intensity=x,
        rate=y,
        floor_s=sum(row.floor_s for row in rows),
        counted_apart=apart,
    )


def fold(names: Sequence[str], longest: int) -> str:
    """Many dotted names as one: `layer1.0.conv1`, `layer1.1.conv1` → `layer1.{0,1}.conv1`; cut short."""
    if len(names) == 1:
        return _shorten(names[0], longest)
    groups: dict[str, list[str]] = {}
    for name in names:
        digits = "".join("#" if c.isdigit() else c for c in name)
        groups.setdefault(_collapse(digits), []).append(name)
    texts = [_shorten(text, longest) for text in _siblings(map(_braces, groups.values()))]
    kept = texts[:1]
    for text in texts[1:]:
        if len(", ".join([*kept, text])) > longest:
            break
        kept.append(text)
    return ", ".join(kept) + (" …" if len(kept) < len(texts) else "") + f" (×{len(names)})"


def _siblings(texts: Iterable[str]) -> list[str]:
    """`mlp.up`, `mlp.down`, `norm` → `mlp.{up,down}`, `norm`."""
    families: dict[tuple[str, str], list[str]] = {}
    for text in texts:
        parent, _, leaf = text.rpartition(".")
        families.setdefault((parent, "" if parent else leaf), []).append(leaf)
    joined = [
        (parent, leaves[0] if len(leaves) == 1 else f"{{{','.join(leaves)}}}")
        for (parent, _), leaves in families.items()
    ]
    return [".".join(filter(None, pair)) for pair in joined]


def _collapse(pattern: str) -> str:
    """`layer#.##.conv#` → `layer#.#.conv#`."""
    while "##" in pattern:
        pattern = pattern.replace("##", "#")
    return pattern


def _braces(names: Sequence[str]) -> str:
    """Names that differ only in numbers, with each number that varies as a set: `layer{1,2}.{0–5}.conv1`."""
    pieces = [_split(name) for name in names]
    columns = [list(dict.fromkeys(column)) for column in zip(*pieces, strict=True)]
    return "".join(column[0] if len(column) == 1 else f"{{{_ranges(column)}}}" for column in columns)


def _split(name: str) -> list[str]:
    """`layer12.0` → `layer`, `12`, `.`, `0`, ``."""
    parts, current = [""], False
    for character in name:
        if character.isdigit() != current:
            current = not current
            parts.append("")
        parts[-1] += character
    return parts


def _ranges(numbers: Sequence[str]) -> str:
    """`0 1 2 3 7` → `0–3,7`."""
    runs: list[list[int]] = []
    for number in sorted(map(int, numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(
        "–".join(map(str, (run[0], run[-1]))) if len(run) > 2 else ",".join(map(str, run)) for run in runs
    )


def _shorten(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"…{text[1 - longest :]}"

"""Placements as JSON and CSV: plain rows in base units, checked when they are read back."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, fields
from io import StringIO
from pathlib import Path

import msgspec

from roofline.analysis.place import PlacedSum, Placement, View
from roofline.errors import FileError
from roofline.machine.file import write_atomically
from roofline.machine.record import Machine

SCHEMA_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Row:
    """One layer, module, operator, pipe or call. None: undefined, as nothing is moved or computed."""

    name: str
    kind: str
    calls: int
    flops: int
    elementwise_flops: int
    bytes_read: int
    bytes_written: int
    intensity: dict[str, float | None]
    """Memory level → matrix flops per byte."""
    attainable_flops_per_s: float | None
    floor_s: float
    binding: str
    seconds_by_ceiling: dict[str, float]
    uncounted: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class Substitute:
    """A pipe that the machine lacks, and what stands for it."""

    asked: str
    used: str | None
    reason: str
    calls: int


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """One placement in one view."""

    program: str
    machine: str
    measured: bool
    view: View
    ceilings: dict[str, float]
    """Ceilings the placement used, in flop/s and bytes/s."""
    ridge_points: dict[str, float]
    total: Row
    rows: list[Row]
    fallbacks: list[Substitute]


@dataclass(frozen=True, kw_only=True)
class Sheets:
    """The content of a placement file."""

    placements: list[Sheet]
    schema_version: int = SCHEMA_VERSION


def _row(total: PlacedSum) -> Row:
    return Row(
        name=total.name,
        kind=total.kind,
        calls=total.calls,
        flops=total.flops,
        elementwise_flops=total.elementwise_flops,
        bytes_read=total.bytes_read,
        bytes_written=total.bytes_written,
        intensity={level: total.intensity(level) for level in total.level_bytes},
        attainable_flops_per_s=total.attainable_flops_per_s,
        floor_s=total.floor_s,
        binding=total.binding,
        seconds_by_ceiling=dict(total.seconds_by_ceiling),
        uncounted=dict(total.uncounted),
    )


def sheet(placement: Placement, view: View = "layer") -> Sheet:
    """The placement's rows in one view, with the ceilings and rules that made them."""
    pipes = {placed.pipe for placed in placement.calls} - {None}
    levels = {level for placed in placement.calls for level in placed.level_bytes}
    used = [c for c in placement.machine.ceilings if c.name in pipes or c.name.partition("_")[0] in levels]
    return Sheet(
        program=placement.name,
        machine=placement.machine.name,
        measured=placement.machine.measured,
        view=view,
        ceilings={c.name: c.value for c in used},
        ridge_points={name: ridge for name, ridge in placement.ridge_points.items() if name in pipes},
        total=_row(placement.total),
        rows=[_row(row) for row in placement.by(view)],
        fallbacks=[
            Substitute(asked=f.asked, used=f.used, reason=f.reason, calls=f.calls)
            for f in placement.fallbacks
        ],
    )


def save_json(placements: Sequence[Placement], path: str | Path, view: View = "layer") -> Path:
    """Write the placements as JSON; `FileError` if that fails."""
    content = Sheets(placements=[sheet(placement, view) for placement in placements])
    return write_atomically(path, msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n")


def load_json(path: str | Path) -> Sheets:
    """Read what `save_json` wrote; `FileError` if it is missing, damaged or newer."""
    try:
        content = msgspec.json.decode(Path(path).read_bytes(), type=Sheets)
    except (OSError, ValueError) as error:
        raise FileError(f"{path}: not a placement file, or a damaged one: {error}") from error
    if content.schema_version > SCHEMA_VERSION:
        raise FileError(
            f"{path}: written with schema {content.schema_version}; this version reads up to {SCHEMA_VERSION}"
        )
    return content


def save_csv(placements: Sequence[Placement], path: str | Path, view: View = "layer") -> Path:
    """Write a line per machine and row, dictionaries spelled as `key=value;…`; `FileError` if that fails."""
    names = [field.name for field in fields(Row)]
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["program", "machine", *names])
    for placement in placements:
        for row in sheet(placement, view).rows:
            writer.writerow(
                [placement.name, placement.machine.name, *(_cell(getattr(row, n)) for n in names)]
            )
    return write_atomically(path, text.getvalue().encode())


def _cell(value: object) -> object:
    return ";".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else value


def save_ceilings_csv(machines: Sequence[Machine], path: str | Path) -> Path:
    """Write one line per machine and ceiling, in base units; `FileError` if that fails."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["machine", "ceiling", "value", "unit", "source", "published"])
    for machine in machines:
        for c in machine.ceilings:
            writer.writerow([machine.name, c.name, c.value, c.unit, c.source, c.published])
    return write_atomically(path, text.getvalue().encode())

"""Tables for a terminal: rich renderables made from records. The only rounding happens here."""

from __future__ import annotations

from collections.abc import Iterable

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from roofline.machine.ceilings import BY_NAME
from roofline.machine.record import Ceiling, Machine, Measurement
from roofline.units import si


def label(name: str) -> str:
    """What a ceiling is called in print; names outside the vocabulary stand for themselves."""
    return BY_NAME[name].label if name in BY_NAME else name


def percent(part: float | None, whole: float | None, digits: int = 1) -> str:
    """`part` as a percentage of `whole`, or nothing where either is unknown."""
    return f"{100 * part / whole:.{digits}f} %" if part is not None and whole else ""


def new_table(title: str, left: Iterable[str], right: Iterable[str] = ()) -> Table:
    """An empty table with columns of text (`left`) followed by columns of numbers (`right`)."""
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for name in left:
        table.add_column(name, overflow="fold")
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def notes(lines: Iterable[str], style: str = "yellow") -> list[Text]:
    """One text per line, to stand below a table."""
    return [Text(line, style=style) for line in lines]


def drop_empty(table: Table) -> Table:
    """The table without the columns in which no row has anything."""
    table.columns = [column for column in table.columns if any(column._cells)]
    return table


def _spread(value: float, measurement: Measurement | None) -> str:
    if measurement is None:
        return ""
    half = (measurement.high - measurement.low) / 2
    return f"±{100 * half / value:.2f} %" + ("" if measurement.converged else " !")


def _shares(ceiling: Ceiling) -> tuple[str, str]:
    """Share of the data sheet and of the physical limit; seconds have no such share."""
    if ceiling.unit == "s":
        return "", ""
    limit = ceiling.measurement.limit if ceiling.measurement else None
    published = ceiling.published if ceiling.measured else None
    return percent(ceiling.value, published), percent(ceiling.value, limit)


def _row(ceiling: Ceiling, mark: str) -> list[str]:
    measurement = ceiling.measurement
    health = measurement.health if measurement else None
    return [
        label(ceiling.name),
        escape(f"{measurement.backend} {measurement.variant}") if measurement else "",
        si(ceiling.value, ceiling.unit, 4),
        _spread(ceiling.value, measurement),
        *_shares(ceiling),
        si(health.clock_hz, "hz", 4) if health and health.clock_hz else "",
        f"{health.power_w:.0f} W" if health and health.power_w else "",
        mark,
    ]


def _doubts(ceiling: Ceiling) -> tuple[str, ...]:
    measurement = ceiling.measurement
    if measurement is None:
        return ()
    wide = (
        () if measurement.converged else ("not converged: the time budget ended before the spread was small",)
    )
    throttle = measurement.health.throttle
    held = (f"clock held back by: {', '.join(throttle)}",) if throttle else ()
    return (*measurement.flags, *wide, *held)


def _sources(machine: Machine) -> list[str]:
    sources = dict.fromkeys(c.source for c in machine.ceilings if not c.measured)
    return [f"Source: {source}" for source in sources]


def machine_table(machine: Machine) -> RenderableType:
    """Every ceiling with spread, shares of data sheet and limit, winner, clock and watts; doubts below."""
    table = new_table(
        f"{machine.name} — {'measured' if machine.measured else 'from the data sheet, not measured'}",
        ("ceiling", "winner"),
        ("value", "spread", "of data sheet", "of limit", "clock", "power", "flags"),
    )
    remarks: list[str] = []
    for ceiling in machine.ceilings:
        doubts = _doubts(ceiling)
        first = len(remarks) + 1
        remarks += [f"{first + i}) {label(ceiling.name)}: {doubt}" for i, doubt in enumerate(doubts)]
        table.add_row(*_row(ceiling, ",".join(str(first + i) for i in range(len(doubts)))))
    missing = [f"Not measured: {label(name)}: {reason}" for name, reason in machine.not_measured.items()]
    return Group(
        drop_empty(table),
        *notes(remarks),
        *notes(missing),
        *notes(machine.warnings),
        *notes(_sources(machine), "dim"),
    )

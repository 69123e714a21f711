"""Tables for a terminal: rich renderables made from records. The only rounding happens here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from roofline.analysis.machines import MachineComparison, Pair
from roofline.analysis.place import PlacedSum, Placement, View
from roofline.machine.ceilings import BY_NAME
from roofline.machine.record import Ceiling, Machine, Measurement, Unit
from roofline.units import si


def label(name: str) -> str:
    """What a ceiling is called in print; names outside the vocabulary stand for themselves."""
    return BY_NAME[name].label if name in BY_NAME else name


def show(renderable: RenderableType) -> None:
    """Print to standard output, as wide as it needs: a column cut short would hide a number."""
    console = Console()
    console.width = max(console.width, console.measure(renderable, options=console.options.update(width=400)).maximum)
    console.print(renderable)


def plain(value: float) -> str:
    """Three digits, never in exponent form."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


def percent(part: float | None, whole: float | None, digits: int = 1) -> str:
    """`part` as a percentage of `whole`, or nothing where either is unknown."""
    return f"{100 * part / whole:.{digits}f} %" if part is not None and whole else ""


def make_table(title: str, left: Sequence[str], right: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> Table:
    """A table with columns of text (`left`), then columns of numbers (`right`); columns with no entry are left out."""
    rows = list(rows)
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    kept = [index for index in range(len(left) + len(right)) if any(row[index] for row in rows)]
    for index in kept:
        name = (*left, *right)[index]
        table.add_column(name, justify="left" if index < len(left) else "right", overflow="fold")
    for row in rows:
        table.add_row(*(row[index] for index in kept))
    return table


def notes(lines: Iterable[str], style: str = "yellow") -> list[Text]:
    """One text per line, to stand below a table."""
    return [Text(line, style=style) for line in lines]


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
        si(measurement.burst, ceiling.unit, 4) if measurement and measurement.burst else "",
        si(measurement.zeros, ceiling.unit, 4) if measurement and measurement.zeros else "",
        *_shares(ceiling),
        si(health.clock_hz, "hz", 4) if health and health.clock_hz else "",
        f"{health.power_w:.0f} W" if health and health.power_w else "",
        mark,
    ]


def _flags(ceiling: Ceiling) -> tuple[str, ...]:
    return ceiling.measurement.flags if ceiling.measurement else ()


def _sources(machine: Machine) -> list[str]:
    sources = dict.fromkeys(c.source for c in machine.ceilings if not c.measured)
    return [f"Source: {source}" for source in sources]


def machine_table(machine: Machine) -> RenderableType:
    """Every ceiling with spread, shares of data sheet and limit, winner, clock and watts; doubts below."""
    texts = list(dict.fromkeys(flag for ceiling in machine.ceilings for flag in _flags(ceiling)))
    rows = [_row(c, ",".join(str(texts.index(flag) + 1) for flag in _flags(c))) for c in machine.ceilings]
    remarks = [f"{number}) {text}" for number, text in enumerate(texts, 1)]
    table = make_table(
        f"{machine.name} — {'measured' if machine.measured else 'from the data sheet, not measured'}",
        ("ceiling", "winner"),
        ("value", "spread", "burst", "on zeros", "of data sheet", "of limit", "clock", "power", "flags"),
        rows,
    )
    missing = [f"Not measured: {label(name)}: {reason}" for name, reason in machine.not_measured.items()]
    return Group(table, *notes(remarks), *notes(missing), *notes(machine.warnings), *notes(_sources(machine), "dim"))


def _placed_row(total: PlacedSum, whole_s: float) -> list[str]:
    intensity, rate = total.intensity(), total.attainable_flops_per_s
    return [
        escape(total.name) or "(root)",
        total.kind,
        ceiling_name(total.binding),
        f"{total.calls:,}",
        si(total.flops, "flops"),
        si(total.bytes_read, "bytes"),
        si(total.bytes_written, "bytes"),
        "n/a" if intensity is None else plain(intensity),
        "n/a" if rate is None else si(rate, "flops_per_s"),
        si(total.floor_s, "s"),
        percent(total.floor_s, whole_s),
        str(sum(total.uncounted.values()) or ""),
    ]


def ceiling_name(binding: str) -> str:
    """A binding ceiling in print: a pipe's label, or the memory level."""
    return {"dram": "DRAM", "l2": "L2", "none": "nothing to do"}.get(binding) or label(binding)


def placement_remarks(placement: Placement) -> list[str]:
    """What a reader of any table or figure of this placement must know: uncounted ops and fallbacks."""
    ops = ", ".join(f"{name} ({calls})" for name, calls in placement.uncounted.items())
    counted = [f"Not counted, no formula (calls); their FLOPs are missing: {ops}"] if ops else []
    return [*counted, *(f"{f.reason} (calls: {f.calls})" for f in placement.fallbacks)]


def _summary(placement: Placement) -> str:
    total = placement.total
    shares = ", ".join(
        f"{percent(s, total.floor_s)} {ceiling_name(name)}" for name, s in total.seconds_by_ceiling.items()
    )
    moved = total.bytes_read + total.bytes_written
    return f"Sum: {si(total.flops, 'flops', 4)}, {si(moved, 'bytes', 4)}, floor {si(total.floor_s, 's', 4)}" + (
        f", bound by: {shares}" if shares else ""
    )


def placement_table(placement: Placement, view: View = "layer", top: int = 0) -> RenderableType:
    """Rows of one view in order of execution, or only the `top` slowest of them; sums and remarks below."""
    machine = placement.machine
    origin = "measured" if machine.measured else "data sheet"
    rows = placement.by(view)
    slowest_first = sorted(rows, key=lambda row: -row.floor_s)
    hidden = slowest_first[top:] if top else []
    skipped = set(map(id, hidden))
    table = make_table(
        f"{placement.name} on {machine.name} ({origin}), by {view}",
        (view, "kind", "bound by"),
        ("calls", "matrix work", "read", "written", "FLOP/B", "attainable", "floor", "share", "uncounted"),
        (_placed_row(row, placement.floor_s) for row in rows if id(row) not in skipped),
    )
    rest = percent(sum(row.floor_s for row in hidden), placement.floor_s)
    more = [f"… and {len(hidden)} faster ones, {rest} of the floor"] if hidden else []
    return Group(table, *notes(more, "dim"), Text(_summary(placement)), *notes(placement_remarks(placement)))


def _pair(pair: Pair, unit: Unit) -> list[str]:
    values = ["" if value is None else si(value, unit) for value in (pair.a, pair.b)]
    return [*values, "" if pair.ratio is None else f"{pair.ratio:.3g}"]


def comparison_table(comparison: MachineComparison) -> RenderableType:
    """Ceilings of two machines with their ratios; measured and data sheet apart."""
    a, b = comparison.a, comparison.b
    columns = [f"{text}\n{kind}" for kind in ("measured", "data sheet") for text in (a, b, "ratio")]
    rows = [
        (label(row.name), *_pair(row.measured, row.unit), *_pair(row.datasheet, row.unit))
        for row in comparison.ceilings
    ]
    table = make_table(f"{a} against {b}", ("ceiling",), columns, rows)
    note = f"ratio = {a} / {b}: of a rate, above 1 is better; of a time, below 1"
    return Group(table, *notes([note], "dim"))

"""Roofline figures: of machines, and of a program placed under them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline.analysis.place import Placement, View
from roofline.machine.record import Machine
from roofline.report.canvas import check_path, new_figure, save
from roofline.report.placed import draw_key, draw_kinds, draw_points, draw_regions
from roofline.report.points import Point, points
from roofline.report.roof import (
    KEY,
    Roof,
    draw,
    limits,
    name_levels,
    name_pipes,
    roofs,
    select,
    set_axes,
    set_intensity_axis,
)
from roofline.report.sweeps import (
    draw_clock_and_power,
    draw_measured_roof,
    draw_working_sets,
    of_intensity,
    of_working_set,
    shortfalls,
)
from roofline.report.text import placement_remarks
from roofline.units import si

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def _as_list(machines: Machine | Sequence[Machine]) -> list[Machine]:
    return [machines] if isinstance(machines, Machine) else list(machines)


def draw_machines(ax: Axes, machines: Sequence[Machine], only: Sequence[str] = ()) -> None:
    """Every level and pipe of the machines on prepared axes, all of them named."""
    shown = roofs(machines, only)
    left, right, bottom, top = limits(shown)
    swept = [point.x for machine in machines[:1] for sweep in of_intensity(machine) for point in sweep.points]
    set_axes(ax, (left, max([right, *swept]), bottom, top))
    for roof in shown:
        draw(ax, roof)
    name_levels(ax, shown)
    name_pipes(ax, shown)


def _title(machines: Sequence[Machine]) -> str:
    if len(machines) > 1:
        return "Rooflines: " + ", ".join(machine.name for machine in machines)
    return f"Roofline of {machines[0].name}"


def _origin(machine: Machine) -> str:
    """Where the machine's numbers come from, in a few words."""
    if machine.provenance is None:
        return f"{machine.name}: data sheet, not measured"
    return f"{machine.name}: measured {machine.provenance.created[:10]}, effort {machine.provenance.effort}"


def save_machine_figure(
    machines: Machine | Sequence[Machine], path: str | Path, only: Sequence[str] = ()
) -> Path:
    """The rooflines of one machine or several, as svg, png or pdf by suffix; `FileError` if unwritable."""
    shown = _as_list(machines)
    check_path(path)
    figure = new_figure(12.5, 7)
    ax = figure.add_axes((0.075, 0.1, 0.6, 0.8))
    draw_machines(ax, shown, only)
    figure.text(0.075, 0.955, _title(shown), fontsize=13, weight="bold", va="center")
    figure.text(0.075, 0.92, "; ".join(map(_origin, shown)), fontsize=8, color="#555555", va="center")
    figure.text(0.075, 0.02, KEY, fontsize=8, color="#555555")
    if len(shown) == 1:
        _add_sweeps(ax, shown[0])
    return save(figure, path)


def _add_sweeps(ax: Axes, machine: Machine) -> None:
    """The machine's sweeps, if it has any: measured roof on the axes, panels and remarks below the figure."""
    figure = ax.figure
    if of_intensity(machine):
        draw_measured_roof(ax, machine)
        below = figure.add_axes((0.075, -0.24, 0.6, 0.2))
        draw_clock_and_power(below, machine)
        set_intensity_axis(below, *ax.get_xlim())
    if of_working_set(machine):
        draw_working_sets(figure.add_axes((0.78, -0.24, 0.3, 0.2)), machine)
    remarks = "\n".join(shortfalls(machine))
    figure.text(0.075, -0.3, remarks, fontsize=8, color="#a04000", va="top")


def _roof_of(placement: Placement) -> Roof:
    """The ceilings that the placement used: its memory levels and pipes, or all if it used no pipe."""
    pipes = {placed.pipe for placed in placement.calls if placed.pipe}
    levels = {level for placed in placement.calls for level in placed.level_bytes}
    return select(placement.machine, (*pipes, *levels) if pipes else ())


def _bounds(roof: Roof, marks: Sequence[Point]) -> tuple[float, float, float, float]:
    """Limits that hold the roof and every mark."""
    left, right, _, top = limits([roof])
    xs = [point.intensity for point in marks if point.intensity]
    ys = [point.rate for point in marks if point.rate]
    left, right = min(xs + [2 * left]) / 2, max([x * 2 for x in xs] + [right])
    return left, right, min([y / 3 for y in ys] + [0.8 * left * roof.levels[0].value]), 1.6 * top


def _gap(left: float, marks: Sequence[Point], roof: Roof) -> float:
    """Where on the memory diagonal the widest stretch without a mark begins."""
    ridge = roof.top / roof.dram
    xs = sorted(
        [left, *(point.intensity for point in marks if point.intensity and point.intensity < ridge), ridge]
    )
    widest = max(range(len(xs) - 1), key=lambda i: xs[i + 1] / xs[i])
    return 1.6 * xs[widest]


def draw_placement(ax: Axes, placement: Placement, view: View = "layer") -> list[Point]:
    """The roof, the bound regions and every layer; returns the marks in the order of their numbers."""
    marks = points(placement.by(view))
    roof = _roof_of(placement)
    set_axes(ax, _bounds(roof, marks))
    draw_regions(ax, placement)
    draw(ax, roof)
    name_levels(ax, [roof], _gap(ax.get_xlim()[0], marks, roof))
    name_pipes(ax, [roof], narrow=True)
    draw_kinds(ax, marks)
    draw_points(ax, placement, roof, marks)
    ax.annotate(
        "\n".join(placement_remarks(placement)), (0, -0.1), xycoords="axes fraction", va="top", fontsize=8,
        color="#a04000", annotation_clip=False,
    )  # fmt: skip
    return marks


def save_placement_figure(placement: Placement, path: str | Path, view: View = "layer") -> Path:
    """A placement with its key: each layer named, shape by kind, area by floor time; format by suffix."""
    check_path(path)
    figure = new_figure(15, 8.5)
    ax = figure.add_axes((0.06, 0.1, 0.55, 0.79))
    marks = draw_placement(ax, placement, view)
    draw_key(figure.add_axes((0.72, 0.06, 0.28, 0.86)), placement, marks, view)
    total = placement.total
    figure.text(
        0.06, 0.955, f"{placement.name} on {placement.machine.name}", fontsize=13, weight="bold", va="center"
    )
    figure.text(
        0.06, 0.922,
        f"{si(total.flops, 'flops', 4)} matrix work, "
        f"{si(total.bytes_read + total.bytes_written, 'bytes', 4)} compulsory traffic, "
        f"floor {si(total.floor_s, 's', 4)}; {_origin(placement.machine)}",
        fontsize=8.5, color="#555555", va="center",
    )  # fmt: skip
    return save(figure, path)


def plot(
    machines: Machine | Sequence[Machine],
    placement_or_profile: Any = None,
    ax: Axes | None = None,
    *,
    only: Sequence[str] = (),
) -> Axes:
    """The rooflines of machines, with a placement (or a profile's) on them if given, on `ax` or new axes.

    `only` holds names or groups of ceilings to draw. Save new axes with `ax.figure.savefig(path)`.
    """
    axes: Axes = ax if ax is not None else new_figure(12.5, 7).add_axes((0.08, 0.1, 0.6, 0.8))
    placement = getattr(placement_or_profile, "placement", placement_or_profile)
    if placement is None:
        draw_machines(axes, _as_list(machines), only)
    else:
        draw_placement(axes, placement)
    return axes

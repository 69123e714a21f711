"""Roofline figures: of machines, and of a program placed under them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from roofline.machine.record import Machine
from roofline.report.canvas import check_path, new_figure, save
from roofline.report.roof import KEY, draw, limits, name_levels, name_pipes, roofs, set_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def _as_list(machines: Machine | Sequence[Machine]) -> list[Machine]:
    return [machines] if isinstance(machines, Machine) else list(machines)


def draw_machines(ax: Axes, machines: Sequence[Machine], only: Sequence[str] = ()) -> None:
    """Every level and pipe of the machines on prepared axes, all of them named."""
    shown = roofs(machines, only)
    set_axes(ax, limits(shown))
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
    return save(figure, path)

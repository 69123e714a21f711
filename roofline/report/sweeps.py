"""Sweeps of a measured machine: the measured roof over the model one, clock and power below it, working sets."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from roofline.machine.ceilings import BY_NAME
from roofline.machine.record import Machine, Sweep, SweepPoint
from roofline.machine.sweeps import capacity_step
from roofline.report.palette import BLACK, GROUPS, MACHINES, VERMILLION
from roofline.report.text import label, plain
from roofline.units import si

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKERS = "osD^vP*X"


def of_intensity(machine: Machine) -> list[Sweep]:
    """Sweeps over the arithmetic intensity: the measured roof."""
    return [sweep for sweep in machine.sweeps if sweep.x_unit == "flops_per_byte" and sweep.points]


def of_working_set(machine: Machine) -> list[Sweep]:
    """Sweeps over the bytes of the working set."""
    return [sweep for sweep in machine.sweeps if sweep.x_unit == "bytes" and sweep.points]


def _colour(sweep: Sweep) -> str:
    return GROUPS.get(BY_NAME[sweep.ceiling].group, BLACK) if sweep.ceiling in BY_NAME else BLACK


def draw_measured_roof(ax: Axes, machine: Machine) -> None:
    """The measured points over the model roof; those with a note, which fall short of it, are red inside."""
    for number, sweep in enumerate(of_intensity(machine)):
        for short in (False, True):
            points = [point for point in sweep.points if bool(point.note) == short]
            ax.scatter(
                [point.x for point in points], [point.value for point in points], s=16, linewidths=0.8,
                marker=_MARKERS[number % len(_MARKERS)], facecolors=VERMILLION if short else "white",
                edgecolors=_colour(sweep), zorder=5, label=None if short else f"measured: {label(sweep.ceiling)}",
            )  # fmt: skip
    if of_intensity(machine):
        ax.legend(loc="lower right", fontsize=7.5)


def shortfalls(machine: Machine) -> list[str]:
    """Where the measured roof falls below the model and why: one line per stretch of one sweep."""
    lines = []
    for sweep in of_intensity(machine):
        for note, stretch in groupby(
            sorted(sweep.points, key=lambda point: point.x), key=lambda point: point.note
        ):
            if note:
                ends = [plain(point.x) for point in stretch]
                span = ends[0] if len(ends) == 1 else f"{ends[0]}–{ends[-1]}"
                lines.append(f"{label(sweep.ceiling)} at {span} FLOP/B falls short of the roof: {note}")
    return lines


def _line(ax: Axes, points: list[SweepPoint], values: list[float | None], colour: str, style: str) -> None:
    known = [(point.x, value) for point, value in zip(points, values, strict=True) if value is not None]
    ax.plot([x for x, _ in known], [value for _, value in known], style, color=colour, lw=1.1)


def draw_clock_and_power(ax: Axes, machine: Machine) -> None:
    """Clock (full, left) and power (dashed, right) at each intensity."""
    from matplotlib.ticker import FuncFormatter

    power = ax.twinx()
    for sweep, colour in zip(of_intensity(machine), MACHINES * 2, strict=False):
        points = sorted(sweep.points, key=lambda point: point.x)
        _line(ax, points, [point.clock_hz for point in points], colour, "-")
        _line(power, points, [point.power_w for point in points], colour, "--")
        ax.plot([], [], color=colour, label=label(sweep.ceiling))
    ax.set(xscale="log", ylabel="clock —")
    power.set_ylabel("power - -")
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: si(value, "hz")))
    power.yaxis.set_major_formatter(FuncFormatter(lambda value, _: si(value, "w")))
    ax.legend(loc="lower left", fontsize=7)
    for side in (ax, power):
        side.tick_params(labelsize=7.5)
        side.spines["top"].set_visible(False)


def draw_working_sets(ax: Axes, machine: Machine) -> None:
    """Bandwidth against working set; a dotted line where the cache ends, by the fall of the bandwidth."""
    from matplotlib.ticker import FuncFormatter

    for sweep, colour in zip(of_working_set(machine), MACHINES * 2, strict=False):
        points = sorted(sweep.points, key=lambda point: point.x)
        _line(ax, points, [point.value for point in points], colour, ".-")
        step = capacity_step(points)
        if step is not None:
            ax.axvline(step, color=colour, lw=0.8, ls=":")
            ax.text(
                step, 1, f" {si(step, 'bytes')}", fontsize=7, va="top", transform=ax.get_xaxis_transform()
            )
        ax.plot([], [], color=colour, label=label(sweep.ceiling))
    ax.set(xscale="log", xlabel="working set", ylim=(0, None))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: si(value, "bytes")))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: si(value, "bytes_per_s")))
    ax.tick_params(labelsize=7.5)
    ax.legend(loc="lower left", fontsize=7)
    ax.spines[["top", "right"]].set_visible(False)

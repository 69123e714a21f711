"""The roof of one machine or several: memory levels as diagonals, pipes as levels, both named on the spot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roofline.errors import MissingCeiling, UsageError
from roofline.machine.ceilings import BY_NAME
from roofline.machine.record import Ceiling, Machine
from roofline.report.labels import clusters, spread
from roofline.report.palette import BLACK, GROUPS, MACHINES
from roofline.report.text import label, plain
from roofline.units import si

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DASHES = {"read": "-", "write": "--", "copy": "-.", "triad": ":"}
_LIBRARY = ("gemm", "conv")
_ROOM = 1.9
"""Ratio of two diagonals between which a label fits."""
_SHARED = ("dram", "l2", "vector", "tensor")
"""Groups that several machines show side by side unless told otherwise: more would hide the comparison."""
KEY = (
    "Memory: — read, - - write, -·- copy, ··· triad.  ○ ridge point on the fastest DRAM "
    "direction, in FLOP/byte.  Grey, dashed: what a library reaches from DRAM."
)


@dataclass(frozen=True, kw_only=True)
class Roof:
    """The part of a machine that a figure shows: its memory levels and its compute ceilings, rising."""

    name: str
    levels: tuple[Ceiling, ...]
    pipes: tuple[Ceiling, ...]
    colour: str | None
    """None: by the ceiling's group."""

    @property
    def top(self) -> float:
        """The highest compute roof, where every memory line ends."""
        return self.pipes[-1].value

    @property
    def dram(self) -> float:
        """The fastest direction of the slowest level: the diagonal on which ridge points lie."""
        dram = [c.value for c in self.levels if _group(c.name) == "dram"]
        return max(dram) if dram else self.levels[0].value

    def colour_of(self, ceiling: Ceiling) -> str:
        """The colour of a ceiling's line and label."""
        return self.colour or GROUPS.get(_group(ceiling.name), BLACK)


def _group(name: str) -> str:
    return BY_NAME[name].group if name in BY_NAME else ""


def select(machine: Machine, only: Sequence[str] = (), colour: str | None = None) -> Roof:
    """The ceilings to draw: all, or those whose name or group is in `only`."""
    groups = {kind.group for kind in BY_NAME.values()}
    unknown = [name for name in only if name not in BY_NAME and name not in groups]
    if unknown:
        raise UsageError(
            f"no ceiling or group is called {', '.join(unknown)}; groups: {', '.join(sorted(groups))}"
        )
    kept = [
        c for c in machine.ceilings if c.value > 0 and (not only or c.name in only or _group(c.name) in only)
    ]
    kept.sort(key=lambda c: c.value)
    levels = tuple(c for c in kept if c.unit == "bytes_per_s")
    pipes = tuple(c for c in kept if c.unit in ("flops_per_s", "ops_per_s"))
    if not levels or not pipes:
        raise MissingCeiling(
            f"a roofline figure needs a bandwidth and a compute ceiling; {machine.name} has "
            f"{', '.join(c.name for c in kept) or 'none'}" + (f" among {', '.join(only)}" if only else "")
        )
    return Roof(name=machine.name, levels=levels, pipes=pipes, colour=colour)


def roofs(machines: Sequence[Machine], only: Sequence[str] = ()) -> list[Roof]:
    """One roof per machine, each in its own colour if there are several."""
    if not machines:
        raise UsageError("a figure needs at least one machine")
    if len(machines) == 1:
        return [select(machines[0], only)]
    return [select(m, only or _SHARED, MACHINES[i % len(MACHINES)]) for i, m in enumerate(machines)]


def limits(shown: Sequence[Roof]) -> tuple[float, float, float, float]:
    """Intensity from and to, rate from and to: from 1/16 flop/byte to well past the last ridge point."""
    left = 1 / 16
    right = 4 * max(roof.top / roof.dram for roof in shown)
    bottom = 0.8 * left * min(roof.levels[0].value for roof in shown)
    return left, max(right, 64.0), bottom, 2 * max(roof.top for roof in shown)


def set_axes(ax: Axes, bounds: tuple[float, float, float, float]) -> None:
    """Logarithmic axes in base units, printed with prefixes."""
    from matplotlib.ticker import FuncFormatter

    left, right, bottom, top = bounds
    ax.set(yscale="log", ylim=(bottom, top))
    set_intensity_axis(ax, left, right)
    ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: si(y, "flops_per_s")))
    ax.tick_params(labelsize=8)
    ax.set_xlabel("arithmetic intensity, FLOP per byte moved at the named memory level")
    ax.set_ylabel("rate")
    ax.grid(True, which="major", color="#e6e6e6", linewidth=0.6, zorder=0)
    ax.spines[["top", "right"]].set_visible(False)


def set_intensity_axis(ax: Axes, left: float, right: float) -> None:
    """A horizontal axis of flop/byte, ticked in powers of four."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    ax.set(xscale="log", xlim=(left, right))
    ax.xaxis.set_major_locator(LogLocator(base=4))
    ax.xaxis.set_minor_locator(LogLocator(base=2))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"1/{1 / x:.0f}" if x < 1 else f"{x:.0f}"))


def draw(ax: Axes, roof: Roof) -> None:
    """Lines of one roof: memory lines end at the highest compute roof, pipes start at the fastest level."""
    left, right = ax.get_xlim()
    fastest = roof.levels[-1].value
    for level in roof.levels:
        direction = level.name.rpartition("_")[2]
        end = roof.top / level.value
        dash = _DASHES.get(direction, "-")
        ax.plot([left, end], [left * level.value, roof.top], dash, c=roof.colour_of(level), lw=1.2, zorder=2)
    for pipe in roof.pipes:
        colour, library = roof.colour_of(pipe), _group(pipe.name) in _LIBRARY
        start = pipe.value / fastest
        ax.plot([start, right], [pipe.value] * 2, "--" if library else "-", c=colour, lw=1.0, zorder=2)
        if not library:
            ax.plot(pipe.value / roof.dram, pipe.value, "o", ms=4, mfc="white", mec=colour, zorder=3)


def _join(names: Sequence[str]) -> str:
    """Names that share their first word, which is then written once: "DRAM read, copy"."""
    head = names[0].partition(" ")[0]
    same = all(name.startswith(f"{head} ") for name in names)
    return f"{head} " + ", ".join(name[len(head) + 1 :] for name in names) if same else ", ".join(names)


def _level_text(levels: Sequence[Ceiling]) -> str:
    """Names and bandwidths of levels that share a label: "DRAM read 4.54 · copy 4.27 TB/s"."""
    values = {si(level.value, level.unit) for level in levels}
    if len(values) == 1:
        order = [name for name in BY_NAME if name in {level.name for level in levels}]
        return f"{_join([label(name) for name in order])} {values.pop()}"
    texts: list[str] = []
    head = ""
    for level in levels:
        name = label(level.name)
        first, _, rest = name.partition(" ")
        texts.append(f"{rest if rest and first == head else name} {si(level.value, level.unit)}")
        head = first
    units = {text.split(" ", -1)[-1] for text in texts}
    if len(units) == 1:
        unit = units.pop()
        return " · ".join(text.removesuffix(f" {unit}") for text in texts) + f" {unit}"
    return " · ".join(texts)


def _slope(ax: Axes) -> float:
    """Angle on paper of a line whose rate is proportional to intensity, in degrees."""
    box = ax.get_window_extent()
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    return math.degrees(math.atan2(box.height / math.log(top / bottom), box.width / math.log(right / left)))


def name_levels(ax: Axes, shown: Sequence[Roof], start: float | None = None) -> None:
    """One label along each group of nearly equal diagonals: above, or below where only that side is free.

    `start`: the intensity at which the labels begin; the left end if not given.
    """
    from matplotlib.patheffects import withStroke

    halo = [withStroke(linewidth=2.5, foreground="white")]
    start = start or 1.25 * ax.get_xlim()[0]
    values = [level.value for roof in shown for level in roof.levels]
    for roof in shown:
        for group in clusters([level.value for level in roof.levels], 1.3):
            levels = [roof.levels[i] for i in reversed(group)]
            low, high = levels[-1].value, levels[0].value
            above = not any(high < value < _ROOM * high for value in values)
            below = not above and not any(low / _ROOM**2 < value < low for value in values)  # room for two
            value = low if below else high
            ax.annotate(
                (f"{roof.name}: " if roof.colour else "") + _level_text(levels), (start, start * value),
                (5, -5) if below else (-4, 5), textcoords="offset points", va="top" if below else "bottom",
                rotation=_slope(ax), rotation_mode="anchor", fontsize=8, color=roof.colour_of(levels[0]),
                zorder=6, path_effects=halo,
            )  # fmt: skip


def _alike(roof: Roof, library: bool) -> list[list[Ceiling]]:
    """The library's ceilings, or the others, those of equal height together."""
    pipes = [pipe for pipe in roof.pipes if (_group(pipe.name) in _LIBRARY) == library]
    return [[pipes[i] for i in group] for group in clusters([pipe.value for pipe in pipes], 1.004)]


def _pipe_text(roof: Roof, pipes: Sequence[Ceiling]) -> str:
    names = _join([label(pipe.name) for pipe in pipes])
    value = si(pipes[-1].value, pipes[-1].unit)
    prefix = f"{roof.name}: " if roof.colour else ""
    ridge = "" if _group(pipes[-1].name) in _LIBRARY else f"  (ridge {plain(pipes[-1].value / roof.dram)})"
    return f"{prefix}{names}  {value}{ridge}"


def name_pipes(ax: Axes, shown: Sequence[Roof], fontsize: float = 8, narrow: bool = False) -> None:
    """A label for every pipe right of the axes, spread out so that none covers another, tied to its line.

    `narrow`: name, value and ridge point below each other.
    """
    entries = [
        (pipes[-1].value, _pipe_text(roof, pipes), roof.colour_of(pipes[-1]))
        for roof in shown
        for pipes in (*_alike(roof, library=False), *_alike(roof, library=True))
    ]
    box = ax.get_window_extent()
    figure_scale = ax.figure.dpi / 72
    wanted = [ax.transData.transform((1, value))[1] - box.y0 for value, _, _ in entries]
    placed = spread(wanted, (4.2 if narrow else 1.45) * fontsize * figure_scale, 0, box.height)
    for (_value, text, colour), line, y in zip(entries, wanted, placed, strict=True):
        leader = {
            "arrowstyle": "-",
            "color": colour,
            "lw": 0.6,
            "relpos": (0, 0.5),
            "shrinkA": 1,
            "shrinkB": 0,
        }
        ax.annotate(
            text.replace("  ", "\n") if narrow else text, (1, line / box.height), (1.035, y / box.height),
            xycoords="axes fraction", textcoords="axes fraction", va="center", fontsize=fontsize,
            color=colour, annotation_clip=False, arrowprops=leader,
        )  # fmt: skip

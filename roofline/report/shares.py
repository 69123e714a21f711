"""The second figure of a placement: which ceiling takes how much of the time, in all and by kind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from roofline.analysis.place import Placement
from roofline.report.canvas import check_path, new_figure, save
from roofline.report.palette import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION
from roofline.report.text import ceiling_name, percent, placement_remarks
from roofline.units import si

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Bar = tuple[str, dict[str, float], float]
"""Label, seconds by ceiling, and the seconds that make 100 %."""

_PIPES = (VERMILLION, ORANGE, PURPLE, SKY, GREY)


def bars(placement: Placement) -> list[Bar]:
    """One bar for the whole, then one per kind of operator, slowest first."""
    total = placement.total
    kinds: dict[str, dict[str, float]] = {}
    for placed in placement.calls:
        if placed.floor_s > 0:
            by_ceiling = kinds.setdefault(placed.call.kind, {})
            by_ceiling[placed.binding] = by_ceiling.get(placed.binding, 0.0) + placed.floor_s
    parts = sorted(kinds.items(), key=lambda item: -sum(item[1].values()))
    head = f"{placement.machine.name}: floor {si(total.floor_s, 's', 4)}"
    return [
        (head, dict(total.seconds_by_ceiling), total.floor_s),
        *((kind, by_ceiling, total.floor_s) for kind, by_ceiling in parts),
    ]


def _colours(names: Sequence[str]) -> dict[str, str]:
    pipes = [name for name in names if name not in ("dram", "l2")]
    return {"dram": BLUE, "l2": GREEN, **{name: _PIPES[i % len(_PIPES)] for i, name in enumerate(pipes)}}


def draw_shares(ax: Axes, placements: Sequence[Placement]) -> None:
    """Stacked bars, a block per placement."""
    blocks = [bars(placement) for placement in placements]
    names = list(dict.fromkeys(name for block in blocks for _, parts, _ in block for name in parts))
    colours = _colours(names)
    y, ticks, labels = 0.0, [], []
    for block in blocks:
        for index, (text, parts, whole) in enumerate(block):
            _bar(ax, y, 0.85 if index == 0 else 0.6, parts, whole, colours)
            ticks.append(y)
            labels.append(text if index == 0 else f"{text}  {si(sum(parts.values()), 's')}")
            y += 1.0
        y += 0.6
    ax.set(xlim=(0, 100), ylim=(y - 1, -0.8), xlabel="share of the floor time, %")
    ax.set_yticks(ticks, labels, fontsize=8)
    heads = [index == 0 for block in blocks for index in range(len(block))]
    for tick, bold in zip(ax.get_yticklabels(), heads, strict=True):
        tick.set_fontweight("bold" if bold else "normal")
    ax.spines[["top", "right"]].set_visible(False)
    handles = [ax.barh(0, 0, color=colours[name], label=f"bound by {ceiling_name(name)}") for name in names]
    if handles:
        ax.legend(handles=handles, loc="lower right", fontsize=8)


def _bar(
    ax: Axes, y: float, height: float, parts: dict[str, float], whole: float, colours: dict[str, str]
) -> None:
    start = 0.0
    for name, seconds in sorted(parts.items(), key=lambda item: list(colours).index(item[0])):
        width = 100 * seconds / whole
        ax.barh(y, width, height, left=start, color=colours[name])
        if width > 6:
            ax.text(
                start + width / 2,
                y,
                percent(seconds, whole, 0),
                color="white",
                fontsize=7.5,
                ha="center",
                va="center",
            )
        start += width


def save_share_figure(placements: Sequence[Placement], path: str | Path) -> Path:
    """Share of floor time per ceiling for placements of one program on one machine or several."""
    check_path(path)
    count = sum(len(bars(placement)) + 0.6 for placement in placements)
    figure = new_figure(9, 1.4 + 0.27 * count)
    ax = figure.add_axes((0.25, 0.12, 0.7, 0.76))
    draw_shares(ax, placements)
    title = ", ".join(dict.fromkeys(placement.name for placement in placements))
    figure.text(0.25, 0.94, f"{title}: what binds it", fontsize=12, weight="bold", va="center")
    remarks = list(dict.fromkeys(line for placement in placements for line in placement_remarks(placement)))
    figure.text(0.02, 0.0, "\n".join(remarks), fontsize=7.5, va="top", color="#a04000")
    return save(figure, path)

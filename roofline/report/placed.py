"""A placement on axes that hold a roof: regions, marks, labels and the key to the numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from roofline.analysis.place import Placement
from roofline.report.labels import Box, anchor, arrange
from roofline.report.palette import BLACK, BLUE, KINDS, OTHER_KIND, VERMILLION
from roofline.report.points import Point, fold
from roofline.report.roof import Roof
from roofline.report.text import label, percent, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMED = 9
"""So many of the slowest marks carry their name; the others, the number under which the key names them."""


def dominant_pipe(placement: Placement) -> str | None:
    """The pipe that does most of the matrix work."""
    flops: dict[str, int] = {}
    for placed in placement.calls:
        if placed.pipe:
            flops[placed.pipe] = flops.get(placed.pipe, 0) + placed.call.flops
    return max(flops, key=lambda pipe: flops[pipe]) if flops else None


def draw_regions(ax: Axes, placement: Placement) -> None:
    """Where DRAM binds and where the pipe does that most of the work runs on: shaded and named."""
    pipe = dominant_pipe(placement)
    if pipe is None:
        return
    left, right = ax.get_xlim()
    ridge = placement.ridge_points[pipe]
    ax.axvspan(left, ridge, color=BLUE, alpha=0.06, lw=0, zorder=0)
    ax.axvspan(ridge, right, color=VERMILLION, alpha=0.07, lw=0, zorder=0)
    ax.axvline(ridge, color=BLACK, lw=0.8, ls=":", zorder=1)
    style: dict[str, Any] = {
        "transform": ax.get_xaxis_transform(),
        "va": "top",
        "fontsize": 9,
        "style": "italic",
    }
    ax.text(left * 1.1, 0.985, "memory-bound", color=BLUE, **style)
    ax.text(right / 1.05, 0.985, "compute-bound", ha="right", color=VERMILLION, **style)
    text = f"ridge point of {label(pipe)}: {plain(ridge)} FLOP/B"
    ax.text(ridge / 1.05, 0.02, text, rotation=90, ha="right", va="bottom", fontsize=7,
            transform=ax.get_xaxis_transform())  # fmt: skip


def _area(point: Point, whole_s: float) -> float:
    """Marker area in square points, proportional to time, but never too small to see."""
    return max(14.0, 2200 * point.floor_s / whole_s)


def _position(ax: Axes, point: Point, roof: Roof) -> tuple[float, float]:
    """Where the mark goes; without any flops at the left edge, on the memory diagonal."""
    if point.intensity is None or point.rate is None:
        left = ax.get_xlim()[0]
        return left, left * roof.dram
    return point.intensity, point.rate


def draw_points(ax: Axes, placement: Placement, roof: Roof, marks: Sequence[Point]) -> None:
    """One mark per point: shape by kind, area by floor time, hollow without matrix work; labels beside."""
    whole = placement.floor_s
    for point in marks:
        shape, colour = KINDS.get(point.kind, OTHER_KIND)
        x, y = _position(ax, point, roof)
        ax.scatter(
            [x], [y], s=_area(point, whole), marker=shape,
            facecolors="white" if point.counted_apart else colour, edgecolors=colour,
            alpha=0.75, linewidths=1.2, zorder=4, clip_on=False,
        )  # fmt: skip
    _label_points(ax, placement, roof, marks)


def _label_points(ax: Axes, placement: Placement, roof: Roof, marks: Sequence[Point]) -> None:
    """Names of the slowest marks and numbers of the rest, where they cover neither each other nor a mark."""
    pixels = ax.figure.dpi / 72
    places = [_position(ax, point, roof) for point in marks]
    centres = [tuple(ax.transData.transform(place)) for place in places]
    radii = [math.sqrt(_area(point, placement.floor_s)) / 2 * pixels for point in marks]
    taken = [Box(x - r, y - r, x + r, y + r) for (x, y), r in zip(centres, radii, strict=True)]
    texts = [_caption(i, point, placement.floor_s) for i, point in enumerate(marks)]
    sizes = [(_width(ax, text, 7) + 10, 11 * pixels) for text in texts]
    window = ax.get_window_extent()
    frame = Box(window.x0, window.y0 + 4, window.x1, window.y1 - 16 * pixels)
    taken += [Box(*text.get_window_extent().extents) for text in ax.texts if text.get_rotation() == 0]
    left, ridge = ax.get_xlim()[0], roof.top / roof.dram
    ends = [(left, left * roof.dram), (ridge, roof.top), (ax.get_xlim()[1], roof.top)]
    a, b, c = (tuple(ax.transData.transform(end)) for end in ends)
    slanted = [text.get_window_extent() for text in ax.texts if 0 < text.get_rotation() < 90]
    lines = [(a, b), (b, c), *((tuple(box.min), tuple(box.max)) for box in slanted)]
    inverse = ax.transData.inverted()
    for index, box in enumerate(arrange(centres, sizes, taken, lines, frame)):
        if box is None:
            continue
        end = anchor(centres[index], box)
        side = "left" if end[0] == box.left else "right"
        colour = KINDS.get(marks[index].kind, OTHER_KIND)[1]
        line = {"arrowstyle": "-", "lw": 0.5, "color": colour, "shrinkA": 0, "shrinkB": 0}
        ax.annotate(
            texts[index], places[index], tuple(inverse.transform(end)), fontsize=7, va="center", ha=side,
            zorder=7, annotation_clip=False, arrowprops={**line, "relpos": (0 if side == "left" else 1, 0.5)},
            bbox={"boxstyle": "round,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.75},
        )  # fmt: skip


def _caption(index: int, point: Point, whole_s: float) -> str:
    number = str(index + 1)
    return (
        f"{number}  {fold(point.names, 34)}  {percent(point.floor_s, whole_s, 0)}"
        if index < NAMED
        else number
    )


def _width(ax: Axes, text: str, fontsize: float) -> float:
    """Width of a text in pixels."""
    artist = ax.text(0, 0, text, fontsize=fontsize)
    width = artist.get_window_extent().width
    artist.remove()
    return width


def draw_kinds(ax: Axes, marks: Sequence[Point]) -> None:
    """Legend of the shapes."""
    from matplotlib.lines import Line2D

    handles = []
    for kind in dict.fromkeys(point.kind for point in marks):
        shape, colour = KINDS.get(kind, OTHER_KIND)
        handles.append(Line2D([], [], ls="", marker=shape, color=colour, ms=7, label=kind))
    handles.append(
        Line2D([], [], ls="", marker="o", mfc="white", color=BLACK, ms=7, label="hollow: element-wise")
    )
    ax.legend(
        handles=handles, loc="upper left", bbox_to_anchor=(0.005, 0.955), fontsize=8, frameon=False, ncols=2
    )


def draw_key(ax: Axes, placement: Placement, marks: Sequence[Point], view: str, rows: int = 52) -> None:
    """The table beside the figure: number, names, share of the floor time."""
    ax.axis("off")
    ax.set(xlim=(0, 1), ylim=(rows + 1, -1))
    ax.text(0.05, -1, f"{view}s, slowest first", fontsize=7.5, weight="bold", va="center")
    ax.text(1, -1, "share of floor", fontsize=7.5, weight="bold", ha="right", va="center")
    shown = marks if len(marks) <= rows else marks[: rows - 1]
    for index, point in enumerate(shown):
        ax.text(0.035, index, str(index + 1), fontsize=7, ha="right", va="center")
        ax.text(
            0.05,
            index,
            fold(point.names, 64),
            fontsize=7,
            va="center",
            color=KINDS.get(point.kind, OTHER_KIND)[1],
        )
        ax.text(1, index, percent(point.floor_s, placement.floor_s), fontsize=7, ha="right", va="center")
    rest = marks[len(shown) :]
    if rest:
        share = percent(sum(point.floor_s for point in rest), placement.floor_s)
        ax.text(0.05, len(shown), f"… and {len(rest)} more marks", fontsize=7, va="center")
        ax.text(1, len(shown), share, fontsize=7, ha="right", va="center")

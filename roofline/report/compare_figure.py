"""One figure per comparison: layers on both roofs, the waterfall of causes, and time per layer side by side."""

from __future__ import annotations

from collections.abc import Mapping
from math import log
from typing import TYPE_CHECKING

import numpy as np

from roofline.analysis.compare import Comparison
from roofline.analysis.pipe import resolve
from roofline.analysis.predict import Prediction
from roofline.machine.record import Machine
from roofline.report.canvas import new_figure
from roofline.report.compare_text import share
from roofline.report.palette import BLACK, BLUE, GREY, KINDS, OTHER_KIND, VERMILLION
from roofline.units import si
from roofline.work.record import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = (BLUE, VERMILLION)
_LEAST = 0.005
"""Layers that take less of the time than this get no arrow: they would hide the rest."""


def comparison_figure(comparison: Comparison, trace: Trace, a: Machine, b: Machine) -> Figure:
    """Roofs above left, causes above right, layers below."""
    figure = new_figure(13, 9.5)
    grid = figure.add_gridspec(2, 2, height_ratios=(1.25, 1), hspace=0.3, wspace=0.62)
    draw_roofs(figure.add_subplot(grid[0, 0]), comparison, trace, a, b)
    draw_causes(figure.add_subplot(grid[0, 1]), comparison)
    draw_layers(figure.add_subplot(grid[1, :]), comparison)
    title = f"{comparison.name}: {a.name} over {b.name}, predicted {comparison.ratio:.2f}"
    observed = f", observed {comparison.observed_ratio:.2f}" if comparison.observed_ratio else ""
    figure.suptitle(title + observed, x=0.07, y=0.95, ha="left", fontsize=13, fontweight="bold")
    return figure


def draw_roofs(axes: Axes, comparison: Comparison, trace: Trace, a: Machine, b: Machine) -> None:
    """Both roofs, and each layer with products as an arrow from its predicted rate on `b` to that on `a`."""
    work = trace.by_layer()
    times = (comparison.a.by_layer(), comparison.b.by_layer())
    least = _LEAST * comparison.a.seconds
    shown = {name: total for name, total in work.items() if total.flops and total.bytes and times[0][name] > least}
    xs = [total.flops / total.bytes for total in shown.values()]
    span = (min(xs, default=1) / 4, max(xs, default=100) * 4)
    pipes = sorted({call.pipe for call in trace.calls if call.pipe and call.flops})
    for machine, colour, prediction in zip((a, b), COLOURS, (comparison.a, comparison.b), strict=True):
        _roof(axes, machine, prediction, pipes, span, colour)
    for (name, total), x in zip(shown.items(), xs, strict=True):
        ends = [(x, total.flops / table[name]) for table in times]
        axes.annotate("", xy=ends[0], xytext=ends[1], arrowprops={"arrowstyle": "-|>", "color": GREY, "lw": 0.8})
        for end, colour in zip(ends, COLOURS, strict=True):
            axes.plot(*end, "o", ms=4, color=colour, alpha=0.75)
    axes.set(xscale="log", yscale="log", xlim=span, xlabel="FLOP per byte, compulsory DRAM traffic", ylabel="FLOP/s")
    rates = np.concatenate([np.asarray(line.get_ydata(), dtype=float) for line in axes.lines])
    axes.set_ylim(rates.min() / 2, rates.max() * 6)  # room for the key
    axes.set_title("layers with products: predicted rate under both roofs", fontsize=10, loc="left")
    axes.grid(True, which="major", alpha=0.2)
    axes.legend(fontsize=8, loc="upper left")


def _roof(
    axes: Axes, machine: Machine, prediction: Prediction, pipes: list[str], span: tuple[float, float], colour: str
) -> None:
    bandwidth = machine.ceiling("dram_read").value
    peak = max(machine.ceiling(resolve(machine, pipe)).value for pipe in pipes) if pipes else bandwidth * span[1]
    ridge = peak / bandwidth
    xs = [span[0], min(max(ridge, span[0]), span[1]), span[1]]
    label = f"{machine.name}: {si(bandwidth, 'bytes_per_s')}, {si(peak, 'flops_per_s')}, {si(prediction.seconds, 's')}"
    axes.plot(xs, [min(peak, bandwidth * x) for x in xs], color=colour, lw=2, label=label)


def draw_causes(axes: Axes, comparison: Comparison) -> None:
    """Waterfall of 100 x ln: causes add up to the prediction, and the unexplained part to what was observed."""
    steps = [(name, 100 * value) for name, value in comparison.causes.items() if abs(value) >= 5e-4]
    rows, at = [], 0.0
    for name, value in steps:
        rows.append((name, at, value, BLUE if value > 0 else VERMILLION))
        at += value
    rows.append(("predicted", 0.0, 100 * log(comparison.ratio), BLACK))
    if comparison.unexplained is not None and comparison.observed_ratio is not None:
        rows.append(("unexplained", 100 * log(comparison.ratio), 100 * comparison.unexplained, GREY))
        rows.append(("observed", 0.0, 100 * log(comparison.observed_ratio), BLACK))
    for y, (_, left, width, colour) in enumerate(rows):
        axes.barh(y, width, left=left, color=colour, height=0.6)
        end = max(left, left + width)
        axes.text(end, y, f" {share(width / 100)}", va="center", fontsize=8)
    axes.set_yticks(range(len(rows)), [row[0] for row in rows], fontsize=9)
    axes.invert_yaxis()
    axes.axvline(0, color=BLACK, lw=0.8)
    axes.margins(x=0.15)
    axes.set_xlabel(f"100 x ln ratio; right: favours {comparison.a.machine}, left: {comparison.b.machine}")
    axes.set_title("why: causes add up", fontsize=10, loc="left")
    axes.spines[["top", "right"]].set_visible(False)


def draw_layers(axes: Axes, comparison: Comparison) -> None:
    """Every layer in order of execution, `a` upwards and `b` downwards, coloured by its slowest kind of operator."""
    kinds = _kinds(comparison.a)
    a, b = comparison.a.by_layer(), comparison.b.by_layer()
    for sign, table in ((1, a), (-1, b)):
        heights = [sign * 1e3 * table[name] for name in a]
        axes.bar(range(len(a)), heights, width=0.9, color=[_colour(kinds[name]) for name in a])
    for kind in dict.fromkeys(kinds.values()):
        axes.bar([0], [0], color=_colour(kind), label=kind)
    axes.axhline(0, color=BLACK, lw=0.8)
    axes.set_xlim(-1, len(a))
    axes.set_xlabel("layers in order of execution")
    axes.set_ylabel(f"ms; up {comparison.a.machine}, down {comparison.b.machine}")
    axes.yaxis.set_major_formatter(lambda value, _: f"{abs(value):g}")
    axes.set_title("predicted time per layer", fontsize=10, loc="left")
    axes.legend(fontsize=8, ncol=8, loc="lower right", bbox_to_anchor=(1, 1), frameon=False)
    axes.spines[["top", "right"]].set_visible(False)


def _kinds(prediction: Prediction) -> Mapping[str, str]:
    """Layer → the kind of operator that takes most of its time."""
    sums: dict[str, dict[str, float]] = {}
    for call in prediction.calls:
        table = sums.setdefault(call.module, {})
        table[call.kind] = table.get(call.kind, 0.0) + call.seconds
    return {name: max(table, key=lambda kind: table[kind]) for name, table in sums.items()}


def _colour(kind: str) -> str:
    return KINDS.get(kind, OTHER_KIND)[1]

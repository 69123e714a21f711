"""`roofline place`: a model's layers under the ceilings of machines."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from roofline.work.models import DTYPES

if TYPE_CHECKING:
    from roofline.analysis.place import Placement, View
    from roofline.work.record import Trace

VIEWS = ("layer", "module", "operator", "call", "pipe")


@click.command("place")
@click.argument("model")
@click.option(
    "--machine", "machines", multiple=True, required=True, help="Name or machine file; may be repeated."
)
@click.option("--batch", type=click.IntRange(min=0), help="Images or sequences at once.  [default: 1]")
@click.option(
    "--dtype", type=click.Choice(list(DTYPES)), help="Number format; tf32 is fp32 with TF32 switched on."
)
@click.option("--sequence", type=click.IntRange(min=1), help="Tokens per sequence of a language model.")
@click.option("--train", is_flag=True, help="Forward and backward in training mode.")
@click.option("--channels-last", is_flag=True, help="NHWC memory layout.")
@click.option("--by", "view", type=click.Choice(VIEWS), default="layer", show_default=True)
@click.option(
    "--top", type=click.IntRange(min=0), default=40, show_default=True, help="Slowest rows; 0 prints all."
)
@click.option(
    "--plot",
    "plot_path",
    type=click.Path(path_type=Path),
    help="Figure, svg, png or pdf; its data beside it.",
)
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Rows and totals as JSON.")
@click.option("--csv", "csv_path", type=click.Path(path_type=Path), help="Rows as CSV.")
def command(
    model: str,
    machines: tuple[str, ...],
    batch: int | None,
    dtype: str | None,
    sequence: int | None,
    train: bool,
    channels_last: bool,
    view: View,
    top: int,
    plot_path: Path | None,
    json_path: Path | None,
    csv_path: Path | None,
) -> None:
    """Place each layer of MODEL under the ceilings of a machine.

    MODEL is a torchvision or timm name, hf:CONFIG_OR_PATH (random weights, no download), or
    package.module:function returning (model, args) or (model, args, kwargs).
    """
    from roofline.analysis.place import place
    from roofline.machine.catalog import machine
    from roofline.report.canvas import check_path
    from roofline.report.text import placement_table, show

    found = [machine(name) for name in machines]
    if plot_path:
        check_path(plot_path)
    trace = _traced(model, batch, dtype, sequence, train, channels_last)
    placements = [place(trace, one) for one in found]
    for placement in placements:
        show(placement_table(placement, view, top))
    for path in _write(placements, view, plot_path, json_path, csv_path):
        click.echo(f"written: {path}")


def _traced(
    model: str, batch: int | None, dtype: str | None, sequence: int | None, train: bool, channels_last: bool
) -> Trace:
    """The model built and counted, with its progress on the terminal's error stream."""
    from rich.console import Console

    from roofline.work import models
    from roofline.work.trace import trace

    options = [
        f"batch {1 if batch is None else batch}" if batch is not None or ":" not in model else "",
        dtype or "",
    ]
    options += ["training" if train else "", "channels_last" if channels_last else ""]
    name = ", ".join([model, *filter(None, options)])
    with Console(stderr=True).status(f"building {model}") as status:
        program = models.load(
            model, batch=batch, dtype=dtype, sequence=sequence, train=train, channels_last=channels_last
        )
        status.update(f"counting {model}")
        with models.precision(dtype):
            return trace(program.function, program.args, dict(program.kwargs), backward=train, name=name)


def _write(
    placements: list[Placement], view: View, plot: Path | None, json: Path | None, csv: Path | None
) -> list[Path]:
    """All files that were asked for; the paths in the order written."""
    from roofline.report.export import save_csv, save_json
    from roofline.report.figure import save_placement_figure
    from roofline.report.shares import save_share_figure

    written: list[Path] = []
    if json:
        written.append(save_json(placements, json, view))
    if csv:
        written.append(save_csv(placements, csv, view))
    if plot:
        several = len(placements) > 1
        for placement in placements:
            name = f"{plot.stem}-{_slug(placement.machine.name)}" if several else plot.stem
            written.append(save_placement_figure(placement, plot.with_stem(name), view))
        written.append(save_share_figure(placements, plot.with_stem(f"{plot.stem}-share")))
        written.append(save_csv(placements, plot.with_suffix(".csv"), view))
    return written


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")

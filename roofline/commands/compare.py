"""`roofline compare`: why one machine beats another on a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from roofline.commands.predict import batch_of, program_options, software_of, traced, write_json
from roofline.errors import RooflineError, UsageError

if TYPE_CHECKING:
    from roofline.work.record import Trace

BATCHES: tuple[int | None, ...] = (1, 8, 64, 256)
"""Batches at which the winner is asked for again."""


@click.command("compare")
@click.argument("machine_a")
@click.argument("machine_b")
@program_options
@click.option("--observed-a", type=float, help="Measured or published batch / seconds on MACHINE_A.")
@click.option("--observed-b", type=float, help="The same on MACHINE_B.")
@click.option("--top", type=click.IntRange(min=0), default=12, show_default=True, help="Layers that decide most.")
@click.option("--quick", is_flag=True, help="Do not look for a crossover at other batches and precisions.")
@click.option("--plot", "plot_path", type=click.Path(path_type=Path), help="Figure: svg, png or pdf.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Everything as JSON.")
def command(
    machine_a: str, machine_b: str, model: str, batch: int | None, dtype: str, sequence: int | None, train: bool,
    channels_last: bool, software_name: str, ecc: str, host_us: float | None, observed_a: float | None,
    observed_b: float | None, top: int, quick: bool, plot_path: Path | None, json_path: Path | None,
) -> None:  # fmt: skip
    """Explain how much faster MACHINE_A runs a model than MACHINE_B, and why, in shares that add up."""
    from roofline.analysis.compare import compare
    from roofline.machine.catalog import machine
    from roofline.report.canvas import check_path, save
    from roofline.report.compare_figure import comparison_figure
    from roofline.report.compare_text import comparison_data, comparison_tables
    from roofline.report.text import show

    a, b = machine(machine_a), machine(machine_b)
    if plot_path:
        check_path(plot_path)
    batch = batch_of(model, batch)
    trace = traced(model, batch, dtype, sequence, train, channels_last)
    others = {} if quick else _alternatives(model, batch, dtype, sequence, train, channels_last)
    comparison = compare(
        trace, a, b, software=software_of(software_name, ecc, host_us), alternatives=others,
        observed_a=_seconds(observed_a, batch), observed_b=_seconds(observed_b, batch),
    )  # fmt: skip
    show(comparison_tables(comparison, top))
    if json_path:
        write_json(json_path, comparison_data(comparison))
    if plot_path:
        click.echo(f"written: {save(comparison_figure(comparison, trace, a, b), plot_path)}")


def _seconds(per_second: float | None, batch: int | None) -> float | None:
    """Seconds per call from images (sequences) per second; calls per second if the batch is unknown."""
    if per_second is None:
        return None
    if per_second <= 0:
        raise UsageError(f"an observed rate must be positive, and is {per_second:g}.")
    return (batch or 1) / per_second


def _alternatives(
    model: str, batch: int | None, dtype: str, sequence: int | None, train: bool, channels_last: bool
) -> dict[str, Trace]:
    """The program at other batches and in the other precision, where it can be built."""
    choices = [(other, dtype) for other in BATCHES if batch and other != batch]
    choices.append((batch, "fp32" if dtype != "fp32" else "fp16"))
    found = {}
    for size, precision in choices:
        try:
            label = ", ".join(filter(None, [f"batch {size}" if size else "", precision]))
            found[label] = traced(model, size, precision, sequence, train, channels_last)
        except RooflineError:
            continue
    return found

"""`roofline predict`: a model's time on machines that are not here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from roofline.analysis.software import PRESETS
from roofline.work.models import DTYPES

if TYPE_CHECKING:
    from roofline.analysis.software import Software
    from roofline.work.record import Trace


BATCH = 64
"""Batch of named models unless another is given."""
OLD = "torch 1.9: TF32 on, attention written out, older kernels.  [default: as traced]"
ECC = "State of ECC on boards with GDDR memory.  [default: on for data-centre boards]"
HOST = "Host time per op call in µs; 0: as in a CUDA graph.  [default: as on the H200's host]"


def program_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What both `predict` and `compare` need to know about the program and its software."""
    batch, tokens = click.IntRange(min=1), click.IntRange(min=1)
    options = (
        click.option("--model", required=True, help="torchvision or timm name, hf:CONFIG, package.module:function."),
        click.option("--batch", type=batch, help="Images or sequences at once.  [default: 64 for named models]"),
        click.option("--dtype", type=click.Choice(list(DTYPES)), default="fp16", show_default=True, help="Format."),
        click.option("--sequence", type=tokens, help="Tokens per sequence of a language model."),
        click.option("--train", is_flag=True, help="Forward and backward in training mode."),
        click.option("--channels-last", is_flag=True, help="NHWC memory layout."),
        click.option("--software", "software_name", type=click.Choice(list(PRESETS)), default="as traced", help=OLD),
        click.option("--ecc", type=click.Choice(["default", "on", "off"]), default="default", help=ECC),
        click.option("--host-us", type=click.FloatRange(min=0), help=HOST),
    )
    for option in reversed(options):
        command = option(command)
    return command


def software_of(name: str, ecc: str, host_us: float | None) -> Software:
    """The preset with the given ECC state and host time."""
    from dataclasses import replace

    host_s = None if host_us is None else host_us / 1e6
    return replace(PRESETS[name], ecc={"default": None, "on": True, "off": False}[ecc], host_s=host_s)


def batch_of(model: str, batch: int | None) -> int | None:
    """The batch asked for, 64 for named models, or the function's own."""
    from roofline.work.models import is_named

    return BATCH if batch is None and is_named(model) else batch


def traced(model: str, batch: int | None, dtype: str, sequence: int | None, train: bool, channels_last: bool) -> Trace:
    """The model built on the meta device and counted as a GPU would run it."""
    from rich.console import Console

    from roofline.work import models
    from roofline.work.trace import trace

    words = [model, dtype, f"batch {batch}" if batch else "", "training" if train else ""]
    name = ", ".join(filter(None, [*words, "channels_last" if channels_last else ""]))
    layout = {"channels_last": channels_last}
    with Console(stderr=True).status(f"counting {model}"), models.precision(dtype):
        program = models.load(model, batch=batch, dtype=dtype, sequence=sequence, train=train, **layout)
        return trace(program.function, program.args, dict(program.kwargs), backward=train, name=name)


@click.command("predict")
@program_options
@click.option("--machine", "machines", multiple=True, required=True, help="Name or machine file; may be repeated.")
@click.option("--top", type=click.IntRange(min=0), default=10, show_default=True, help="Slowest layers; 0 prints all.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Everything as JSON.")
def command(
    model: str, batch: int | None, dtype: str, sequence: int | None, train: bool, channels_last: bool,
    software_name: str, ecc: str, host_us: float | None, machines: tuple[str, ...], top: int, json_path: Path | None,
) -> None:  # fmt: skip
    """Predict how long a model takes on machines by name or machine file.

    From a data sheet, or better from a measured machine; the interval comes from predictions of machines that the
    constants had never seen.
    """
    from roofline.analysis.predict import Model
    from roofline.machine.catalog import machine
    from roofline.report.predict_text import layers_table, prediction_data, prediction_table, terms_table
    from roofline.report.text import show

    found = [machine(name) for name in machines]
    batch = batch_of(model, batch)
    trace = traced(model, batch, dtype, sequence, train, channels_last)
    ready = Model(trace, software_of(software_name, ecc, host_us))
    predictions = [ready.on(one) for one in found]
    show(prediction_table(predictions, batch))
    show(terms_table(predictions))
    show(layers_table(predictions, top))
    if json_path:
        write_json(json_path, [prediction_data(p, ready.calibration) for p in predictions])


def write_json(path: Path, data: Any) -> None:
    """Write and say so."""
    import msgspec

    from roofline.machine.file import write_atomically

    write_atomically(path, msgspec.json.format(msgspec.json.encode(data), indent=1) + b"\n")
    click.echo(f"written: {path}")

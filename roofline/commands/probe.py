"""`roofline probe`: measure, print, draw and keep the ceilings of one device or of all."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from roofline.errors import FileError, MissingCeiling

if TYPE_CHECKING:
    from roofline.machine.record import Machine


@click.command(name="probe")
@click.option("--device", default="auto", show_default=True, help="auto, cuda:N, cpu, or all.")
@click.option(
    "--effort",
    default="standard",
    show_default=True,
    type=click.Choice(["quick", "standard", "thorough"]),
    help="quick: seconds; standard: under a minute; thorough: minutes.",
)
@click.option("--only", default="", metavar="NAME,…", help="Ceilings or groups to measure, such as dram,fp32.")
@click.option("--out", type=click.Path(path_type=Path), help="Machine file (JSON); default: the user's data folder.")
@click.option("--plot", type=click.Path(path_type=Path), help="Figure of the roofline: .svg, .png or .pdf.")
@click.option("--json", "as_json", is_flag=True, help="Print the machine file instead of a table.")
def command(device: str, effort: str, only: str, out: Path | None, plot: Path | None, as_json: bool) -> None:
    """Measure what this device can really do: bandwidths, arithmetic pipes, launch overhead.

    Exit codes: 0 done, 2 bad usage, 3 no usable device, 4 unwritable file, 130 interrupted (what was
    measured is saved).
    """
    from roofline.measure.devices import visible_devices
    from roofline.report.canvas import check_path

    devices = visible_devices() if device == "all" else (device,)
    for path in (out, plot and check_path(plot)):
        if path:
            _check_writable(path)
    for name in devices:
        several = len(devices) > 1
        _probe(name, effort, only, _numbered(out, name, several), _numbered(plot, name, several), as_json)


def _probe(device: str, effort: str, only: str, out: Path | None, plot: Path | None, as_json: bool) -> None:
    from roofline.measure.run import ProbeInterrupted, probe
    from roofline.report.progress import progress

    names = [name.strip() for name in only.split(",") if name.strip()]
    try:
        with progress(f"Probing {device}") as report:
            machine = probe(device, effort, names or None, report)
    except ProbeInterrupted as stop:
        with suppress(MissingCeiling):  # too early for a figure
            _keep(stop.machine, out, plot, as_json)
        raise
    _keep(machine, out, plot, as_json)


def _keep(machine: Machine, out: Path | None, plot: Path | None, as_json: bool) -> None:
    """Saves first, so that nothing is lost if printing or drawing fails."""
    from roofline.machine import file
    from roofline.machine.catalog import with_published

    machine = with_published(machine)
    saved = file.save(machine, out or file.default_path(machine))
    if as_json:
        click.echo(saved.read_text())
    else:
        from roofline.report.text import machine_table, show

        show(machine_table(machine))
    click.echo(f"Machine file: {saved}", err=as_json)
    if plot:
        from roofline.report.figure import save_machine_figure

        click.echo(f"Figure: {save_machine_figure(machine, plot)}", err=as_json)


def _numbered(path: Path | None, device: str, several: bool) -> Path | None:
    """One file per device where several are probed."""
    return path if path is None or not several else path.with_stem(f"{path.stem}-{device.replace(':', '')}")


def _check_writable(path: Path) -> None:
    """Before anything is measured: a result that cannot be kept is not worth the wait."""
    from roofline.machine.file import write_atomically

    if path.is_dir():
        raise FileError(f"{path} is a folder; expected the path of a file.")
    write_atomically(path.with_name(f".{path.name}.probe"), b"").unlink()

"""`roofline probe`: measure, print, draw and keep the ceilings of one device or of all."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
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
@click.option("--only", default="", metavar="NAME,…", help="What to measure, such as dram,fp32,sweeps.")
@click.option("--zeros", is_flag=True, help="Measure arithmetic on zeros too: what random data cost in power.")
@click.option("--audit", is_flag=True, help="Hold every claim against the GPU's counters (needs Nsight Compute).")
@click.option("--out", type=click.Path(path_type=Path), help="Machine file (JSON); default: the user's data folder.")
@click.option("--plot", type=click.Path(path_type=Path), help="Figure of the roofline: .svg, .png or .pdf.")
@click.option("--json", "as_json", is_flag=True, help="Print the machine file instead of a table.")
def command(
    device: str, effort: str, only: str, zeros: bool, audit: bool, out: Path | None, plot: Path | None, as_json: bool
) -> None:
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
    wanted = [name.strip() for name in only.split(",") if name.strip()]
    several = len(devices) > 1
    machines = []
    for name in devices:
        keep = partial(_keep, _numbered(out, name, several), _numbered(plot, name, several), as_json)
        machines.append(_probe(name, effort, wanted, zeros, audit, keep))
    if several and not as_json:
        from roofline.report.devices import devices_table
        from roofline.report.text import show

        show(devices_table(devices, machines))


def _probe(
    device: str, effort: str, only: list[str], zeros: bool, audit: bool, keep: Callable[[Machine], None]
) -> Machine:
    from roofline.measure.run import ProbeInterrupted, probe
    from roofline.report.progress import progress

    try:
        with progress(f"Probing {device}") as report:
            machine = probe(device, effort, only or None, report, zeros)
    except ProbeInterrupted as stop:
        with suppress(MissingCeiling):  # too early for a figure
            keep(stop.machine)
        raise
    if audit:
        machine = _audited(machine, device, keep)
    keep(machine)
    return machine


def _audited(machine: Machine, device: str, keep: Callable[[Machine], None]) -> Machine:
    from roofline.measure.ncu import audited

    click.echo("Auditing by counters; this takes a minute or two.", err=True)
    try:
        return audited(machine, device)
    except KeyboardInterrupt:
        keep(machine)
        raise


def _keep(out: Path | None, plot: Path | None, as_json: bool, machine: Machine) -> None:
    """Saves first, so that nothing is lost if printing or drawing fails."""
    from roofline.machine import file
    from roofline.machine.catalog import with_published

    machine = with_published(machine)
    saved = file.save(machine, out or file.default_path(machine))
    if as_json:
        click.echo(saved.read_text())
    else:
        from roofline.report.audits import audit_table
        from roofline.report.text import machine_table, show

        show(machine_table(machine))
        if machine.audits:
            show(audit_table(machine))
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
    try:
        write_atomically(path.with_name(f".{path.name}.probe"), b"").unlink()
    except FileError as error:
        raise FileError(str(error).replace(f".{path.name}.probe", path.name, 1)) from error

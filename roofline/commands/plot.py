"""`roofline plot`: the rooflines of machines in one figure."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("plot")
@click.argument("machines", nargs=-1, required=True)
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("roofline.svg"), show_default=True,
    help="Figure, svg, png or pdf; its data as CSV beside it.",
)  # fmt: skip
@click.option(
    "--only",
    help="Ceilings or groups to show, by comma: dram, l2, l1, shared, vector, tensor, gemm, conv. "
    "Unless given, one machine shows all, several show dram, l2, vector and tensor.",
)
def command(machines: tuple[str, ...], out: Path, only: str | None) -> None:
    """Draw the rooflines of MACHINES (names or machine files) over each other."""
    from roofline.machine.catalog import machine
    from roofline.report.export import save_ceilings_csv
    from roofline.report.figure import save_machine_figure

    found = [machine(name) for name in machines]
    shown = tuple(filter(None, only.split(","))) if only else ()
    click.echo(f"written: {save_machine_figure(found, out, shown)}")
    click.echo(f"written: {save_ceilings_csv(found, out.with_suffix('.csv'))}")

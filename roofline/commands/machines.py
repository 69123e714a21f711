"""`roofline machines`: the machines that are known, or two of them side by side."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("machines")
@click.argument("machines", nargs=-1)
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="The comparison as JSON.")
def command(machines: tuple[str, ...], json_path: Path | None) -> None:
    """Compare the ceilings of two MACHINES (names or machine files); without any, list the known names."""
    import msgspec

    from roofline.analysis.machines import compare_machines
    from roofline.machine import catalog
    from roofline.machine.file import write_atomically
    from roofline.report.text import comparison_table, show

    if not machines:
        click.echo("\n".join(catalog.names()))
        return
    if len(machines) != 2:
        raise click.UsageError(f"two machines are compared, {len(machines)} were given")
    comparison = compare_machines(*map(catalog.machine, machines))
    show(comparison_table(comparison))
    if json_path:
        write_atomically(json_path, msgspec.json.format(msgspec.json.encode(comparison), indent=1) + b"\n")
        click.echo(f"written: {json_path}")

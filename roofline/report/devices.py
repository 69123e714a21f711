"""One table over several devices, outliers marked."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType

from roofline.analysis.outliers import TOLERANCE, outliers
from roofline.machine.ceilings import BY_NAME
from roofline.machine.record import Machine
from roofline.report.text import label, make_table, notes
from roofline.units import si


def devices_table(names: Sequence[str], machines: Sequence[Machine]) -> RenderableType:
    """A column per device, a row per ceiling; values far from the median of equal devices carry their deviation."""
    marked = outliers(machines)
    known = {ceiling.name for machine in machines for ceiling in machine.ceilings}
    rows = [
        [label(ceiling), *(_cell(machine, ceiling, marked.get((i, ceiling))) for i, machine in enumerate(machines))]
        for ceiling in BY_NAME
        if ceiling in known
    ]
    columns = [f"{name}\n{machine.device.name}" for name, machine in zip(names, machines, strict=True)]
    remarks = [
        f"{names[i]}: {label(ceiling)} is {100 * abs(share):.1f} % {_side(share)} the median of equal devices"
        for (i, ceiling), share in marked.items()
    ]
    alike = () if marked else (f"No ceiling is more than {100 * TOLERANCE:g} % from the median of equal devices.",)
    return Group(make_table("All devices", ("ceiling",), columns, rows), *notes(remarks), *notes(alike, "dim"))


def _side(share: float) -> str:
    return "above" if share > 0 else "below"


def _cell(machine: Machine, name: str, deviation: float | None) -> str:
    ceiling = machine.get(name)
    if ceiling is None:
        return ""
    mark = "" if deviation is None else f" ({100 * deviation:+.1f} %) !"
    return si(ceiling.value, ceiling.unit, 4) + mark

"""Two machines side by side, ceiling by ceiling: measured numbers and data sheets apart."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.machine.ceilings import BY_NAME
from roofline.machine.record import Ceiling, Machine, Unit


@dataclass(frozen=True)
class Pair:
    """The same quantity of two machines; None where it is not known."""

    a: float | None
    b: float | None

    @property
    def ratio(self) -> float | None:
        """a / b; None unless both are known."""
        return self.a / self.b if self.a is not None and self.b else None


@dataclass(frozen=True, kw_only=True)
class CeilingComparison:
    """One ceiling of two machines."""

    name: str
    unit: Unit
    measured: Pair
    datasheet: Pair


@dataclass(frozen=True, kw_only=True)
class MachineComparison:
    """All ceilings that at least one of two machines has."""

    a: str
    b: str
    ceilings: tuple[CeilingComparison, ...]


def _measured(ceiling: Ceiling | None) -> float | None:
    return ceiling.value if ceiling is not None and ceiling.measured else None


def _datasheet(ceiling: Ceiling | None) -> float | None:
    if ceiling is None:
        return None
    return ceiling.published if ceiling.measured else ceiling.value


def compare_machines(a: Machine, b: Machine) -> MachineComparison:
    """Every ceiling of `a` and `b` with the ratio a / b, in the vocabulary's order."""
    known = {ceiling.name: ceiling.unit for ceiling in (*a.ceilings, *b.ceilings)}
    order = [name for name in BY_NAME if name in known] + [name for name in known if name not in BY_NAME]
    rows = [
        CeilingComparison(
            name=name,
            unit=known[name],
            measured=Pair(_measured(a.get(name)), _measured(b.get(name))),
            datasheet=Pair(_datasheet(a.get(name)), _datasheet(b.get(name))),
        )
        for name in order
    ]
    return MachineComparison(a=a.name, b=b.name, ceilings=tuple(rows))

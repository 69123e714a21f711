"""Devices of one kind should measure alike: which ceilings of which device do not?"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from roofline.machine.record import Machine

TOLERANCE = 0.03
"""Devices of one kind differ by a percent or two."""


def outliers(machines: Sequence[Machine], tolerance: float = TOLERANCE) -> dict[tuple[int, str], float]:
    """(Index of the machine, name of the ceiling) → how far it lies from the median of all devices of that name.

    A share: -0.05 is 5 % below. Only those further away than `tolerance`; two devices can only tell that they differ.
    """
    found: dict[tuple[int, str], float] = {}
    for index, machine in enumerate(machines):
        alike = [other for other in machines if other.device.name == machine.device.name]
        for ceiling in machine.ceilings:
            values = [other.value for m in alike if (other := m.get(ceiling.name))]
            middle = median(values)
            if middle and abs(ceiling.value / middle - 1) > tolerance:
                found[index, ceiling.name] = ceiling.value / middle - 1
    return found

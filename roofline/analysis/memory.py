"""How long a memory level needs for bytes read and written: bandwidth by the mix of the two."""

from __future__ import annotations

from roofline.errors import MissingCeiling
from roofline.machine.record import Machine

MIXES = {"read": 0.0, "triad": 1 / 3, "copy": 1 / 2, "write": 1.0}
"""Direction of a measured bandwidth → share of its bytes that are written."""

LEVELS = ("dram", "l2")
"""Levels at which the traffic of an op call is known without hardware counters."""


def bandwidths(machine: Machine, level: str) -> dict[float, float]:
    """Share of bytes written → bytes/s, for the directions of a level that the machine has."""
    found = {share: machine.get(f"{level}_{direction}") for direction, share in MIXES.items()}
    return {share: ceiling.value for share, ceiling in found.items() if ceiling is not None}


def fastest(machine: Machine, level: str = "dram") -> float:
    """The highest bandwidth of a level in any direction, bytes/s; `MissingCeiling` if it has none."""
    knots = bandwidths(machine, level)
    if not knots:
        machine.ceiling(f"{level}_read")
        raise MissingCeiling(f"{machine.name} has no bandwidth of the level '{level}'.")
    return max(knots.values())


def seconds(knots: dict[float, float], read_bytes: int, written_bytes: int) -> float:
    """Time for the bytes at bandwidths `knots` (share of bytes written → bytes/s).

    Seconds per byte are interpolated linearly in the share written: a pure read takes exactly the read
    bandwidth, 2:1 the triad's, 1:1 the copy's, a pure write the write's. Where only read and write are known,
    this is read/B_r + written/B_w. Outside the known shares the nearest holds. A faster direction never
    costs time.
    """
    total = read_bytes + written_bytes
    if total == 0:
        return 0.0
    share = written_bytes / total
    below = max((s for s in knots if s <= share), default=min(knots))
    above = min((s for s in knots if s >= share), default=max(knots))
    if above <= below:
        return total / knots[below]
    weight = (share - below) / (above - below)
    return total * ((1 - weight) / knots[below] + weight / knots[above])


def ridge_points(machine: Machine, level: str = "dram") -> dict[str, float]:
    """Pipe → ridge point in flop/byte, on the fastest direction of the level."""
    bandwidth = fastest(machine, level)
    pipes = (c for c in machine.ceilings if c.unit in ("flops_per_s", "ops_per_s"))
    return {pipe.name: pipe.value / bandwidth for pipe in pipes}

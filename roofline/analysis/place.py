"""PLACEMENT: every op call of a trace under the ceilings of a machine, and sums of them.

The floor of a call is the longest of the times that its pipe and each memory level need on their own; that
ceiling binds it. Calls run one after the other, so floors add up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

from roofline.analysis.memory import LEVELS, bandwidths, fastest, ridge_points, seconds
from roofline.analysis.pipe import Fallback, fallback, resolve
from roofline.errors import UsageError
from roofline.machine.record import Machine
from roofline.work.record import Call, Trace

View = Literal["call", "layer", "module", "operator", "pipe"]

_TILE = 256
"""Rows and columns of the largest output tile that GPUs keep on chip: bounds L2 traffic from below."""


@dataclass(frozen=True, kw_only=True)
class PlacedCall:
    """One op call under the ceilings of a machine."""

    call: Call
    pipe: str | None
    """The compute ceiling it is held against, after fallback; None without matrix work or a known pipe."""
    level_bytes: Mapping[str, int]
    """Memory level → bytes the call moves there at least."""
    seconds: Mapping[str, float]
    """Ceiling (a pipe's name, or a level such as "dram") → time the call needs at that ceiling alone."""

    @property
    def floor_s(self) -> float:
        """No kernel can be faster, if inputs and outputs go through DRAM once; 0 for empty tensors."""
        return max(self.seconds.values(), default=0.0)

    @property
    def binding(self) -> str:
        """The ceiling that sets the floor; "none" if nothing is moved or computed."""
        return max(self.seconds, key=lambda name: self.seconds[name]) if self.floor_s > 0 else "none"

    def intensity(self, level: str = "dram") -> float | None:
        """Matrix flops per byte moved at `level`; None if no byte moves there."""
        return _ratio(self.call.flops, self.level_bytes.get(level, 0))

    @property
    def attainable_flops_per_s(self) -> float | None:
        """The roof above this call at its own read:write mix; None without flops to do."""
        return _ratio(self.call.flops, self.floor_s) if self.call.flops else None


@dataclass(frozen=True, kw_only=True)
class PlacedSum:
    """Sums over some placed calls: a layer, a module, an operator, a pipe."""

    name: str
    kind: str
    """Kind of the operators that most of the floor time belongs to."""
    calls: int
    flops: int
    elementwise_flops: int
    bytes_read: int
    bytes_written: int
    level_bytes: Mapping[str, int]
    floor_s: float
    seconds_by_ceiling: Mapping[str, float]
    """Binding ceiling → floor time of the calls it binds, largest first."""
    uncounted: Mapping[str, int]
    """Ops without a formula → calls: their flops are missing here."""

    @property
    def binding(self) -> str:
        """The ceiling that binds most of the floor time; "none" if there is none."""
        return next(iter(self.seconds_by_ceiling), "none")

    def intensity(self, level: str = "dram") -> float | None:
        """Matrix flops per byte moved at `level`; None if no byte moves there."""
        return _ratio(self.flops, self.level_bytes.get(level, 0))

    @property
    def attainable_flops_per_s(self) -> float | None:
        """Matrix flops over floor time; None without flops to do."""
        return _ratio(self.flops, self.floor_s) if self.flops else None


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


@dataclass(frozen=True, kw_only=True)
class Placement:
    """A trace under the ceilings of a machine."""

    name: str
    """What was traced."""
    machine: Machine
    calls: tuple[PlacedCall, ...]
    fallbacks: tuple[Fallback, ...]
    """Pipes that the machine lacks and what stood for them."""

    @cached_property
    def total(self) -> PlacedSum:
        """Sums over all calls."""
        return _sum(self.name, self.calls)

    @property
    def floor_s(self) -> float:
        """Sum of the floors of all calls."""
        return self.total.floor_s

    @property
    def uncounted(self) -> Mapping[str, int]:
        """Ops without a formula → calls: placed by their bytes, their flops unknown."""
        return self.total.uncounted

    @property
    def ridge_points(self) -> dict[str, float]:
        """Compute ceiling → flop/byte from which it, and no longer DRAM, binds (fastest direction)."""
        return ridge_points(self.machine)

    def by(self, view: View) -> tuple[PlacedSum, ...]:
        """Sums per call, layer (innermost module), module (inclusive), operator or pipe, as executed."""
        if view not in get_args(View):
            raise UsageError(f"no view is called {view!r}; there are {', '.join(get_args(View))}")
        groups: dict[str, list[PlacedCall]] = {}
        for placed in self.calls:
            for key in _keys(placed, view):
                groups.setdefault(key, []).append(placed)
        return tuple(_sum(name, calls) for name, calls in groups.items())


def _keys(placed: PlacedCall, view: View) -> tuple[str, ...]:
    call = placed.call
    if view == "module":
        return call.scope
    if view == "call":
        return (" ".join(filter(None, (str(call.index), call.module, call.op))),)
    if view == "pipe":
        return (placed.pipe or "none",)
    return (call.module if view == "layer" else call.op,)


def _sum(name: str, calls: Iterable[PlacedCall]) -> PlacedSum:
    calls = tuple(calls)
    kinds: Counter[str] = Counter()
    ceilings: Counter[str] = Counter()
    levels: Counter[str] = Counter()
    for placed in calls:
        kinds[placed.call.kind] += placed.floor_s  # type: ignore[assignment]  # a Counter adds floats as well
        if placed.floor_s > 0:
            ceilings[placed.binding] += placed.floor_s  # type: ignore[assignment]
        levels.update(placed.level_bytes)
    return PlacedSum(
        name=name,
        kind=kinds.most_common(1)[0][0] if kinds else "other",
        calls=len(calls),
        flops=sum(placed.call.flops for placed in calls),
        elementwise_flops=sum(placed.call.elementwise_flops for placed in calls),
        bytes_read=sum(placed.call.bytes_read for placed in calls),
        bytes_written=sum(placed.call.bytes_written for placed in calls),
        level_bytes=dict(levels),
        floor_s=sum(placed.floor_s for placed in calls),
        seconds_by_ceiling=dict(ceilings.most_common()),
        uncounted=dict(Counter(placed.call.op for placed in calls if not placed.call.counted)),
    )


def _l2_bytes_read(call: Call) -> int:
    """Bytes a product reads from L2: each operand once per row or column of tiles.

    (m x k) goes to ceil(n/tile) columns of tiles and (k x n) to ceil(m/tile) rows.
    """
    product = call.product
    if product is None or call.kind != "gemm" or not call.flops:
        return call.bytes_read
    operand_elements = (product.m + product.n) * product.k * product.batch
    swept = product.m * product.k * -(-product.n // _TILE) + product.n * product.k * -(-product.m // _TILE)
    return max(call.bytes_read, call.bytes_read * product.batch * swept // max(operand_elements, 1))


def _traffic(call: Call) -> dict[str, tuple[int, int]]:
    """Memory level → bytes read and written there at least."""
    return {
        "dram": (call.bytes_read, call.bytes_written),
        "l2": (_l2_bytes_read(call), call.bytes_written),
    }


def place(trace: Trace, machine: Machine) -> Placement:
    """Every call of `trace` under the ceilings of `machine`.

    A pipe that the machine lacks falls back by `analysis.pipe.RULES` and is listed in `Placement.fallbacks`;
    `MissingCeiling` if no rule helps, or if the machine has no DRAM bandwidth.
    """
    fastest(machine, "dram")
    knots = {level: found for level in LEVELS if (found := bandwidths(machine, level))}
    asked = Counter(call.pipe for call in trace.calls if call.flops)
    used = {pipe: resolve(machine, pipe) for pipe in asked if pipe is not None}
    rates = {pipe: machine.ceiling(name).value for pipe, name in used.items()}

    def placed(call: Call) -> PlacedCall:
        traffic = {level: both for level, both in _traffic(call).items() if level in knots}
        times = {level: seconds(knots[level], *both) for level, both in traffic.items()}
        pipe = call.pipe if call.flops else None
        if pipe is not None:
            times = {used[pipe]: call.flops / rates[pipe], **times}
        return PlacedCall(
            call=call,
            pipe=used[pipe] if pipe is not None else None,
            level_bytes={level: sum(both) for level, both in traffic.items()},
            seconds=times,
        )

    replaced = [fallback(machine, pipe, name, asked[pipe]) for pipe, name in used.items() if name != pipe]
    if asked[None]:
        reason = "no pipe ceiling is known for products of this number format; they are placed by their bytes"
        replaced.append(Fallback("unknown", None, reason, asked[None]))
    return Placement(
        name=trace.name, machine=machine, calls=tuple(map(placed, trace.calls)), fallbacks=tuple(replaced)
    )

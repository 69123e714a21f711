"""Why one machine is faster: the log-ratio of two predictions shared out exactly over named differences.

Shapley values: a difference gets its mean effect on ln(seconds) over all orders in which the attributes of one
machine can be exchanged for the other's. The shares add up to ln(seconds_b / seconds_a) by construction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import combinations
from math import factorial, log

from roofline.analysis.hardware import Hardware

CAUSES: dict[str, tuple[str, ...]] = {
    "DRAM bandwidth": ("dram_bytes_per_s", "dram_measured"),
    "ECC in the DRAM": ("ecc",),
    "L2 size": ("l2_bytes",),
    "L2 bandwidth per SM and clock": ("l2_bytes_per_clock", "l2_measured"),
    "SM count": ("sm_count",),
    "boost clock": ("clock_hz",),
    "GeForce clock above boost": ("consumer",),
    "power limit": ("base_share",),
    "tensor rate per SM and clock": ("pipe_per_clock",),
    "fp32 rate per SM and clock": ("fp32_per_clock",),
    "tile of products": ("tile",),
}
"""Name of a difference → the attributes of `Hardware` that make it."""


def differences(a: Hardware, b: Hardware) -> dict[str, tuple[str, ...]]:
    """The causes in which two machines differ."""
    return {
        name: fields
        for name, fields in CAUSES.items()
        if any(getattr(a, field) != getattr(b, field) for field in fields)
    }


def shapley(players: tuple[str, ...], value: Callable[[frozenset[str]], float]) -> dict[str, float]:
    """Each player's mean contribution over all orders; `value` of a coalition is called once for each of 2^n.

    share_i = sum over coalitions S without i of |S|! (n - |S| - 1)! / n! x (value(S + i) - value(S)).
    """
    n = len(players)
    subsets = [frozenset(chosen) for size in range(n + 1) for chosen in combinations(players, size)]
    values = {subset: value(subset) for subset in subsets}
    weight = {size: factorial(size) * factorial(n - size - 1) / factorial(n) for size in range(n)}
    return {
        player: sum(
            weight[len(subset)] * (values[subset | {player}] - values[subset])
            for subset in subsets
            if player not in subset
        )
        for player in players
    }


def attribute(a: Hardware, b: Hardware, seconds: Callable[[Hardware], float]) -> Mapping[str, float]:
    """Cause → its share of ln(seconds(b) / seconds(a)); positive: it favours `a`. Largest first."""
    found = differences(a, b)

    def value(taken: frozenset[str]) -> float:
        changes = {field: getattr(b, field) for name in taken for field in found[name]}
        return log(seconds(replace(a, **changes)))

    shares = shapley(tuple(found), value)
    return dict(sorted(shares.items(), key=lambda item: -abs(item[1])))

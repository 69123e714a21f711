"""The time of every kernel on a machine: one equation per kernel class.

    product, attention   t = (math^p + l2^p + dram^p)^(1/p) + layout + kernel_s      p = overlap
    norm, pointwise,     t = max(l2, dram, issue) + kernel_s
    copy
    program              t = max(sum of t, host)

math = flops / (rate x SMs x clock), l2 = bytes between L2 and SMs / L2 bandwidth, dram = compulsory bytes that the L2
no longer holds / DRAM bandwidth, issue = elements / (elements per clock x SMs x clock). Ceilings overlap imperfectly
near the ridge, hence the p-norm: 1 adds them up, infinity is the plain roofline. The clock is the one that the power
limit allows at the program's own arithmetic load.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from roofline.analysis import rules
from roofline.analysis.constants import Constants
from roofline.analysis.demand import Demand
from roofline.analysis.hardware import Hardware

TERMS = ("math", "l2", "dram", "issue", "layout", "launch", "host")
"""What the seconds of a prediction are made of."""


@dataclass(frozen=True, kw_only=True)
class Times:
    """Seconds of each kernel, (kernels,) or (variants of the constants, kernels)."""

    math: np.ndarray
    l2: np.ndarray
    dram: np.ndarray
    issue: np.ndarray
    layout: np.ndarray
    launch: np.ndarray
    kernel: np.ndarray
    """The whole kernel, by its class's equation."""
    clock: np.ndarray
    """Relative to the top clock."""
    host_s: np.ndarray
    """Seconds the host needs to issue the whole program."""

    @property
    def seconds(self) -> np.ndarray:
        """Seconds of the program: device or host, whichever is slower."""
        return np.maximum(self.kernel.sum(axis=-1), self.host_s)


def times(demand: Demand, machine: Hardware, constants: Constants, host_s: float | None = None) -> Times:
    """Seconds of every kernel of `demand` on `machine`, at the clock its power limit allows."""
    full = _at_clock(demand, machine, constants, np.ones(1), host_s)
    busy = full.kernel.sum(axis=-1, keepdims=True)
    share = full.math.sum(axis=-1, keepdims=True) / np.maximum(busy, 1e-12)
    return _at_clock(demand, machine, constants, rules.power_limited(share, machine, constants), host_s)


def _at_clock(
    demand: Demand, machine: Hardware, constants: Constants, clock: np.ndarray, host_s: float | None
) -> Times:
    cycles = machine.sm_count * rules.top_clock(machine, constants) * clock
    bandwidth = rules.dram_bandwidth(machine, constants)
    launch = demand.launches * constants.kernel_s
    l2 = _l2_bytes(demand, machine) / _l2_bandwidth(machine, constants, cycles)
    missed = (demand.reused * rules.l2_misses(demand.distance, machine)).sum(axis=-1)
    dram = (demand.moved - demand.reused.sum(axis=-1) + missed) / bandwidth
    issue = demand.elements / (_elements_per_clock(demand, constants) * cycles)
    math = demand.flops / (rules.product_rate(demand, machine, constants) * cycles * _filled(demand, machine))
    converted = rules.layout_elements(demand, machine, constants)
    layout = converted * np.maximum(2 * demand.item / bandwidth, 1 / (constants.pointwise_elements_per_clock * cycles))
    product = np.isin(demand.equation, ("product", "attention"))
    p = constants.overlap
    whole = _norm(p, math, l2, dram) + layout
    direct = demand.flops / (
        machine.fp32_per_clock * constants.fp32_efficiency * constants.winograd_gain * cycles * _filled(demand, machine)
    )
    winograd = _norm(p, direct, l2, dram)
    taken = rules.winograd_takes_over(demand, machine, constants) & (winograd < whole)
    kernel = np.where(product, np.where(taken, winograd, whole), np.maximum(np.maximum(l2, dram), issue)) + launch
    return Times(
        math=np.where(taken, direct, math) * product, l2=l2, dram=dram, issue=np.where(product, 0.0, issue),
        layout=np.where(taken, 0.0, layout), launch=launch, kernel=kernel, clock=clock,
        host_s=_host(demand, constants, host_s),
    )  # fmt: skip


def _norm(p: float, *parts: np.ndarray) -> np.ndarray:
    """(sum of part^p)^(1/p), scaled by the largest part so that no power underflows."""
    parts = tuple(np.broadcast_arrays(*parts))
    top = np.maximum(np.max(parts, axis=0), 1e-300)
    return top * sum(((part / top) ** p for part in parts), start=np.zeros(1)) ** (1 / p)


def _l2_bytes(demand: Demand, machine: Hardware) -> np.ndarray:
    """Bytes between L2 and SMs: a tiled product reads each operand once per row or column of tiles."""
    volume = demand.batch * demand.m * demand.n * demand.k * demand.item
    tile = machine.tile
    swept = volume * (1 / np.minimum(tile, demand.n) + 1 / np.minimum(tile, demand.m)) + demand.written
    return np.where((demand.equation == "product") & ~demand.depthwise, np.maximum(swept, demand.moved), demand.moved)


def _l2_bandwidth(machine: Hardware, constants: Constants, cycles: np.ndarray) -> np.ndarray:
    efficiency = 1.0 if machine.l2_measured else constants.l2_efficiency
    return machine.l2_bytes_per_clock * efficiency * cycles


def _elements_per_clock(demand: Demand, constants: Constants) -> np.ndarray:
    norm = constants.norm_elements_per_clock * (1.0 if demand.modern_norms else constants.early_norms)
    rest = np.where(
        demand.equation == "copy", constants.copy_elements_per_clock, constants.pointwise_elements_per_clock
    )
    return np.where(demand.equation == "norm", norm, rest)


def _filled(demand: Demand, machine: Hardware) -> np.ndarray:
    """Share of the SM time that a product's output tiles fill.

    Tiles of 128 x 64 run in waves, and the last wave is part empty. Fewer tiles than SMs are cut to 64 x 64 and along
    512 of the reduction.
    """
    waves = demand.batch * np.ceil(demand.m / 128) * np.ceil(demand.n / 64) / machine.sm_count
    cut = demand.batch * np.ceil(demand.m / 64) * np.ceil(demand.n / 64) * np.ceil(demand.k / 512) / machine.sm_count
    return np.where(waves >= 1, waves / np.ceil(waves), np.minimum(1.0, cut))


def _host(demand: Demand, constants: Constants, host_s: float | None) -> np.ndarray:
    """Host seconds: each op call, and in training also each parameter, whose gradient is cleared and accumulated."""
    per_call = constants.host_s if host_s is None else host_s
    issued = demand.host_calls + constants.host_per_parameter * demand.trained_parameters
    return np.asarray(per_call * issued).sum(axis=-1)

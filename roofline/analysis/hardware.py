"""HARDWARE: the attributes of a machine that decide a prediction, each with where it came from.

`compare` swaps these one by one, so every field is one physical difference between two machines.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import log2

from roofline.errors import MissingCeiling
from roofline.machine.ceilings import BY_NAME
from roofline.machine.record import Device, Machine

L2_BYTES_PER_CLOCK = {"6": 20.0, "7": 20.0, "8.0": 36.0, "8.6": 16.0, "8.9": 15.0, "9": 39.0, "10": 39.0, "12": 15.0}
"""Compute capability → L2 bytes per clock and SM, from published microbenchmarks (A100 5.48 TB/s, L40 5.33, A40,
H200 10.3, V100 2.16, T4 1.27 TB/s over SMs x clock). Blackwell: its predecessor's, for want of a published one."""
_L2_DEFAULT = 16.0
_TENSOR_PER_CLOCK = {"7": 1024.0, "8.0": 2048.0, "8.6": 1024.0, "8.9": 1024.0, "9": 4096.0, "10": 8192.0, "12": 1024.0}
"""Compute capability → dense fp16 tensor flops per clock and SM at full rate, where a data sheet lists no rate."""
_L2_PER_SM = 2**18
_CONSUMER = re.compile(r"(NVIDIA )?(GeForce )?(GTX |RTX [2345]0[5-9]0|TITAN )")
_DATA_CENTRE = re.compile(r"(NVIDIA )?(Tesla )?[ALPT]\d+[GS]?\b")
_PIPES = ("fp64", *(name for name, kind in BY_NAME.items() if kind.group == "tensor"))


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """What the equations need of a GPU."""

    name: str
    sm_count: float
    clock_hz: float
    """Boost clock."""
    base_share: float
    """Base over boost clock: what the board promises under full load within its power limit."""
    consumer: bool
    """A GeForce or TITAN board: runs above its nominal boost clock."""
    dram_bytes_per_s: float
    dram_measured: bool
    """True: measured with streaming kernels; no further efficiency applies."""
    ecc: bool
    """ECC held in the DRAM itself, which costs bandwidth (GDDR; HBM has extra pins for it)."""
    l2_bytes: float
    l2_bytes_per_clock: float
    """Per SM."""
    l2_measured: bool
    fp32_per_clock: float
    """Flops per clock and SM."""
    pipe_per_clock: Mapping[str, float]
    """Pipe → flops per clock and SM; missing: the machine has no such units."""
    tile: float
    """Rows and columns of the largest output tile of a product."""
    memory_bytes: int | None
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Field → where its number came from."""


class _Reader:
    """Reads a machine's attributes and notes where each came from."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.device = machine, machine.device
        self.sources: dict[str, str] = {}

    def note(self, attribute: str, source: str) -> None:
        self.sources[attribute] = source

    def rate(self, name: str) -> float | None:
        """A ceiling's value, noted; None if the machine lacks it."""
        ceiling = self.machine.get(name)
        if ceiling is None or ceiling.value <= 0:
            return None
        self.note(name, "measured" if ceiling.measured else f"data sheet ({ceiling.source})")
        return ceiling.value

    def per_clock(self, name: str, sms: float, clock_hz: float) -> float | None:
        """A ceiling's rate per clock and SM, noted.

        A measured rate is divided by the clock that it was measured at, which a power limit may have held below
        `clock_hz`: the model lowers the clock itself, and must not do so twice. If that clock is not known, the rate
        before the power limit stands for the one at `clock_hz`.
        """
        rate = self.rate(name)
        measurement = self.machine.ceiling(name).measurement if rate else None
        if measurement and measurement.health.clock_hz:
            clock_hz = measurement.health.clock_hz
        elif measurement and measurement.burst:
            rate = measurement.burst
        return rate / (sms * clock_hz) if rate else None

    def clock(self) -> float:
        device = self.device
        if device.boost_clock_hz:
            self.note("clock_hz", "data sheet (boost)")
            return float(device.boost_clock_hz)
        fp32 = self.rate("fp32")
        if fp32 and device.sm_count:
            self.note("clock_hz", "assumed: fp32 peak / (SMs x 256 flops per clock)")
            return fp32 / (device.sm_count * 256)
        raise MissingCeiling(f"{self.machine.name}: neither a clock nor an fp32 peak with an SM count is known.")

    def sms(self, clock_hz: float) -> float:
        if self.device.sm_count:
            self.note("sm_count", "data sheet")
            return float(self.device.sm_count)
        fp32 = self.machine.ceiling("fp32").value
        self.note("sm_count", "assumed: fp32 peak / (clock x 128 flops per clock)")
        return fp32 / (clock_hz * 128)

    def l2(self, sms: float) -> float:
        if self.device.l2_bytes:
            self.note("l2_bytes", "data sheet")
            return float(self.device.l2_bytes)
        self.note("l2_bytes", "assumed: 256 KiB per SM")
        return sms * _L2_PER_SM

    def dram(self) -> tuple[float, bool]:
        """Mean of read and copy, if measured; else the pin bandwidth."""
        read, copy = self.rate("dram_read"), self.rate("dram_copy")
        found = [value for value in (read, copy) if value]
        if not found:
            self.machine.ceiling("dram_read")
        measured = any(c.measured for c in self.machine.ceilings if c.name in ("dram_read", "dram_copy"))
        return sum(found) / len(found), measured

    def pipes(self, sms: float, clock_hz: float) -> dict[str, float]:
        """Flops per clock and SM of tensor and fp64 pipes; one that no data sheet lists follows from its generation."""
        rates = {name: _units(rate) for name in _PIPES if (rate := self.per_clock(name, sms, clock_hz))}
        full = _by_capability(_TENSOR_PER_CLOCK, self.device)
        if full and "tensor_fp16_fp32" not in rates:
            rates["tensor_fp16_fp32"] = full if self.device.fp32_accumulate == "full" else full / 2
            self.note("tensor_fp16_fp32", "assumed: rate of its compute capability, fp32 accumulate at half rate")
        if full and _major(self.device) >= 8:
            for name, share in (("tensor_bf16_fp32", 1.0), ("tensor_tf32", 0.5)):
                if name not in rates:
                    rates[name] = rates["tensor_fp16_fp32"] * share
                    self.note(name, f"assumed: {share:g} x the fp16 tensor rate, as in its generation")
        return rates


def hardware(machine: Machine, ecc: bool | None = None) -> Hardware:
    """The attributes of `machine` that a prediction needs.

    `ecc` overrides what the machine says. `MissingCeiling` without DRAM bandwidth, or with neither clock nor fp32 peak.
    """
    if machine.device.kind == "cpu":
        raise MissingCeiling(f"{machine.name} is a CPU; the time model knows GPUs only. `roofline place` works there.")
    reader, device = _Reader(machine), machine.device
    clock_hz = reader.clock()
    sms = reader.sms(clock_hz)
    dram, dram_measured = reader.dram()
    l2_measured = machine.get("l2_read") is not None
    fp32 = reader.per_clock("fp32", sms, clock_hz)
    if not fp32:
        raise MissingCeiling(f"{machine.name} has no fp32 peak, which every prediction needs.")
    return Hardware(
        name=machine.name, sm_count=sms, clock_hz=clock_hz, base_share=_base_share(reader, clock_hz),
        consumer=_CONSUMER.match(machine.name) is not None, dram_bytes_per_s=dram, dram_measured=dram_measured,
        ecc=ecc_costs(machine, ecc, reader), l2_bytes=reader.l2(sms),
        l2_bytes_per_clock=_l2_rate(reader, sms, clock_hz), l2_measured=l2_measured,
        fp32_per_clock=_units(fp32), pipe_per_clock=reader.pipes(sms, clock_hz),
        tile=256.0 if _major(device) in (9, 10) else 128.0, memory_bytes=device.memory_bytes, sources=reader.sources,
    )  # fmt: skip


def ecc_costs(machine: Machine, ecc: bool | None, reader: _Reader | None = None) -> bool:
    """Whether ECC takes DRAM bandwidth: GDDR memory with ECC on.

    Unknown state: on for data-centre boards (their driver's default), off for GeForce and workstation boards.
    """
    device = machine.device
    inline = (device.memory_type or "").startswith("GDDR")
    if ecc is not None:
        state, source = ecc, "given"
    elif device.ecc is not None:
        state, source = device.ecc, "read from the driver"
    elif _CONSUMER.match(machine.name):
        state, source = False, "none on GeForce boards"
    else:
        state = _DATA_CENTRE.match(machine.name) is not None
        source = "assumed: the driver's default for this kind of board"
    if reader:
        reader.note("ecc", source if inline else "no cost: HBM carries ECC on extra pins, or there is none")
    return inline and state


def _base_share(reader: _Reader, clock_hz: float) -> float:
    base = reader.device.base_clock_hz
    reader.note("base_share", "data sheet (base clock)" if base else "assumed: no power limit below the boost clock")
    return min(float(base) / clock_hz, 1.0) if base else 1.0


def _l2_rate(reader: _Reader, sms: float, clock_hz: float) -> float:
    measured = reader.per_clock("l2_read", sms, clock_hz)
    if measured:
        return measured
    known = _by_capability(L2_BYTES_PER_CLOCK, reader.device)
    reader.note(
        "l2_bytes_per_clock", "published, per SM of its generation" if known else "assumed: 16 B per clock and SM"
    )
    return known or _L2_DEFAULT


def _units(per_clock: float) -> float:
    """Units come in powers of two; a peak quoted at another clock (Hopper: 1830 of 1980 MHz) is off by under 10 %."""
    nearest = 2.0 ** round(log2(per_clock))
    return nearest if abs(per_clock / nearest - 1) < 0.1 else per_clock


def _by_capability(table: Mapping[str, float], device: Device) -> float | None:
    capability = device.compute_capability or ""
    return table.get(capability, table.get(capability.partition(".")[0]))


def _major(device: Device) -> int:
    return int((device.compute_capability or "0").partition(".")[0])

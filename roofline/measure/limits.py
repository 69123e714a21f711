"""Physical limits: what the silicon can do per clock, and the doubts a measured rate raises when held against them.

Rates are flops (ops) per clock and SM: two per lane of a fused multiply-add. Sources: NVIDIA's CUDA C++
Programming Guide, table "Throughput of Native Arithmetic Instructions"; tensor pipes (dense): white papers.
"""

from __future__ import annotations

from roofline.machine.record import Device, Health

_COLUMNS = (
    "fp32",
    "fp16x2",
    "bf16x2",
    "fp64",
    "tensor_fp16_fp16",
    "tensor_tf32",
    "tensor_fp8_e4m3",
    "tensor_int8",
    "tensor_fp64",
)
# Compute capability → flops per clock and SM, in the order of _COLUMNS; 0: the pipe does not exist.
_PER_CLOCK_AND_SM: dict[str, tuple[int, ...]] = {
    "6.0": (128, 256, 0, 64, 0, 0, 0, 0, 0),
    "6.1": (256, 4, 0, 8, 0, 0, 0, 0, 0),
    "7.0": (128, 256, 0, 64, 1024, 0, 0, 0, 0),
    "7.5": (128, 256, 0, 4, 1024, 0, 0, 2048, 0),
    "8.0": (128, 512, 256, 64, 2048, 1024, 0, 4096, 128),
    "8.6": (256, 256, 256, 4, 1024, 512, 0, 2048, 0),
    "8.9": (256, 256, 256, 4, 1024, 512, 2048, 2048, 0),
    "9.0": (256, 512, 512, 128, 4096, 2048, 8192, 8192, 256),
    "10.0": (256, 512, 512, 128, 8192, 4096, 16384, 16384, 128),
    "12.0": (256, 256, 256, 4, 1024, 512, 2048, 2048, 0),
}
_SAME_AS = {
    "tensor_fp16_fp32": "tensor_fp16_fp16",
    "tensor_bf16_fp32": "tensor_fp16_fp16",
    "tensor_fp8_e5m2": "tensor_fp8_e4m3",
}
_ACCUMULATES_FP32 = ("tensor_fp16_fp32", "tensor_bf16_fp32", "tensor_tf32", "tensor_fp8_e4m3", "tensor_fp8_e5m2")
_LIBRARY_PIPES = {
    "gemm_fp16": ("tensor_fp16_fp32",),
    "gemm_bf16": ("tensor_bf16_fp32",),
    "gemm_tf32": ("tensor_tf32",),
    "gemm_fp32": ("fp32",),
    "gemm_fp64": ("tensor_fp64", "fp64"),
    "gemm_fp8": ("tensor_fp8_e4m3",),
    "gemm_int8": ("tensor_int8",),
    "conv_fp16_nchw": ("tensor_fp16_fp32",),
    "conv_fp16_channels_last": ("tensor_fp16_fp32",),
}
"""Pipes that a library's product runs on: the fastest that there is."""
SHARED_BYTES_PER_CLOCK_AND_SM = 128
DATA_RATE = 2
"""Transfers per pin and clock of the memory clock that drivers report (HBM, GDDR5 to GDDR7 alike)."""

ABOVE, BELOW = 1.02, 0.70

_REASONS = {
    "SwPowerCap": "the board is at its power limit",
    "SwThermalSlowdown": "the board is too hot",
    "HwThermalSlowdown": "the chip is too hot",
    "HwPowerBrakeSlowdown": "the power supply asks for less",
    "HwSlowdown": "heat or power supply",
    "SyncBoost": "boost is tied to other GPUs",
}
"""What NVML's clock event reasons mean."""


def per_clock_and_sm(device: Device, ceiling: str) -> float | None:
    """Flops per clock and SM of a pipe; None if the architecture is not in the table, 0 if it lacks the pipe."""
    if ceiling in _LIBRARY_PIPES:
        return max(per_clock_and_sm(device, pipe) or 0 for pipe in _LIBRARY_PIPES[ceiling]) or None
    row = _PER_CLOCK_AND_SM.get(device.compute_capability or "")
    column = _SAME_AS.get(ceiling, ceiling)
    if row is None or column not in _COLUMNS:
        return None
    if ceiling == "tensor_bf16_fp32" and row[_COLUMNS.index("bf16x2")] == 0:
        return 0
    halved = device.fp32_accumulate == "half" and ceiling in _ACCUMULATES_FP32
    return row[_COLUMNS.index(column)] / (2 if halved else 1)


def pin_bytes_per_s(device: Device, memory_clock_hz: float) -> float | None:
    """Bandwidth of the memory pins at a clock."""
    return None if device.memory_bus_bits is None else device.memory_bus_bits / 8 * memory_clock_hz * DATA_RATE


def limit(device: Device, ceiling: str, health: Health) -> tuple[float, str] | None:
    """Physical limit of a ceiling at the observed clocks, and how it was derived; None if a part is unknown."""
    if ceiling.startswith("dram_"):
        clock = health.memory_clock_hz or device.memory_clock_hz
        pins = pin_bytes_per_s(device, clock) if clock else None
        return (
            None
            if not pins or not clock
            else (pins, f"{device.memory_bus_bits} bit x {clock / 1e6:.0f} MHz x {DATA_RATE}")
        )
    clock = health.clock_hz or device.boost_clock_hz
    on_chip = ceiling in ("shared_read", "l1_read")
    rate = SHARED_BYTES_PER_CLOCK_AND_SM if on_chip else per_clock_and_sm(device, ceiling)
    if not rate or not clock or not device.sm_count:
        return None
    return rate * clock * device.sm_count, f"{rate:g}/clk/SM x {device.sm_count} SMs x {clock / 1e6:.0f} MHz"


def doubts(value: float, bound: tuple[float, str] | None, health: Health, scaling: float | None) -> tuple[str, ...]:
    """Reasons not to take a rate at face value."""
    found = []
    if bound and value > ABOVE * bound[0]:
        found.append(
            f"above the physical limit ({value / bound[0]:.0%} of {bound[1]}): cached, or not executed as written"
        )
    if bound and value < BELOW * bound[0]:
        found.append(f"only {value / bound[0]:.0%} of the physical limit ({bound[1]})")
    if scaling is not None and not 0.9 <= scaling <= 1.1:
        found.append(
            f"time does not scale with the work (time per unit at half the work: {scaling:.2f} of that at full)"
        )
    found += [f"clock held back: {_REASONS.get(reason, reason)}" for reason in health.throttle]
    return tuple(found)

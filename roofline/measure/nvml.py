"""Sensors of an NVIDIA GPU through NVML, found by UUID so that CUDA_VISIBLE_DEVICES cannot mislead."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_INSTANT_POWER_FIELD = 186
_POWER_CAP = "SwPowerCap"
_NEAR_LIMIT = 0.7
"""The driver goes on naming the power limit for a while after the load; below this share of it, the word is stale."""
_BENIGN_THROTTLE = {"GpuIdle", "ApplicationsClocksSetting", "UserDefinedClocks", "None"}


@dataclass(frozen=True)
class Reading:
    """One look at the sensors; None where the driver does not answer."""

    clock_hz: float | None = None
    memory_clock_hz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    throttle: tuple[str, ...] = ()


def _try(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except Exception:  # NVML raises a class per error code; absent sensors are normal
        return None


class Sensors:
    """The one class between this package and NVML. `reason` says why it is unusable, if it is."""

    def __init__(self, uuid: str) -> None:
        self.reason: str | None = None
        try:
            import pynvml

            pynvml.nvmlInit()
            self._nvml = pynvml
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(
                uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"
            )
        except Exception as error:
            self.reason = f"NVML is not usable: {error}"

    def _get(self, name: str, *args: Any) -> Any:
        if self.reason or not hasattr(self._nvml, name):
            return None
        return _try(getattr(self._nvml, name), self._handle, *args)

    def read(self) -> Reading:
        """Clocks, power, temperature and the reasons for holding clocks back, now."""
        if self.reason:
            return Reading()
        nvml = self._nvml
        clock = self._get("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM)
        memory = self._get("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM)
        power_w = self._power_w()
        return Reading(
            clock and clock * 1e6,
            memory and memory * 1e6,
            power_w,
            self._get("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
            self._throttle(power_w),
        )

    def _power_w(self) -> float | None:
        values = self._get("nvmlDeviceGetFieldValues", [_INSTANT_POWER_FIELD])
        if values and values[0].nvmlReturn == 0 and values[0].value.uiVal:
            return values[0].value.uiVal / 1e3
        power_mw = self._get("nvmlDeviceGetPowerUsage")
        return power_mw and power_mw / 1e3

    def _throttle(self, power_w: float | None) -> tuple[str, ...]:
        mask = self._get("nvmlDeviceGetCurrentClocksEventReasons") or 0
        prefix = "nvmlClocksEventReason"
        names = {n.removeprefix(prefix): getattr(self._nvml, n) for n in dir(self._nvml) if n.startswith(prefix)}
        set_bits = (n for n, bit in names.items() if isinstance(bit, int) and bit & mask and bit.bit_count() == 1)
        limit = self._get("nvmlDeviceGetPowerManagementLimit")
        below = power_w is not None and limit and power_w < _NEAR_LIMIT * limit / 1e3
        ignored = _BENIGN_THROTTLE | ({_POWER_CAP} if below else set())
        return tuple(sorted(n for n in set_bits if n not in ignored))

    def static(self) -> dict[str, Any]:
        """What does not change: maximum clocks, bus width, power limit, ECC, MIG, driver."""
        if self.reason:
            return {}
        nvml = self._nvml
        clock = self._get("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_SM)
        memory = self._get("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_MEM)
        limit = self._get("nvmlDeviceGetPowerManagementLimit")
        ecc, mig = self._get("nvmlDeviceGetEccMode"), self._get("nvmlDeviceGetMigMode")
        return {
            "boost_clock_hz": clock and clock * 1e6,
            "memory_clock_hz": memory and memory * 1e6,
            "memory_bus_bits": self._get("nvmlDeviceGetMemoryBusWidth"),
            "power_limit_w": limit and limit / 1e3,
            "ecc": bool(ecc[0]) if ecc else None,
            "mig": bool(mig[0]) if mig else False,
            "driver": str(_try(nvml.nvmlSystemGetDriverVersion)),
        }

    def load(self) -> list[str]:
        """Who else uses the GPU: one sentence per finding, none if it is idle."""
        found = []
        processes = self._get("nvmlDeviceGetComputeRunningProcesses") or []
        others = [p for p in processes if p.pid != os.getpid()]
        if others:
            used = sum(p.usedGpuMemory or 0 for p in others)
            found.append(f"{len(others)} other process(es) on the GPU, holding {used / 1e9:.1f} GB: rates may be low")
        utilization = self._get("nvmlDeviceGetUtilizationRates")
        if utilization and utilization.gpu > 5:
            found.append(f"the GPU was {utilization.gpu} % busy before the probe began: rates may be low")
        return found

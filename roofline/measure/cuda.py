"""The bench of an NVIDIA GPU: device events as the clock, NVML as the sensors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from time import sleep
from typing import Any

from roofline.errors import BackendUnavailable, OutOfDeviceMemory, RooflineError
from roofline.kernels.microkernel import Job, Microkernel, Variant
from roofline.machine.record import Device, Health
from roofline.measure import limits
from roofline.measure.arena import TorchArena
from roofline.measure.monitor import watching
from roofline.measure.nvml import Sensors


def _capability(text: str | None) -> tuple[int, int]:
    major, minor = (text or "0.0").split(".")
    return int(major), int(minor)


def describe(properties: Any, static: Mapping[str, Any], sheet: Device | None) -> Device:
    """A Device from torch's properties, NVML's constants and the card's data sheet, in this order of trust."""
    return Device(
        name=properties.name,
        kind="cuda",
        vendor="NVIDIA",
        architecture=sheet.architecture if sheet else None,
        compute_capability=f"{properties.major}.{properties.minor}",
        sm_count=properties.multi_processor_count,
        base_clock_hz=sheet.base_clock_hz if sheet else None,
        boost_clock_hz=static.get("boost_clock_hz") or (sheet.boost_clock_hz if sheet else None),
        memory_clock_hz=static.get("memory_clock_hz"),
        memory_bus_bits=static.get("memory_bus_bits") or (sheet.memory_bus_bits if sheet else None),
        memory_type=sheet.memory_type if sheet else None,
        memory_bytes=properties.total_memory,
        l2_bytes=getattr(properties, "L2_cache_size", None) or (sheet.l2_bytes if sheet else None),
        tdp_w=static.get("power_limit_w") or (sheet.tdp_w if sheet else None),
        ecc=static.get("ecc"),
        fp32_accumulate=sheet.fp32_accumulate if sheet else ("half" if "GeForce" in properties.name else "full"),
        uuid=str(getattr(properties, "uuid", "")) or None,
        launch_year=sheet.launch_year if sheet else None,
    )


class CudaBench:
    """GPU number `index` as torch numbers them."""

    def __init__(
        self, index: int, sheet: Callable[[str, int], Device | None], backend_reason: Callable[[str], str | None]
    ) -> None:
        import torch

        from roofline.measure.provenance import environment, software

        self._torch = torch
        self._torch_device = torch.device("cuda", index)
        torch.cuda.set_device(self._torch_device)
        properties = torch.cuda.get_device_properties(index)
        self._sensors = Sensors(str(getattr(properties, "uuid", "")))
        static = self._sensors.static()
        self.device = describe(properties, static, sheet(properties.name, properties.total_memory))
        self.software: Mapping[str, str] = software(driver=static.get("driver"))
        self.environment: Mapping[str, str] = environment()
        self._backend_reason = backend_reason
        self.warnings: list[str] = [*([self._sensors.reason] if self._sensors.reason else []), *self._sensors.load()]
        if static.get("mig"):
            self.warnings.append("MIG is on: the figures are those of one slice, not of the whole GPU")

    @cached_property
    def arena(self) -> TorchArena:
        """Memory for microkernels, sized by what is free now."""
        free, _ = self._torch.cuda.mem_get_info(self._torch_device)
        clock = self.device.memory_clock_hz
        pins = limits.pin_bytes_per_s(self.device, clock) if clock else None
        return TorchArena(self.device, self._torch_device, free, pins, self.warnings)

    def microkernels(self) -> tuple[Microkernel, ...]:
        """Every CUDA microkernel."""
        from roofline.measure.plan import cuda_microkernels

        return cuda_microkernels()

    def unusable(self, kernel: Microkernel) -> str | None:
        """Too old a GPU, or a backend that does not work here."""
        have, need = _capability(self.device.compute_capability), kernel.minimum_capability
        if have < need:
            return f"not supported: needs compute capability {need[0]}.{need[1]}, this GPU has {have[0]}.{have[1]}"
        reason = self._backend_reason(kernel.backend)
        return None if reason is None else f"{kernel.backend} is not usable: {reason}"

    def prepare(self, kernel: Microkernel, variant: Variant, scale: float, zeros: bool = False) -> Job:
        """Builds the job; every failure of a backend becomes a RooflineError with its first line."""
        with self._torch.cuda.device(self._torch_device), self.arena.filled(zeros):
            job = self._guarded(lambda: kernel.prepare(variant, self.arena, scale))
        return replace(job, check=lambda: self._guarded(job.check))

    def compile(self, kernels: Sequence[Microkernel], variants: int) -> None:
        """One small launch of each variant, on a thread per core: compilers release the interpreter lock."""
        with suppress(OutOfDeviceMemory):  # the ceilings that need the arrays will say so
            self.arena.arrays(4, 1.0)
        pairs = [
            (kernel, variant)
            for kernel in kernels
            if kernel.backend != "torch" and not self.unusable(kernel)
            for variant in kernel.variants(self.device)[:variants]
        ]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda pair: self._compile(*pair), pairs))

    def _compile(self, kernel: Microkernel, variant: Variant) -> None:
        with suppress(Exception), self._torch.cuda.device(self._torch_device):
            kernel.prepare(variant, self.arena, 0.01).run(0)
            self._torch.cuda.synchronize()

    def rest(self, seconds: float) -> None:
        """An idle GPU cools within a second."""
        sleep(seconds)

    def time(self, job: Job, launches: int) -> list[float]:
        """Seconds between device events around each launch."""
        return self._guarded(lambda: self._time(job, launches))

    def _time(self, job: Job, launches: int) -> list[float]:
        torch = self._torch
        with torch.cuda.device(self._torch_device):
            events = [torch.cuda.Event(enable_timing=True) for _ in range(launches + 1)]
            events[0].record()
            for i in range(launches):
                job.run(i)
                events[i + 1].record()
            events[-1].synchronize()
            return [round(a.elapsed_time(b) * 1e-3, 9) for a, b in pairwise(events)]

    def _guarded(self, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except RooflineError:
            raise
        except self._torch.OutOfMemoryError as error:
            raise OutOfDeviceMemory(str(error).splitlines()[0]) from error
        except Exception as error:  # a backend may raise anything at its first use
            lines = str(error).strip().splitlines() or [""]
            raise BackendUnavailable(f"{type(error).__name__}: {lines[0][:200]}") from error

    @contextmanager
    def watch(self) -> Iterator[Callable[[], Health]]:
        """Samples the sensors every 20 ms."""
        with watching(self._sensors.read) as health:
            yield health

    def limit(self, ceiling: str, health: Health) -> tuple[float, str] | None:
        """Lanes x observed clock, or pin rate."""
        return limits.limit(self.device, ceiling, health)

    def release(self) -> None:
        """Returns torch's cached blocks."""
        self._torch.cuda.empty_cache()

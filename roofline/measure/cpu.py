"""The bench of the CPU: the host's clock, every core that this process may use, frequency as the only sensor."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

from roofline.errors import BackendUnavailable, OutOfDeviceMemory, RooflineError
from roofline.kernels.microkernel import Job, Microkernel, Variant
from roofline.machine.record import Device, Health
from roofline.measure.arena import CACHE_MULTIPLE, TorchArena
from roofline.measure.monitor import watching
from roofline.measure.nvml import Reading

_SYSFS = Path("/sys/devices/system/cpu")
_CGROUP_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_LARGEST_SHARE = 0.5
_GRANULE = 1 << 16
_RANDOM_BLOCK = 1 << 20
_SENSOR_INTERVAL_S = 0.1
_BUSY_PERCENT = 10
_VENDORS = {"GenuineIntel": "Intel", "AuthenticAMD": "AMD"}


def allowed_cpus() -> tuple[int, ...]:
    """Logical CPUs in this process's affinity mask."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def usable_threads(cpus: int, quota: Path = _CGROUP_QUOTA) -> int:
    """`cpus`, or fewer where a container's quota (cgroup v2: "granted period", in µs) grants less time."""
    try:
        granted, period = quota.read_text().split()
        return max(1, min(cpus, math.ceil(int(granted) / int(period))))
    except (OSError, ValueError):  # no cgroup, or "max"
        return cpus


def last_level_cache_bytes(cpus: tuple[int, ...], sysfs: Path = _SYSFS) -> int | None:
    """All distinct caches of the highest level that these CPUs use, summed; None if the kernel does not tell."""
    found: dict[tuple[int, str], int] = {}
    for cpu in cpus:
        for cache in (sysfs / f"cpu{cpu}" / "cache").glob("index*"):
            try:
                level, size, sharers = (_text(cache / file) for file in ("level", "size", "shared_cpu_list"))
                found[int(level), sharers] = int(size.removesuffix("K")) << 10
            except (OSError, ValueError):
                continue
    top = max((level for level, _ in found), default=0)
    return sum(size for (level, _), size in found.items() if level == top) or None


def _text(path: Path) -> str:
    return path.read_text().strip()


def describe(cpus: tuple[int, ...], threads: int) -> Device:
    """The CPU as the system reports it; `sm_count` is the number of threads that are used."""
    import cpuinfo
    import psutil

    info = cpuinfo.get_cpu_info()
    vendor = info.get("vendor_id_raw")
    frequency = psutil.cpu_freq()
    return Device(
        name=info.get("brand_raw") or platform.processor() or platform.machine(),
        kind="cpu",
        vendor=_VENDORS.get(vendor, vendor),
        architecture=info.get("arch_string_raw") or platform.machine(),
        sm_count=threads,
        boost_clock_hz=frequency.max * 1e6 if frequency and frequency.max else None,
        memory_bytes=psutil.virtual_memory().total,
        l2_bytes=last_level_cache_bytes(cpus) or info.get("l3_cache_size"),
        notes=f"{psutil.cpu_count(logical=False)} cores, {os.cpu_count()} logical CPUs in the machine",
    )


class CpuArena(TorchArena):
    """Arrays in huge pages where NumPy gets them; each thread's share is first touched by a thread of its own."""

    def __init__(self, device: Device, free_bytes: int, warnings: list[str]) -> None:
        import torch

        super().__init__(device, torch.device("cpu"), free_bytes, None, warnings)

    def _allocate(self, count: int) -> None:
        import torch

        wanted = self.minimum_bytes
        size = min(wanted, int(self._free_bytes * _LARGEST_SHARE) // count)
        if size * CACHE_MULTIPLE < wanted:
            raise OutOfDeviceMemory(
                f"{count} buffers as large as the last-level cache ({wanted / CACHE_MULTIPLE / 1e6:.0f} MB) do not fit "
                f"into half of the {self._free_bytes / 1e6:.0f} MB of free memory. Free some and run again."
            )
        if size < wanted:
            self.warnings.append(
                f"memory is short: DRAM buffers of {size / 1e6:.0f} MB instead of {wanted / 1e6:.0f} MB "
                f"({CACHE_MULTIPLE} x the last-level cache): part of the traffic may be served by the cache"
            )
        n = -(-size // 4 // _GRANULE) * _GRANULE
        threads = self.device.sm_count or 1
        self._arrays = [torch.from_numpy(_random(n, threads, seed)) for seed in range(count)]


def _random(n: int, threads: int, seed: int) -> Any:
    """(n,) fp32, uniform over -1 … 1: each thread's share repeats a block of its own, which is fast to make."""
    import numpy as np

    array = np.empty(n, np.float32)

    def fill(number: int, part: np.ndarray) -> None:
        block = np.random.default_rng((seed, number)).uniform(-1, 1, _RANDOM_BLOCK).astype(np.float32)
        for first in range(0, len(part), len(block)):
            piece = part[first : first + len(block)]
            piece[:] = block[: len(piece)]

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(fill, range(threads), np.array_split(array, threads)))
    return array


class CpuBench:
    """The cores that the process may use. torch's thread count is changed only while a job runs."""

    def __init__(self) -> None:
        from roofline.measure.provenance import cpu_environment, environment, software

        cpus = allowed_cpus()
        self.threads = usable_threads(len(cpus))
        self.device = describe(cpus, self.threads)
        self.software: Mapping[str, str] = software()
        with self._all_threads():
            self.environment: Mapping[str, str] = {**environment(), **cpu_environment(self.device.name, cpus)}
        self.warnings: list[str] = _load()

    @contextmanager
    def _all_threads(self) -> Iterator[None]:
        import torch

        before = torch.get_num_threads()
        torch.set_num_threads(self.threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    @cached_property
    def arena(self) -> CpuArena:
        """Memory for microkernels, sized by what is free now."""
        import psutil

        return CpuArena(self.device, psutil.virtual_memory().available, self.warnings)

    def microkernels(self) -> tuple[Microkernel, ...]:
        """Every CPU microkernel."""
        from roofline.measure.plan import cpu_microkernels

        return cpu_microkernels()

    def unusable(self, kernel: Microkernel) -> str | None:
        """Never: torch and NumPy are always there."""
        return None

    def prepare(self, kernel: Microkernel, variant: Variant, scale: float, zeros: bool = False) -> Job:
        """Builds the job; a failure of a library becomes a RooflineError with its first line."""
        with self.arena.filled(zeros):
            return _guarded(lambda: kernel.prepare(variant, self.arena, scale))

    def compile(self, kernels: Sequence[Microkernel], variants: int) -> None:
        """Nothing to compile."""

    def rest(self, seconds: float) -> None:
        """An idle CPU recovers its turbo budget."""
        sleep(seconds)

    def time(self, job: Job, launches: int) -> list[float]:
        """Seconds of each launch, by the host's clock."""
        with self._all_threads():
            return _guarded(lambda: [_seconds(job, i) for i in range(launches)])

    @contextmanager
    def watch(self) -> Iterator[Callable[[], Health]]:
        """Samples the clock frequency ten times a second."""
        with watching(_reading, _SENSOR_INTERVAL_S) as health:
            yield health

    def limit(self, ceiling: str, health: Health) -> tuple[float, str] | None:
        """None: neither lanes per clock nor memory channels of a CPU can be asked for."""
        return None

    def release(self) -> None:
        """Nothing is given back: all streams share the same arrays."""


def _seconds(job: Job, launch: int) -> float:
    start = perf_counter()
    job.run(launch)
    return perf_counter() - start


def _guarded(action: Callable[[], Any]) -> Any:
    try:
        return action()
    except RooflineError:
        raise
    except MemoryError as error:
        raise OutOfDeviceMemory(f"out of memory: {error}") from error
    except Exception as error:  # libraries raise what they like
        lines = str(error).strip().splitlines() or [""]
        raise BackendUnavailable(f"{type(error).__name__}: {lines[0][:200]}") from error


def _reading() -> Reading:
    import psutil

    try:
        frequency = psutil.cpu_freq()
    except (OSError, NotImplementedError):  # hidden in some virtual machines
        frequency = None
    return Reading(clock_hz=frequency.current * 1e6 if frequency and frequency.current else None)


def _load() -> list[str]:
    import psutil

    busy = psutil.cpu_percent(interval=0.2)
    if busy <= _BUSY_PERCENT:
        return []
    return [f"the CPU was {busy:.0f} % busy before the probe began: rates may be low"]

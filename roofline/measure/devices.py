"""From the name of a device ("auto", "cuda:1", "cpu") to the bench that measures it."""

from __future__ import annotations

import re

from roofline.env import backend_reason
from roofline.errors import DeviceError, UnknownMachine
from roofline.machine.catalog import datasheet
from roofline.machine.record import Device
from roofline.measure.bench import Bench


def open_bench(device: str) -> Bench:
    """The bench of "auto" (the current GPU, else the CPU with a warning), "cuda", "cuda:N" or "cpu".

    Raises DeviceError if the device is not there or not usable, or if the name has no such form.
    """
    from roofline.measure.cpu import CpuBench

    if device == "cpu":
        return CpuBench()
    found = re.fullmatch(r"cuda(?::(\d+))?", device)
    if device != "auto" and not found:
        raise DeviceError(f"'{device}' is no device. There are: {', '.join(visible_devices())}; or auto.")
    reason = backend_reason("cuda")
    if reason is None:
        return _open_cuda(device, found[1] if found else None)
    if device != "auto":
        raise DeviceError(f"{device} cannot be used: {reason}")
    bench = CpuBench()
    bench.warnings.insert(0, f"no GPU: {reason}; measured the CPU instead")
    return bench


def visible_devices() -> tuple[str, ...]:
    """Every GPU that CUDA shows this process, as "cuda:N"; ("cpu",) without any that is usable."""
    if backend_reason("cuda") is not None:
        return ("cpu",)
    import torch

    return tuple(f"cuda:{index}" for index in range(torch.cuda.device_count()))


def _open_cuda(device: str, number: str | None) -> Bench:
    import torch

    from roofline.measure.cuda import CudaBench

    index = torch.cuda.current_device() if number is None else int(number)
    if index >= torch.cuda.device_count():
        raise DeviceError(f"There is no {device}. There are: {', '.join(_described())}.")
    return CudaBench(index, _sheet, backend_reason)


def _described() -> tuple[str, ...]:
    import torch

    return tuple(f"{name} ({torch.cuda.get_device_name(name)})" for name in visible_devices())


def _sheet(name: str, memory_bytes: int) -> Device | None:
    try:
        return datasheet(name, memory_bytes).device
    except UnknownMachine:
        return None

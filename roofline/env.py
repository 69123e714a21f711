"""`python -m roofline.env`: what is and is not usable here, and why.

A backend counts as usable only after its first real use: GPU stacks fail there as often as at import.
"""

from __future__ import annotations

import ctypes
import os
import platform
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from roofline import __version__
from roofline.errors import UsageError

Check = Callable[[], str]
"""Uses a backend once and returns its version; raises if it cannot be used."""

_VARIABLES = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CUDA_MODULE_LOADING", "TRITON_INTERPRET")
_TOO_OLD = ("driver on your system is too old", "insufficient for cuda runtime", "insufficientdriver")


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One GPU. None: not known."""

    index: int | None
    """Its number for `--device cuda:N`; None if CUDA_VISIBLE_DEVICES hides it."""
    name: str
    uuid: str | None = None
    compute_capability: str | None = None
    memory_bytes: int | None = None
    mig: bool = False
    """Whether the GPU is cut into slices (MIG), so that a process sees only a part of it."""


@dataclass(frozen=True, kw_only=True)
class Backend:
    """One piece of software that this package can use."""

    name: str
    serves: str
    """What it is for."""
    version: str | None
    """None if it is not usable."""
    reason: str | None
    """Why it is not usable, in one line; None if it is."""


@dataclass(frozen=True, kw_only=True)
class Environment:
    """What is here. None: not known or not there."""

    roofline: str
    python: str
    system: str
    cpu: str
    cores: int
    """Cores this process may run on."""
    memory_bytes: int
    driver: str | None
    """Version of the NVIDIA driver."""
    driver_cuda: str | None
    """Newest CUDA version the driver supports."""
    variables: dict[str, str]
    """Environment variables that are set and change what CUDA shows."""
    gpus: tuple[Gpu, ...]
    backends: tuple[Backend, ...]


def inspect() -> Environment:
    """Look at this machine. Never raises because of a broken backend: its failure is the answer."""
    import cpuinfo
    import psutil

    return Environment(
        roofline=__version__,
        python=platform.python_version(),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        cpu=cpuinfo.get_cpu_info().get("brand_raw", platform.processor() or "unknown"),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory_bytes=psutil.virtual_memory().total,
        driver=_backend("nvml").version,
        driver_cuda=_cuda_text(driver_cuda_version()),
        variables={name: os.environ[name] for name in _VARIABLES if name in os.environ},
        gpus=merge_gpus(_safely(_torch_gpus), _safely(_nvml_gpus)),
        backends=tuple(_backend(name) for name in _CHECKS),
    )


def backend_reason(name: str) -> str | None:
    """Why the backend of that name cannot be used here, in one line; None if it can. Raises `UsageError`."""
    return _backend(name).reason


def driver_cuda_version() -> int | None:
    """Newest CUDA version the NVIDIA driver supports, such as 13000; None without a driver."""
    try:
        version = ctypes.c_int()
        failed = ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return None
    return None if failed or not version.value else version.value


def cupy_extra(driver_cuda: int | None) -> str | None:
    """The extra of this package whose CuPy fits a driver: "cuda12" or "cuda13"; None if there is none."""
    if driver_cuda is None or driver_cuda < 12000:
        return None
    return "cuda13" if driver_cuda >= 13000 else "cuda12"


def merge_gpus(seen: tuple[Gpu, ...], installed: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """GPUs that torch sees, with NVML's word on MIG, then those that only NVML knows; matched by UUID."""
    by_uuid = {gpu.uuid: gpu for gpu in installed if gpu.uuid}
    merged = []
    for gpu in seen:
        twin = by_uuid.pop(gpu.uuid or "", None)
        sliced = (twin is not None and twin.mig) or "MIG" in gpu.name.split()
        merged.append(replace(gpu, mig=sliced))
    return (*merged, *by_uuid.values())


def _safely(find: Callable[[], tuple[Gpu, ...]]) -> tuple[Gpu, ...]:
    """No GPUs if looking for them fails; the backend's reason says why."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return find()
    except Exception:
        return ()


def _torch_gpus() -> tuple[Gpu, ...]:
    import torch

    count = torch.cuda.device_count()
    return tuple(_torch_gpu(index, torch.cuda.get_device_properties(index)) for index in range(count))


def _torch_gpu(index: int, properties: Any) -> Gpu:
    uuid = getattr(properties, "uuid", None)
    return Gpu(
        index=index,
        name=properties.name,
        uuid=f"GPU-{uuid}" if uuid else None,
        compute_capability=f"{properties.major}.{properties.minor}",
        memory_bytes=properties.total_memory,
    )


def _nvml_gpus() -> tuple[Gpu, ...]:
    import pynvml

    pynvml.nvmlInit()
    handles = (pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount()))
    return tuple(_nvml_gpu(pynvml, handle) for handle in handles)


def _nvml_gpu(nvml: Any, handle: Any) -> Gpu:
    try:
        mig = bool(nvml.nvmlDeviceGetMigMode(handle)[0])
    except nvml.NVMLError:  # not supported: a GPU without MIG
        mig = False
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    return Gpu(
        index=None,
        name=str(nvml.nvmlDeviceGetName(handle)),
        uuid=str(nvml.nvmlDeviceGetUUID(handle)),
        compute_capability=f"{major}.{minor}",
        memory_bytes=nvml.nvmlDeviceGetMemoryInfo(handle).total,
        mig=mig,
    )


def _use_torch() -> str:
    import torch

    (torch.ones(2) @ torch.ones(2)).item()
    return str(torch.__version__)


def _use_cuda() -> str:
    import torch

    if torch.version.cuda is None:
        raise RuntimeError(f"torch {torch.__version__} was built without CUDA")
    _need_driver(torch.version.cuda)
    torch.ones(2, device="cuda").sum().item()
    return str(torch.version.cuda)


def _use_triton() -> str:
    import triton

    _need_driver()
    triton.runtime.driver.active.get_current_target()  # compiles its launcher: needs a C compiler
    return str(triton.__version__)


def _use_cupy() -> str:
    _need_driver()
    import cupy

    source = '#include <cuda_fp16.h>\nextern "C" __global__ void nothing() {}'
    cupy.RawModule(code=source).get_function("nothing")((1,), (1,), ())
    cupy.cuda.runtime.deviceSynchronize()
    return str(cupy.__version__)


def _use_nvml() -> str:
    import pynvml

    pynvml.nvmlInit()
    return str(pynvml.nvmlSystemGetDriverVersion())


def _use_nvrtc() -> str:
    import nvidia

    paths = sorted(path for folder in nvidia.__path__ for path in Path(folder).glob("*/lib/libnvrtc.so.*"))
    major, minor = ctypes.c_int(), ctypes.c_int()
    found = []
    for path in paths:
        ctypes.CDLL(str(path)).nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        found.append(f"{major.value}.{minor.value}")
    if not found:
        raise ImportError("No module named 'nvidia.cuda_nvrtc'")
    return ", ".join(found)


def _use_matplotlib() -> str:
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    FigureCanvasAgg(Figure(figsize=(1, 1))).draw()
    return str(matplotlib.__version__)


def _use_models() -> str:
    names = ("timm", "torchvision", "transformers")
    return ", ".join(f"{name} {import_module(name).__version__}" for name in names)


_CHECKS: dict[str, tuple[Check, str, str]] = {
    "torch": (_use_torch, "tracing, CPU ceilings", "roofline"),
    "cuda": (_use_cuda, "measuring a GPU", "roofline"),
    "triton": (_use_triton, "DRAM and tensor ceilings", "roofline"),
    "cupy": (_use_cupy, "FMA, cache and latency ceilings", "roofline[cuda13] or roofline[cuda12]"),
    "nvml": (_use_nvml, "clocks, power, temperature", "roofline"),
    "nvrtc": (_use_nvrtc, "audit of machine code", "roofline[audit]"),
    "matplotlib": (_use_matplotlib, "figures", "roofline"),
    "models": (_use_models, "models by name", "roofline[models]"),
}
"""Name → first use, what for, and what to install."""


@cache
def _backend(name: str) -> Backend:
    if name not in _CHECKS:
        raise UsageError(f"No backend is called '{name}'. There are: {', '.join(_CHECKS)}.")
    use, serves, install = _CHECKS[name]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Backend(name=name, serves=serves, version=use(), reason=None)
    except Exception as error:
        return Backend(name=name, serves=serves, version=None, reason=explain(error, install))


def explain(error: Exception, install: str = "roofline") -> str:
    """One line on why a backend failed."""
    text = " ".join(str(error).split())
    if isinstance(error, ModuleNotFoundError):
        return f"{error.name} is not installed: pip install {install!r}"
    if any(phrase in text.lower() for phrase in _TOO_OLD):
        return f"the driver is too old, it supports CUDA {_cuda_text(driver_cuda_version())}: {text}"
    if "No CUDA GPUs are available" in text and "CUDA_VISIBLE_DEVICES" in os.environ:
        text += f": CUDA_VISIBLE_DEVICES is '{os.environ['CUDA_VISIBLE_DEVICES']}'"
    kind = [] if isinstance(error, RuntimeError) and text else [type(error).__name__]
    return ": ".join(filter(None, [*kind, text]))


def _need_driver(built_for: str | None = None) -> None:
    """Raise unless there is a driver that runs software built for CUDA `built_for`: same major or newer."""
    found = driver_cuda_version()
    if found is None:
        raise RuntimeError("no NVIDIA driver (libcuda.so.1 is missing or does not load)")
    if built_for and found // 1000 < int(built_for.split(".")[0]):
        raise RuntimeError(
            f"the driver is too old: it supports CUDA {_cuda_text(found)}, torch needs {built_for}. "
            f"Update the driver, or install a torch built for CUDA {found // 1000}"
        )


def _cuda_text(version: int | None) -> str | None:
    return None if version is None else f"{version // 1000}.{version % 1000 // 10}"


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def main(as_json: bool) -> None:
    """Show devices, drivers, versions, which backends work here, and why the others do not."""
    environment = inspect()
    if as_json:
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(environment), indent=2).decode())
        return
    from rich.console import Console

    from roofline.report.environment import environment_tables

    Console().print(environment_tables(environment))


if __name__ == "__main__":
    main()

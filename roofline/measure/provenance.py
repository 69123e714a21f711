"""What took part in a measurement: versions and settings that can change a number."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version

_PACKAGES = ("torch", "triton", "cupy-cuda12x", "cupy-cuda13x", "numpy", "nvidia-ml-py")
_VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "OMP_NUM_THREADS",
    "NVIDIA_TF32_OVERRIDE",
)


def software(driver: str | None = None) -> dict[str, str]:
    """Name → version of everything installed that takes part; `driver` as NVML reports it."""
    import torch

    found = {"python": platform.python_version(), "os": f"{platform.system()} {platform.release()}"}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    if torch.version.cuda:
        found["cuda"] = torch.version.cuda
    if driver:
        found["driver"] = driver
    return found


def environment() -> dict[str, str]:
    """Environment variables that change how kernels run, where they are set."""
    return {name: os.environ[name] for name in _VARIABLES if name in os.environ}


def cpu_environment(model: str, cpus: tuple[int, ...]) -> dict[str, str]:
    """CPU model, the CPUs that the process may use, and how torch is parallel at this moment."""
    import torch

    lines = (line.strip() for line in torch.__config__.parallel_info().splitlines())
    return {
        "cpu": model,
        "affinity": ranges(cpus),
        "threads": str(torch.get_num_threads()),
        "torch_cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "torch_parallel": "; ".join(line for line in lines if line and not line.endswith((":", "[not set]"))),
    }


def ranges(numbers: tuple[int, ...]) -> str:
    """Rising whole numbers as the kernel writes them: (0, 1, 2, 5) → "0-2,5"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ",".join("-".join(map(str, run)) for run in runs)

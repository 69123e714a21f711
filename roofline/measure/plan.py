"""Which microkernels answer which ceiling, and which ceilings a probe measures: the place to add a microkernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from importlib import import_module

from roofline.errors import UsageError
from roofline.kernels.microkernel import Microkernel
from roofline.machine.ceilings import BY_NAME, KINDS
from roofline.measure.sweep import sweep_name

CUDA_MODULES = (
    ("triton", "roofline.kernels.stream_triton"),
    ("cupy", "roofline.kernels.stream_cuda"),
    ("cupy", "roofline.kernels.cache"),
    ("cupy", "roofline.kernels.shared"),
    ("cupy", "roofline.kernels.fma"),
    ("triton", "roofline.kernels.tensor_dot"),
    ("cupy", "roofline.kernels.mma"),
    ("cupy", "roofline.kernels.wmma"),
    ("torch", "roofline.kernels.gemm"),
    ("torch", "roofline.kernels.conv"),
    ("cupy", "roofline.kernels.latency"),
    ("torch", "roofline.kernels.launch"),
    ("cupy", "roofline.kernels.intensity"),
    ("triton", "roofline.kernels.intensity_dot"),
)
SWEEPS = "sweeps"
"""The group of all sweeps."""
CPU_MODULES = (("torch", "roofline.kernels.cpu_stream"), ("torch", "roofline.kernels.cpu_product"))


def _load(modules: Sequence[tuple[str, str]]) -> tuple[Microkernel, ...]:
    found: list[Microkernel] = []
    for _, module in modules:
        loaded = import_module(module)
        found += (*getattr(loaded, "MICROKERNELS", ()), *getattr(loaded, "SWEEPS", ()))
    return tuple(found)


def cuda_microkernels() -> tuple[Microkernel, ...]:
    """Microkernels for NVIDIA GPUs."""
    return _load(CUDA_MODULES)


def cpu_microkernels() -> tuple[Microkernel, ...]:
    """Microkernels for CPUs."""
    return _load(CPU_MODULES)


def select(kernels: Iterable[Microkernel], only: Sequence[str] | None) -> dict[str, list[Microkernel]]:
    """Ceiling → its microkernels, in the vocabulary's order; `only` holds names of ceilings, groups or sweeps."""
    sweeps = select_sweeps(kernels := tuple(kernels), None)
    kernels = tuple(k for k in kernels if k.sweep is None)
    available = [kind.name for kind in KINDS if any(k.ceiling == kind.name for k in kernels)]
    wanted = [name for name in available if not only or name in only or BY_NAME[name].group in only]
    known = {*available, *(BY_NAME[name].group for name in available), *sweeps, *([SWEEPS] if sweeps else [])}
    for name in only or ():
        if name not in known:
            near = get_close_matches(name, sorted(known), 3)
            hint = f" Did you mean {', '.join(near)}?" if near else ""
            raise UsageError(f"'{name}' is no ceiling of this device.{hint} Known: {', '.join(sorted(known))}.")
    return {name: [k for k in kernels if k.ceiling == name] for name in wanted}


def select_sweeps(kernels: Iterable[Microkernel], only: Sequence[str] | None) -> dict[str, Microkernel]:
    """Name of a sweep → its microkernel; `only` holds names of sweeps, or "sweeps" for all."""
    named = {sweep_name(k): k for k in kernels if k.sweep is not None}
    return {name: k for name, k in named.items() if not only or name in only or SWEEPS in only}

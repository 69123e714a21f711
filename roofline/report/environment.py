"""The tables of `python -m roofline.env`."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from roofline.env import Backend, Environment, Gpu
from roofline.report.text import make_table, notes
from roofline.units import si


def environment_tables(environment: Environment) -> Group:
    """What was found, as tables for a terminal."""
    facts = ((name, Text(value)) for name, value in _facts(environment))
    here = make_table("Here", ("", "found"), (), facts)
    columns = ("backend", "for", "usable", "version, or why not")
    backends = make_table("Backends", columns, (), map(_backend_row, environment.backends))
    return Group(here, *_gpu_tables(environment.gpus), backends)


def _facts(environment: Environment) -> list[tuple[str, str]]:
    cpu = f"{environment.cpu}, {environment.cores} cores, {si(environment.memory_bytes, 'bytes')}"
    driver = (
        f"{environment.driver or 'version unknown'}, supports CUDA {environment.driver_cuda or 'unknown'}"
    )
    has_driver = environment.driver or environment.driver_cuda
    return [
        ("roofline", environment.roofline),
        ("python", environment.python),
        ("system", environment.system),
        ("CPU", cpu),
        ("NVIDIA driver", driver if has_driver else "none"),
        *environment.variables.items(),
    ]


def _gpu_tables(gpus: tuple[Gpu, ...]) -> list[RenderableType]:
    if not gpus:
        return [*notes(["No GPU found: `roofline probe` measures the CPU."])]
    rows = []
    for gpu in gpus:
        device = "not visible" if gpu.index is None else f"cuda:{gpu.index}"
        memory = si(gpu.memory_bytes, "bytes") if gpu.memory_bytes else ""
        note = "MIG: a slice, or cut into slices" if gpu.mig else ""
        rows.append((device, Text(gpu.name), note, memory, gpu.compute_capability or ""))
    return [make_table("GPUs", ("device", "name", "note"), ("memory", "capability"), rows)]


def _backend_row(backend: Backend) -> tuple[str | Text, ...]:
    usable = Text("yes", style="green") if backend.reason is None else Text("no", style="yellow")
    return backend.name, backend.serves, usable, Text(backend.reason or backend.version or "")

"""Question: how many bytes a second move between DRAM and all cores of a CPU, by direction? (torch and NumPy)

read   s = sum(b)        4 bytes an element; or s = sum(b c), 8
write  a = constant      4
copy   a = b             8
triad  a = b + q c       12
All fp32. Bytes are those the program asks for (STREAM's convention): most stores first fetch the line that they
overwrite, and this write-allocate traffic is not counted. NumPy's fill and copy end in memset and memmove, which can
avoid it and then win. A read is a reduction; one core at 2.4 GHz reduces 30 (sum) to 80 GB/s (dot) in its cache, more
than it gets from DRAM. Sources are random and never written; buffers >= 4 x all last-level caches, two in turn.
Cannot show: strided or random access, single NUMA nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from roofline.kernels.microkernel import Arena, Job, Microkernel, Variant, relative_error
from roofline.kernels.streams import OPERATIONS, TOLERANCE, Q
from roofline.machine.record import Device

BYTE = 0x3F
WORD = float(np.frombuffer(bytes([BYTE] * 4), np.float32)[0])
"""What `write` leaves in every element."""


def fill_bytes(a: np.ndarray) -> None:
    """a: (n,) fp32 gets WORD, by memset."""
    a.view(np.uint8).fill(BYTE)


def triad_in_cache(a: np.ndarray, b: np.ndarray, c: np.ndarray, chunk: int = 1 << 16) -> None:
    """a = b + q c, all (n,) fp32, in pieces whose intermediate product stays in cache."""
    product = np.empty(min(chunk, len(a)), np.float32)
    for first in range(0, len(a), chunk):
        piece = slice(first, first + chunk)
        part = np.multiply(c[piece], np.float32(Q), out=product[: len(c[piece])])
        np.add(b[piece], part, out=a[piece])


@dataclass(frozen=True)
class Form:
    """One way to run an operation on (written arrays, then read arrays); a reduction returns its result."""

    name: str
    backend: str
    function: Callable[..., Any]
    reads: int
    writes: int
    sliced: bool = False
    """The library uses one thread only: Python threads take a slice each."""


FORMS: dict[str, tuple[Form, ...]] = {
    "read": (
        Form("torch.sum", "torch", torch.sum, 1, 0),
        Form("torch.dot", "torch", torch.dot, 2, 0),
        Form("dot, BLAS threads", "numpy", np.dot, 2, 0),
        Form("max of slices", "numpy", np.max, 1, 0, sliced=True),
    ),
    "write": (
        Form("fill_", "torch", lambda a: a.fill_(WORD), 0, 1),
        Form("memset of slices", "numpy", fill_bytes, 0, 1, sliced=True),
    ),
    "copy": (
        Form("copy_", "torch", lambda a, b: a.copy_(b), 1, 1),
        Form("copyto of slices", "numpy", np.copyto, 1, 1, sliced=True),
    ),
    "triad": (
        Form("add(alpha=q, out=)", "torch", lambda a, b, c: torch.add(b, c, alpha=Q, out=a), 2, 1),
        Form("multiply, add in cache, of slices", "numpy", triad_in_cache, 2, 1, sliced=True),
    ),
}


def _runner(form: Form, threads: int) -> Callable[[list[Any]], list[Any]]:
    """Runs a form on whole tensors and returns its result, or one for each slice."""
    if not form.sliced:
        convert = (lambda x: x.numpy()) if form.backend == "numpy" else (lambda x: x)
        return lambda tensors: [form.function(*map(convert, tensors))]
    pool = ThreadPoolExecutor(threads)

    def run(tensors: list[Any]) -> list[Any]:
        return list(pool.map(form.function, *(np.array_split(x.numpy(), threads) for x in tensors)))

    return run


def _prepare(operation: str, form: Form, arena: Arena, scale: float) -> Job:
    first, second, *sources = arena.arrays(4, scale)
    run = _runner(form, arena.device.sm_count or 1)

    def launch(i: int) -> None:
        run([(first, second)[i % 2]][: form.writes] + [sources[i % 2], sources[1 - i % 2]][: form.reads])

    buffer_bytes = 4 * first.numel()
    work = float(buffer_bytes * (form.reads + form.writes))
    return Job(launch, work, lambda: _error(operation, form, run, arena), buffer_bytes)


def _error(operation: str, form: Form, run: Callable[[list[Any]], list[Any]], arena: Arena) -> float:
    n = 1_234_567  # not a multiple of any vector length, chunk or thread count
    b, c = arena.random((n,), "float32").abs(), arena.random((n,), "float32").abs()
    if operation == "read":
        parts = torch.tensor([float(part) for part in run([b, c][: form.reads])])
        terms = b.double() if form.reads == 1 else b.double() * c.double()
        combine = torch.max if form.function is np.max else torch.sum
        return relative_error(combine(parts), combine(terms))
    a = arena.empty((n,), "float32")
    run([a, b, c][: form.writes + form.reads])
    expected = {"write": torch.full_like(a, WORD), "copy": b, "triad": b.double() + Q * c.double()}
    return relative_error(a, expected[operation])


def _microkernel(operation: str, backend: str) -> Microkernel:
    forms = {form.name: form for form in FORMS[operation] if form.backend == backend}

    def variants(device: Device) -> tuple[Variant, ...]:
        return tuple(Variant(name, {"threads": device.sm_count or 1}) for name in forms)

    def prepare(variant: Variant, arena: Arena, scale: float) -> Job:
        return _prepare(operation, forms[variant.name], arena, scale)

    return Microkernel(f"dram_{operation}", backend, variants, prepare, TOLERANCE[operation])


MICROKERNELS = tuple(
    _microkernel(operation, backend) for operation in OPERATIONS for backend in ("torch", "numpy")
)

"""DEMAND: what each kernel of a trace asks of any GPU, as arrays with one entry per kernel.

Nothing here depends on the machine, so one demand serves every prediction, fit and attribution.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from roofline.analysis.software import Software
from roofline.work.record import Access, Call, Trace

ITEM = {
    "float64": 8, "complex128": 16, "complex64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2,
    "int16": 2,
}  # fmt: skip
"""Bytes of one element; every other dtype is taken as one byte."""
CLASS = {
    "gemm": "product", "conv": "product", "attention": "attention", "recurrent": "product",
    "norm": "norm", "softmax": "norm", "pool": "norm", "reduction": "pointwise",
    "elementwise": "pointwise", "random": "pointwise", "copy": "copy", "gather": "copy", "scatter": "copy",
    "sort": "copy", "fft": "copy", "other": "pointwise",
}  # fmt: skip
"""Kind of a call → the equation that gives its time."""


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One kernel: a traced call, or a part of one that the software runs apart."""

    call: int
    kind: str
    pipe: str | None = None
    flops: int = 0
    batch: int = 1
    m: int = 1
    n: int = 1
    k: int = 1
    taps: int = 1
    item_bytes: int = 2
    elements: int = 0
    reads: tuple[Access, ...] = ()
    writes: tuple[Access, ...] = ()
    layout: bool = False
    """A convolution in NCHW: tensor-core kernels want NHWC and get conversion kernels around them."""
    winograd: bool = False
    depthwise: bool = False
    few_channels: bool = False
    """A convolution whose input channels are no multiple of eight: values are gathered one by one."""
    padding: float = 1.0
    """Work with padded channels over work without."""
    backward: bool = False
    launches: int = 1
    """Kernels that run one after the other: the steps of a recurrent layer."""
    op_call: bool = True
    """False: the host issues it within another op call, at no cost to speak of."""


@dataclass(frozen=True, kw_only=True)
class Demand:
    """Arrays over kernels; bytes, flops and elements as floats."""

    call: np.ndarray
    equation: np.ndarray
    pipe: np.ndarray
    flops: np.ndarray
    batch: np.ndarray
    m: np.ndarray
    n: np.ndarray
    k: np.ndarray
    item: np.ndarray
    elements: np.ndarray
    moved: np.ndarray
    """Compulsory bytes, read and written."""
    written: np.ndarray
    layout: np.ndarray
    winograd: np.ndarray
    depthwise: np.ndarray
    few_channels: np.ndarray
    padding: np.ndarray
    backward: np.ndarray
    conv: np.ndarray
    odd: np.ndarray
    launches: np.ndarray
    unaligned_tensor: bool
    """Whether products with odd rows still use tensor cores."""
    modern_norms: bool
    reused: np.ndarray
    """(kernels, operands) bytes that an earlier kernel touched."""
    distance: np.ndarray
    """(kernels, operands) bytes touched since then."""
    host_calls: float
    """Op calls that the host issues, backward ones included."""
    trained_parameters: float
    """Parameter tensors whose gradients are accumulated; 0 in inference."""


def demand(trace: Trace, software: Software) -> Demand:
    """What `trace` asks, run by `software`."""
    from roofline.analysis.rules import kernels_of, recurrent_facts

    training = any(call.phase == "backward" for call in trace.calls)
    nhwc = any(call.attributes.get("layout") == "channels_last" for call in trace.calls)
    calls = recurrent_facts(trace.calls)
    kernels = [kernel for call in calls for kernel in kernels_of(call, software, training, nhwc)]
    reused, distance = _reuse(kernels)
    column = _columns(kernels)
    return Demand(
        **column, unaligned_tensor=software.unaligned_tensor,
        modern_norms=software.modern_norms, reused=reused, distance=distance,
        host_calls=float(sum(kernel.op_call for kernel in kernels)),
        trained_parameters=_parameters(trace) if training else 0.0,
    )  # fmt: skip


def _parameters(trace: Trace) -> float:
    """Distinct parameter tensors that the calls read."""
    return float(len({a.storage for call in trace.calls for a in call.reads if a.role == "parameter"}))


def _columns(kernels: list[Kernel]) -> dict[str, np.ndarray]:
    def numbers(get: Any) -> np.ndarray:
        return np.array([float(get(kernel)) for kernel in kernels])

    def flags(get: Any) -> np.ndarray:
        return np.array([bool(get(kernel)) for kernel in kernels], dtype=bool)

    written = numbers(lambda kernel: _bytes(kernel.writes))
    return {
        "call": np.array([kernel.call for kernel in kernels], dtype=int),
        "equation": np.array([CLASS[kernel.kind] for kernel in kernels], dtype=object),
        "pipe": np.array([kernel.pipe or "" for kernel in kernels], dtype=object),
        "flops": numbers(lambda kernel: kernel.flops),
        "batch": numbers(lambda kernel: kernel.batch),
        "m": numbers(lambda kernel: max(kernel.m, 1)),
        "n": numbers(lambda kernel: max(kernel.n, 1)),
        "k": numbers(lambda kernel: max(kernel.k, 1)),
        "item": numbers(lambda kernel: kernel.item_bytes),
        "elements": numbers(lambda kernel: kernel.elements),
        "moved": written + numbers(lambda kernel: _bytes(kernel.reads)),
        "written": written,
        "layout": flags(lambda kernel: kernel.layout),
        "winograd": flags(lambda kernel: kernel.winograd),
        "depthwise": flags(lambda kernel: kernel.depthwise),
        "few_channels": flags(lambda kernel: kernel.few_channels and not kernel.depthwise),
        "padding": numbers(lambda kernel: kernel.padding),
        "backward": flags(lambda kernel: kernel.backward),
        "conv": flags(lambda kernel: kernel.kind == "conv"),
        "odd": flags(lambda kernel: kernel.kind == "gemm" and (kernel.k % 8 or kernel.n % 8)),
        "launches": numbers(lambda kernel: kernel.launches),
    }


def _bytes(accesses: Iterable[Access]) -> int:
    return sum(access.bytes for access in accesses)


def _reuse(kernels: list[Kernel]) -> tuple[np.ndarray, np.ndarray]:
    """Reuse distance of every read: the bytes that passed through the cache since the storage was last written."""
    passed = 0.0
    last: dict[int, float] = {}
    rows: list[list[tuple[float, float]]] = []
    for kernel in kernels:
        found = [(float(a.bytes), passed - last[a.storage] + a.bytes) for a in kernel.reads if a.storage in last]
        rows.append(found)
        passed += _bytes(kernel.reads) + _bytes(kernel.writes)
        last.update((access.storage, passed) for access in kernel.writes)
    width = max((len(row) for row in rows), default=0) or 1
    reused, distance = np.zeros((len(rows), width)), np.full((len(rows), width), np.inf)
    for i, row in enumerate(rows):
        for j, (size, gap) in enumerate(row):
            reused[i, j], distance[i, j] = size, gap
    return reused, distance


def basic(call: Call, **changes: Any) -> Kernel:
    """The call as one kernel."""
    item = ITEM.get(call.dtype, 1)
    product = call.product
    shape = {"batch": product.batch, "m": product.m, "n": product.n, "k": product.k} if product else {}
    elements = max([_bytes(call.writes), *(access.bytes for access in call.reads)], default=0) // item
    fields: dict[str, Any] = {
        "call": call.index, "kind": call.kind, "pipe": call.pipe, "flops": call.flops, "item_bytes": item,
        "elements": elements, "reads": call.reads, "writes": call.writes, **shape,
    }  # fmt: skip
    return Kernel(**(fields | changes))

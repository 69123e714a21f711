"""TRACE: what a program asks of a device. One record per op call, integers only, no rounding anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Phase = Literal["forward", "backward"]
Kind = Literal[
    "gemm", "conv", "attention", "recurrent", "norm", "softmax", "pool", "elementwise", "reduction",
    "copy", "gather", "scatter", "sort", "random", "fft", "other",
]
"""Kernel class of an op: decides how `predict` treats it and which marker a figure draws."""
Role = Literal["parameter", "buffer", "input", "activation"]


@dataclass(frozen=True)
class Access:
    """Distinct bytes of one tensor that an op call touches."""

    storage: int
    """Number of the storage within the trace: two calls that touch the same memory carry the same number."""
    bytes: int
    role: Role = "activation"


@dataclass(frozen=True)
class Product:
    """The matrix product behind a call: `batch` independent (m x k) @ (k x n)."""

    batch: int
    m: int
    n: int
    k: int


@dataclass(frozen=True, kw_only=True)
class Call:
    """One executed op."""

    index: int
    op: str
    """Overload packet, such as `aten.addmm`."""
    module: str
    """Qualified name of the innermost module it ran in; "" is the root."""
    phase: Phase
    kind: Kind
    flops: int
    """Matrix-product, convolution and attention work; one multiply-add = 2."""
    elementwise_flops: int
    """Element-wise, norm, softmax and reduction work, counted apart: approximate by nature."""
    pipe: str | None
    """The pipe ceiling that executes `flops` (see machine/ceilings.py); None if there are none."""
    dtype: str
    """Compute dtype, such as "float16"."""
    shapes: tuple[tuple[int, ...], ...]
    """Shapes of the tensor inputs."""
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]
    product: Product | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """What else the op's geometry needs: kernel, stride, groups, layout, attention backend, causal …"""
    counted: bool = True
    """False: no formula knows this op, so its flops are unknown rather than zero."""

    @property
    def bytes_read(self) -> int:
        """Distinct input bytes, each once."""
        return sum(access.bytes for access in self.reads)

    @property
    def bytes_written(self) -> int:
        """Output bytes, each once."""
        return sum(access.bytes for access in self.writes)

    @property
    def bytes(self) -> int:
        """Compulsory traffic of the call."""
        return self.bytes_read + self.bytes_written

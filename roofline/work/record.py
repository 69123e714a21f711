"""TRACE: what a program asks of a device. One record per op call, integers only, no rounding anywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Phase = Literal["forward", "backward"]
Kind = Literal[
    "gemm",
    "conv",
    "attention",
    "recurrent",
    "norm",
    "softmax",
    "pool",
    "elementwise",
    "reduction",
    "copy",
    "gather",
    "scatter",
    "sort",
    "random",
    "fft",
    "other",
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
    scope: tuple[str, ...] = ("",)
    """Every module the call counts under: those being run, their containers, and a shared one's first name."""

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


@dataclass(frozen=True, kw_only=True)
class Total:
    """Sums over some of a trace's calls. Forward and backward are apart, as in `Trace`."""

    calls: int = 0
    flops: int = 0
    flops_backward: int = 0
    elementwise_flops: int = 0
    """Forward and backward."""
    bytes: int = 0
    """Compulsory traffic of the forward."""
    bytes_backward: int = 0
    uncounted: int = 0
    """Calls without a formula: their flops are missing from the sums."""


def total(calls: Iterable[Call]) -> Total:
    """Sums over `calls`."""
    count = elementwise = uncounted = 0
    flops, moved = {"forward": 0, "backward": 0}, {"forward": 0, "backward": 0}
    for call in calls:
        count += 1
        flops[call.phase] += call.flops
        moved[call.phase] += call.bytes
        elementwise += call.elementwise_flops
        uncounted += not call.counted
    return Total(
        calls=count, flops=flops["forward"], flops_backward=flops["backward"], elementwise_flops=elementwise,
        bytes=moved["forward"], bytes_backward=moved["backward"], uncounted=uncounted,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Trace:
    """All calls of one run of a program, and views of them."""

    name: str
    calls: tuple[Call, ...]
    target: str = "cuda"
    attention: str = "auto"
    modules: tuple[str, ...] = ("",)
    """Qualified name of every module the program holds, whether it ran or not."""
    parameters: int = 0
    """Distinct parameter elements; a tied one counts once."""
    weight_bytes: int = 0
    """Distinct bytes of parameters and buffers."""
    peak_activation_bytes: int = 0
    """Most bytes alive at once among the tensors that the run itself made."""
    output: Any = field(default=None, repr=False, compare=False)
    """What the program returned."""

    @property
    def flops(self) -> int:
        """Matrix-product, convolution and attention work outside backward."""
        return total(self.calls).flops

    @property
    def flops_backward(self) -> int:
        """The same work done in backward, recomputation included."""
        return total(self.calls).flops_backward

    @property
    def elementwise_flops(self) -> int:
        """Element-wise, norm, softmax and reduction work, forward and backward."""
        return total(self.calls).elementwise_flops

    @property
    def bytes(self) -> int:
        """Compulsory traffic summed over the calls outside backward."""
        return total(self.calls).bytes

    @property
    def bytes_backward(self) -> int:
        """Compulsory traffic summed over the calls of backward."""
        return total(self.calls).bytes_backward

    @property
    def uncounted(self) -> dict[str, int]:
        """Ops without a formula: name → calls."""
        return dict(Counter(call.op for call in self.calls if not call.counted))

    def by_module(self) -> dict[str, Total]:
        """Inclusive sums: name → everything that ran while the module did. Modules that never ran show zeros."""
        return self._grouped(lambda call: call.scope, self.modules)

    def by_layer(self) -> dict[str, Total]:
        """Exclusive sums: innermost module → its own calls. They add up to the trace."""
        return self._grouped(lambda call: (call.module,))

    def by_operator(self) -> dict[str, Total]:
        """Sums per op, such as `aten.addmm`."""
        return self._grouped(lambda call: (call.op,))

    def by_pipe(self) -> dict[str, Total]:
        """Sums per pipe ceiling; "none" holds the calls without matrix work."""
        return self._grouped(lambda call: (call.pipe or "none",))

    def without_output(self) -> Trace:
        """The same trace as plain data, which every JSON encoder takes."""
        return replace(self, output=None)

    def _grouped(self, keys: Callable[[Call], tuple[str, ...]], names: Iterable[str] = ()) -> dict[str, Total]:
        groups: dict[str, list[Call]] = {name: [] for name in names}
        for call in self.calls:
            for key in keys(call):
                groups.setdefault(key, []).append(call)
        return {name: total(calls) for name, calls in groups.items()}

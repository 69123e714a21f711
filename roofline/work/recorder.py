"""The dispatch mode: sees every op that the program runs and makes a `Call` of it."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from roofline.work import registry
from roofline.work.control import dense_kernel, run_control_flow
from roofline.work.guard import Guard
from roofline.work.modules import ModuleScopes, Scope
from roofline.work.operators import Operator, describe, take_apart
from roofline.work.pipes import pipe_of
from roofline.work.record import Access, Call, Kind, Phase
from roofline.work.registry import Work
from roofline.work.storage import Storages, shape_of

_NO_WORK = Work()


class Recorder(TorchDispatchMode):
    """Records calls while it is active; `paused` regions run unseen."""

    supports_higher_order_operators = True

    def __init__(self, scopes: ModuleScopes, storages: Storages, guard: Guard, target: str) -> None:
        super().__init__()
        self.calls: list[Call] = []
        self.storages = storages
        self.target = target
        self.is_paused = False
        self._merges_copies = False
        self.intercepted: Mapping[Any, Callable[..., Any]] = {}
        """Composite ops that count as one: overload → what runs instead."""
        self._scopes = scopes
        self._guard = guard
        self._operators: dict[Any, Operator] = {}
        self._task = -1
        self._phase: Phase = "forward"
        self._sticky: Scope | None = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Ops in this block are not recorded."""
        before, self.is_paused = self.is_paused, True
        try:
            yield
        finally:
            self.is_paused = before

    @contextmanager
    def merging_copies(self) -> Iterator[None]:
        """Copies made in this block do not count: their readers read the original."""
        before, self._merges_copies = self._merges_copies, True
        try:
            yield
        finally:
            self._merges_copies = before

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if types and any(hasattr(t, "__tensor_flatten__") for t in types):
            return NotImplemented  # a wrapper subclass takes itself apart; its parts come back here
        if self.is_paused:
            return func(*args, **kwargs)
        operator = self._operators.get(func)
        if operator is None:
            if isinstance(func, torch._ops.HigherOrderOperator):
                return self._higher_order(func, args, kwargs)
            operator = self._operators[func] = describe(func)
        if operator.composite and not _any_nested(args):
            with self:
                replacement = self.intercepted.get(func)
                return replacement(*args, **kwargs) if replacement else take_apart(func, *args, **kwargs)
        if not operator.moves:
            result = func(*args, **kwargs)
            if operator.factory:
                self.storages.made(result)
            return result
        if operator.hidden and not args[5]:  # statistics that are only read
            operator = replace(operator, writes=(), hidden=())
        for where in operator.writes:
            self._before_write(args[where] if isinstance(where, int) and where < len(args) else kwargs.get(where))
        result = func(*args, **kwargs)
        if self._merges_copies and operator.name == "aten.clone":
            self.storages.same(result, args[0])
            return result
        self._record(operator, args, kwargs, result)
        return result

    def add(
        self, name: str, kind: Kind, work: Work, reads: Sequence[Tensor | None], writes: Sequence[Tensor | None],
        counted: bool = True, also_reads: Sequence[Access] = (), also_writes: Sequence[Access] = (),
    ) -> None:  # fmt: skip
        """Record one call by hand: a region that ran paused. `also_…`: memory that has no tensor here."""
        inputs = [t for t in reads if t is not None]
        read = self.storages.accesses([(t, None) for t in inputs], made=False)
        written = self.storages.accesses([(t, None) for t in writes if t is not None], made=True)
        self._append(name, kind, work, counted, inputs, (*read, *also_reads), (*written, *also_writes))

    def _record(self, operator: Operator, args: Any, kwargs: Any, result: Any) -> None:
        entry, work = operator.entry, _NO_WORK
        counted = entry is not None
        if entry is not None:
            try:
                work = entry.work(args, kwargs, result)
            except Exception as error:  # a formula must never end the user's program; the call says so
                warnings.warn(
                    f"roofline: the formula of {operator.name} failed ({error!r}); its flops are missing.",
                    stacklevel=2,
                )
                counted = False
        inputs: list[Tensor] = []
        reads: list[tuple[Tensor, int | None]] = []
        limits, unread = work.read_bytes, operator.unread
        for where, value in enumerate(args):
            if isinstance(value, Tensor):
                inputs.append(value)
                if where not in unread:
                    reads.append((value, limits.get(where) if limits else None))
            elif isinstance(value, (list, tuple)):
                found = [t for t in value if isinstance(t, Tensor)]
                inputs += found
                if where not in unread:
                    reads += [(t, None) for t in found]
        for name, value in kwargs.items():
            if isinstance(value, Tensor):
                inputs.append(value)
                if name not in unread:
                    reads.append((value, limits.get(name) if limits else None))
        in_place = bool(operator.writes) and 0 in operator.writes
        if in_place and "in-place" in limits and reads and reads[0][0] is args[0]:
            reads[0] = (args[0], limits["in-place"])
        read = self.storages.accesses(reads, made=False)
        written = self._written(operator, args, result, work.written_bytes if in_place else None, read)
        if read or written or work.flops or not counted:
            self._append(operator.name, entry.kind if entry else "other", work, counted, inputs, read, written)

    def _written(
        self, operator: Operator, args: Any, result: Any, limit: int | None, read: tuple[Access, ...]
    ) -> tuple[Access, ...]:
        if isinstance(result, Tensor):
            results: list[tuple[Tensor, int | None]] = [(result, limit)]
        else:
            results = [(t, None) for t in _flat_tensors(result)]
        for where in operator.writes:
            if isinstance(where, int) and (where in operator.hidden or not results) and where < len(args):
                results += [(t, None) for t in _flat_tensors(args[where])]
        written = self.storages.accesses(results, made=True)
        if not operator.writes and written:
            known = {access.storage for access in read}
            return tuple([access for access in written if access.storage not in known])
        return written

    def _append(
        self, name: str, kind: Kind, work: Work, counted: bool, inputs: Sequence[Tensor], reads: tuple[Access, ...],
        writes: tuple[Access, ...],
    ) -> None:  # fmt: skip
        phase, scope = self._where()
        dtype = work.dtype or _compute_dtype(inputs)
        self.calls.append(
            Call(
                index=len(self.calls), op=name, module=scope.name, phase=phase, kind=kind, flops=int(work.flops),
                elementwise_flops=int(work.elementwise_flops),
                pipe=pipe_of(dtype, kind, self.target) if work.flops else None,
                dtype=str(dtype).removeprefix("torch."), shapes=tuple([shape_of(t) for t in inputs]), reads=reads,
                writes=writes, product=work.product, attributes=work.attributes, counted=counted, scope=scope.names,
            )
        )  # fmt: skip

    def _where(self) -> tuple[Phase, Scope]:
        """Forward or backward, and the module; in backward the one whose forward made the graph's node."""
        task = torch._C._current_graph_task_id()
        if task == -1:
            self._task = -1
            return "forward", self._scopes.current
        if task != self._task:
            self._task = task
            self._phase = "forward" if _inside_functorch() else "backward"
        if self._scopes.recomputing:
            return self._phase, self._scopes.current
        node = torch._C._current_autograd_node()
        if node is not None and node.name() != "torch::autograd::AccumulateGrad":
            self._sticky = self._scopes.at(node._sequence_nr())
        return self._phase, self._sticky or self._scopes.current

    def _before_write(self, value: Any) -> None:
        for tensor in (value,) if isinstance(value, Tensor) else _flat_tensors(value):
            self._guard.before_write(tensor)

    def _higher_order(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Control flow runs with the recorder on; a counted one (flex attention) is one call, its inside unseen."""
        name = f"higher_order.{func.name()}"
        entry = registry.lookup(name)
        if entry is None:
            return run_control_flow(self, func, args, kwargs)
        with self.paused(), self:
            result = dense_kernel(func)(*args, **kwargs)
        self.add(name, entry.kind, entry.work(args, kwargs, result), _flat_tensors(args), _flat_tensors(result))
        return result


def _any_nested(args: Any) -> bool:
    """Whether an argument is a nested tensor of the C++ kind, for which composite ops have kernels of their own."""
    return any(isinstance(a, Tensor) and a.is_nested for a in args)


def _flat_tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in _flat_tensors(item)]
    return []


def _compute_dtype(inputs: Sequence[Tensor]) -> torch.dtype:
    for tensor in inputs:
        dtype = tensor.dtype
        if dtype.is_floating_point or dtype.is_complex:
            return dtype
    return inputs[0].dtype if inputs else torch.get_default_dtype()


def _inside_functorch() -> bool:
    """Whether `torch.func.grad` or a relative runs this backward: then it is part of the function's own value."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename.endswith("eager_transforms.py"):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False

"""Leaves the program as it was: whatever a traced run writes to existing state is put back afterwards."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from roofline.work.roots import Reach, tensors_in
from roofline.work.storage import components


class Guard:
    """Restores train flags, parameters, buffers, gradients, optimisers, arguments, random states and the grad mode.

    Memory is copied only when it is about to be written for the first time, so a plain forward copies nothing.
    """

    def __init__(self, reached: Reach) -> None:
        self._storages: dict[int, Any] = {}
        self._saved: dict[int, tuple[Any, Any]] = {}
        self._undo: list[Callable[[], None]] = []
        self._reached = reached
        self._arguments: set[int] = set()

    def __enter__(self) -> Guard:
        modules = {id(m): m for root in self._reached.modules.values() for m in root.modules()}
        for module in modules.values():
            self._hold_module(module)
        for optimizer in self._reached.optimizers:
            self._hold_optimizer(optimizer)
        for tensor in (*self._reached.inputs, *self._reached.others):
            self._hold_tensor(tensor)
        self._arguments = {key for t in self._reached.inputs for key in _keys(t)}
        self._hold_random_states()
        enabled = torch.is_grad_enabled()
        self._undo.append(lambda: torch._C._set_grad_enabled(enabled))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        for storage, copy in self._saved.values():
            if storage.nbytes() != copy.nbytes():
                storage.resize_(copy.nbytes())
            storage.copy_(copy)
        for undo in reversed(self._undo):
            undo()

    def before_write(self, tensor: Tensor) -> None:
        """Called before an op writes `tensor`: keeps a copy if that memory existed before the run."""
        if tensor.layout is torch.strided and not tensor.is_meta:
            storage = self._storages.get(key := tensor.untyped_storage()._cdata)
            if storage is not None and key not in self._saved:
                self._saved[key] = (storage, storage.clone())

    def keep(self, output: Any) -> None:
        """An argument that the program wrote and returned keeps its new value: it is the result."""
        for tensor in tensors_in(output):
            for key in _keys(tensor):
                if key in self._arguments:
                    self._saved.pop(key, None)

    def _hold_module(self, module: nn.Module) -> None:
        training = getattr(module, "training", None)  # frozen scripted modules have none
        tables: tuple[Any, ...] = (module._parameters, module._buffers)
        registries = [(table, dict(table)) for table in tables if isinstance(table, dict)]

        def undo() -> None:
            if training is not None and module.training is not training:
                module.training = training
            for registry, before in registries:
                if registry.keys() != before.keys() or any(registry[name] is not before[name] for name in before):
                    registry.clear()
                    registry.update(before)

        self._undo.append(undo)
        for _, before in registries:
            for tensor in before.values():
                if tensor is not None and not nn.parameter.is_lazy(tensor):
                    self._hold_tensor(tensor)

    def _hold_tensor(self, tensor: Tensor) -> None:
        for part in _strided(tensor):
            storage = part.untyped_storage()
            self._storages[storage._cdata] = storage
        if tensor.requires_grad and tensor.is_leaf:
            gradient = tensor.grad
            if gradient is not None:
                self._hold_tensor(gradient)

            def undo() -> None:
                if tensor.grad is not gradient:
                    tensor.grad = gradient

            self._undo.append(undo)

    def _hold_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        state = {key: dict(value) if isinstance(value, dict) else value for key, value in optimizer.state.items()}
        groups = [dict(group) for group in optimizer.param_groups]
        for value in state.values():
            for item in value.values() if isinstance(value, dict) else ():
                if isinstance(item, Tensor):
                    self._hold_tensor(item)

        def undo() -> None:
            optimizer.state.clear()
            optimizer.state.update(state)
            for group, before in zip(optimizer.param_groups, groups, strict=False):
                group.clear()
                group.update(before)

        self._undo.append(undo)
        for group in groups:
            for parameter in group["params"]:
                self._hold_tensor(parameter)

    def _hold_random_states(self) -> None:
        cpu, python = torch.get_rng_state(), random.getstate()
        self._undo += [lambda: torch.set_rng_state(cpu), lambda: random.setstate(python)]
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            cuda = torch.cuda.get_rng_state_all()
            self._undo.append(lambda: torch.cuda.set_rng_state_all(cuda))
        if (numpy := sys.modules.get("numpy")) is not None:
            state = numpy.random.get_state()
            self._undo.append(lambda: numpy.random.set_state(state))


def _strided(tensor: Tensor) -> list[Tensor]:
    return [p for p in components(tensor) if p.layout is torch.strided and not p.is_nested and not p.is_meta]


def _keys(tensor: Tensor) -> list[int]:
    return [part.untyped_storage()._cdata for part in _strided(tensor)]

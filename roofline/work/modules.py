"""Which module an op belongs to. Global hooks follow the calls; the program's own modules stay untouched."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as hooks


@dataclass(frozen=True)
class Scope:
    """Where a call runs."""

    name: str
    """Qualified name of the innermost module."""
    names: tuple[str, ...]
    """Every module the call counts under, see `Call.scope`."""


ROOT = Scope("", ("",))


class ModuleScopes:
    """The modules being run, innermost last; in backward, the ones that ran when the graph's node was made."""

    def __init__(self, roots: Mapping[str, nn.Module]) -> None:
        self._names: dict[int, list[str]] = {}
        self._alive: list[nn.Module] = []
        self._stack: list[tuple[int, Scope, bool]] = []
        self._marks: list[int] = []
        self._scopes: list[Scope] = []
        self._seen: dict[tuple[Scope, int], Scope] = {}
        self.failed: str | None = None
        """Innermost module that was running when an error left the program."""
        for prefix, root in roots.items():
            self._add(prefix, root)

    @property
    def all_names(self) -> tuple[str, ...]:
        """Qualified names of all modules known, shared ones under each of their names."""
        return tuple(dict.fromkeys(["", *(name for names in self._names.values() for name in names)]))

    @property
    def recomputing(self) -> bool:
        """Whether the innermost module was entered by a backward, as activation checkpointing does."""
        return bool(self._stack) and self._stack[-1][2]

    @property
    def current(self) -> Scope:
        """The innermost module being run."""
        return self._stack[-1][1] if self._stack else ROOT

    def at(self, sequence: int) -> Scope | None:
        """The scope in which the autograd node of that sequence number was made; None before the first module."""
        index = bisect_right(self._marks, sequence) - 1
        return self._scopes[index] if index >= 0 else None

    @contextmanager
    def following(self) -> Iterator[None]:
        """Follow module calls while the block runs."""
        enter = hooks.register_module_forward_pre_hook(self._enter)
        leave = hooks.register_module_forward_hook(self._leave, always_call=True)
        try:
            yield
        finally:
            enter.remove()
            leave.remove()

    def _add(self, prefix: str, root: nn.Module) -> None:
        self._alive.append(root)
        for name, module in root.named_modules(remove_duplicate=False):
            parts = [prefix, *name.split(".")]
            self._names.setdefault(id(module), []).append(".".join(p for p in parts if p and p != "_orig_mod"))
        for module_id, names in self._names.items():
            self._names[module_id] = list(dict.fromkeys(names))

    def _enter(self, module: nn.Module, args: Any) -> None:
        if id(module) not in self._names:
            self._add(self._new_prefix(module), module)
        outer = self.current
        key = (outer, id(module))
        scope = self._seen.get(key)
        if scope is None:
            scope = self._seen[key] = self._inside(outer, self._names[id(module)])
        self._stack.append((id(module), scope, torch._C._current_graph_task_id() != -1))
        self._mark(scope)

    def _leave(self, module: nn.Module, args: Any, output: Any) -> None:
        while self._stack:
            found, scope, _ = self._stack.pop()
            if output is None and self.failed is None:
                self.failed = scope.name
            if found == id(module):
                break
        self._mark(self.current)

    def _mark(self, scope: Scope) -> None:
        sequence = torch.autograd._get_sequence_nr()
        if self._marks and self._marks[-1] >= sequence:
            self._scopes[-1] = scope
        else:
            self._marks.append(sequence)
            self._scopes.append(scope)

    def _inside(self, outer: Scope, names: list[str]) -> Scope:
        """A shared module is known by the name it has inside the running one; it counts under its first name too."""
        prefix = outer.name + "." if outer.name else ""
        name = next((n for n in names if n.startswith(prefix)), names[0])
        counted = dict.fromkeys(outer.names)
        for each in (names[0], name):
            path = each.split(".") if each else []
            counted.update(dict.fromkeys(".".join(path[:length]) for length in range(len(path) + 1)))
        return Scope(name, tuple(counted))

    def _new_prefix(self, module: nn.Module) -> str:
        """A module nobody announced: the root if it is the first, else by its class."""
        if not self._names:
            return ""
        outer = self.current.name
        return f"{outer}.{type(module).__name__}" if outer else type(module).__name__

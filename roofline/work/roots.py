"""What a program can reach: the modules, optimisers and tensors in its arguments, closure and named globals."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Reach:
    """What was found, without duplicates."""

    modules: dict[str, nn.Module]
    """Outermost modules by prefix: a single one is the root, "", several go by the name they are reached by."""
    optimizers: tuple[torch.optim.Optimizer, ...]
    inputs: tuple[Tensor, ...]
    """Tensors in the arguments."""
    others: tuple[Tensor, ...]
    """Tensors in the closure, in globals and in bound objects."""


def reach(program: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reach:
    """Everything `program(*args, **kwargs)` can get hold of by name."""
    arguments = [*_named_arguments(program, args), *kwargs.items()]
    surroundings = list(_surroundings(program))
    modules: dict[int, tuple[str, nn.Module]] = {}
    optimizers: dict[int, torch.optim.Optimizer] = {}
    found: tuple[dict[int, Tensor], dict[int, Tensor]] = ({}, {})
    for where, pairs in enumerate((arguments, surroundings)):
        for name, value in pairs:
            for item in _flatten(value):
                if isinstance(item, nn.Module):
                    modules.setdefault(id(item), (name, item))
                elif isinstance(item, torch.optim.Optimizer):
                    optimizers.setdefault(id(item), item)
                elif isinstance(item, Tensor):
                    found[where].setdefault(id(item), item)
    return Reach(
        _outermost(list(modules.values())),
        tuple(optimizers.values()),
        tuple(found[0].values()),
        tuple(found[1].values()),
    )


def _outermost(modules: list[tuple[str, nn.Module]]) -> dict[str, nn.Module]:
    inner = {id(child) for _, module in modules for child in module.modules() if child is not module}
    outer = [(name, module) for name, module in modules if id(module) not in inner]
    if len(outer) == 1:
        return {"": outer[0][1]}
    named: dict[str, nn.Module] = {}
    for name, module in outer:
        while name in named:
            name += "_"
        named[name] = module
    return named


def _named_arguments(program: Callable[..., Any], args: tuple[Any, ...]) -> list[tuple[str, Any]]:
    try:
        names = list(inspect.signature(program).parameters)
    except (TypeError, ValueError):
        names = []
    return [(names[i] if i < len(names) else f"arg{i}", value) for i, value in enumerate(args)]


def _surroundings(program: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(program, nn.Module):
        yield "", program
        return
    if isinstance(program, functools.partial):
        yield from _surroundings(program.func)
        yield from ((f"arg{i}", value) for i, value in enumerate(program.args))
        yield from program.keywords.items()
        return
    owner = getattr(program, "__self__", None)
    if owner is not None and not inspect.ismodule(owner):
        yield type(owner).__name__, owner
        yield from getattr(owner, "__dict__", {}).items()
    function = inspect.unwrap(getattr(program, "__func__", program))
    code = getattr(function, "__code__", None)
    if code is None:
        return
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:  # a name bound only later
            continue
    yield from ((name, function.__globals__[name]) for name in code.co_names if name in function.__globals__)


def _flatten(value: Any, depth: int = 0) -> Iterator[Any]:
    if isinstance(value, (Tensor, nn.Module, torch.optim.Optimizer)):
        yield value
    elif depth < 4 and isinstance(value, Mapping):
        for item in value.values():
            yield from _flatten(item, depth + 1)
    elif depth < 4 and isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            yield from _flatten(item, depth + 1)
    elif inspect.isfunction(value) and depth < 2 and value.__closure__:
        for _, item in _surroundings(value):
            yield from _flatten(item, depth + 2)

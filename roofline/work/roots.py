"""What a program can reach: the modules, optimisers and tensors in its arguments, closure and named globals."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

_DEPTH, _WIDTH = 6, 10_000
"""How deep and how far containers are looked into."""


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
    given = _sorted([*_named_arguments(program, args), *kwargs.items()])
    around = _sorted(_surroundings(program))
    modules = _prefixed(given[0], around[0])
    return Reach(
        modules, tuple({**given[1], **around[1]}.values()), tuple(given[2].values()), tuple(around[2].values())
    )


_Found = tuple[dict[int, tuple[str, nn.Module]], dict[int, torch.optim.Optimizer], dict[int, Tensor]]


def _sorted(pairs: Iterable[tuple[str, Any]]) -> _Found:
    """Modules (with the names they came under), optimisers and tensors in named values, by identity."""
    modules: dict[int, tuple[str, nn.Module]] = {}
    optimizers: dict[int, torch.optim.Optimizer] = {}
    tensors: dict[int, Tensor] = {}
    for name, value in pairs:
        for item in _flatten(value):
            if isinstance(item, nn.Module):
                modules.setdefault(id(item), (name, item))
            elif isinstance(item, torch.optim.Optimizer):
                optimizers.setdefault(id(item), item)
            else:
                tensors.setdefault(id(item), item)
    return modules, optimizers, tensors


def _prefixed(
    given: dict[int, tuple[str, nn.Module]], around: dict[int, tuple[str, nn.Module]]
) -> dict[str, nn.Module]:
    """Outermost modules by prefix. The root, "", is the only one among the arguments, else the only one at all."""
    found = {**around, **given}
    inner = {id(child) for _, module in found.values() for child in module.modules() if child is not module}
    outer = {key: pair for key, pair in found.items() if key not in inner}
    among_arguments = [key for key in given if key in outer]
    candidates = among_arguments or list(outer)
    named: dict[str, nn.Module] = {}
    for key, (name, module) in outer.items():
        prefix = "" if [key] == candidates else name or type(module).__name__
        while prefix in named:
            prefix += "_"
        named[prefix] = module
    return named


def tensors_in(value: Any) -> list[Tensor]:
    """Tensors in a result: nested lists, tuples, mappings and dataclasses are looked into."""
    return [item for item in _flatten(value) if isinstance(item, Tensor)]


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
    elif depth < _DEPTH:
        for item in islice(_items(value, depth), _WIDTH):
            yield from _flatten(item, depth + 1)


def _items(value: Any, depth: int) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    if isinstance(value, (list, tuple, set, frozenset)):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return vars(value).values() if hasattr(value, "__dict__") else ()
    if depth < 2 and inspect.isfunction(value) and value.__closure__:
        return [item for _, item in _surroundings(value)]
    return ()

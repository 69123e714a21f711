"""Control-flow operators: the branch that is taken, every turn of a loop, with the recorder on.

torch traces their branches to differentiate them; for the time of a trace they run as plain Python instead, so that
autograd and the recorder see exactly what is executed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

_KEYS = tuple(getattr(torch._C.DispatchKey, name) for name in ("AutogradCPU", "AutogradMeta", "AutogradCUDA"))


def run_control_flow(recorder: AbstractContextManager[Any], func: Any, args: Any, kwargs: Any) -> Any:
    """Run `cond`, `while_loop` or another higher-order op below autograd with the recorder on."""
    with recorder:
        return _plain(func)(*args, **kwargs)


def dense_kernel(func: Any) -> Callable[..., Any]:
    """The eager implementation of a higher-order op."""
    kernels = func.py_kernels
    key = torch._C.DispatchKey.CompositeExplicitAutograd
    return kernels[key] if key in kernels else kernels[torch._C.DispatchKey.CPU]


@contextmanager
def replacing(kernels: Mapping[Any, Callable[..., Any]]) -> Iterator[None]:
    """Higher-order ops → what runs in place of their autograd kernel while the block runs."""
    for func, kernel in kernels.items():
        func._dispatch_cache.update(dict.fromkeys(_KEYS, kernel))
    try:
        yield
    finally:
        for func in kernels:
            for key in _KEYS:
                func._dispatch_cache.pop(key, None)


def plain_control_flow() -> dict[Any, Callable[..., Any]]:
    """The control-flow ops of this torch version and their plain forms."""
    names = ("cond", "while_loop", "scan", "map_impl", "associative_scan")
    found = [getattr(torch.ops.higher_order, name, None) for name in names]
    return {func: _plain(func) for func in found if func is not None}


def _plain(func: Any) -> Callable[..., Any]:
    plain: dict[str, Callable[..., Any]] = {"cond": _cond, "while_loop": _while_loop, "scan": _scan}
    return plain.get(func.name()) or dense_kernel(func)


def _cond(predicate: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any = ()) -> Any:
    return true_fn(*operands) if predicate else false_fn(*operands)


def _while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried: Any, additional: Any = (), *_: Any, **__: Any
) -> Any:
    carried = tuple(carried)
    while cond_fn(*carried, *additional):
        carried = tuple(body_fn(*carried, *additional))
    return carried


def _scan(combine: Callable[..., Any], init: Any, xs: Any, *rest: Any, **named: Any) -> Any:
    """`rest` holds the additional inputs; older versions of torch put the axis and a flag for "reverse" before them."""
    additional = named.get("additional_inputs", next((a for a in rest if isinstance(a, (list, tuple))), ()))
    axis = next((a for a in rest if type(a) is int), 0)
    steps = list(range(xs[0].shape[axis] if xs else 0))
    backwards = any(a is True for a in rest)
    carry, rows = list(init), []
    for step in reversed(steps) if backwards else steps:
        results = combine(*carry, *(x.select(axis, step) for x in xs), *additional)
        carry = list(results[: len(carry)])
        rows.append(results[len(carry) :])
    columns = zip(*(rows[::-1] if backwards else rows), strict=True)
    return (*carry, *(torch.stack(column) if column[0] is not None else None for column in columns))

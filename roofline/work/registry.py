"""What each operator costs: one pure formula per operator, found by its name. Users add theirs with `register_op`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, TypeVar

from roofline.errors import UsageError
from roofline.work.record import Kind, Product


@dataclass(frozen=True, kw_only=True)
class Work:
    """What one call of an operator does."""

    flops: int = 0
    elementwise_flops: int = 0
    product: Product | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    dtype: Any = None
    """The torch dtype it computes in; None: that of the first floating-point argument."""
    read_bytes: Mapping[int | str, int] = field(default_factory=dict)
    """Argument (position or keyword) → bytes read of it, where that is not the whole tensor."""
    written_bytes: int | None = None
    """Bytes written, where that is not the whole output."""


Formula = Callable[..., "Work | int"]
_F = TypeVar("_F", bound=Formula)


@dataclass(frozen=True)
class Entry:
    """A formula, and how to call it."""

    formula: Formula
    kind: Kind
    keywords: frozenset[str] | None
    """Keyword arguments the formula takes; None: any."""
    wants_output: bool

    def work(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any) -> Work:
        """The work of a call with the operator's own arguments and result."""
        if kwargs and self.keywords is not None:
            kwargs = {name: value for name, value in kwargs.items() if name in self.keywords}
        found = self.formula(*args, **kwargs, output=output) if self.wants_output else self.formula(*args, **kwargs)
        return found if isinstance(found, Work) else Work(flops=int(found))


_ENTRIES: dict[str, Entry] = {}


def register_op(name: str, formula: Formula | None = None, *, kind: Kind = "other") -> Any:
    """Count calls of the operator `name` with `formula`; without `formula`, a decorator.

    `name` is the namespace and the operator, such as "mylib.mymm"; "triton.KERNEL" is a Triton kernel. The formula gets
    the operator's own arguments (and its result, if it has a parameter `output`) and returns flops, or a `Work`.
    """
    import_module("roofline.work.formulas")  # first, so that they do not replace the user's
    name = name.replace("::", ".").removeprefix("torch.ops.")
    if name.count(".") < 1:
        raise UsageError(f"register_op needs 'namespace.operator', such as 'mylib.mymm', and got {name!r}.")
    if formula is None:
        return lambda function: register_op(name, function, kind=kind)
    if not callable(formula):
        raise UsageError(f"register_op({name!r}): the formula must be callable, and is a {type(formula).__name__}.")
    _ENTRIES[name] = _entry(formula, kind)
    return formula


def formula(*names: str, kind: Kind) -> Callable[[_F], _F]:
    """Decorator: the formula of the `aten` operators `names` (or of `namespace.operator`)."""

    def register(function: _F) -> _F:
        for name in names:
            _ENTRIES[name if "." in name else f"aten.{name}"] = _entry(function, kind)
        return function

    return register


def lookup(name: str) -> Entry | None:
    """The entry of an operator; an in-place one (`aten.addmm_`) shares the formula of its plain form."""
    found = _ENTRIES.get(name)
    if found is None and name.endswith("_") and not name.endswith("__"):
        found = _ENTRIES.get(name[:-1])
    return found


def _entry(function: Formula, kind: Kind) -> Entry:
    parameters = inspect.signature(function).parameters.values()
    keywords = frozenset(p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD))
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    return Entry(function, kind, None if takes_any else keywords, "output" in keywords)

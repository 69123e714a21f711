"""Roofline profiler for PyTorch: measured ceilings, every layer placed under them, and why one GPU beats another.

Importing this package loads neither torch nor triton, cupy or matplotlib; the first use of a name below does.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "trace": "roofline.work.trace",
    "register_op": "roofline.work.registry",
    "place": "roofline.analysis.place",
    "predict": "roofline.analysis.predict",
    "compare": "roofline.analysis.compare",
    "compare_machines": "roofline.analysis.machines",
    "plot": "roofline.report.figure",
}
_CALLABLE_MODULES = ("machine", "probe")

if TYPE_CHECKING:
    from roofline.machine.catalog import machine as machine
    from roofline.work.registry import register_op as register_op
    from roofline.work.trace import trace as trace
else:

    def __getattr__(name: str) -> Any:
        """Import a public name at its first use."""
        if name in _CALLABLE_MODULES:
            return import_module(f"roofline.{name}")
        if name in _HOME:
            return getattr(import_module(_HOME[name]), name)
        raise AttributeError(f"module 'roofline' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME, *_CALLABLE_MODULES])

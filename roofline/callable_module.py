"""Lets a module be called: `roofline.machine` and `roofline.probe` are both a module and a function."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _CallableModule(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        home, name = self.__call_target__
        return getattr(import_module(home), name)(*args, **kwargs)


def make_callable(module: str, home: str, function: str) -> None:
    """Calling `module` calls `function` of the module `home`, which is imported at the first call only."""
    sys.modules[module].__class__ = _CallableModule
    sys.modules[module].__call_target__ = (home, function)  # type: ignore[attr-defined]

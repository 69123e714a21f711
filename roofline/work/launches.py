"""Triton kernels that the program launches itself: no dispatcher sees them, so their launch is watched."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from roofline.work import registry
from roofline.work.recorder import Recorder
from roofline.work.registry import Work


@contextmanager
def watching_triton(recorder: Recorder) -> Iterator[None]:
    """Record each launch as `triton.NAME`: uncounted unless registered, every tensor argument taken as read once."""
    classes = [cls for cls in _kernel_classes() if "run" in vars(cls)]
    originals = [cls.run for cls in classes]
    for cls, original in zip(classes, originals, strict=True):
        cls.run = _watched(recorder, original)
    try:
        yield
    finally:
        for cls, original in zip(classes, originals, strict=True):
            cls.run = original


def _kernel_classes() -> list[Any]:
    places = (("triton.runtime.jit", "JITFunction"), ("triton.runtime.interpreter", "InterpretedFunction"))
    return [getattr(sys.modules[module], name) for module, name in places if hasattr(sys.modules.get(module), name)]


def _watched(recorder: Recorder, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def run(kernel: Any, *args: Any, **kwargs: Any) -> Any:
        inside_an_op = torch._C._len_torch_dispatch_stack() == 0
        if inside_an_op or recorder.is_paused or kwargs.get("warmup"):
            return original(kernel, *args, **kwargs)
        with recorder.paused():
            result = original(kernel, *args, **kwargs)
        name = f"triton.{getattr(kernel, '__name__', 'kernel')}"
        entry = registry.lookup(name)
        options = {key: value for key, value in kwargs.items() if key not in ("grid", "warmup")}
        work = entry.work(args, options, result) if entry else Work()
        tensors = [value for value in (*args, *options.values()) if isinstance(value, Tensor)]
        recorder.add(name, entry.kind if entry else "other", work, tensors, (), counted=entry is not None)
        return result

    return run

"""Takes over composite ops for the time of a trace, so that the recorder sees what the target would run.

It happens at the dispatcher: direct calls, library modules and scripted code are all caught.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from roofline.work import attention as attention_ops
from roofline.work import flex as flex_ops
from roofline.work import recurrent as recurrent_ops
from roofline.work.control import plain_control_flow, replacing
from roofline.work.launches import watching_triton
from roofline.work.operators import take_apart
from roofline.work.recorder import Recorder

_KEYS = ("AutogradCPU", "AutogradMeta", "AutogradCUDA")


@contextmanager
def intercepting(recorder: Recorder, attention: str) -> Iterator[None]:
    """Take over the composite ops while the block runs."""
    makers = {
        "matmul": _matmul(recorder),
        **attention_ops.intercepted(recorder, attention),
        **recurrent_ops.intercepted(recorder),
    }
    kernels = {**plain_control_flow(), **flex_ops.flex_kernels(recorder)}
    library = torch.library.Library("aten", "IMPL")
    by_overload = {}
    for overload, maker in makers.items():
        packet, _, name = overload.partition(".")
        func = getattr(getattr(torch.ops.aten, packet), name or "default")
        handler = _handler(recorder, func, maker)
        by_overload[func] = handler
        for key in _KEYS:
            library.impl(overload, handler, key)
    recorder.intercepted = by_overload
    try:
        with replacing(kernels), flex_ops.any_device(), watching_triton(recorder):
            yield
    finally:
        recorder.intercepted = {}
        library._destroy()


def _handler(recorder: Recorder, func: Any, maker: Callable[..., Any]) -> Callable[..., Any]:
    def handler(*args: Any, **kwargs: Any) -> Any:
        outside = recorder.is_paused or torch._C._len_torch_dispatch_stack() == 0
        if outside or torch._C._functorch.peek_interpreter_stack() is not None:
            return take_apart(func, *args, **kwargs)
        return maker(func, *args, **kwargs)

    return handler


def _matmul(recorder: Recorder) -> Callable[..., Any]:
    """Batched products whose batches are broadcast: torch copies the operands, each is still read only once."""

    def matmul(func: Any, a: Tensor, b: Tensor) -> Tensor:
        if a.is_nested or b.is_nested or a.dim() < 3 or b.dim() < 3 or a.shape[:-2] == b.shape[:-2]:
            return take_apart(func, a, b)
        with recorder.merging_copies():
            return take_apart(func, a, b)

    return matmul

"""Flex attention as the one kernel that a GPU runs, forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from roofline.work.control import dense_kernel
from roofline.work.formulas.attention import BACKWARD, FORWARD, flex_work
from roofline.work.fused import Fused, run_as_one
from roofline.work.recorder import Recorder


def flex_kernels(recorder: Recorder) -> dict[Any, Callable[..., Any]]:
    """The higher-order op → its replacement, if this torch version has flex attention."""
    func = getattr(torch.ops.higher_order, "flex_attention", None)
    if func is None:
        return {}

    def kernel(q: Tensor, k: Tensor, v: Tensor, score_mod: Any, block_mask: Any, *rest: Any, **kwargs: Any) -> Any:
        if recorder.is_paused:
            return dense_kernel(func)(q, k, v, score_mod, block_mask, *rest, **kwargs)

        def run(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
            if q.is_meta:
                return _shapes_only(q, v)
            return tuple(dense_kernel(func)(q, k, v, score_mod, block_mask, *rest, **kwargs))

        fused = Fused(
            op="higher_order.flex_attention", kind="attention", work=flex_work(q, k, v, block_mask, FORWARD),
            backward=lambda needed: flex_work(q, k, v, block_mask, BACKWARD), run=run,
            also_reads=tuple(t for t in block_mask or () if isinstance(t, Tensor)),
        )  # fmt: skip
        return run_as_one(recorder, fused, (q, k, v))

    return {func: kernel}


@contextmanager
def any_device() -> Iterator[None]:
    """torch refuses the backward on a CPU and all of it on meta; what is traced here is the GPU's kernel."""
    try:
        from torch.nn.attention import flex_attention as module
    except ImportError:
        yield
        return
    before = getattr(module, "_validate_device", None)
    if before is None:
        yield
        return
    module._validate_device = lambda *_: None
    try:
        yield
    finally:
        module._validate_device = before


def _shapes_only(q: Tensor, v: Tensor) -> tuple[Tensor, ...]:
    result = q.new_empty(*q.shape[:-1], v.shape[-1])
    lse, highest = (q.new_empty(q.shape[:-1], dtype=torch.float32) for _ in range(2))
    return tuple(t.requires_grad_(q.requires_grad) for t in (result, lse, highest))

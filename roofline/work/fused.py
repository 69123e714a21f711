"""Ops that are one kernel on the target although they fall apart here: attention and recurrent layers.

Their composite forms are taken over for the time of a trace, at the dispatcher, so that direct calls, library modules
and scripted code are all caught. The values are computed as usual, unseen; one call is recorded forward and one backward.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from roofline.work.control import plain_control_flow, replacing
from roofline.work.record import Kind
from roofline.work.recorder import Recorder
from roofline.work.registry import Work

_KEYS = ("AutogradCPU", "AutogradMeta", "AutogradCUDA")


@dataclass(frozen=True)
class Fused:
    """One op of the target."""

    op: str
    kind: Kind
    work: Work
    backward: Callable[[Sequence[bool]], Work]
    """Work of the backward, given which tensors need a gradient."""
    run: Callable[..., tuple[Tensor, ...]]
    """The values, from the tensors."""
    statistics_bytes: int = 0
    """Saved for the backward beside the results, such as the log-sum-exp."""
    also_reads: tuple[Tensor, ...] = ()
    """What it reads beside its differentiable inputs."""


class _OneOp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, recorder: Recorder, fused: Fused, *tensors: Tensor) -> Any:
        ctx.recorder, ctx.fused = recorder, fused
        ctx.set_materialize_grads(False)
        needed = ctx.needs_input_grad[2:]
        with recorder.paused(), torch.set_grad_enabled(any(needed)):
            leaves = [t.detach().requires_grad_(need) for t, need in zip(tensors, needed, strict=True)]
            results = fused.run(*leaves)
        ctx.leaves, ctx.results, ctx.needed = leaves, results, needed
        outputs = tuple(r.detach() for r in results)
        recorder.add(
            fused.op, fused.kind, fused.work, (*tensors, *fused.also_reads), outputs, extra_bytes=fused.statistics_bytes
        )
        return outputs if len(outputs) > 1 else outputs[0]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        recorder, fused = ctx.recorder, ctx.fused
        wanted = [leaf for leaf, need in zip(ctx.leaves, ctx.needed, strict=True) if need]
        given = [(r, g) for r, g in zip(ctx.results, gradients, strict=True) if g is not None]
        with recorder.paused():
            if wanted[0].is_meta:
                found: Sequence[Tensor | None] = [torch.empty_like(leaf) for leaf in wanted]
            else:
                raw = torch.autograd.grad([r for r, _ in given], wanted, [g for _, g in given], allow_unused=True)
                found = [_laid_out_like(leaf, g) for leaf, g in zip(wanted, raw, strict=True)]
        made = iter(found)
        results = [next(made) if need else None for need in ctx.needed]
        reads = [*(g for _, g in given), *ctx.leaves, *ctx.results, *fused.also_reads]
        recorder.add(
            f"{fused.op}_backward",
            fused.kind,
            fused.backward(ctx.needed),
            reads,
            [r for r in results if r is not None],
        )
        return (None, None, *results)


def _laid_out_like(leaf: Tensor, gradient: Tensor | None) -> Tensor | None:
    """A kernel's gradient has the memory layout of its tensor."""
    if gradient is None or gradient.stride() == leaf.stride():
        return gradient
    return torch.empty_like(leaf).copy_(gradient)


def run_as_one(recorder: Recorder, fused: Fused, tensors: Sequence[Tensor]) -> Any:
    """Run `fused` on `tensors` as a single op."""
    return _OneOp.apply(recorder, fused, *tensors)


@contextmanager
def intercepting(recorder: Recorder, attention: str) -> Iterator[None]:
    """Take over the composite ops while the block runs."""
    from roofline.work import attention as attention_ops
    from roofline.work import flex as flex_ops
    from roofline.work import recurrent as recurrent_ops

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
        with replacing(kernels), flex_ops.any_device():
            yield
    finally:
        recorder.intercepted = {}
        library._destroy()


def _handler(recorder: Recorder, func: Any, maker: Callable[..., Any]) -> Callable[..., Any]:
    def handler(*args: Any, **kwargs: Any) -> Any:
        outside = recorder.is_paused or torch._C._len_torch_dispatch_stack() == 0
        if outside or torch._C._functorch.peek_interpreter_stack() is not None:
            return func.decompose(*args, **kwargs)
        return maker(func, *args, **kwargs)

    return handler


def _matmul(recorder: Recorder) -> Callable[..., Any]:
    """Batched products whose batches are broadcast: torch copies the operands, each is still read only once."""

    def matmul(func: Any, a: Tensor, b: Tensor) -> Tensor:
        if a.is_nested or b.is_nested or a.dim() < 3 or b.dim() < 3 or a.shape[:-2] == b.shape[:-2]:
            return func.decompose(a, b)
        with recorder.merging_copies():
            return func.decompose(a, b)

    return matmul

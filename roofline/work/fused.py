"""An op that is one kernel on the target although it falls apart here: attention, a recurrent layer.

Its values are computed as usual, unseen; one call is recorded forward and one backward.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from roofline.work.record import Access, Kind
from roofline.work.recorder import Recorder
from roofline.work.registry import Work


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
        statistics = Access(recorder.storages.reserve(), fused.statistics_bytes)
        ctx.statistics = (statistics,) if statistics.bytes else ()
        reads = (*tensors, *fused.also_reads)
        recorder.add(fused.op, fused.kind, fused.work, reads, outputs, also_writes=ctx.statistics)
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
            f"{fused.op}_backward", fused.kind, fused.backward(ctx.needed), reads, results, also_reads=ctx.statistics
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

"""LSTM, GRU and plain recurrent layers as the one op that cuDNN (or oneDNN) runs for all their steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from roofline.work.formulas.recurrent import rnn_backward_work, rnn_work
from roofline.work.fused import Fused, run_as_one
from roofline.work.operators import take_apart
from roofline.work.recorder import Recorder

_CELLS = ("lstm", "gru", "rnn_tanh", "rnn_relu")


def intercepted(recorder: Recorder) -> dict[str, Callable[..., Any]]:
    """Handlers of `lstm.input`, `lstm.data` (packed sequences) and their relatives."""
    handlers: dict[str, Callable[..., Any]] = {}
    for cell in _CELLS:
        handlers[f"{cell}.input"] = _padded(recorder, cell)
        handlers[f"{cell}.data"] = _packed(recorder, cell)
    return handlers


def _padded(recorder: Recorder, cell: str) -> Callable[..., Any]:
    def run(
        func: Any, x: Tensor, hx: Any, params: Sequence[Tensor], has_biases: bool, num_layers: int, dropout: float,
        train: bool, bidirectional: bool, batch_first: bool,
    ) -> Any:  # fmt: skip
        batch = x.shape[0 if batch_first else 1]
        rest = (has_biases, num_layers, dropout, train, bidirectional, batch_first)
        return _as_one(recorder, cell, func, x, hx, params, rest, x.shape[0] * x.shape[1], batch, bidirectional, None)

    return run


def _packed(recorder: Recorder, cell: str) -> Callable[..., Any]:
    def run(
        func: Any, data: Tensor, batch_sizes: Tensor, hx: Any, params: Sequence[Tensor], has_biases: bool,
        num_layers: int, dropout: float, train: bool, bidirectional: bool,
    ) -> Any:  # fmt: skip
        rest = (has_biases, num_layers, dropout, train, bidirectional)
        first = int(batch_sizes[0]) if not batch_sizes.is_meta else _states(hx)[0].shape[1]
        return _as_one(recorder, cell, func, data, hx, params, rest, data.shape[0], first, bidirectional, batch_sizes)

    return run


def _as_one(
    recorder: Recorder, cell: str, func: Any, x: Tensor, hx: Any, params: Sequence[Tensor], rest: tuple[Any, ...],
    cells: int, first_cells: int, bidirectional: bool, batch_sizes: Tensor | None,
) -> Any:  # fmt: skip
    states, weights = _states(hx), list(params)
    op = _target_op(recorder, cell, x, weights)
    if op is None or cells == 0:
        return take_apart(func, *(x, hx, params, *rest) if batch_sizes is None else (x, batch_sizes, hx, params, *rest))

    def run(x: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
        state, params = list(others[: len(states)]), list(others[len(states) :])
        if x.is_meta:
            return _shapes_only(x, state, bidirectional, x.requires_grad or any(t.requires_grad for t in others))
        given = state if isinstance(hx, (list, tuple)) else state[0]
        return tuple(
            take_apart(
                func, *(x, given, params, *rest) if batch_sizes is None else (x, batch_sizes, given, params, *rest)
            )
        )

    layers = _by_layer(weights, rest[1] * (2 if bidirectional else 1))

    def backward(needed: Sequence[bool]) -> Any:
        return rnn_backward_work(
            layers, cells, first_cells, directions=2 if bidirectional else 1, input_gradient=needed[0],
            state_gradient=any(needed[1 : 1 + len(states)]), weight_gradient=any(needed[1 + len(states) :]),
        )  # fmt: skip

    work = rnn_work(
        weights,
        cells,
        cell=cell,
        layers=rest[1],
        bidirectional=bidirectional,
        steps=cells // max(1, first_cells),
    )
    fused = Fused(op=op, kind="recurrent", work=work, backward=backward, run=run)
    return run_as_one(recorder, fused, (x, *states, *weights))


def _target_op(recorder: Recorder, cell: str, x: Tensor, weights: list[Tensor]) -> str | None:
    """None: the layer runs step by step, or the real op list comes from the device itself."""
    if x.is_cuda or (recorder.target == "cpu" and not x.is_meta):
        return None
    if recorder.target == "cuda":
        return "aten._cudnn_rnn" if torch.backends.cudnn.enabled else None
    return "aten.mkldnn_rnn_layer" if cell == "lstm" and x.dtype is torch.float32 else None


def _states(hx: Any) -> list[Tensor]:
    return list(hx) if isinstance(hx, (list, tuple)) else [hx]


def _by_layer(weights: Sequence[Tensor], count: int) -> list[list[Tensor]]:
    """Weight matrices of each layer and direction."""
    matrices = [w for w in weights if w.dim() == 2]
    each = len(matrices) // count
    return [matrices[i * each : (i + 1) * each] for i in range(count)]


def _shapes_only(x: Tensor, states: list[Tensor], bidirectional: bool, needs_grad: bool) -> tuple[Tensor, ...]:
    """Results on the meta device: features of the hidden state, twice if bidirectional, for every step."""
    features = states[0].shape[-1] * (2 if bidirectional else 1)
    output = x.new_empty(*x.shape[:-1], features)
    return tuple(t.requires_grad_(needs_grad) for t in (output, *(torch.empty_like(s) for s in states)))

"""Gathers and scatters: no arithmetic to speak of, but only the touched rows move."""

from __future__ import annotations

from math import prod
from typing import Any

import torch
from torch import Tensor

from roofline.work.registry import Work, formula


def distinct(indices: Tensor, limit: int) -> int:
    """How many different values `indices` holds; without values (meta) as many as it can hold."""
    most = min(indices.numel(), limit)
    if most <= 1 or indices.device.type == "meta" or type(indices).__name__ == "FakeTensor":
        return most
    return int(torch.unique(indices.detach()).numel())


def _row_bytes(table: Tensor, axis: int = 0) -> int:
    """Bytes of one slice of `table` along `axis`."""
    return table.numel() // max(1, table.shape[axis]) * table.element_size()


def _whole(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


@formula("embedding", kind="gather")
def embedding(table: Tensor, indices: Tensor, *_: Any) -> Work:
    """Each distinct row that is looked up is read once."""
    return Work(read_bytes={0: distinct(indices, table.shape[0]) * _row_bytes(table)})


@formula("_embedding_bag", "_embedding_bag_forward_only", kind="gather")
def embedding_bag(table: Tensor, indices: Tensor, *_: Any, output: Any) -> Work:
    """Distinct rows are read once; each looked-up row is added to its bag."""
    adds = indices.numel() * table.shape[1]
    return Work(elementwise_flops=adds, read_bytes={0: distinct(indices, table.shape[0]) * _row_bytes(table)})


@formula("index_select", kind="gather")
def index_select(table: Tensor, dim: int, indices: Tensor) -> Work:
    """Distinct slices along `dim` are read once."""
    if table.dim() == 0:
        return Work()
    return Work(read_bytes={0: distinct(indices, table.shape[dim]) * _row_bytes(table, dim)})


@formula("gather", "take", kind="gather")
def gather(source: Tensor, *_: Any, output: Tensor) -> Work:
    """At most one element of the source per element of the result."""
    return Work(read_bytes={0: min(_whole(source), _whole(output))})


@formula("index", "_unsafe_index", "_unsafe_masked_index", kind="gather")
def index(source: Tensor, indices: Any, *_: Any, output: Tensor) -> Work:
    """One index tensor: distinct slices; several, or a mask: at most one element per element of the result."""
    used = [(axis, i) for axis, i in enumerate(indices) if i is not None]
    if len(used) == 1 and used[0][1].dtype in (torch.int64, torch.int32):
        axis, positions = used[0]
        touched = distinct(positions.remainder(max(1, source.shape[axis])), source.shape[axis])
        return Work(read_bytes={0: touched * _row_bytes(source, axis)})
    return Work(read_bytes={0: min(_whole(source), _whole(output))})


@formula(
    "embedding_dense_backward", "embedding_backward", "_embedding_bag_backward", "_embedding_bag_dense_backward",
    kind="scatter",
)  # fmt: skip
def embedding_backward(grad: Tensor, *_: Any, output: Tensor) -> Work:
    """Every incoming row is added to its row of the table's dense gradient."""
    return Work(elementwise_flops=grad.numel())


@formula("index_add", "scatter_add", "scatter_reduce", "index_reduce", kind="scatter")
def scatter_add(target: Tensor, dim: int, indices: Tensor, source: Any, *_: Any) -> Work:
    """One addition per source element; in place, no more of the target moves than that."""
    return _scatter(target, source if isinstance(source, Tensor) else indices, adds=True)


@formula("scatter", "index_copy", "index_fill", kind="scatter")
def scatter(target: Tensor, dim: int, indices: Tensor, source: Any, *_: Any) -> Work:
    """Each source element replaces one of the target."""
    return _scatter(target, source if isinstance(source, Tensor) else indices, adds=False)


@formula("index_put", "_index_put_impl", "_unsafe_index_put", kind="scatter")
def index_put(target: Tensor, indices: Any, values: Tensor, accumulate: bool = False, *_: Any) -> Work:
    """Each value, broadcast over the indexed region, replaces or is added to one element."""
    used = [i for i in indices if i is not None]
    region = prod(torch.broadcast_shapes(*(i.shape for i in used))) if used else target.numel()
    free = prod(size for axis, size in enumerate(target.shape) if axis >= len(indices) or indices[axis] is None)
    if any(i.dtype in (torch.bool, torch.uint8) for i in used):
        return Work(elementwise_flops=values.numel() if accumulate else 0)
    return _touched(target, region * free * target.element_size(), region * free if accumulate else 0)


def _scatter(target: Tensor, source: Tensor, adds: bool) -> Work:
    return _touched(target, source.numel() * target.element_size(), source.numel() if adds else 0)


def _touched(target: Tensor, moved: int, adds: int) -> Work:
    """An in-place scatter moves what it touches; the recorder adds the copy that an out-of-place one makes."""
    moved = min(moved, _whole(target))
    return Work(elementwise_flops=adds, read_bytes={"in-place": moved if adds else 0}, written_bytes=moved)

"""Memory of a traced program: which tensors share it, how many distinct bytes a call touches, how much is alive."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from roofline.work.formulas.sparse import is_sparse, parts
from roofline.work.record import Access, Role

_EXACT_SPAN = 1 << 24
"""Up to this many elements, irregular overlaps of two views are counted exactly."""


class Storages:
    """Numbers every storage that a trace meets and follows what is alive."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._references: dict[int, Any] = {}
        self._roles: dict[int, Role] = {}
        self._copies: dict[int, tuple[int, int]] = {}
        self._next = 0
        self._live_bytes = 0
        self.peak_bytes = 0
        """Most bytes alive at once among the storages that the run made."""

    def adopt(self, tensor: Tensor, role: Role) -> None:
        """A tensor that was there before the run."""
        for part in components(tensor):
            self._roles.setdefault(self._number(part, made=False), role)

    def made(self, tensor: Tensor) -> None:
        """A tensor that the run has made."""
        for part in components(tensor):
            self._number(part, made=True)

    def same(self, copy: Tensor, original: Tensor) -> None:
        """`copy` stands for `original`: whoever reads it reads the original's bytes."""
        number = self._number(copy, made=True)
        self._copies[number] = (self._number(original, made=False), distinct_bytes(original))

    def reserve(self) -> int:
        """A number for memory that has no tensor here, such as a fused kernel's statistics."""
        self._next += 1
        return self._next

    def accesses(self, tensors: Iterable[tuple[Tensor, int | None]], made: bool) -> tuple[Access, ...]:
        """Distinct bytes per storage of (tensor, bytes touched or None for all of it). `made`: they are results."""
        touched: dict[int, int] = {}
        views: dict[int, list[Tensor]] = {}
        copies = self._copies
        for tensor, limit in tensors:
            for part in (tensor,) if tensor.layout is torch.strided and not tensor.is_nested else components(tensor):
                number = self._number(part, made)
                if copies and number in copies:
                    number, limit = copies[number]
                if limit is not None:
                    touched[number] = touched.get(number, 0) + limit
                elif number in views:
                    views[number].append(part)
                else:
                    views[number] = [part]
        for number, parts_of in views.items():
            size = distinct_bytes(parts_of[0]) if len(parts_of) == 1 else union_bytes(parts_of)
            touched[number] = max(touched[number], size) if number in touched else size
        roles = self._roles
        return tuple(
            [Access(number, size, roles.get(number, "activation")) for number, size in touched.items() if size]
        )

    def _number(self, tensor: Tensor, made: bool) -> int:
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):  # opaque layouts, such as oneDNN's, have no storage
            return -id(tensor)
        key = storage._cdata
        number = self._numbers.get(key)
        if number is not None:
            return number
        self._next += 1
        number = self._numbers[key] = self._next
        size = storage.nbytes() if made else 0
        self._references[key] = weakref.ref(storage, lambda _: self._freed(key, size))
        if made:
            self._live_bytes += size
            if self._live_bytes > self.peak_bytes:
                self.peak_bytes = self._live_bytes
        elif isinstance(tensor, torch.nn.Parameter):
            self._roles[number] = "parameter"
        return number

    def _freed(self, key: int, size: int) -> None:
        """Storages die while the run goes on: their address may come again and must then get a new number."""
        self._numbers.pop(key, None)
        self._references.pop(key, None)
        self._live_bytes -= size


def components(tensor: Tensor) -> list[Tensor]:
    """The strided tensors behind one: itself, values and indices if sparse, the buffer if nested."""
    if tensor.is_nested:
        return [tensor.values()] if hasattr(tensor, "values") and tensor.layout is torch.strided else [tensor]
    if is_sparse(tensor):
        return [part.detach() for part in parts(tensor)]
    return [tensor]


def shape_of(tensor: Tensor) -> tuple[int, ...]:
    """The shape; a nested tensor, which has none, shows its batch and the elements of all its parts."""
    if tensor.is_nested and tensor.layout is torch.strided:
        return tensor.size(0), tensor.numel()
    return tuple(tensor.shape)


def distinct_bytes(tensor: Tensor) -> int:
    """Bytes of the distinct elements of a strided tensor: an expanded (stride 0) axis counts once."""
    if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_contiguous():
        return tensor.numel() * tensor.element_size()
    elements, last = 1, 0
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        if size == 0:
            return 0
        if stride:
            elements *= size
            last += (size - 1) * stride
    return min(elements, last + 1) * tensor.element_size()


def union_bytes(tensors: list[Tensor]) -> int:
    """Bytes of the union of several views of one storage."""
    views = {(t.storage_offset(), tuple(t.shape), t.stride(), t.dtype): t for t in tensors}
    spans = sorted((_start(t), _start(t) + _span_bytes(t), distinct_bytes(t)) for t in views.values())
    if len(spans) == 1:
        return spans[0][2]
    dense = all(size == stop - start for start, stop, size in spans)
    covered, end, overlap = 0, 0, False
    for start, stop, size in spans:
        overlap = overlap or start < end
        covered += max(0, stop - max(start, end)) if dense else size
        end = max(end, stop)
    return covered if dense or not overlap else _marked_bytes(list(views.values()), spans[0][0], end, covered)


def _marked_bytes(tensors: list[Tensor], start: int, stop: int, most: int) -> int:
    """Mark every touched element in a mask and count; too large a span is bounded instead."""
    size = tensors[0].element_size()
    span = (stop - start) // size
    if span > _EXACT_SPAN or any(t.element_size() != size for t in tensors):
        return min(most, stop - start)
    mask = np.zeros(span, dtype=bool)
    for t in tensors:
        offset = t.storage_offset() - start // size
        np.lib.stride_tricks.as_strided(mask[offset:], tuple(t.shape), tuple(t.stride()))[...] = True
    return int(mask.sum()) * size


def _start(tensor: Tensor) -> int:
    return int(tensor.storage_offset()) * tensor.element_size()


def _span_bytes(tensor: Tensor) -> int:
    if tensor.numel() == 0:
        return 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size()


def total_bytes(tensors: Iterable[Tensor]) -> int:
    """Bytes of the distinct storages of `tensors`; opaque ones have none and count by their elements."""
    sizes: dict[int, int] = {}
    for part in (part for tensor in tensors for part in components(tensor)):
        if part.layout is torch.strided:
            storage = part.untyped_storage()
            sizes[storage._cdata] = storage.nbytes()
        else:
            sizes[-id(part)] = part.numel() * part.element_size()
    return sum(sizes.values())

"""Products with sparse operands: only the stored elements are multiplied."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from roofline.work.record import Product
from roofline.work.registry import Work, formula

_COMPRESSED_ROWS = (torch.sparse_csr, torch.sparse_bsr)
_COMPRESSED = (torch.sparse_csr, torch.sparse_bsr, torch.sparse_csc, torch.sparse_bsc)


def is_sparse(tensor: Tensor) -> bool:
    """Whether the tensor stores only some of its elements."""
    return tensor.layout is not torch.strided and (tensor.layout is torch.sparse_coo or tensor.layout in _COMPRESSED)


def stored(tensor: Tensor) -> int:
    """Stored elements: non-zeros, or the elements of the stored blocks."""
    return tensor._values().numel() if tensor.layout is torch.sparse_coo else tensor.values().numel()


def parts(tensor: Tensor) -> list[Tensor]:
    """The dense tensors a sparse one consists of: values and indices."""
    if tensor.layout is torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in _COMPRESSED_ROWS:
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]


def sparse_product(a: Tensor, b: Tensor) -> Work:
    """A sparse operand: each stored element meets every column (or row) of the dense one, 2 flops each.

    Both sparse: for each k, the stored elements of column k of `a` meet those of row k of `b`.
    """
    scale = 8 if a.is_complex() or b.is_complex() else 2
    if is_sparse(a) and is_sparse(b):
        return Work(flops=scale * _matches(a, b))
    if is_sparse(a):
        return _one_sparse(scale, stored(a), b.shape[-1] if b.dim() > 1 else 1)
    return _one_sparse(scale, stored(b), a.shape[-2])


def _one_sparse(scale: int, elements: int, others: int) -> Work:
    return Work(flops=scale * elements * others, product=Product(1, elements, others, 1), attributes={"sparse": True})


def _matches(a: Tensor, b: Tensor) -> int:
    """Sum over k of (stored in column k of a) x (stored in row k of b)."""
    columns = torch.bincount(_coo(a)[1], minlength=a.shape[1])
    rows = torch.bincount(_coo(b)[0], minlength=b.shape[0])
    return int((columns * rows).sum())


def _coo(tensor: Tensor) -> Tensor:
    return tensor._indices() if tensor.layout is torch.sparse_coo else tensor.to_sparse_coo()._indices()


@formula("_sparse_mm", "_sparse_sparse_matmul", "smm", "hspmm", kind="gemm")
def sparse_mm(a: Tensor, b: Tensor, *_: Any) -> Work:
    """Stored elements of `a` times the columns of `b`."""
    return sparse_product(a, b)


@formula("_sparse_addmm", "sspaddmm", kind="gemm")
def sparse_addmm(added: Tensor, a: Tensor, b: Tensor) -> Work:
    """The same with an added start."""
    return sparse_product(a, b)


@formula("sparse_sampled_addmm", kind="gemm")
def sampled_addmm(pattern: Tensor, a: Tensor, b: Tensor) -> Work:
    """(m x k) @ (k x n) at the stored positions of `pattern` only: 2 k flops each."""
    scale = 8 if a.is_complex() else 2
    return Work(flops=scale * stored(pattern) * a.shape[-1], product=Product(1, stored(pattern), 1, a.shape[-1]))


@formula("_sparse_mm_reduce_impl", kind="gemm")
def sparse_mm_reduce(a: Tensor, b: Tensor, reduce: str) -> Work:
    """Stored elements times columns, reduced by sum, mean, max or min."""
    return sparse_product(a, b)


@formula("_sparse_semi_structured_mm", "_sparse_semi_structured_linear", kind="gemm")
def semi_structured_mm(a: Tensor, metadata: Tensor, b: Tensor, *_: Any, output: Tensor) -> Work:
    """2:4 sparse: `a` holds the kept half of each row, so k is half of the dense one."""
    columns = output.numel() // max(1, a.shape[0])
    return _half(a.shape[0], columns, a.shape[1], a)


@formula("_sparse_semi_structured_addmm", kind="gemm")
def semi_structured_addmm(added: Tensor, a: Tensor, metadata: Tensor, b: Tensor, *_: Any) -> Work:
    """The same with an added start."""
    return _half(a.shape[0], b.shape[1], a.shape[1], a)


@formula("_cslt_sparse_mm", kind="gemm")
def cslt_sparse_mm(packed: Tensor, b: Tensor, *_: Any, output: Tensor) -> Work:
    """2:4 sparse, cuSPARSELt: `packed` is flat, k is half the rows of the dense operand."""
    rows = output.numel() // max(1, b.shape[1])
    return _half(rows, b.shape[1], b.shape[0] // 2, b)


def _half(m: int, n: int, kept: int, operand: Tensor) -> Work:
    return Work(
        flops=2 * m * n * kept,
        product=Product(1, m, n, kept),
        dtype=operand.dtype,
        attributes={"sparse": "2:4"},
    )

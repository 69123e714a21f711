"""Dense matrix products. Every output element is a sum of k products: 2 m n k flops, times 4 for complex numbers."""

from __future__ import annotations

from math import prod
from typing import Any

from torch import Tensor

from roofline.work.formulas.sparse import is_sparse, sparse_product
from roofline.work.record import Product
from roofline.work.registry import Work, formula


def product_work(batch: int, m: int, n: int, k: int, *operands: Tensor, **extra: Any) -> Work:
    """`batch` products (m x k) @ (k x n). A complex multiply-add is 4 multiplications and 4 additions: 8 flops."""
    scale = 8 if any(t.is_complex() for t in operands) else 2
    return Work(flops=scale * batch * m * n * k, product=Product(batch, m, n, k), **extra)


@formula("mm", kind="gemm")
def mm(a: Tensor, b: Tensor, *_: Any) -> Work:
    """(m x k) @ (k x n); a further argument is the dtype of the result."""
    if is_sparse(a) or is_sparse(b):
        return sparse_product(a, b)
    return product_work(1, a.shape[0], b.shape[1], a.shape[1], a, b)


@formula("addmm", "_addmm_activation", kind="gemm")
def addmm(added: Tensor, a: Tensor, b: Tensor, *_: Any, beta: Any = 1) -> Work:
    """added + (m x k) @ (k x n): the addition is the accumulator's start, not extra work."""
    if is_sparse(a) or is_sparse(b):
        return sparse_product(a, b)
    return product_work(1, a.shape[0], b.shape[1], a.shape[1], a, b, read_bytes=_unread(beta))


@formula("bmm", "matmul", kind="gemm")
def bmm(a: Tensor, b: Tensor, *_: Any) -> Work:
    """batch x (m x k) @ (k x n); for nested operands the sum over their parts."""
    if a.is_nested or b.is_nested:
        return _nested_product(a, b)
    if is_sparse(a):
        return sparse_product(a, b)
    return product_work(a.shape[0], a.shape[1], b.shape[2], a.shape[2], a, b)


@formula("baddbmm", kind="gemm")
def baddbmm(added: Tensor, a: Tensor, b: Tensor, *_: Any, beta: Any = 1) -> Work:
    """added + batch x (m x k) @ (k x n)."""
    return product_work(a.shape[0], a.shape[1], b.shape[2], a.shape[2], a, b, read_bytes=_unread(beta))


@formula("addbmm", kind="gemm")
def addbmm(added: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1) -> Work:
    """added + the sum over the batch: one product with k' = batch x k."""
    return product_work(1, a.shape[1], b.shape[2], a.shape[0] * a.shape[2], a, b, read_bytes=_unread(beta))


@formula("mv", kind="gemm")
def mv(a: Tensor, v: Tensor) -> Work:
    """(m x k) @ k."""
    if is_sparse(a):
        return sparse_product(a, v)
    return product_work(1, a.shape[0], 1, a.shape[1], a, v)


@formula("addmv", kind="gemm")
def addmv(added: Tensor, a: Tensor, v: Tensor, *, beta: Any = 1) -> Work:
    """added + (m x k) @ k."""
    if is_sparse(a):
        return sparse_product(a, v)
    return product_work(1, a.shape[0], 1, a.shape[1], a, v, read_bytes=_unread(beta))


@formula("dot", "vdot", kind="gemm")
def dot(a: Tensor, b: Tensor) -> Work:
    """Sum of k products."""
    return product_work(1, 1, 1, a.numel(), a, b)


@formula("addr", kind="gemm")
def addr(added: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1) -> Work:
    """added + the outer product of an m- and an n-vector: one multiply-add per element."""
    return product_work(1, a.numel(), b.numel(), 1, a, b, read_bytes=_unread(beta))


@formula("linear", "mkldnn_linear", "mkldnn._linear_pointwise", kind="gemm")
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, *_: Any) -> Work:
    """Every row of x (all axes but the last) with the (out x in) weight."""
    if x.is_nested:
        return product_work(1, x.numel() // max(1, weight.shape[-1]), weight.shape[0], weight.shape[-1], x, weight)
    rows = x.numel() // max(1, x.shape[-1])
    return product_work(1, rows, weight.numel() // max(1, weight.shape[-1]), weight.shape[-1], x, weight)


@formula("linear_backward", kind="gemm")
def linear_backward(x: Tensor, grad: Tensor, weight: Tensor, output_mask: list[bool]) -> Work:
    """dX and dW: each as large as the forward product, if wanted."""
    one = linear(x, weight)
    return Work(flops=one.flops * (bool(output_mask[0]) + bool(output_mask[1])), product=one.product)


@formula(
    "torch_nn._linear_cross_entropy_batch_chunked",
    "torch_nn._linear_cross_entropy_batch_chunked_no_reduction",
    kind="gemm",
)
def linear_cross_entropy(x: Tensor, weight: Tensor, *rest: Any) -> Work:
    """The logits, never stored as a whole; with a reduction also dX and dW in the same pass, if wanted."""
    logits = linear(x, weight)
    wanted = rest[10:12]  # empty without a reduction: its gradients are ops of the backward
    return Work(flops=logits.flops * (1 + sum(map(bool, wanted))), product=logits.product)


@formula("_trilinear", kind="gemm")
def trilinear(
    i1: Tensor, i2: Tensor, i3: Tensor, expand1: Any, expand2: Any, expand3: Any, sumdim: Any, unroll_dim: int = 1
) -> Work:  # fmt: skip
    """Sum over i1 x i2 x i3 broadcast to one shape (`nn.Bilinear` and its gradients) as two products.

    First i1 x i2, summed over what i3 lacks; then the result x i3. Inputs (N, I), (N, J) and a weight (O, I, J):
    N O J sums of I products, then N O sums of J. The unrolled axis is looped over and never summed inside a product.
    """
    first, second, third = _axes(i1, expand1), _axes(i2, expand2), _axes(i3, expand3)
    inner = {**first, **second}
    kept = {axis: size for axis, size in inner.items() if axis == unroll_dim or axis in third or axis not in sumdim}
    scale = 8 if i1.is_complex() else 2
    m, n = prod(inner[axis] for axis in kept if axis in first), prod(inner[a] for a in kept if a not in first)
    return Work(
        flops=scale * (prod(inner.values()) + prod({**kept, **third}.values())),
        product=Product(1, m, n, prod(size for axis, size in inner.items() if axis not in kept)),
    )


def _axes(tensor: Tensor, expanded: Any) -> dict[int, int]:
    """Position and size of the tensor's axes in the common shape, where it has none at the `expanded` places."""
    positions = (axis for axis in range(tensor.dim() + len(expanded)) if axis not in expanded)
    return dict(zip(positions, tensor.shape, strict=True))


@formula("_euclidean_dist", kind="gemm")
def euclidean_dist(a: Tensor, b: Tensor) -> Work:
    """|a|^2 - 2 a b + |b|^2 as one product: both norms are appended as two more of the k summed columns."""
    return product_work(1, a.shape[-2], b.shape[-2], a.shape[-1] + 2, a, b)


def _nested_product(a: Tensor, b: Tensor) -> Work:
    """Each part has its own m, k and n; leading axes (heads) multiply."""
    pairs = zip(_part_shapes(a, b), _part_shapes(b, a), strict=True)
    macs = sum(prod(left[:-2]) * left[-2] * left[-1] * right[-1] for left, right in pairs)
    return product_work(1, macs, 1, 1, a, b)


def _part_shapes(tensor: Tensor, other: Tensor) -> list[list[int]]:
    """Shapes of the parts of a nested tensor; a dense one has the same shape in every part of the other."""
    if tensor.is_nested:
        return tensor._nested_tensor_size().tolist()  # type: ignore[operator]
    shape = list(tensor.shape[-2:])
    return [shape] * other.size(0)


def _unread(beta: Any) -> dict[int | str, int]:
    """With beta = 0 the added tensor is not read, as in BLAS."""
    return {0: 0} if beta == 0 else {}

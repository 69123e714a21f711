"""Products: 2 m n k flops, whatever the operator's name. Bytes: each operand once, the result once."""

import pytest
import torch
from torch import nn

F32 = 4
A, B, OUT = 3 * 4, 4 * 5, 3 * 5  # elements of the operands and the result of (3 x 4) @ (4 x 5)
MM = 2 * 3 * 4 * 5
ONES = torch.ones

PRODUCTS = [
    # operator, arguments, flops, elements moved
    (torch.mm, (ONES(3, 4), ONES(4, 5)), MM, A + B + OUT),
    (lambda a, b, out: torch.mm(a, b, out=out), (ONES(3, 4), ONES(4, 5), ONES(3, 5)), MM, A + B + OUT),
    # the added tensor is read too, and not with beta = 0
    (torch.addmm, (ONES(3, 5), ONES(3, 4), ONES(4, 5)), MM, OUT + A + B + OUT),
    (torch.Tensor.addmm_, (ONES(3, 5), ONES(3, 4), ONES(4, 5)), MM, OUT + A + B + OUT),
    (lambda c, a, b: torch.addmm(c, a, b, beta=0), (ONES(3, 5), ONES(3, 4), ONES(4, 5)), MM, A + B + OUT),
    # two of them in a batch
    (torch.bmm, (ONES(2, 3, 4), ONES(2, 4, 5)), 2 * MM, 2 * (A + B + OUT)),
    (torch.baddbmm, (ONES(2, 3, 5), ONES(2, 3, 4), ONES(2, 4, 5)), 2 * MM, 2 * (OUT + A + B + OUT)),
    (torch.Tensor.baddbmm_, (ONES(2, 3, 5), ONES(2, 3, 4), ONES(2, 4, 5)), 2 * MM, 2 * (OUT + A + B + OUT)),
    # summed over the batch: one result
    (torch.addbmm, (ONES(3, 5), ONES(2, 3, 4), ONES(2, 4, 5)), 2 * MM, OUT + 2 * (A + B) + OUT),
    # vectors: n = 1, then m = n = 1, then k = 1
    (torch.mv, (ONES(6, 10), ONES(10)), 2 * 6 * 10, 60 + 10 + 6),
    (torch.addmv, (ONES(6), ONES(6, 10), ONES(10)), 2 * 6 * 10, 6 + 60 + 10 + 6),
    (torch.dot, (ONES(7), ONES(7)), 2 * 7, 7 + 7 + 1),
    (torch.addr, (ONES(6, 10), ONES(6), ONES(10)), 2 * 6 * 10, 60 + 6 + 10 + 60),
    # batch (1, 7) x (2, 1) = 14 products; each operand is read once, not once per copy
    (torch.matmul, (ONES(1, 7, 3, 4), ONES(2, 1, 4, 5)), 14 * MM, 7 * A + 2 * B + 14 * OUT),
    (torch.matmul, (ONES(2, 3, 4, 5), ONES(3, 5, 6)), 2 * 6 * 4 * 5 * 6, 120 + 90 + 6 * 24),
    # an expanded row is one row
    (lambda a, b: a.expand(10, 64) @ b, (ONES(1, 64), ONES(64, 8)), 2 * 10 * 64 * 8, 64 + 64 * 8 + 10 * 8),
    (torch.einsum, ("bhqd,bhkd->bhqk", ONES(2, 3, 4, 5), ONES(2, 3, 6, 5)), 2 * 6 * 4 * 6 * 5, 120 + 180 + 144),
]


@pytest.mark.parametrize(("program", "args", "flops", "elements"), PRODUCTS)
def test_products(trace, program, args, flops, elements):
    result = trace(program, *args)
    assert (result.flops, result.bytes) == (flops, F32 * elements)


@pytest.mark.parametrize(("program", "args", "flops", "elements"), PRODUCTS[:14])
def test_inference_mode_counts_the_same(trace, program, args, flops, elements):
    with torch.inference_mode():
        result = trace(program, *[a.clone() if isinstance(a, torch.Tensor) else a for a in args])
    assert (result.flops, result.bytes) == (flops, F32 * elements)


def test_linear_multiplies_every_row(trace, rand):
    rows = 5 * 10 * 10
    result = trace(nn.Linear(3, 8), rand(5, 10, 10, 3, grad=True), backward=True)
    one = 2 * rows * 3 * 8
    assert (result.flops, result.flops_backward) == (one, 2 * one)  # dX and dW
    assert result.bytes == F32 * (rows * 3 + 3 * 8 + 8 + rows * 8)


def test_only_wanted_gradients_are_counted(trace, rand):
    one = 2 * 6 * 10
    assert trace(torch.mv, rand(6, 10), rand(10, grad=True), backward=True).flops_backward == one
    frozen = nn.Linear(10, 6).requires_grad_(False)
    assert trace(frozen, rand(4, 10, grad=True), backward=True).flops_backward == 4 * one


def test_bilinear(trace, rand):
    # (3 x 4) @ (4 x 6 5), then for 3 x 6 results a sum of 5 products
    assert trace(nn.Bilinear(4, 5, 6), rand(3, 4), rand(3, 5)).flops == 2 * 3 * 6 * 5 * 4 + 2 * 3 * 6 * 5


@pytest.mark.parametrize("dtype", [torch.cfloat, torch.cdouble])
def test_complex_multiply_add_is_eight_flops(trace, rand, dtype):
    a, b = rand(3, 4, dtype=dtype, grad=True), rand(4, 5, dtype=dtype, grad=True)
    result = trace(torch.mm, a, b, backward=True)
    assert (result.flops, result.flops_backward) == (8 * 3 * 4 * 5, 2 * 8 * 3 * 4 * 5)
    assert result.bytes == dtype.itemsize * (A + B + OUT)
    assert trace(torch.vdot, rand(7, dtype=dtype), rand(7, dtype=dtype)).flops == 8 * 7


def test_counts_beyond_double_precision_stay_exact(trace):
    m, k = 1000003, 100003
    result = trace(torch.mm, torch.empty(m, k, device="meta"), torch.empty(k, m, device="meta"))
    assert result.flops == 2 * m * m * k  # 2.0e17, an odd multiple of 2 that no double holds
    assert result.bytes == F32 * (2 * m * k + m * m)


def test_empty_batch_is_no_work(trace, rand):
    result = trace(nn.Sequential(nn.Linear(16, 8), nn.ReLU()), rand(0, 16, grad=True), backward=True)
    assert (result.flops, result.flops_backward) == (0, 0)


def test_autocast_product_moves_the_narrow_type(trace, rand):
    def program(model, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(x)

    result = trace(program, nn.Linear(128, 32), rand(64, 128))
    product = result.by_operator()["aten.addmm"]
    assert product.flops == result.flops == 2 * 64 * 128 * 32
    assert product.bytes == 2 * (64 * 128 + 128 * 32 + 32 + 64 * 32)
    assert result.bytes > product.bytes  # the casts are traffic of their own


def test_nested_operands_sum_over_their_parts(trace, rand):
    nested = torch.nested.nested_tensor([rand(3, 16), rand(5, 16)])
    # 3 x 16 x 3 and 5 x 16 x 5
    assert trace(lambda x: torch.bmm(x, x.transpose(1, 2)), nested).flops == 2 * 16 * (9 + 25)
    assert trace(nn.Linear(16, 8), nested).flops == 2 * (3 + 5) * 16 * 8


def test_jagged_rows_are_not_padded(trace, rand):
    jagged = torch.nested.nested_tensor([rand(3, 16), rand(5, 16)], layout=torch.jagged, requires_grad=True)
    result = trace(nn.Linear(16, 8), jagged, backward=True)
    one = 2 * (3 + 5) * 16 * 8
    assert (result.flops, result.flops_backward) == (one, 2 * one)
    offsets = 2 * 8 * 3
    assert 0 <= result.bytes - F32 * (8 * 16 + 16 * 8 + 8 + 8 * 8) <= offsets


def test_the_product_behind_a_call_is_given(trace, rand):
    (call,) = trace(torch.baddbmm, rand(2, 3, 5), rand(2, 3, 4), rand(2, 4, 5)).calls
    assert (call.product.batch, call.product.m, call.product.n, call.product.k) == (2, 3, 5, 4)
    assert call.kind == "gemm"

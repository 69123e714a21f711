"""The tensor products under the interpreter: every operand type, shape and number of loops, against float64."""

import pytest
import torch

from roofline.kernels import tensor_dot
from roofline.kernels.microkernel import Variant

pytestmark = pytest.mark.xdist_group("interpreter")
# Triton 3.8 interprets bf16 products wrongly (it multiplies bit patterns); the device checks them at each run.
CEILINGS = [c for c in tensor_dot.PIPES if c != "tensor_bf16_fp32"]


def operand(shape, dtype):
    if dtype == "int8":
        return torch.randint(-64, 64, shape, dtype=torch.int8)
    return torch.randn(shape).to(getattr(torch, dtype))


def product(interpret, ceiling, m, n, k, loops, programs=2):
    operand_type, accumulator, *_ = tensor_dot.PIPES[ceiling]
    a, bt = operand((m, k), operand_type), operand((n, k), operand_type)
    out = torch.full((programs, m, n), 99, dtype=getattr(torch, accumulator))
    ticks = torch.zeros((programs, 2), dtype=torch.int64)
    meta = {**tensor_dot.meta(ceiling, Variant("", {"M": m, "N": n, "K": k})), "CLOCK": False}
    interpret(tensor_dot.dot_kernel, (programs,), a, bt, out, ticks, loops, **meta)
    return out.double(), loops * a.double() @ bt.double().T


@pytest.mark.parametrize("ceiling", CEILINGS)
@pytest.mark.parametrize(("m", "n", "k"), [(16, 16, 32), (32, 16, 64), (16, 64, 32)])
def test_product(interpret, ceiling, m, n, k):
    out, expected = product(interpret, ceiling, m, n, k, loops=3)
    # 3 x 64 products of numbers of size 1 (int8: 64^2, exact) sum to about sqrt(3 x 3 x 64) = 24 and at most a few
    # times that; an fp16 accumulator rounds each of 3 sums to 2^-11 of it, a wider one far less.
    tolerance = {"tensor_int8": 0, "tensor_fp16_fp16": 3 * 2**-11}.get(ceiling, 1e-5) * expected.abs().max()
    assert (out - expected).abs().max() <= tolerance


@pytest.mark.parametrize("loops", [0, 1, 2])
def test_each_loop_adds_one_product(interpret, loops):
    out, expected = product(interpret, "tensor_int8", 16, 16, 32, loops, programs=3)
    assert torch.equal(out, expected.expand(3, 16, 16))

"""The pipe of a product: by dtype and by torch's switches at the moment of the call."""

import pytest
import torch
from torch import nn

from roofline.machine.ceilings import PIPES
from roofline.work import pipes


@pytest.fixture
def switches():
    """torch's fp32 switches, put back afterwards."""
    matmul, conv = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    yield
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = matmul, conv


@pytest.mark.parametrize("allowed", [True, False])
def test_fp32_follows_the_current_switch(trace, rand, switches, allowed):
    torch.backends.cuda.matmul.allow_tf32 = allowed
    torch.backends.cudnn.allow_tf32 = not allowed
    fast, slow = "tensor_tf32", "fp32"
    product = trace(nn.Linear(8, 4), rand(2, 8)).calls[0].pipe
    convolution = trace(nn.Conv1d(3, 4, 3), rand(1, 3, 9)).calls[0].pipe
    recurrent = trace(lambda m, x: m(x)[0], nn.LSTM(3, 4), rand(5, 1, 3)).calls
    assert (product, convolution) == ((fast, slow) if allowed else (slow, fast))
    assert next(call.pipe for call in recurrent if call.flops) == convolution
    assert trace(nn.Linear(8, 4), rand(2, 8), target="cpu").calls[0].pipe == slow


@pytest.mark.parametrize(
    ("dtype", "pipe"),
    [
        (torch.float16, "tensor_fp16_fp32"),
        (torch.bfloat16, "tensor_bf16_fp32"),
        (torch.float64, "tensor_fp64"),
        (torch.complex128, "tensor_fp64"),
        (torch.int8, "tensor_int8"),
        (torch.float8_e5m2, "tensor_fp8_e5m2"),
        (torch.int64, None),
    ],
)
def test_by_dtype(dtype, pipe):
    assert pipes.pipe_of(dtype, "gemm", "cuda") == pipe
    assert pipe is None or pipe in PIPES


def test_only_matrix_work_has_a_pipe(trace, rand):
    (call,) = trace(torch.relu, rand(4)).calls
    assert (call.pipe, call.kind, call.flops, call.elementwise_flops) == (None, "elementwise", 0, 4)

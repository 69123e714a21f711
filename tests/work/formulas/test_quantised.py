"""Integer, fp8 and packed products: what is moved has its own width, what is computed its own pipe."""

import pytest
import torch


def int8(*shape):
    return torch.randint(-3, 3, shape, dtype=torch.int8)


def test_int8_product(trace):
    (call,) = trace(torch._int_mm, int8(32, 16), int8(16, 24)).calls
    assert (call.flops, call.pipe) == (2 * 32 * 16 * 24, "tensor_int8")
    assert call.bytes == 32 * 16 + 16 * 24 + 4 * 32 * 24  # int8 in, int32 out


def test_int8_weights_are_computed_in_the_activations_dtype(trace, rand):
    x, scales = rand(4, 32).bfloat16(), rand(16).bfloat16()
    (call,) = trace(torch.ops.aten._weight_int8pack_mm, x, int8(16, 32), scales).calls
    assert (call.flops, call.pipe) == (2 * 4 * 32 * 16, "tensor_bf16_fp32")
    assert call.bytes == 2 * 4 * 32 + 16 * 32 + 2 * 16 + 2 * 4 * 16


def test_int4_weights(trace, rand):
    packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(torch.randint(0, 15, (64, 32), dtype=torch.int32), 1)
    scales = torch.ones(1, 64, 2, dtype=torch.bfloat16)
    result = trace(torch.ops.aten._weight_int4pack_mm_for_cpu, rand(4, 32).bfloat16(), packed, 32, scales)
    assert result.flops == 2 * 4 * 32 * 64
    assert result.bytes == 2 * 4 * 32 + 64 * 32 // 2 + 2 * 64 * 2 + 2 * 4 * 64  # half a byte per weight


@pytest.mark.parametrize(
    ("dtype", "pipe"), [(torch.float8_e4m3fn, "tensor_fp8_e4m3"), (torch.float8_e5m2, "tensor_fp8_e5m2")]
)
def test_fp8_product(trace, rand, dtype, pipe):
    a, b = rand(32, 32).to(dtype), rand(32, 32).to(torch.float8_e4m3fn).t()
    scale = torch.tensor(1.0)

    def program(x, y, u, v):
        return torch._scaled_mm(x, y, u, v, out_dtype=torch.bfloat16)

    (call,) = trace(program, a, b, scale, scale.clone()).calls
    assert (call.flops, call.pipe) == (2 * 32**3, pipe)
    assert call.bytes == 2 * 32 * 32 + 2 * 4 + 2 * 32 * 32


def test_grouped_product_uses_each_row_once(trace, rand):
    ends = torch.tensor([16, 32], dtype=torch.int32)
    result = trace(lambda a, b: torch._grouped_mm(a, b, offs=ends), rand(32, 16).bfloat16(), rand(2, 16, 8).bfloat16())
    assert result.flops == 2 * 32 * 16 * 8

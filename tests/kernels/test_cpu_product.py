"""CPU products: results, tolerances that tell precisions apart, flops, sizes."""

import pytest
import torch

from roofline.kernels import cpu_product
from roofline.kernels.microkernel import Variant
from roofline.machine.record import Device
from roofline.measure.cpu import CpuArena

IDS = [f"{k.ceiling}-{k.backend}" for k in cpu_product.MICROKERNELS]


@pytest.fixture
def arena():
    return CpuArena(Device(name="toy", kind="cpu", sm_count=2), 1 << 30, [])


@pytest.mark.parametrize("kernel", cpu_product.MICROKERNELS, ids=IDS)
def test_result_agrees_with_its_reference(arena, kernel):
    assert kernel.prepare(Variant("small", {"n": 64}), arena, 1.0).check() <= kernel.tolerance


@pytest.mark.parametrize("kernel", cpu_product.MICROKERNELS, ids=IDS)
def test_flops_are_two_a_multiply_add(arena, kernel):
    # Full: 2 x 64 x 64 x 64; half: the same with 32 rows.
    assert kernel.prepare(Variant("small", {"n": 64}), arena, 1.0).work == 2 * 64**3
    assert kernel.prepare(Variant("small", {"n": 64}), arena, 0.5).work == 64**3


def narrower(dtype):
    def product(a, b, out):
        out.copy_(a.to(dtype).to(a.dtype) @ b.to(dtype).to(b.dtype).t())

    return product


def bf16_sums(a, b, out):
    out.zero_()
    for k in range(a.shape[1]):
        out += a[:, k : k + 1] * b[:, k]


@pytest.mark.parametrize(
    ("ceiling", "product"),
    [
        ("fp32", narrower(torch.bfloat16)),
        ("fp32", narrower(torch.float16)),
        ("fp64", narrower(torch.float32)),
        ("tensor_bf16_fp32", bf16_sums),
    ],
)
def test_a_narrower_product_or_accumulator_is_caught(arena, ceiling, product):
    error = cpu_product._error(cpu_product.DTYPES[ceiling], product, arena)
    assert error > cpu_product.TOLERANCES[ceiling]


def test_side_is_the_cube_root_of_half_the_flops():
    # 2 x 1024^3 = 2.147e9; 2 x 640^3 = 5.24e8; less than 2 x 64^3 still gives one step.
    assert cpu_product.side(2.147e9) == 1024
    assert cpu_product.side(5.24e8) == 640
    assert cpu_product.side(1e3) == 128


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_more_cores_get_larger_products(dtype):
    few, many = cpu_product.sizes(dtype, 2), cpu_product.sizes(dtype, 128)
    # 64 times the cores, 64 times the flops: four times the side, to within the rounding to 128 of each.
    assert many[0] == pytest.approx(4 * few[0], abs=64 + 4 * 64)


def test_emulated_bf16_gets_a_small_product_only(monkeypatch):
    monkeypatch.setattr(cpu_product, "bf16_supported", lambda: True)
    fast = cpu_product.sizes("bfloat16", 2)
    monkeypatch.setattr(cpu_product, "bf16_supported", lambda: False)
    # 2 cores x 1e7 flops: (1e7)^(1/3) = 215, rounded to 256.
    assert cpu_product.sizes("bfloat16", 2) == (256,)
    assert len(fast) == 2 and fast[0] > 256

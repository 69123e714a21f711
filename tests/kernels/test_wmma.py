"""Tensor products of Volta and Turing: work, sources, and the check, with the warps emulated in float64."""

import re

import pytest
import torch

from roofline.kernels import wmma
from roofline.machine.record import Device

CEILINGS = tuple(wmma.PIPES)
VARIANT = wmma.VARIANTS[0]


def products(skipped=0, lost_tile=False):
    """The kernel as it should be, or with so many products left out, or without the last accumulator."""

    def kernel(name, options, grid, block, a, bt, out, loops, ticks):
        count = int(loops) * options["UNROLL"] - skipped
        stored = out[:, : out.shape[1] - lost_tile]
        stored.copy_((count * (a.double() @ bt.double().T)).to(out.dtype))

    return kernel


@pytest.mark.parametrize("capability", ["7.0", "7.2", "7.5"])
def test_offered_where_triton_has_no_tensor_path(capability):
    assert wmma.variants(Device(name="old", kind="cuda", compute_capability=capability)) == wmma.VARIANTS


@pytest.mark.parametrize("capability", ["8.0", "8.9", "9.0", "12.0", None])
def test_not_offered_where_triton_has_one(capability):
    assert wmma.variants(Device(name="new", kind="cuda", compute_capability=capability)) == ()


def test_int8_is_not_volta_s():
    needs = {k.ceiling: k.minimum_capability for k in wmma.MICROKERNELS}
    assert needs == {"tensor_fp16_fp16": (7, 0), "tensor_fp16_fp32": (7, 0), "tensor_int8": (7, 2)}


@pytest.mark.parametrize("variant", wmma.VARIANTS, ids=lambda v: v.name)
@pytest.mark.parametrize("ceiling", CEILINGS)
def test_work_counts_every_product_of_every_warp(emulate, cpu_arena, ceiling, variant):
    launches = emulate(wmma)
    job = wmma.prepare(ceiling, variant, cpu_arena("7.5"), 1.0)
    job.run(0)
    ((grid, block, (a, bt, out, loops, ticks)),) = launches
    o = variant.options
    # A 16 x 16 x 16 product is 4096 multiply-adds, 8192 flops; a warp makes tiles x unroll of them per loop.
    assert job.work == 8192 * o["TILES"] * o["UNROLL"] * int(loops) * grid * block // 32
    assert (grid, block) == (3 * o["BLOCKS"], o["THREADS"])
    assert a.shape == bt.shape == (16, 16) and out.shape == (grid * block // 32, o["TILES"], 16, 16)
    assert ticks.shape == (grid, 2)


@pytest.mark.parametrize("ceiling", CEILINGS)
def test_half_the_work(emulate, cpu_arena, ceiling):
    emulate(wmma)
    full, half = (wmma.prepare(ceiling, VARIANT, cpu_arena("7.5"), scale).work for scale in (1.0, 0.5))
    assert half / full == pytest.approx(0.5, rel=0.01)


@pytest.mark.parametrize("ceiling", CEILINGS)
def test_right_products_are_believed(emulate, cpu_arena, ceiling):
    emulate(wmma, products())
    assert wmma.prepare(ceiling, VARIANT, cpu_arena("7.5"), 1.0).check() <= wmma.PIPES[ceiling].tolerance


@pytest.mark.parametrize("wrong", [{"skipped": 1}, {"lost_tile": True}])
@pytest.mark.parametrize("ceiling", CEILINGS)
def test_wrong_products_are_refused(emulate, cpu_arena, ceiling, wrong):
    emulate(wmma, products(**wrong))
    # One of 2 x 8 products missing is an error of 1/16 = 6 %.
    assert not wmma.prepare(ceiling, VARIANT, cpu_arena("7.5"), 1.0).check() <= wmma.PIPES[ceiling].tolerance


# PTX ISA, "Matrix Fragments for WMMA": registers of a thread for A, B and the accumulator of m16n16k16.
@pytest.mark.parametrize(
    ("ceiling", "operand", "accumulator"),
    [("tensor_fp16_fp16", 8, 4), ("tensor_fp16_fp32", 8, 8), ("tensor_int8", 2, 8)],
)
def test_assembly_names_every_register_once(ceiling, operand, accumulator):
    source = wmma.source(ceiling)
    (product,) = re.findall(r'"wmma\.mma[^;]*;"', source)
    fragments = [re.findall(r"%\d+", part) for part in re.findall(r"{([^}]*)}", product)]
    assert [len(fragment) for fragment in fragments] == [accumulator, operand, operand, accumulator]
    d, a, b, c = fragments
    assert d == c and [*d, *a, *b] == [f"%{i}" for i in range(accumulator + 2 * operand)]
    # An address comes after the registers that are loaded, and after those that are stored.
    assert re.findall(r'"wmma\.load[^;]*\[(%\d+)\], 16;"', source) == [f"%{operand}"] * 2
    assert re.findall(r'"wmma\.store[^;]*\[(%\d+)\], ', source) == [f"%{accumulator}"]


def test_fp16_sums_stay_in_range():
    # Products of numbers of size 0.02 summed over k = 16 are of size 0.02^2 x 4 = 0.0016. An fp16 accumulator grows
    # until one of them is half a unit in its last place: 0.0016 x 2048 = 3.3, far below 65504.
    pipe = wmma.PIPES["tensor_fp16_fp16"]
    assert pipe.spread**2 * 4 * 2**11 < torch.finfo(torch.float16).max / 100

"""The fp64 tensor pipe by inline PTX: work and check, with the products done by torch."""

import pytest

from roofline.kernels import mma
from roofline.machine.record import Device

(KERNEL,) = mma.MICROKERNELS
VARIANTS = mma.variants(Device(name="toy", kind="cuda", compute_capability="9.0"))
every_variant = pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)


def products(missing=0):
    """loops x UNROLL x (a @ b), or some loops fewer."""

    def kernel(name, options, grid, block, a, b, out, loops, ticks):
        count = (int(loops) - missing) * options["UNROLL"]
        out.copy_((count * (a @ b)).expand_as(out))

    return kernel


@every_variant
def test_work_counts_every_product_of_every_warp(emulate, cpu_arena, variant):
    launches = emulate(mma)
    job = mma.prepare(variant, cpu_arena(), 1.0)
    job.run(0)
    ((grid, block, (a, b, out, loops, _)),) = launches
    o = variant.options
    assert (grid, block) == (3 * o["BLOCKS"], o["THREADS"])
    # m x k and k x n operands; 32 threads make a warp; out: (warps, tiles, m, n).
    m, n, k = a.shape[0], out.shape[-1], a.shape[1]
    assert out.shape == (grid * block // 32, o["TILES"], m, n)
    assert job.work == 2 * m * n * k * o["TILES"] * o["UNROLL"] * int(loops) * (grid * block // 32)
    assert b.numel() == n * k


@every_variant
def test_right_products_are_believed_and_a_loop_too_few_is_not(emulate, cpu_arena, variant):
    emulate(mma, products())
    assert mma.prepare(variant, cpu_arena(), 1.0).check() <= KERNEL.tolerance
    emulate(mma, products(missing=1))
    assert mma.prepare(variant, cpu_arena(), 1.0).check() > KERNEL.tolerance
    emulate(mma)
    assert not mma.prepare(variant, cpu_arena(), 1.0).check() <= KERNEL.tolerance


def test_the_shape_of_hopper_is_offered_to_hopper_only():
    devices = [Device(name="x", kind="cuda", compute_capability=cc) for cc in ("8.0", "8.6", "9.0")]
    names = {device.compute_capability: str(mma.variants(device)) for device in devices}
    assert {cc: "m16n8k16" in text for cc, text in names.items()} == {"8.0": False, "8.6": False, "9.0": True}
    assert all("m8n8k4" in text for text in names.values())

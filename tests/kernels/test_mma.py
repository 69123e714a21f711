"""Tensor pipes by inline PTX: work and check, with the products done by torch."""

import pytest

from roofline.kernels import mma, wmma
from roofline.machine.record import Device

CASES = [
    (module, kernel, capability, variant)
    for module, capability in ((mma, "9.0"), (mma, "8.0"), (wmma, "7.5"))
    for kernel in module.MICROKERNELS
    for variant in kernel.variants(Device(name="toy", kind="cuda", compute_capability=capability))
]
IDS = [f"{kernel.ceiling}-{capability}-{variant.name}" for _, kernel, capability, variant in CASES]
every_case = pytest.mark.parametrize(("module", "kernel", "capability", "variant"), CASES, ids=IDS)


def products(transposed, missing=0):
    """loops x UNROLL x (a @ b), or some loops fewer."""

    def kernel(name, options, grid, block, a, b, out, loops, ticks):
        count = (int(loops) - missing) * options["UNROLL"]
        b = b.double().T if transposed else b.double()
        out.copy_((count * (a.double() @ b)).expand_as(out))

    return kernel


@every_case
def test_work_counts_every_product_of_every_warp(emulate, cpu_arena, module, kernel, capability, variant):
    launches = emulate(module)
    job = kernel.prepare(variant, cpu_arena(capability), 1.0)
    job.run(0)
    ((grid, block, (a, b, out, loops, _)),) = launches
    o = variant.options
    assert (grid, block) == (3 * o["BLOCKS"], o["THREADS"])
    # m x k and k x n (or n x k) operands; 32 threads make a warp; out: (warps, tiles, m, n).
    m, n, k = a.shape[0], out.shape[-1], a.shape[1]
    assert out.shape == (grid * block // 32, o["TILES"], m, n)
    assert job.work == 2 * m * n * k * o["TILES"] * o["UNROLL"] * int(loops) * (grid * block // 32)
    assert b.numel() == n * k


@every_case
def test_right_products_are_believed_and_a_loop_too_few_is_not(emulate, cpu_arena, module, kernel, capability, variant):
    emulate(module, products(module is wmma))
    assert kernel.prepare(variant, cpu_arena(capability), 1.0).check() <= kernel.tolerance
    emulate(module, products(module is wmma, missing=1))
    assert kernel.prepare(variant, cpu_arena(capability), 1.0).check() > kernel.tolerance
    emulate(module)
    assert not kernel.prepare(variant, cpu_arena(capability), 1.0).check() <= kernel.tolerance


def test_the_shape_of_hopper_is_offered_to_hopper_only():
    devices = [Device(name="x", kind="cuda", compute_capability=cc) for cc in ("8.0", "8.6", "9.0")]
    names = {device.compute_capability: str(mma.variants(device)) for device in devices}
    assert {cc: "m16n8k16" in text for cc, text in names.items()} == {"8.0": False, "8.6": False, "9.0": True}
    assert all("m8n8k4" in text for text in names.values())


def test_wmma_is_left_to_the_gpus_that_triton_cannot_use():
    offered = {cc: wmma.variants(Device(name="x", kind="cuda", compute_capability=cc)) for cc in ("7.0", "7.5", "8.0")}
    assert offered["7.0"] == offered["7.5"] == wmma.VARIANTS and offered["8.0"] == ()

"""The vector pipes: work, operands and the reference, with the loop emulated in float64."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from roofline.kernels import fma
from roofline.machine.record import Device

DEVICE = Device(name="toy", kind="cuda", compute_capability="9.0", sm_count=3)
PIPES = {k.ceiling: k for k in fma.MICROKERNELS}
VARIANTS = fma.variants(DEVICE)
LANES = {"fp32": 1, "fp64": 1, "fp16x2": 2, "bf16x2": 2}


def value(argument, ceiling):
    """The number in a kernel argument; packed halves must be equal."""
    if LANES[ceiling] == 1:
        return float(argument)
    words = torch.from_numpy(np.array([argument], np.uint32).view(np.int16))
    halves = words.view(getattr(torch, fma.TORCH_DTYPE[ceiling]))
    assert halves[0] == halves[1]
    return halves[0].item()


def loop(ceiling, drift=0, skipped=0):
    """The kernel as it should be, or with so many steps left out, or another summand."""

    def kernel(name, options, grid, block, x0, out, a, b, loops, ticks):
        a, b, x = value(a, ceiling), value(b, ceiling) + drift, x0
        for _ in range(int(loops) * options["UNROLL"] - skipped):
            x = (x.double() * a + b).to(x.dtype)
        out.copy_(x)

    return kernel


def prepared(ceiling, variant, arena, scale=1.0):
    return PIPES[ceiling].prepare(variant, arena, scale)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
@pytest.mark.parametrize("ceiling", PIPES)
def test_work_counts_two_flops_per_lane_of_every_instruction(emulate, cpu_arena, ceiling, variant):
    launches = emulate(fma)
    job = prepared(ceiling, variant, cpu_arena())
    job.run(0)
    ((grid, block, (x0, out, _, _, loops, ticks)),) = launches
    o = variant.options
    assert (grid, block) == (3 * o["BLOCKS"], o["THREADS"])
    assert job.work == 2 * LANES[ceiling] * o["CHAINS"] * o["UNROLL"] * int(loops) * grid * block
    # One value (or a pair of halves) per chain and thread; a clock per block.
    assert x0.numel() == out.numel() == o["CHAINS"] * grid * block * LANES[ceiling]
    assert ticks.shape == (grid, 2)


@pytest.mark.parametrize("ceiling", PIPES)
def test_all_variants_do_about_the_same_work(emulate, cpu_arena, ceiling):
    emulate(fma)
    jobs = [prepared(ceiling, variant, cpu_arena()) for variant in VARIANTS]
    most = max(job.work for job in jobs)
    assert all(job.work > 0.9 * most for job in jobs)
    assert most <= 3 * fma.LAUNCH_FLOPS[ceiling]


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
@pytest.mark.parametrize("ceiling", PIPES)
def test_half_the_work_is_half_the_loops(emulate, cpu_arena, ceiling, variant):
    emulate(fma)
    full, half = (prepared(ceiling, variant, cpu_arena(), scale).work for scale in (1.0, 0.5))
    assert half / full == pytest.approx(0.5, rel=0.06)


@pytest.mark.parametrize("ceiling", PIPES)
def test_a_right_loop_is_believed(emulate, cpu_arena, ceiling):
    emulate(fma, loop(ceiling))
    assert prepared(ceiling, VARIANTS[2], cpu_arena()).check() <= PIPES[ceiling].tolerance


@pytest.mark.parametrize("wrong", [{"skipped": 1}, {"skipped": 32}, {"drift": 0.1}])
@pytest.mark.parametrize("ceiling", PIPES)
def test_a_wrong_loop_is_refused(emulate, cpu_arena, ceiling, wrong):
    emulate(fma, loop(ceiling, **wrong))
    assert prepared(ceiling, VARIANTS[2], cpu_arena()).check() > PIPES[ceiling].tolerance


def test_output_that_was_never_written_is_refused(emulate, cpu_arena):
    emulate(fma)
    assert prepared("fp32", VARIANTS[2], cpu_arena()).check() == float("inf")


def test_the_reference_is_exact_before_it_is_rounded():
    # Two steps by hand: x1 = -0.99609375 x0 + 0.6015625 and again, in fractions.
    x0 = torch.tensor([0.3, -1.7, 2.25], dtype=torch.float64)
    a, b = Fraction(-255, 256), Fraction(77, 128)
    assert (a, b) == (Fraction(fma.FACTOR), Fraction(fma.SUMMAND))
    expected = [float(a * (a * Fraction(x) + b) + b) for x in x0.tolist()]
    assert fma.reference(x0, 2).tolist() == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("ceiling", PIPES)
def test_values_keep_moving(ceiling):
    # Operands that settle would toggle no wires and need less power than real ones.
    dtype = getattr(torch, fma.TORCH_DTYPE[ceiling])
    x = torch.randn(1000, dtype=torch.float64).to(dtype)
    before, after = fma.reference(x, 1000), fma.reference(x, 1001)
    assert before.isfinite().all() and before.abs().max() < 10
    assert ((after - before).abs() > 1e-4).float().mean() > 0.4


@pytest.mark.parametrize("ceiling", PIPES)
def test_on_zeros_nothing_ever_changes(emulate, cpu_arena, ceiling):
    launches = emulate(fma)
    arena = cpu_arena()
    with arena.filled(zeros=True):
        prepared(ceiling, VARIANTS[0], arena).run(0)
    ((_, _, (x0, _, _, b, *_)),) = launches
    assert not x0.any() and value(b, ceiling) == 0


@pytest.mark.parametrize("ceiling", PIPES)
def test_timed_values_swing_between_two_numbers_for_a_whole_launch(ceiling):
    # 61,000 steps per chain and launch: a swing that halved in 20,000 of them would be gone at the end.
    dtype = getattr(torch, fma.TORCH_DTYPE[ceiling])
    x = torch.randn(200, dtype=torch.float64).to(dtype)
    for _ in range(20_000):
        x = (x.double() * fma.SWING[ceiling] + fma.SUMMAND).to(dtype)
    after = (x.double() * fma.SWING[ceiling] + fma.SUMMAND).to(dtype)
    assert after.isfinite().all() and ((after - x).abs() > 0.1).float().mean() > 0.8

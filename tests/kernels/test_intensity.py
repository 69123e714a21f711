"""The measured roof of the vector pipes: points, bytes and flops of each, and the check, with threads emulated."""

from fractions import Fraction

import pytest
import torch

from roofline.kernels import fma, intensity
from roofline.machine.record import Device

DEVICE = Device(name="toy", kind="cuda", compute_capability="9.0", sm_count=3)
LANES = {"fp32": 1, "fp64": 1, "fp16x2": 2}
NUMBERS = {"fp32": 4, "fp64": 2, "fp16x2": 8}
"""Numbers in a 16-byte vector."""
TOLERANCES = {k.ceiling: k.tolerance for k in intensity.SWEEPS}
SOME = (0, 3, 11, -13, -9, -1)


def points(ceiling):
    return intensity.variants(ceiling, DEVICE)


def threads(ceiling, skipped=0, swapped=False):
    """The kernel, one multiply-add of all threads after the other; or some left out; or its vectors exchanged."""

    def kernel(name, options, grid, block, y, x, a, b, rounds, ticks):
        # (block, vector, thread, number): a thread's vectors lie a block's width apart.
        v = x.reshape(grid, options["VECTORS"], block, NUMBERS[ceiling]).clone()
        chains = options["VECTORS"] * NUMBERS[ceiling] // LANES[ceiling]
        per_vector = chains // options["VECTORS"]
        for step in range(int(rounds) * options["FMAS"] - skipped):
            vector, place = divmod(step % options["FMAS"] % chains, per_vector)
            part = slice(place * LANES[ceiling], (place + 1) * LANES[ceiling])
            v[:, vector, :, part] = fma.reference(v[:, vector, :, part], 1)
        y.view_as(v).copy_(v.flip(1) if swapped else v)

    return kernel


def test_thirty_points_from_a_sixteenth_to_4096():
    assert len(intensity.INTENSITIES) == 33
    assert intensity.INTENSITIES[0] == Fraction(1, 16) and intensity.INTENSITIES[-1] == 4096
    steps = {b / a for a, b in zip(intensity.INTENSITIES, intensity.INTENSITIES[1:], strict=False)}
    assert steps == {Fraction(3, 2), Fraction(4, 3)}


@pytest.mark.parametrize("ceiling", intensity.PIPES)
def test_every_pipe_has_thirty_points_at_both_ends(ceiling):
    xs = [variant.x for variant in points(ceiling)]
    assert len(xs) >= 30 and xs == sorted(xs) and (xs[0], xs[-1]) == (1 / 16, 4096)


@pytest.mark.parametrize("ceiling", intensity.PIPES)
def test_flops_per_byte_are_what_the_point_says(ceiling):
    for variant in points(ceiling):
        o = variant.options
        # Two flops per lane of each instruction; 16 bytes read and 16 written per vector.
        assert 2 * LANES[ceiling] * o["FMAS"] * o["ROUNDS"] / (32 * o["VECTORS"]) == variant.x
        # The loop's three or four other instructions stay below 1 % of a long body.
        assert o["ROUNDS"] == 1 or o["FMAS"] == 512


def test_shapes():
    # fp32, 1/16: 1/16 x 32 bytes = 2 flops = 1 multiply-add per vector. With 4 in each, fp16x2 needs half of one.
    assert intensity.shape("fp32", Fraction(1, 16)) == (1, 1, 1)
    assert intensity.shape("fp16x2", Fraction(1, 16)) == (2, 1, 1)
    assert intensity.shape("fp16x2", Fraction(3, 32)) is None
    # 64 flop/byte x 64 bytes of two vectors / 2 = 2048 = 4 rounds of 512.
    assert intensity.shape("fp64", Fraction(64)) == (2, 512, 4)


@pytest.mark.parametrize("ceiling", intensity.PIPES)
def test_work_and_buffers_of_a_launch(emulate, cpu_arena, ceiling):
    launches = emulate(intensity)
    arena = cpu_arena()
    for variant in points(ceiling):
        job = intensity.prepare(ceiling, variant, arena, 1.0)
        launches.clear()
        job.run(0)
        ((grid, block, (target, source, *_, ticks)),) = launches
        assert job.work == variant.x * (target.nbytes + source.nbytes)
        assert target.numel() == source.numel() == grid * block * 4 * variant.options["VECTORS"]
        assert job.buffer_bytes == target.nbytes and ticks.shape == (grid, 2)


def test_launches_take_turns_and_sources_are_never_written(emulate, cpu_arena):
    launches = emulate(intensity)
    arena = cpu_arena()
    job = intensity.prepare("fp32", points("fp32")[-1], arena, 1.0)
    for i in range(8):
        job.run(i)
    pairs = [(target.data_ptr(), source.data_ptr()) for _, _, (target, source, *_) in launches]
    written, read = zip(*pairs, strict=True)
    large = arena.arrays(4, 1.0)
    inside = [[a.data_ptr() <= p < a.data_ptr() + a.nbytes for a in large].index(True) for p in (*written, *read)]
    assert set(inside[:8]) == {0, 1} and set(inside[8:]) == {2, 3}
    # 4 MiB arrays hold several launches of one wave: 24 blocks x 3 SMs x 256 threads x 32 bytes = 590 kB.
    assert len(set(pairs)) == 8


def test_blocks_come_in_whole_waves():
    # 2e9 bytes, 4096 flop/byte: 1e9 flops x 132 SMs / 4096 / 2 = 16 MB a launch: one wave of 24 x 132 blocks of 8 kB.
    (last,) = points("fp32")[-1:]
    assert intensity.grid_of("fp32", last, 2_000_000_000, 132, 1.0) == 24 * 132
    # At 1/16 the array is the bound: 2e9 / 4096 bytes = 488,281 blocks = 154 waves of 3168 and a part of one.
    assert intensity.grid_of("fp32", points("fp32")[0], 2_000_000_000, 132, 1.0) == 154 * 24 * 132
    # An array smaller than a wave: 1 MiB / 8 KiB = 128 blocks.
    assert intensity.grid_of("fp32", last, 1 << 20, 132, 1.0) == 128


@pytest.mark.parametrize("index", SOME)
@pytest.mark.parametrize("ceiling", intensity.PIPES)
def test_right_threads_are_believed(emulate, cpu_arena, ceiling, index):
    emulate(intensity, threads(ceiling))
    variant = points(ceiling)[index]
    assert intensity.prepare(ceiling, variant, cpu_arena(), 1.0).check() <= TOLERANCES[ceiling]


@pytest.mark.parametrize("wrong", [{"skipped": 1}, {"swapped": True}])
@pytest.mark.parametrize("ceiling", intensity.PIPES)
def test_wrong_threads_are_refused(emulate, cpu_arena, ceiling, wrong):
    emulate(intensity, threads(ceiling, **wrong))
    variant = next(v for v in points(ceiling) if v.options["VECTORS"] == 2)
    assert not intensity.prepare(ceiling, variant, cpu_arena(), 1.0).check() <= TOLERANCES[ceiling]


def test_output_that_was_never_written_is_refused(emulate, cpu_arena):
    emulate(intensity)
    assert intensity.prepare("fp32", points("fp32")[5], cpu_arena(), 1.0).check() == float("inf")


@pytest.mark.parametrize(("capability", "policy"), [("7.5", 0), ("8.0", 1), ("9.0", 1)])
def test_loads_and_stores_are_those_of_the_best_copy(capability, policy):
    device = Device(name="toy", kind="cuda", compute_capability=capability)
    assert {v.options["POLICY"] for v in intensity.variants("fp32", device)} == {policy}


def test_macros():
    options = intensity.compile_options("fp16x2", points("fp16x2")[0])
    assert options == {
        "FP16X2": 1, "THREADS": 256, "VECTORS": 2, "FMAS": 1, "POLICY": 1, "HINT": '""', "STORE_HINT": '""',
    }  # fmt: skip


def test_reference_by_hand():
    # One block, one vector of one thread, 6 multiply-adds over 4 chains: the first two get two, the others one.
    x = torch.ones(1, 1, 1, 4)
    variant = next(v for v in points("fp32") if v.options["FMAS"] == 6)
    once = 1 * fma.FACTOR + fma.SUMMAND
    twice = once * fma.FACTOR + fma.SUMMAND
    assert intensity.reference("fp32", variant, x, 1).flatten().tolist() == pytest.approx([twice, twice, once, once])

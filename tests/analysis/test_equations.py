from dataclasses import fields, replace

import numpy as np
import programs
import pytest

from roofline.analysis.constants import Constants, shipped
from roofline.analysis.demand import demand
from roofline.analysis.equations import times
from roofline.analysis.hardware import Hardware
from roofline.analysis.software import AS_TRACED

# Efficiencies of one and round numbers, so that expected times can be computed by hand.
IDEAL = Constants(**{field.name: 1.0 for field in fields(Constants)})
PLAIN = replace(
    IDEAL, overlap=2.0, kernel_s=0.0, host_s=0.0, layout_share=0.0, power_depth=0.0, power_activity=0.0,
    norm_elements_per_clock=1e9, pointwise_elements_per_clock=1e9, copy_elements_per_clock=1e9,
)  # fmt: skip
GPU = Hardware(
    name="toy", sm_count=64, clock_hz=1e9, base_share=0.5, consumer=False, dram_bytes_per_s=1e12, dram_measured=False,
    ecc=False, l2_bytes=1e6, l2_bytes_per_clock=1e6, l2_measured=False, fp32_per_clock=256,
    pipe_per_clock={"tensor_fp16_fp32": 1024.0}, tile=128, memory_bytes=None,
)  # fmt: skip


def timed(*calls, machine=GPU, constants=PLAIN, software=AS_TRACED):
    return times(demand(programs.program(*calls), software), machine, constants)


def test_a_pointwise_kernel_takes_its_bytes_over_the_bandwidth():
    # 512 MiB read and as much written at 1 TB/s.
    assert timed(programs.pointwise()).seconds == pytest.approx(2**30 / 1e12)


def test_instruction_issue_limits_where_elements_are_many():
    # 2**28 fp16 elements at one per clock on 64 SMs of 1 GHz: 4.2 ms, against 1.07 ms for the bytes.
    slow = replace(PLAIN, pointwise_elements_per_clock=1.0)
    special = programs.pointwise(elementwise_flops=4 * 2**28)
    assert timed(special, constants=slow).seconds == pytest.approx(2**28 / 64e9)


def test_math_and_traffic_of_a_product_join_in_a_p_norm():
    # 2 x 8192^3 flops at 64 x 1 GHz x 1024, and 3 x 8192^2 x 2 bytes at 1 TB/s; 8192 tiles are whole waves of 64 SMs.
    math, dram = 2 * 8192**3 / (64e9 * 1024), 3 * 8192**2 * 2 / 1e12
    assert timed(programs.product()).seconds == pytest.approx((math**2 + dram**2) ** 0.5, rel=1e-4)


def test_an_infinite_overlap_is_the_plain_roofline_and_one_is_the_sum():
    math, dram = 2 * 8192**3 / (64e9 * 1024), 3 * 8192**2 * 2 / 1e12
    hard, whole = (timed(programs.product(), constants=replace(PLAIN, overlap=p)).seconds for p in (200.0, 1.0))
    assert hard == pytest.approx(max(math, dram), rel=1e-3)
    assert whole == pytest.approx(math + dram, rel=2e-3)


def test_l2_traffic_of_a_tiled_product():
    # Each operand once per 128 rows or columns: 8192^3 x 2 B x (1/128 + 1/128) + output, at 1 B per clock and SM.
    narrow = replace(GPU, l2_bytes_per_clock=1.0)
    expected = (8192**3 * 2 * 2 / 128 + 8192**2 * 2) / 64e9
    assert timed(programs.product(), machine=narrow).l2[0] == pytest.approx(expected)


def test_a_short_last_wave_wastes_its_share():
    # 128 x 64 tiles: 65 of them on 64 SMs take two waves where 64 take one.
    one, two = (timed(programs.product(m=128, n=64 * tiles, k=64)).math[0] / tiles for tiles in (64, 65))
    assert two / one == pytest.approx(2 / (65 / 64))


def test_what_the_previous_kernel_left_in_the_l2_needs_no_dram():
    first, second = programs.pointwise(0, 1000, 1, 2), programs.pointwise(1, 1000, 2, 3)
    # 1 MB of L2 holds the kilobyte; the second kernel only writes.
    assert timed(first, second).dram == pytest.approx([2000 / 1e12, 1000 / 1e12])
    small = replace(GPU, l2_bytes=100.0)
    assert timed(first, second, machine=small).dram == pytest.approx([2000 / 1e12] * 2)


def test_the_host_sets_the_pace_of_small_programs():
    slow = replace(PLAIN, host_s=1e-3)
    calls = [programs.pointwise(i, 1000, 2 * i, 2 * i + 1) for i in range(5)]
    assert timed(*calls, constants=slow).seconds == pytest.approx(5e-3)


def test_training_adds_the_host_time_of_every_parameter():
    slow = replace(PLAIN, host_s=1e-3, host_per_parameter=2.0)
    forward = programs.convolution(0)  # has one parameter
    backward = programs.pointwise(1, 1000, 10, 11, phase="backward")
    assert timed(forward, backward, constants=slow).host_s == pytest.approx(2e-3 + 2e-3)


def test_full_load_holds_the_clock_at_the_base_clock():
    # Depth 1, activity 0: clock x base / boost = one half, so arithmetic takes twice as long.
    limited = replace(PLAIN, power_depth=1.0)
    assert timed(programs.product(), constants=limited).math[0] == pytest.approx(2 * timed(programs.product()).math[0])


def test_winograd_is_taken_only_where_it_is_faster():
    convolution = programs.convolution(dtype="float32", pipe="fp32")
    direct, winograd = (timed(convolution, constants=replace(PLAIN, winograd_gain=g)).math[0] for g in (1.0, 2.0))
    assert winograd == pytest.approx(direct / 2)
    assert timed(convolution, constants=replace(PLAIN, winograd_gain=0.5)).math[0] == pytest.approx(direct)


def test_many_constants_at_once_give_what_each_gives_alone():
    asked = demand(programs.program(programs.product(), programs.pointwise(1, read=2)), AS_TRACED)
    shifted = [replace(PLAIN, overlap=p, dram_efficiency=e) for p, e in ((1.0, 0.9), (2.0, 0.5), (3.0, 1.0))]
    stacked = Constants(**{
        field.name: np.array([[getattr(c, field.name)] for c in shifted]) for field in fields(Constants)
    })  # fmt: skip
    alone = [float(np.squeeze(times(asked, GPU, constants).seconds)) for constants in shifted]
    assert times(asked, GPU, stacked).seconds == pytest.approx(alone)


def test_faster_hardware_is_never_slower():
    calls = [programs.product(), programs.convolution(1), programs.pointwise(2), programs.attention(3)]
    base = timed(*calls, constants=shipped().values).seconds
    for change in (
        {"dram_bytes_per_s": 2e12},
        {"sm_count": 128},
        {"clock_hz": 2e9},
        {"l2_bytes": 1e8},
        {"base_share": 1},
    ):
        assert timed(*calls, machine=replace(GPU, **change), constants=shipped().values).seconds <= base, change

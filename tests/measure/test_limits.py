"""Physical limits against every data sheet in the table, and the doubts a rate raises when held against them."""

from dataclasses import replace

import pytest

from roofline.machine.catalog import datasheet
from roofline.machine.record import Device, Health
from roofline.machine.specs import datasheet_machine, rows
from roofline.measure import limits

from .fake import TOY

CARDS = [m for m in map(datasheet_machine, rows()) if m.device.compute_capability in limits._PER_CLOCK_AND_SM]
# Peaks that a data sheet quotes at another clock than its boost clock, or for a part of the chip: tensor peaks of
# Hopper and all of B200 stand for 8 to 13 % lower clocks; the L40's int8 is that of half the chip, as its sheet notes.
ODD = {"9.0": (0.86, 1.045), "10.0": (0.92, 1.08)}


def pairs():
    for machine in CARDS:
        for ceiling in machine.ceilings:
            bound = limits.limit(machine.device, ceiling.name, Health())
            if bound and not ceiling.name.startswith("dram_"):
                yield machine, ceiling, ceiling.value / bound[0]


def test_no_column_is_empty():
    # 8 pipes on some 70 cards; a row or a column that is lost would show here.
    assert len(list(pairs())) > 400
    assert {ceiling.name for _, ceiling, _ in pairs()} >= {*limits._COLUMNS, *limits._SAME_AS} - {"bf16x2"}


def test_lanes_times_boost_clock_is_the_peak_of_every_data_sheet():
    wrong = {
        (machine.name, ceiling.name, round(ratio, 3))
        for machine, ceiling, ratio in pairs()
        if not 0.96 <= ratio <= 1.04 and machine.device.compute_capability not in ODD
    }
    assert wrong == {("L40", "tensor_int8", 0.5)}


def test_hopper_and_blackwell_are_quoted_at_other_clocks_but_not_far_off():
    found = [(m.device.compute_capability, ratio) for m, _, ratio in pairs() if m.device.compute_capability in ODD]
    assert found
    assert all(ODD[cc][0] <= ratio <= ODD[cc][1] for cc, ratio in found)


@pytest.mark.parametrize(
    ("card", "ceiling", "expected"),
    [
        ("H200", "fp32", 132 * 256 * 1.98e9),  # 66.9e12: 128 lanes, 2 flops each
        ("H200", "fp16x2", 132 * 512 * 1.98e9),
        ("H200", "bf16x2", 132 * 512 * 1.98e9),
        ("H200", "fp64", 132 * 128 * 1.98e9),
        ("H200", "tensor_fp64", 132 * 256 * 1.98e9),
        ("H200", "shared_read", 132 * 128 * 1.98e9),  # 32 banks of 4 bytes
        ("H200", "l1_read", 132 * 128 * 1.98e9),
        ("RTX 3090", "tensor_fp16_fp16", 82 * 1024 * 1.695e9),  # 142.3e12
        ("RTX 3090", "tensor_fp16_fp32", 82 * 512 * 1.695e9),  # half of it: GeForce
        ("RTX 3090", "tensor_bf16_fp32", 82 * 512 * 1.695e9),
        ("RTX 3090", "tensor_tf32", 82 * 256 * 1.695e9),
        ("RTX 3090", "tensor_int8", 82 * 2048 * 1.695e9),  # integers have no slow accumulator
        ("A40", "tensor_fp16_fp32", 84 * 1024 * 1.74e9),  # the same chip as a workstation card: full rate
    ],
)
def test_single_cards(card, ceiling, expected):
    assert limits.limit(datasheet(card).device, ceiling, Health())[0] == pytest.approx(expected, rel=1e-9)


def test_the_clock_observed_counts_and_not_the_one_promised():
    # 10 SMs x 256 flops x 0.9 GHz.
    assert limits.limit(TOY, "fp32", Health(clock_hz=9e8)) == (
        pytest.approx(2.304e12),
        "256/clk/SM x 10 SMs x 900 MHz",
    )
    assert limits.limit(TOY, "fp32", Health())[0] == pytest.approx(2.56e12)


@pytest.mark.parametrize("direction", ["read", "write", "copy", "triad"])
def test_dram_is_limited_by_its_pins(direction):
    # H200: 6016 bit / 8 x 3.201 GHz x 2 = 4.814e12 bytes a second.
    device = Device(name="H200", kind="cuda", memory_bus_bits=6016, memory_clock_hz=3.201e9)
    bound, basis = limits.limit(device, f"dram_{direction}", Health())
    assert bound == pytest.approx(4.814e12, rel=1e-4)
    assert basis == "6016 bit x 3201 MHz x 2"
    assert limits.limit(device, f"dram_{direction}", Health(memory_clock_hz=1.6005e9))[0] == pytest.approx(bound / 2)


@pytest.mark.parametrize("ceiling", ["l2_read", "latency_l2", "launch_eager"])
def test_ceilings_without_a_limit_per_clock(ceiling):
    assert limits.limit(TOY, ceiling, Health()) is None


@pytest.mark.parametrize(
    ("capability", "ceiling", "rate"),
    [
        ("9.0", "gemm_bf16", 4096),
        ("9.0", "gemm_fp8", 8192),
        ("9.0", "gemm_fp64", 256),  # by the tensor pipe
        ("8.6", "gemm_fp64", 4),  # which this one lacks
        ("8.6", "gemm_fp8", None),
        ("7.5", "gemm_bf16", None),
        ("9.0", "conv_fp16_channels_last", 4096),
    ],
)
def test_a_library_s_product_is_limited_by_its_fastest_pipe(capability, ceiling, rate):
    # TOY: 10 SMs at 1 GHz.
    bound = limits.limit(replace(TOY, compute_capability=capability), ceiling, Health())
    assert (bound and bound[0]) == (rate and rate * 10 * 1e9)


@pytest.mark.parametrize(
    ("unknown", "ceiling"),
    [
        ({"compute_capability": "3.7"}, "fp32"),
        ({"compute_capability": None}, "fp32"),
        ({"sm_count": None}, "fp32"),
        ({"boost_clock_hz": None}, "fp32"),
        ({"memory_bus_bits": None}, "dram_read"),
        ({"memory_clock_hz": None}, "dram_read"),
        ({"compute_capability": "7.5"}, "bf16x2"),  # no such pipe
    ],
)
def test_what_is_not_known_limits_nothing(unknown, ceiling):
    assert limits.limit(replace(TOY, **unknown), ceiling, Health()) is None


def test_bf16_came_with_ampere():
    turing, ampere = (Device(name="x", kind="cuda", compute_capability=cc) for cc in ("7.5", "8.0"))
    assert limits.per_clock_and_sm(turing, "tensor_bf16_fp32") == 0
    assert limits.per_clock_and_sm(turing, "tensor_fp16_fp32") == 1024
    assert limits.per_clock_and_sm(ampere, "tensor_bf16_fp32") == 2048


BOUND = (100.0, "the limit")


@pytest.mark.parametrize(
    ("value", "doubt"),
    [
        (69.9, "only 70% of the physical limit (the limit)"),
        (70.0, None),
        (102.0, None),
        (102.1, "above the physical limit (102% of the limit): cached, or not executed as written"),
        (770.0, "above the physical limit (770% of the limit): cached, or not executed as written"),
    ],
)
def test_rates_outside_the_believable_band(value, doubt):
    assert limits.doubts(value, BOUND, Health(), 1.0) == ((doubt,) if doubt else ())


@pytest.mark.parametrize("value", [1e-9, 1e30])
def test_without_a_limit_no_rate_is_doubted(value):
    assert limits.doubts(value, None, Health(), None) == ()


@pytest.mark.parametrize(("scaling", "doubted"), [(0.89, True), (0.9, False), (1.1, False), (1.11, True), (2.0, True)])
def test_time_must_scale_with_the_work(scaling, doubted):
    found = limits.doubts(90.0, BOUND, Health(), scaling)
    assert len(found) == doubted
    assert all(f"does not scale with the work (time per unit at half the work: {scaling:.2f}" in f for f in found)


def test_every_doubt_is_named():
    found = limits.doubts(10.0, BOUND, Health(throttle=("HwThermalSlowdown", "SwPowerCap")), 1.5)
    assert len(found) == 4
    assert found[2:] == ("clock held back: the chip is too hot", "clock held back: the board is at its power limit")

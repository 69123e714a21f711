"""What a sweep says: the model roof, the reason of a shortfall, the end of a cache."""

from dataclasses import replace

import pytest

from roofline.machine.record import Sweep, SweepPoint
from roofline.machine.sweeps import bounds, capacity_step, reason, roof


@pytest.fixture(scope="session")
def machine(make_measured):
    """100 flop/s above 10 B/s: the ridge is at 10 flop/byte. The pipe was measured at 1.98 GHz."""
    return make_measured(fp32=100.0, dram_copy=10.0)


@pytest.mark.parametrize(("x", "expected"), [(0.5, 5.0), (10.0, 100.0), (4096.0, 100.0)])
def test_roof(machine, x, expected):
    assert roof(machine.ceiling("fp32"), machine.ceiling("dram_copy"), x) == expected


# At 20 flop/byte the roof is 100: 95.1 is within 5 %, 94 is not.
FULL, SHORT = SweepPoint(x=20.0, value=95.1), SweepPoint(x=20.0, value=94.0)


@pytest.mark.parametrize(
    ("point", "expected"),
    [
        (FULL, ""),
        (replace(FULL, clock_hz=1e9, power_w=700.0), ""),
        (SweepPoint(x=0.5, value=4.8), ""),
        (SweepPoint(x=0.5, value=4.7), "occupancy"),
        (SHORT, "occupancy"),
        # 1.97 GHz is within 1 % of 1.98, 1.95 is not.
        (replace(SHORT, clock_hz=1.97e9), "occupancy"),
        (replace(SHORT, clock_hz=1.95e9), "clock"),
        # 97 % of 700 W are 679 W.
        (replace(SHORT, clock_hz=1.95e9, power_w=680.0), "power"),
        (replace(SHORT, clock_hz=1.95e9, power_w=678.0), "clock"),
        (replace(SHORT, clock_hz=1.95e9, throttle=("SwPowerCap",)), "power"),
        (replace(SHORT, clock_hz=1.95e9, throttle=("SwThermalSlowdown",)), "clock"),
    ],
)
def test_reason(machine, point, expected):
    assert reason(point, machine.ceiling("fp32"), machine.ceiling("dram_copy"), 700.0) == expected


def test_reason_where_power_limit_and_usual_clock_are_not_known(make_machine):
    sheet = make_machine(fp32=100.0, dram_copy=10.0)
    point = replace(SHORT, clock_hz=1e9, power_w=900.0)
    assert reason(point, sheet.ceiling("fp32"), sheet.ceiling("dram_copy"), None) == "occupancy"


def curve(*points):
    return [SweepPoint(x=x, value=value) for x, value in points]


def test_step_between_plateau_and_floor():
    # Half-way between 100 and 1 on a log scale is 10; from 100 at 4 to 1 at 16 it is crossed at 8.
    assert capacity_step(curve((1, 100), (2, 100), (4, 100), (16, 1), (32, 1))) == pytest.approx(8)


def test_step_through_a_measured_point():
    assert capacity_step(curve((1, 100), (2, 10), (4, 1))) == pytest.approx(2)


def test_a_rise_before_the_plateau_and_a_dip_on_it_are_no_step():
    assert capacity_step(curve((1, 5), (2, 100), (4, 9), (8, 100), (32, 1))) == pytest.approx(16)


@pytest.mark.parametrize(
    "points",
    [(), ((1, 100),), ((1, 100), (2, 100)), ((1, 100), (2, 81)), ((1, 10), (2, 100))],
    ids=["empty", "one", "flat", "within a quarter", "rising"],
)
def test_no_step(points):
    assert capacity_step(curve(*points)) is None


def test_bounds(machine, make_measured):
    sweep = Sweep(
        name="intensity_fp32", ceiling="fp32", bandwidth="dram_copy", x_unit="flops_per_byte",
        unit="flops_per_s", points=(),
    )  # fmt: skip
    pipe, bandwidth = bounds(machine, sweep)
    assert (pipe.name, bandwidth.name) == ("fp32", "dram_copy")
    assert bounds(make_measured(fp32=1.0), sweep) is None

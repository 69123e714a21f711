from dataclasses import replace

import pytest

import roofline
from roofline.machine.record import Sweep, SweepPoint
from roofline.report.canvas import new_figure
from roofline.report.figure import draw_machines, save_machine_figure
from roofline.report.sweeps import (
    draw_measured_roof,
    draw_working_sets,
    of_intensity,
    of_working_set,
    shortfalls,
)


@pytest.fixture(scope="session")
def swept(make_measured):
    """fp32 follows the roof, then the clock falls for two points; bandwidth falls beyond the cache."""
    roof = [
        SweepPoint(x=x, value=min(1e12 * x, 2e13), clock_hz=1.9e9, power_w=300.0, note=note)
        for x, note in ((0.25, ""), (4.0, ""), (64.0, "clock"), (4096.0, "clock"), (5000.0, "power"))
    ]
    sets = [SweepPoint(x=2.0**i, value=5e12 if i < 25 else 1e12) for i in range(20, 30)]
    machine = make_measured(dram_read=1e12, l2_read=5e12, fp32=2e13)
    return replace(
        machine,
        sweeps=(
            Sweep(
                name="sweep_fp32",
                ceiling="fp32",
                x_unit="flops_per_byte",
                unit="flops_per_s",
                points=tuple(roof),
            ),
            Sweep(
                name="sweep_l2_read",
                ceiling="l2_read",
                x_unit="bytes",
                unit="bytes_per_s",
                points=tuple(sets),
            ),
            Sweep(name="sweep_fp64", ceiling="fp64", x_unit="flops_per_byte", unit="flops_per_s", points=()),
        ),
    )


def test_sweeps_by_what_they_vary(swept):
    assert [sweep.ceiling for sweep in of_intensity(swept)] == ["fp32"]  # the empty one has nothing to show
    assert [sweep.ceiling for sweep in of_working_set(swept)] == ["l2_read"]


def test_where_the_measured_roof_falls_short(swept):
    assert shortfalls(swept) == [
        "fp32 FMA at 64–4096 FLOP/B falls short of the roof: clock",
        "fp32 FMA at 5000 FLOP/B falls short of the roof: power",
    ]


def test_all_points_are_within_the_axes(swept):
    ax = new_figure(10, 6).add_axes((0.1, 0.1, 0.6, 0.8))
    draw_machines(ax, [swept])
    draw_measured_roof(ax, swept)
    drawn = [point for collection in ax.collections for point in collection.get_offsets().tolist()]
    assert sorted(x for x, _ in drawn) == [0.25, 4.0, 64.0, 4096.0, 5000.0]
    assert ax.get_xlim()[1] >= 5000


def test_working_sets_say_where_the_cache_ends(swept):
    # 5 TB/s up to 2^24 B and 1 TB/s from 2^25 on: the middle on a log scale is half way between, at 2^24.5 = 23.7 MB.
    ax = new_figure(5, 4).add_subplot()
    draw_working_sets(ax, swept)
    assert [text.get_text().strip() for text in ax.texts] == ["23.7 MB"]


def test_figure_with_panels_is_taller(swept, tmp_path):
    plain = save_machine_figure(replace(swept, sweeps=()), tmp_path / "plain.png").read_bytes()
    full = save_machine_figure(swept, tmp_path / "full.png").read_bytes()
    height = slice(20, 24)  # of a PNG's first chunk
    assert int.from_bytes(full[height], "big") > int.from_bytes(plain[height], "big")


def test_a_sweep_without_sensors_is_drawn(swept, tmp_path):
    blind = [replace(point, clock_hz=None, power_w=None) for point in swept.sweeps[0].points]
    machine = replace(swept, sweeps=(replace(swept.sweeps[0], points=tuple(blind)),))
    assert save_machine_figure(machine, tmp_path / "blind.svg").exists()
    assert roofline.plot(machine).lines

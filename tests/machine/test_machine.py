"""`roofline.machine(...)`: shipped measurements before data sheets, paths before names, one clear error."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest

import roofline
from roofline.errors import FileError, UnknownMachine, UsageError
from roofline.machine import catalog, file
from roofline.machine.record import Ceiling, Provenance

GIB = 2**30


def measured(name="NVIDIA H200", memory_bytes=round(140.4 * GIB), **device):
    sheet = catalog.datasheet("H200")
    return replace(
        sheet,
        name=name,
        device=replace(sheet.device, name=name, memory_bytes=memory_bytes, tdp_w=None, **device),
        ceilings=(Ceiling(name="dram_read", value=4.5e12, unit="bytes_per_s", source="measured"),),
        provenance=Provenance(
            created="2026-01-02T03:04:05+00:00", effort="quick", method_version=1, roofline_version="0"
        ),
    )


@pytest.fixture
def shipped(monkeypatch):
    """A package that ships one measurement, of an H200 as its driver names it."""
    machine = catalog.with_published(measured())
    key = catalog._identity(machine.device.name, machine.device.memory_bytes)
    monkeypatch.setattr(catalog, "_shipped", lambda: {key: machine})
    return machine


@pytest.mark.parametrize("name", ["H200", "NVIDIA H200", "H200 SXM", "h200 sxm 141gb"])
def test_a_shipped_measurement_goes_before_the_data_sheet(shipped, name):
    assert roofline.machine(name) is shipped
    assert not roofline.machine(name, prefer="datasheet").measured


def test_a_shipped_measurement_does_not_answer_for_other_cards(shipped):
    assert not roofline.machine("H100 NVL").measured
    with pytest.raises(UnknownMachine):
        roofline.machine("H200 NVL")


def test_data_sheet_fills_what_a_measurement_lacks_and_nothing_else(shipped):
    # H200: 4800 GB/s at the pins, 700 W. The measured rate and memory stay.
    ceiling = shipped.ceiling("dram_read")
    assert (ceiling.value, ceiling.published, ceiling.source) == (4.5e12, 4800e9, "measured")
    assert (shipped.device.tdp_w, shipped.device.memory_bytes) == (700.0, round(140.4 * GIB))
    assert [c.name for c in shipped.ceilings] == ["dram_read"]


def test_a_measured_device_without_data_sheet_stays_as_it_is():
    machine = measured(name="Somebody's CPU @ 3 GHz")
    assert catalog.with_published(machine) == machine


def test_every_shipped_measurement_is_found_under_its_own_name():
    for key, machine in catalog._shipped().items():
        assert machine.measured and machine.ceilings
        assert roofline.machine(machine.device.name) == machine, key


def test_a_path_is_a_file_even_if_a_card_has_that_name(tmp_path, monkeypatch):
    machine = replace(catalog.datasheet("A40"), name="mine")
    monkeypatch.chdir(tmp_path)
    file.save(machine, "RTX 3090")
    for path in ("RTX 3090", os.path.join(".", "RTX 3090"), tmp_path / "RTX 3090"):
        assert roofline.machine(path) == machine


@pytest.mark.parametrize("path", ["missing.json", "no/such/file", "./RTX 3090"])
def test_a_path_that_is_not_there_is_a_file_error(path):
    with pytest.raises(FileError, match="cannot read"):
        roofline.machine(path)


def test_bad_arguments_are_refused():
    with pytest.raises(UsageError, match="must be 'measured' or 'datasheet'"):
        roofline.machine("A40", prefer="best")
    with pytest.raises(UsageError, match="not by int"):
        roofline.machine(3090)


def test_looking_up_a_machine_loads_no_gpu_stack():
    heavy = ("torch", "triton", "cupy", "matplotlib", "scipy", "numpy")
    code = f"import sys, roofline; roofline.machine('A40'); print([m for m in {heavy} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"

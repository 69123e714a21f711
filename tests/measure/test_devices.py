"""From a device's name to its bench: GPUs and their absence are fakes."""

import pytest
import torch

from roofline.errors import DeviceError
from roofline.measure import cpu, cuda, devices

TOO_OLD = "the driver is too old: it supports CUDA 12.2, torch needs 13.0. Update the driver"


class FakeCpu:
    def __init__(self):
        self.warnings = ["the CPU was busy"]


class FakeCuda:
    def __init__(self, index, sheet, backend_reason):
        self.index, self.sheet, self.backend_reason = index, sheet, backend_reason
        self.warnings = []


@pytest.fixture(autouse=True)
def benches(monkeypatch):
    monkeypatch.setattr(cpu, "CpuBench", FakeCpu)
    monkeypatch.setattr(cuda, "CudaBench", FakeCuda)


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setattr(devices, "backend_reason", lambda name: None)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda name: f"Toy {name[-1]}")


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(devices, "backend_reason", lambda name: TOO_OLD if name == "cuda" else None)


@pytest.mark.parametrize(("device", "index"), [("auto", 1), ("cuda", 1), ("cuda:0", 0), ("cuda:1", 1)])
def test_a_gpu_by_number_or_the_current_one(two_gpus, device, index):
    bench = devices.open_bench(device)
    assert isinstance(bench, FakeCuda) and bench.index == index and not bench.warnings


def test_cpu_is_the_cpu_even_beside_gpus(two_gpus):
    assert isinstance(devices.open_bench("cpu"), FakeCpu)


def test_an_unknown_number_names_those_that_exist(two_gpus):
    with pytest.raises(DeviceError) as error:
        devices.open_bench("cuda:7")
    assert str(error.value) == "There is no cuda:7. There are: cuda:0 (Toy 0), cuda:1 (Toy 1)."


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:-1", "cuda:x", "", "CPU "])
def test_a_name_of_no_known_form_is_refused(two_gpus, device):
    with pytest.raises(DeviceError, match="There are: cuda:0, cuda:1; or auto"):
        devices.open_bench(device)


def test_auto_without_a_gpu_measures_the_cpu_and_says_why(no_gpu):
    bench = devices.open_bench("auto")
    assert isinstance(bench, FakeCpu)
    assert bench.warnings == [f"no GPU: {TOO_OLD}; measured the CPU instead", "the CPU was busy"]


def test_cpu_asked_for_carries_no_such_warning(no_gpu):
    assert devices.open_bench("cpu").warnings == ["the CPU was busy"]


@pytest.mark.parametrize("device", ["cuda", "cuda:0"])
def test_a_gpu_asked_for_in_vain_is_an_error_with_both_versions_in_one_line(no_gpu, device):
    with pytest.raises(DeviceError) as error:
        devices.open_bench(device)
    text = str(error.value)
    assert text.startswith(device) and "12.2" in text and "13.0" in text and "\n" not in text
    assert error.value.exit_code == 3


def test_visible_devices_are_every_gpu(two_gpus):
    assert devices.visible_devices() == ("cuda:0", "cuda:1")


def test_visible_devices_without_a_gpu_are_the_cpu(no_gpu):
    assert devices.visible_devices() == ("cpu",)


def test_a_gpu_gets_its_data_sheet_and_an_unknown_one_none(two_gpus):
    bench = devices.open_bench("cuda:0")
    assert bench.sheet("NVIDIA GeForce RTX 3090", 25_300_000_000).compute_capability == "8.6"
    assert bench.sheet("Toy 0", 1) is None
    assert bench.backend_reason("triton") is None

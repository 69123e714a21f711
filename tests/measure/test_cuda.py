"""The bench of a GPU with torch's CUDA calls and NVML replaced: what it claims, refuses, warns of and cleans up."""

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from roofline.errors import BackendUnavailable, OutOfDeviceMemory
from roofline.kernels.microkernel import Job, Microkernel, Variant
from roofline.machine.catalog import datasheet
from roofline.machine.record import Device
from roofline.measure import cuda
from roofline.measure.nvml import Reading
from roofline.measure.plan import cuda_microkernels

GIB = 1 << 30


class FakeSensors:
    """As `Sensors`, with what the test puts in."""

    reason = None
    constants = {"memory_clock_hz": 1e9, "memory_bus_bits": 512, "driver": "580.1", "mig": False}
    doubts = ()

    def __init__(self, uuid):
        self.uuid = uuid

    def static(self):
        return self.constants

    def load(self):
        return list(self.doubts)

    def read(self):
        return Reading(clock_hz=1e9)


class FakeEvent:
    """A clock that advances by a millisecond with every event."""

    now_ms = 0.0

    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        FakeEvent.now_ms += 1.0
        self.at_ms = FakeEvent.now_ms

    def synchronize(self):
        pass

    def elapsed_time(self, later):
        return later.at_ms - self.at_ms


@pytest.fixture
def gpu(monkeypatch):
    """Opens a bench: `gpu(capability="7.5", sheet=…, sensors=…, reasons={backend: why})`."""

    def open_gpu(capability="9.0", sheet=None, sensors=FakeSensors, reasons=None, name="NVIDIA Toy"):
        major, minor = map(int, capability.split("."))
        properties = SimpleNamespace(
            name=name, major=major, minor=minor, multi_processor_count=10, total_memory=24 * GIB,
            L2_cache_size=1 << 20, uuid="1234",
        )  # fmt: skip
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: properties)
        monkeypatch.setattr(cuda, "Sensors", sensors)
        return cuda.CudaBench(1, lambda name, memory_bytes: sheet, lambda backend: (reasons or {}).get(backend))

    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (GIB, 24 * GIB))
    return open_gpu


def kernel(prepare, backend="triton", ceiling="fp32", capability=(0, 0), variants=("a",)):
    return Microkernel(
        ceiling, backend, lambda device: tuple(map(Variant, variants)), prepare, 1e-3, capability
    )


def raising(error):
    def call(*args):
        raise error

    return call


def job(run=lambda i: None, check=lambda: 0.0):
    return Job(run, 1e9, check)


# --- what is known of the device ---


def test_the_driver_comes_before_the_data_sheet(gpu):
    sheet = replace(datasheet("RTX 3090").device, memory_bus_bits=384, l2_bytes=6 << 20)
    device = gpu("8.6", sheet).device
    assert (device.memory_bus_bits, device.l2_bytes, device.sm_count) == (512, 1 << 20, 10)
    assert device.memory_bytes == 24 * GIB and device.compute_capability == "8.6" and device.uuid == "1234"
    # Only the sheet knows these.
    assert (device.architecture, device.memory_type) == (sheet.architecture, sheet.memory_type)
    assert device.fp32_accumulate == "half" and device.boost_clock_hz == sheet.boost_clock_hz


@pytest.mark.parametrize(("name", "rate"), [("NVIDIA GeForce RTX 9090", "half"), ("NVIDIA B900", "full")])
def test_a_card_without_a_sheet(gpu, name, rate):
    device = gpu(name=name).device
    assert device.name == name and device.fp32_accumulate == rate and device.architecture is None


def test_software_names_the_driver(gpu):
    assert gpu().software["driver"] == "580.1"


# --- what the user must know of the whole run ---


def test_an_idle_gpu_raises_no_warning(gpu):
    assert gpu().warnings == []


def test_another_process_is_warned_of(gpu):
    busy = type("Busy", (FakeSensors,), {"doubts": ("1 other process(es) on the GPU, holding 4.3 GB",)})
    assert gpu(sensors=busy).warnings == ["1 other process(es) on the GPU, holding 4.3 GB"]


def test_mig_is_warned_of(gpu):
    sliced = type("Mig", (FakeSensors,), {"constants": {**FakeSensors.constants, "mig": True}})
    assert gpu(sensors=sliced).warnings == ["MIG is on: the figures are those of one slice, not of the whole GPU"]


def test_without_nvml_the_rest_goes_on(gpu):
    absent = type("Absent", (FakeSensors,), {"constants": {}, "reason": "NVML is not usable: not found"})
    bench = gpu(sensors=absent)
    assert bench.warnings == ["NVML is not usable: not found"]
    assert bench.device.memory_clock_hz is None and bench.device.sm_count == 10
    assert bench.arena.minimum_bytes == 4 << 20 and bench.unusable(kernel(job)) is None


def test_short_memory_reaches_the_warnings_of_the_bench(gpu, monkeypatch):
    # 512 bit x 1 GHz x 2 / 8 = 128 GB/s; in 0.4 ms 51 MB. Of 80 MB 60 % are for two buffers: 24 MB each.
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (80_000_000, 24 * GIB))
    bench = gpu()
    bench.arena.torch_device = torch.device("cpu")
    bench.arena.arrays(2, 1.0)
    assert bench.warnings == ["memory is short: DRAM buffers of 24 MB instead of 51 MB"]


# --- what cannot run here ---


@pytest.mark.parametrize("capability", ["7.0", "7.5"])
def test_bf16_before_ampere(gpu, capability):
    bench = gpu(capability)
    pipes = [k for k in cuda_microkernels() if k.ceiling in ("bf16x2", "tensor_bf16_fp32")]
    expected = f"not supported: needs compute capability 8.0, this GPU has {capability}"
    assert len(pipes) >= 2 and {bench.unusable(k) for k in pipes} == {expected}


def test_fp8_before_ada(gpu):
    needs = "not supported: needs compute capability 8.9, this GPU has 8.6"
    fp8 = {gpu("8.6").unusable(k) for k in cuda_microkernels() if k.ceiling.startswith("tensor_fp8")}
    assert fp8 == {needs}


def test_a_backend_that_does_not_work(gpu):
    bench = gpu(reasons={"cupy": "not installed; pip install 'roofline[cuda13]'"})
    assert bench.unusable(kernel(job, "cupy")) == "cupy is not usable: not installed; pip install 'roofline[cuda13]'"
    assert bench.unusable(kernel(job, "triton")) is None


def test_the_capability_is_named_rather_than_the_backend(gpu):
    bench = gpu("7.5", reasons={"cupy": "not installed"})
    assert "compute capability 8.0" in bench.unusable(kernel(job, "cupy", capability=(8, 0)))


# --- failures of libraries ---


@pytest.mark.parametrize(
    ("raised", "expected", "text"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried\nmore"), OutOfDeviceMemory, "CUDA out of memory. Tried"),
        (RuntimeError("no kernel image\nlong story"), BackendUnavailable, "RuntimeError: no kernel image"),
        (KeyError(), BackendUnavailable, "KeyError: "),
        (ImportError("libnvrtc.so.12"), BackendUnavailable, "ImportError: libnvrtc.so.12"),
        (BackendUnavailable("as it is"), BackendUnavailable, "as it is"),
    ],
)
def test_whatever_a_library_raises_becomes_one_line(gpu, raised, expected, text):
    bench = gpu()
    with pytest.raises(expected) as preparing:
        bench.prepare(kernel(raising(raised)), Variant("a"), 1.0)
    with pytest.raises(expected) as running:
        bench.time(job(raising(raised)), 3)
    checked = bench.prepare(kernel(lambda *_: job(check=raising(raised))), Variant("a"), 1.0)
    with pytest.raises(expected) as checking:
        checked.check()
    assert {str(e.value) for e in (preparing, running, checking)} == {text}


def test_ctrl_c_is_no_failure_of_a_library(gpu):
    with pytest.raises(KeyboardInterrupt):
        gpu().time(job(raising(KeyboardInterrupt())), 1)


# --- time, compilation ---


def test_every_launch_has_its_own_time_and_number(gpu):
    numbers = []
    assert gpu().time(job(numbers.append), 4) == [0.001] * 4
    assert numbers == [0, 1, 2, 3]


def test_all_variants_within_the_effort_are_compiled_once_and_failures_wait(gpu):
    launched = []

    def prepare(variant, arena, scale):
        if variant.name == "broken":
            raise RuntimeError("does not compile")
        return job(lambda i: launched.append((variant.name, scale)))

    gpu_bench = gpu("8.0", reasons={"cupy": "missing"})
    gpu_bench.arena.torch_device = torch.device("cpu")
    gpu_bench.compile(
        [
            kernel(prepare, variants=("a", "broken", "b", "beyond")),
            kernel(prepare, "cupy", variants=("missing",)),
            kernel(prepare, "torch", variants=("eager",)),
            kernel(prepare, capability=(9, 0), variants=("new",)),
        ],
        3,
    )
    assert sorted(launched) == [("a", 0.01), ("b", 0.01)]


def test_compiling_goes_on_where_the_arrays_do_not_fit(gpu, monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1000, 24 * GIB))
    launched = []
    gpu().compile([kernel(lambda *_: job(launched.append))], 1)
    assert launched == [0]


def test_sensors_are_watched(gpu):
    with gpu().watch() as health:
        assert health().clock_hz == 1e9


def test_limits_are_those_of_this_gpu(gpu):
    # 512 bit / 8 x 1 GHz x 2.
    with (bench := gpu()).watch() as health:
        assert bench.limit("dram_read", health()) == (1.28e11, "512 bit x 1000 MHz x 2")


def test_a_device_is_described_without_torch_knowing_its_cache():
    properties = SimpleNamespace(name="x", major=9, minor=0, multi_processor_count=1, total_memory=1)
    sheet = Device(name="x", kind="cuda", l2_bytes=50 << 20)
    assert cuda.describe(properties, {}, sheet).l2_bytes == 50 << 20
    assert cuda.describe(properties, {}, None).l2_bytes is None

"""NVML behind a fake driver: what is read, what a missing sensor does, and who else is on the GPU."""

import os
import sys
from types import SimpleNamespace

import pynvml
import pytest

from roofline.measure.nvml import Reading, Sensors


class FakeNvml:
    """Answers like pynvml, whose constants it lends; a function that is set to an exception raises it."""

    def __init__(self, **answers):
        self._answers = {
            "nvmlInit": None,
            "nvmlDeviceGetHandleByUUID": "handle",
            "nvmlDeviceGetClockInfo": lambda kind: {pynvml.NVML_CLOCK_SM: 1755, pynvml.NVML_CLOCK_MEM: 3201}[kind],
            "nvmlDeviceGetMaxClockInfo": lambda kind: {pynvml.NVML_CLOCK_SM: 1980, pynvml.NVML_CLOCK_MEM: 3201}[kind],
            "nvmlDeviceGetTemperature": 61,
            "nvmlDeviceGetPowerUsage": 512_400,  # mW
            "nvmlDeviceGetFieldValues": [SimpleNamespace(nvmlReturn=1, value=None)],
            "nvmlDeviceGetCurrentClocksEventReasons": 0,
            "nvmlDeviceGetMemoryBusWidth": 6016,
            "nvmlDeviceGetPowerManagementLimit": 700_000,
            "nvmlDeviceGetEccMode": [1, 1],
            "nvmlDeviceGetMigMode": [0, 0],
            "nvmlSystemGetDriverVersion": "580.1",
            "nvmlDeviceGetComputeRunningProcesses": [],
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=0),
            **answers,
        }
        self.asked = []

    def __dir__(self):
        return dir(pynvml)

    def __getattr__(self, name):
        if not name.startswith("nvml") or name.startswith("nvmlClocks"):
            return getattr(pynvml, name)
        if name not in self._answers:
            raise AttributeError(name)
        return lambda *args: self._answer(name, args)

    def _answer(self, name, args):
        self.asked.append((name, args))
        answer = self._answers[name]
        if isinstance(answer, Exception):
            raise answer
        return answer(*args[1:]) if callable(answer) else answer


NOT_SUPPORTED = pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


@pytest.fixture
def sensors(monkeypatch):
    def make(uuid="1234", **answers):
        fake = FakeNvml(**answers)
        monkeypatch.setitem(sys.modules, "pynvml", fake)
        made = Sensors(uuid)
        made.fake = fake
        return made

    return make


def process(pid, gigabytes):
    return SimpleNamespace(pid=pid, usedGpuMemory=None if gigabytes is None else int(gigabytes * 1e9))


def test_readings_are_in_base_units(sensors):
    # 1755 MHz, 3201 MHz, 512 400 mW, 61 degrees.
    assert sensors().read() == Reading(1.755e9, 3.201e9, 512.4, 61, ())


def test_power_of_this_moment_is_preferred_to_an_average(sensors):
    instant = SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(uiVal=698_000))
    assert sensors(nvmlDeviceGetFieldValues=[instant]).read().power_w == 698.0


def test_a_sensor_that_does_not_answer_is_none(sensors):
    names = ("ClockInfo", "PowerUsage", "Temperature", "FieldValues", "CurrentClocksEventReasons")
    found = sensors(**{f"nvmlDeviceGet{name}": NOT_SUPPORTED for name in names})
    assert found.read() == Reading()


def test_constants_of_the_device(sensors):
    assert sensors().static() == {
        "boost_clock_hz": 1.98e9, "memory_clock_hz": 3.201e9, "memory_bus_bits": 6016, "power_limit_w": 700.0,
        "ecc": True, "mig": False, "driver": "580.1",
    }  # fmt: skip


def test_constants_that_do_not_answer(sensors):
    found = sensors(
        nvmlDeviceGetMaxClockInfo=NOT_SUPPORTED, nvmlDeviceGetMemoryBusWidth=NOT_SUPPORTED,
        nvmlDeviceGetPowerManagementLimit=NOT_SUPPORTED, nvmlDeviceGetEccMode=NOT_SUPPORTED,
        nvmlDeviceGetMigMode=NOT_SUPPORTED,
    ).static()  # fmt: skip
    assert {key for key, value in found.items() if value} == {"driver"}


def test_mig(sensors):
    assert sensors(nvmlDeviceGetMigMode=[1, 1]).static()["mig"] is True


@pytest.mark.parametrize(
    ("mask", "reasons"),
    [
        (0x0, ()),
        (0x1, ()),  # idle
        (0x2, ()),  # clocks set by an administrator: one bit with two names
        (0x4, ("SwPowerCap",)),
        (0x44, ("HwThermalSlowdown", "SwPowerCap")),
        (0x1ED, ("HwPowerBrakeSlowdown", "DisplayClockSetting", "HwSlowdown", "HwThermalSlowdown", "SwPowerCap",
                 "SwThermalSlowdown")),
    ],
)  # fmt: skip
def test_reasons_for_holding_the_clock_back(sensors, mask, reasons):
    found = sensors(nvmlDeviceGetCurrentClocksEventReasons=mask).read().throttle
    assert found == tuple(sorted(reasons))


@pytest.mark.parametrize(("uuid", "asked"), [("12-34", "GPU-12-34"), ("GPU-12", "GPU-12"), ("MIG-12", "MIG-12")])
def test_the_gpu_is_found_by_uuid_and_never_by_number(sensors, uuid, asked):
    # NVML counts all GPUs, CUDA only those in CUDA_VISIBLE_DEVICES.
    assert ("nvmlDeviceGetHandleByUUID", (asked,)) in sensors(uuid).fake.asked


@pytest.mark.parametrize("broken", ["nvmlInit", "nvmlDeviceGetHandleByUUID"])
def test_no_driver_or_no_such_gpu(sensors, broken):
    found = sensors(**{broken: pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)})
    assert found.reason == "NVML is not usable: NVML Shared Library Not Found"
    assert (found.read(), found.static(), found.load()) == (Reading(), {}, [])


def test_the_package_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    found = Sensors("1234")
    assert found.reason.startswith("NVML is not usable: ") and "pynvml" in found.reason
    assert found.read() == Reading()


def test_an_idle_gpu_raises_no_doubts(sensors):
    assert sensors(nvmlDeviceGetComputeRunningProcesses=[process(os.getpid(), 1)]).load() == []


def test_other_processes_are_counted_with_their_memory(sensors):
    # 3.2 + 1.1 GB; one does not tell; this process is not another one.
    processes = [process(1, 3.2), process(2, 1.1), process(3, None), process(os.getpid(), 9)]
    assert sensors(nvmlDeviceGetComputeRunningProcesses=processes).load() == [
        "3 other process(es) on the GPU, holding 4.3 GB: rates may be low"
    ]


@pytest.mark.parametrize(("busy", "warned"), [(5, False), (6, True), (100, True)])
def test_a_busy_gpu(sensors, busy, warned):
    found = sensors(nvmlDeviceGetUtilizationRates=SimpleNamespace(gpu=busy)).load()
    assert found == ([f"the GPU was {busy} % busy before the probe began: rates may be low"] if warned else [])


def test_a_driver_that_does_not_say(sensors):
    found = sensors(nvmlDeviceGetComputeRunningProcesses=NOT_SUPPORTED, nvmlDeviceGetUtilizationRates=NOT_SUPPORTED)
    assert found.load() == []

"""A whole probe of a synthetic device: nothing is lost when something fails."""

import subprocess
import sys

import pytest

from roofline import __version__
from roofline.errors import BackendUnavailable, DeviceError, OutOfDeviceMemory, UsageError
from roofline.machine import file
from roofline.measure import devices, run
from roofline.measure.run import INTERRUPTED, METHOD_VERSION, ProbeInterrupted, measure_machine, probe

from .fake import BRIEF, Behaviour, FakeBench


def toy(**options):
    """DRAM by Triton, pipes by CuPy, launches by torch."""
    return FakeBench(
        {
            ("launch_eager", "torch"): {"adds": Behaviour(5e-6, work=1000)},
            ("fp32", "cupy"): {"8 chains": Behaviour(2.5e12)},
            ("dram_read", "triton"): {"1024": Behaviour(2.2e11, work=1e8)},
            ("dram_read", "cupy"): {"float4": Behaviour(2.3e11, work=1e8)},
            ("fp64", "cupy"): {"8 chains": Behaviour(1.2e12)},
        },
        **options,
    )


def values(machine):
    return {c.name: c.value for c in machine.ceilings}


def test_every_ceiling_in_the_vocabulary_s_order():
    machine = measure_machine(toy(), BRIEF)
    assert list(values(machine)) == ["dram_read", "fp32", "fp64", "launch_eager"]
    assert values(machine) == pytest.approx({"dram_read": 2.3e11, "fp32": 2.5e12, "fp64": 1.2e12, "launch_eager": 5e-6})
    assert machine.not_measured == {} and machine.name == machine.device.name == "Toy"


def test_provenance():
    found = measure_machine(toy(), BRIEF).provenance
    assert (found.effort, found.method_version, found.roofline_version) == ("brief", METHOD_VERSION, __version__)
    assert (found.software, found.environment) == ({"toy": "1"}, {"TOY": "set"})
    assert found.created.endswith("+00:00") and found.duration_s > 0


def test_the_result_survives_a_file(tmp_path):
    machine = measure_machine(toy(warnings=["busy"]), BRIEF)
    assert file.load(file.save(machine, tmp_path / "toy.json")) == machine


def test_only_what_is_asked_for_is_compiled_and_measured():
    bench = toy()
    machine = measure_machine(bench, BRIEF, ["vector"])
    assert list(values(machine)) == ["fp32", "fp64"]
    assert bench.requests[0] == ("compile", ("fp32", "fp64"), BRIEF.variants)
    assert bench.releases == 2


def test_an_unknown_name_is_refused_before_anything_runs():
    bench = toy()
    with pytest.raises(UsageError, match="'fp16' is no ceiling of this device"):
        measure_machine(bench, BRIEF, ["fp16"])
    assert bench.requests == []


def test_a_missing_backend_costs_only_its_ceilings():
    machine = measure_machine(toy(unusable={"cupy": "cupy is not usable: not installed"}), BRIEF)
    assert values(machine) == pytest.approx({"dram_read": 2.2e11, "launch_eager": 5e-6})
    assert machine.not_measured == dict.fromkeys(("fp32", "fp64"), "cupy is not usable: not installed")


@pytest.mark.parametrize("error", [OutOfDeviceMemory("no room"), BackendUnavailable("no such instruction")])
@pytest.mark.parametrize("when", ["prepare_raises", "time_raises"])
def test_a_failing_ceiling_is_listed_and_the_rest_is_measured(when, error):
    bench = toy()
    setattr(bench.behaviours["fp32", "cupy"]["8 chains"], when, error)
    machine = measure_machine(bench, BRIEF)
    assert list(values(machine)) == ["dram_read", "fp64", "launch_eager"]
    assert machine.not_measured == {"fp32": str(error)}
    assert bench.releases == 4


def test_a_failure_in_the_middle_of_the_measurement_is_listed():
    # The trial asks twice, the warm-up at least three times: the fifth request comes while it is measured.
    bench = toy()
    behaviour = bench.behaviours["fp32", "cupy"]["8 chains"]
    behaviour.time_raises, behaviour.after = BackendUnavailable("the GPU has fallen off the bus"), 5
    assert measure_machine(bench, BRIEF).not_measured == {"fp32": "the GPU has fallen off the bus"}


def test_a_wrong_output_is_listed_as_not_measured():
    bench = toy()
    bench.behaviours["fp32", "cupy"]["8 chains"].error = 0.5
    machine = measure_machine(bench, BRIEF)
    assert machine.get("fp32") is None
    assert "output differs from the reference by 0.5" in machine.not_measured["fp32"]


def test_warnings_of_the_bench_are_kept_once():
    machine = measure_machine(toy(warnings=["busy", "small buffers", "busy"]), BRIEF)
    assert machine.warnings == ("busy", "small buffers")


# Requests of fp32 that succeed before Ctrl-C: during the trial, the warm-up, the measurement.
@pytest.mark.parametrize("after", [0, 1, 4, 6])
def test_ctrl_c_keeps_what_is_measured(after, tmp_path):
    bench = toy()
    behaviour = bench.behaviours["fp32", "cupy"]["8 chains"]
    behaviour.time_raises, behaviour.after = KeyboardInterrupt(), after
    with pytest.raises(ProbeInterrupted) as stop:
        measure_machine(bench, BRIEF)
    machine = stop.value.machine
    assert list(values(machine)) == ["dram_read"]
    assert machine.not_measured == dict.fromkeys(("fp32", "fp64", "launch_eager"), INTERRUPTED)
    assert file.load(file.save(machine, tmp_path / "toy.json")) == machine


def test_ctrl_c_keeps_the_reasons_of_what_failed_before():
    bench = toy()
    bench.behaviours["fp32", "cupy"]["8 chains"].prepare_raises = OutOfDeviceMemory("no room")
    bench.behaviours["fp64", "cupy"]["8 chains"].prepare_raises = KeyboardInterrupt()
    with pytest.raises(ProbeInterrupted) as stop:
        measure_machine(bench, BRIEF)
    assert stop.value.machine.not_measured == {"fp32": "no room", "fp64": INTERRUPTED, "launch_eager": INTERRUPTED}


def test_ctrl_c_while_compiling():
    with pytest.raises(ProbeInterrupted) as stop:
        measure_machine(toy(compile_raises=KeyboardInterrupt()), BRIEF)
    assert stop.value.machine.ceilings == () and len(stop.value.machine.not_measured) == 4
    assert isinstance(stop.value, KeyboardInterrupt)


def test_progress_tells_each_ceiling_and_never_goes_back():
    told = []
    measure_machine(toy(), BRIEF, None, lambda text, share: told.append((text, share)))
    assert told[0] == ("compiling", 0.0) and told[-1] == ("done", 1.0)
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert {"dram_read", "fp32", "fp64", "launch_eager"} <= {text for text, _ in told}


def test_nothing_is_printed(capfd):
    machine = measure_machine(toy(warnings=["busy"], unusable={"cupy": "missing"}), BRIEF)
    assert machine.ceilings
    assert capfd.readouterr() == ("", "")


# --- probe(): from names to benches ---


@pytest.fixture
def opened(monkeypatch):
    asked = []

    def open_bench(device):
        asked.append(device)
        return toy()

    monkeypatch.setattr(devices, "open_bench", open_bench)
    monkeypatch.setitem(run.EFFORTS, "quick", BRIEF)
    return asked


def test_probe_measures_the_device_of_that_name(opened):
    machine = probe("cuda:3", only=["dram"])
    assert opened == ["cuda:3"] and list(values(machine)) == ["dram_read"]


def test_the_package_and_its_module_are_the_same_function(opened):
    import roofline

    assert list(values(roofline.probe("cpu", "quick", ["fp64"]))) == ["fp64"]


def test_an_unknown_effort_is_refused_before_the_device_is_touched(opened):
    with pytest.raises(UsageError) as error:
        probe(effort="heroic")
    assert str(error.value) == "effort 'heroic' is unknown; expected one of quick, standard, thorough."
    assert opened == []


def test_a_device_that_is_not_there_is_an_error(monkeypatch):
    monkeypatch.setattr(devices, "backend_reason", lambda name: "no NVIDIA driver")
    with pytest.raises(DeviceError, match="cuda:0 cannot be used: no NVIDIA driver"):
        probe("cuda:0")


def test_measuring_loads_no_gpu_stack():
    code = "import sys, roofline.measure.run; print(*{'torch', 'triton', 'cupy'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []

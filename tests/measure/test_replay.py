"""What was recorded is measured again, to the last digit, without the device."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.errors import BackendUnavailable, FileError, OutOfDeviceMemory
from roofline.machine import file
from roofline.machine.record import Health
from roofline.measure import replay
from roofline.measure.plan import cuda_microkernels
from roofline.measure.run import measure_machine
from roofline.measure.stopping import EFFORTS

from .fake import BRIEF, TOY, Behaviour, FakeBench

ROOT = Path(__file__).parents[2]
RECORDING = ROOT / "tests" / "recordings" / "h200_standard.json"


def record(bench, effort=BRIEF):
    """(machine, recording) of a bench."""
    recorder = replay.Recorder(bench)
    return measure_machine(recorder, effort), recorder.recording


def play(recording, microkernels, effort=BRIEF):
    return measure_machine(replay.Replay(recording, microkernels), effort)


def timeless(machine):
    """Without the moment and the duration of the probe."""
    return replace(machine, provenance=replace(machine.provenance, created="", duration_s=0.0))


def assert_replays(bench, effort=BRIEF):
    machine, recording = record(bench, effort)
    assert timeless(play(recording, bench.microkernels(), effort)) == timeless(machine)
    return machine


def noisy(bits):
    """Up to 3 % noise from the bits of a number."""
    return lambda sample: 1 + 0.03 * ((bits * (sample + 1)) % 997) / 997


def test_a_plain_probe():
    machine = assert_replays(
        FakeBench(
            {
                ("fp32", "cupy"): {"a": Behaviour(2e12, clock_hz=9e8), "b": Behaviour(1e12)},
                ("dram_read", "triton"): {"a": Behaviour(2e11, work=1e8, buffer_bytes=1 << 20)},
                ("launch_eager", "torch"): {"a": Behaviour(5e-6, work=1000)},
            },
            health=Health(clock_hz=1e9, power_w=300.0, throttle=("SwPowerCap",)),
            warnings=["busy"],
        ),
        replace(BRIEF, rest_s=0.5),
    )
    assert len(machine.ceilings) == 3 and machine.warnings == ("busy",)


def failing(**options):
    return {("fp32", "cupy"): {"a": Behaviour(9e12, **options), "b": Behaviour(2e12)}}


@pytest.mark.parametrize(
    "failure",
    [
        {"prepare_raises": OutOfDeviceMemory("no room")},
        {"time_raises": BackendUnavailable("no such instruction")},
        {"time_raises": BackendUnavailable("illegal address"), "after": 1},
        {"time_raises": BackendUnavailable("illegal address"), "after": 5},
        {"error": 0.5},
        {"error": float("inf")},
        {"error": OutOfDeviceMemory("no room to check")},
    ],
    ids=str,
)
def test_failures_are_replayed(failure):
    assert_replays(FakeBench(failing(**failure)))


def test_a_missing_backend_is_replayed():
    machine = assert_replays(FakeBench(failing(), unusable={"cupy": "cupy is not installed"}))
    assert machine.not_measured == {"fp32": "cupy is not installed"}


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.tuples(st.floats(1e11, 1e13), st.floats(0, 1e-3), st.integers(1, 996)), min_size=1, max_size=4),
    st.none() | st.floats(5e8, 2e9),
)
def test_any_device_is_replayed(variants, clock_hz):
    behaviours = {
        f"variant {i}": Behaviour(value, fixed_s=fixed_s, noise=noisy(bits), clock_hz=clock_hz)
        for i, (value, fixed_s, bits) in enumerate(variants)
    }
    assert_replays(FakeBench({("fp32", "cupy"): behaviours}))


def test_a_recording_survives_its_file(tmp_path):
    bench = FakeBench(failing(noise=noisy(17)), health=Health(clock_hz=1e9, throttle=("SwPowerCap",)))
    machine, recording = record(bench)
    recording.save(tmp_path / "toy.json")
    assert timeless(play(replay.load(tmp_path / "toy.json"), bench.microkernels())) == timeless(machine)


def test_the_recorder_changes_nothing():
    behaviours = {("fp32", "cupy"): {"a": Behaviour(2e12, noise=noisy(5)), "b": Behaviour(1e12)}}
    assert timeless(record(FakeBench(behaviours))[0]) == timeless(measure_machine(FakeBench(behaviours), BRIEF))


@pytest.mark.parametrize("content", ["", "{", "[]", '{"device": 1}', None])
def test_a_damaged_or_missing_recording_is_one_clear_error(tmp_path, content):
    path = tmp_path / "recording.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(FileError, match=r"recording\.json is no recording of a probe: .* Record it again on the GPU"):
        replay.load(path)


def test_an_engine_that_asks_otherwise_is_told_to_record_again():
    bench = FakeBench({("fp32", "cupy"): {"a": Behaviour(2e12)}})
    _, recording = record(bench)
    machine = play(recording, bench.microkernels(), replace(BRIEF, trial_s=0.02))
    assert machine.not_measured["fp32"] == (
        "The engine asks for 40 launches, the recording has 20: record the probe again."
    )


def test_a_variant_that_is_not_in_the_recording_is_named():
    _, recording = record(FakeBench({("fp32", "cupy"): {"old": Behaviour(2e12)}}))
    machine = play(recording, FakeBench({("fp32", "cupy"): {"new": Behaviour(2e12)}}).microkernels())
    assert machine.not_measured == {"fp32": "fp32 | cupy | new | 1 is not in the recording"}


def test_a_device_of_another_kind_is_not_needed():
    _, recording = record(FakeBench({("fp32", "cupy"): {"a": Behaviour(2e12)}}))
    bench = replay.Replay(recording, ())
    assert bench.device == TOY and bench.microkernels() == ()


# --- a real GPU ---


@pytest.fixture(scope="module")
def h200():
    """(machine from the recording, the machine file that the same probe wrote)."""
    if not RECORDING.exists():
        pytest.skip("tests/recordings/h200_standard.json is not recorded yet")
    recording = replay.load(RECORDING)
    shipped = [file.load(path) for path in sorted((ROOT / "roofline/machine/measured").glob("*.json"))]
    same = [m for m in shipped if m.device.uuid == recording.device.uuid and m.provenance.effort == "standard"]
    assert len(same) == 1, "one machine file of the recorded GPU is expected"
    return play(recording, cuda_microkernels(), EFFORTS["standard"]), same[0]


def test_every_committed_ceiling_of_the_h200_comes_out_of_its_samples(h200):
    replayed, shipped = h200
    assert {c.name: c.value for c in replayed.ceilings} == {c.name: c.value for c in shipped.ceilings}
    assert replayed.not_measured == shipped.not_measured and replayed.warnings == shipped.warnings


def test_winners_intervals_clocks_and_doubts_of_the_h200_are_those_committed(h200):
    replayed, shipped = h200
    assert {c.name: c.measurement for c in replayed.ceilings} == {c.name: c.measurement for c in shipped.ceilings}

"""Sweeps of a synthetic device: every point, its sensors and its reason; nothing is lost when a point fails."""

import re
from dataclasses import replace

import pytest

from roofline.errors import BackendUnavailable, CheckFailed, UsageError
from roofline.machine import file
from roofline.machine.record import Health
from roofline.measure import replay
from roofline.measure.plan import select, select_sweeps
from roofline.measure.run import INTERRUPTED, ProbeInterrupted, measure_machine
from roofline.measure.sweep import explained, measure_sweep

from .fake import BRIEF, TOY, Behaviour, FakeBench

SWEEPING = replace(BRIEF, sweep_s=0.01)
POINTS = (1.0, 10.0, 100.0)


def bench(low=2e11, middle=1.9e12, high=2.39e12, axis="flops_per_byte", **options):
    """200 GB/s and 2.4 TFLOP/s at 1 GHz, so the ridge is at 12 flop/byte; the points of a sweep run at 900 MHz."""
    points = {}
    for x, given in zip(POINTS, (low, middle, high), strict=True):
        behaviour = given if isinstance(given, Behaviour) else Behaviour(given, clock_hz=9e8)
        points[f"at {x:g}"] = replace(behaviour, x=x)
    behaviours = {
        ("dram_read", "triton"): {"1024": Behaviour(2e11, work=1e8)},
        ("fp32", "cupy"): {"8 chains": Behaviour(2.4e12, clock_hz=1e9)},
        ("fp32", "cupy", axis): points,
    }
    return FakeBench(behaviours, device=replace(TOY, tdp_w=700.0), **options)


def swept(found, seconds=0.01, ceilings=()):
    """Sweep and failures of the bench's one sweep."""
    (kernel,) = (k for k in found.microkernels() if k.sweep)
    return measure_sweep(found, kernel, seconds, ceilings)


def test_every_point_with_rate_clock_and_watts():
    sweep, failed = swept(bench(health=Health(clock_hz=1e9, power_w=400.0, throttle=("Heat",))))
    assert failed == {} and (sweep.name, sweep.ceiling, sweep.bandwidth) == ("intensity_fp32", "fp32", "dram_read")
    assert (sweep.x_unit, sweep.unit) == ("flops_per_byte", "flops_per_s")
    assert [p.x for p in sweep.points] == [1, 10, 100]
    assert [p.value for p in sweep.points] == pytest.approx([2e11, 1.9e12, 2.39e12])
    # The SMs' own clock rather than the sensor's.
    assert {(p.clock_hz, p.power_w, p.throttle) for p in sweep.points} == {(9e8, 400.0, ("Heat",))}


def test_the_sensor_s_clock_where_the_sms_count_none():
    found, _ = swept(bench(low=Behaviour(1e11)))
    assert found.points[0].clock_hz == 1e9


def test_without_ceilings_no_reasons():
    sweep, _ = swept(bench(low=1e9))
    assert [p.note for p in sweep.points] == ["", "", ""]


def test_a_machine_with_its_sweep_and_reasons(tmp_path):
    # At 10 flop/byte the roof is 2e12; 1.8e12 is 10 % below it, at 900 MHz instead of the pipe's 1000.
    machine = measure_machine(bench(middle=1.8e12), SWEEPING)
    (sweep,) = machine.sweeps
    assert [p.note for p in sweep.points] == ["", "clock", ""]
    assert [c.name for c in machine.ceilings] == ["dram_read", "fp32"] and machine.not_measured == {}
    assert file.load(file.save(machine, tmp_path / "toy.json")) == machine


def test_a_working_set_has_no_reasons():
    sweep, _ = swept(bench(low=1.0, axis="bytes"), ceilings=measure_machine(bench(), BRIEF).ceilings)
    assert sweep.name == "working_set_fp32" and sweep.x_unit == "bytes"
    assert {p.note for p in sweep.points} == {""}
    assert explained(sweep, {}, None) == sweep


def test_time_per_point():
    # 1e9 flops at 2e11 take 5 ms: 20 launches in 100 ms; at least 5, however short the time.
    slow = Behaviour(2e11)
    for seconds, launches in ((0.1, 20), (0.001, 5)):
        found = bench(low=slow)
        swept(found, seconds)
        assert [r for r in found.requests if r[0] == "time" and r[2] == "at 1"][-1][3] == launches


@pytest.mark.parametrize(
    ("behaviour", "why"),
    [
        (Behaviour(2e11, error=0.5), r"output differs from the reference by 0\.5 \(at most 0\.001\)"),
        (Behaviour(2e11, error=float("nan")), "output differs"),
        (Behaviour(2e11, error=CheckFailed("no reference")), "no reference"),
        (Behaviour(2e11, prepare_raises=BackendUnavailable("no compiler")), "no compiler"),
        (Behaviour(2e11, time_raises=BackendUnavailable("launch failed")), "launch failed"),
    ],
)
def test_a_point_that_fails_says_why_and_the_others_stay(behaviour, why):
    sweep, failed = swept(bench(middle=behaviour))
    assert [p.x for p in sweep.points] == [1, 100]
    assert list(failed) == ["intensity_fp32: at 10"]
    assert re.search(why, failed["intensity_fp32: at 10"])


def test_no_point_at_all_is_one_reason():
    dead = Behaviour(1.0, prepare_raises=BackendUnavailable("no compiler"))
    assert swept(bench(dead, dead, dead)) == (None, {"intensity_fp32": "no compiler"})


def test_a_backend_that_is_not_there():
    found = bench(unusable={"cupy": "not installed"})
    assert swept(found) == (None, {"intensity_fp32": "not installed"})
    assert found.requests == []


def test_interrupted_in_the_sweep():
    stopped = bench(middle=Behaviour(1e12, time_raises=KeyboardInterrupt()))
    with pytest.raises(ProbeInterrupted) as stop:
        measure_machine(stopped, SWEEPING)
    machine = stop.value.machine
    assert machine.not_measured == {"intensity_fp32": INTERRUPTED} and len(machine.ceilings) == 2


def test_an_effort_without_time_for_sweeps():
    assert measure_machine(bench(), BRIEF).sweeps == ()
    with pytest.raises(UsageError, match="effort 'brief' sweeps nothing, but intensity_fp32 is asked for; use"):
        measure_machine(bench(), BRIEF, ["intensity_fp32"])


@pytest.mark.parametrize(
    ("only", "ceilings", "sweeps"),
    [
        (None, ["dram_read", "fp32"], ["intensity_fp32"]),
        (["fp32"], ["fp32"], []),
        (["sweeps"], [], ["intensity_fp32"]),
        (["dram", "intensity_fp32"], ["dram_read"], ["intensity_fp32"]),
    ],
)
def test_only(only, ceilings, sweeps):
    kernels = bench().microkernels()
    assert list(select(kernels, only)) == ceilings and list(select_sweeps(kernels, only)) == sweeps
    machine = measure_machine(bench(), SWEEPING, only)
    assert [s.name for s in machine.sweeps] == sweeps


def test_points_of_a_sweep_are_no_rivals_for_the_ceiling():
    machine = measure_machine(bench(high=9e12), SWEEPING)
    assert machine.ceiling("fp32").value == pytest.approx(2.4e12)


def test_progress_goes_through_ceilings_and_sweeps():
    shown = []
    measure_machine(bench(), SWEEPING, None, lambda text, share: shown.append((text, share)))
    assert [text for text, _ in shown] == ["compiling", "dram_read", "fp32", "intensity_fp32", "done"]
    assert [share for _, share in shown] == sorted(share for _, share in shown)


def test_a_recorded_sweep_comes_out_the_same(tmp_path):
    recorder = replay.Recorder(bench(middle=1.8e12))
    machine = measure_machine(recorder, SWEEPING)
    recorder.recording.save(tmp_path / "toy.json")
    again = measure_machine(replay.Replay(replay.load(tmp_path / "toy.json"), bench().microkernels()), SWEEPING)
    assert again.sweeps == machine.sweeps and again.sweeps[0].points[1].note == "clock"


def zeroed():
    return FakeBench(
        {
            ("fp32", "cupy"): {"8 chains": Behaviour(2.4e12, zeros=2.5e12)},
            ("dram_read", "triton"): {"1024": Behaviour(2e11, work=1e8, zeros=9e11)},
        }
    )


def test_arithmetic_on_zeros_beside_that_on_random_data():
    machine = measure_machine(zeroed(), replace(BRIEF, zeros=True))
    assert machine.ceiling("fp32").value == pytest.approx(2.4e12)
    assert machine.ceiling("fp32").measurement.zeros == pytest.approx(2.5e12)
    # Moving bytes is not arithmetic.
    assert machine.ceiling("dram_read").measurement.zeros is None
    assert measure_machine(zeroed(), BRIEF).ceiling("fp32").measurement.zeros is None


def test_zeros_come_out_of_a_recording(tmp_path):
    recorder = replay.Recorder(zeroed())
    machine = measure_machine(recorder, replace(BRIEF, zeros=True))
    again = measure_machine(replay.Replay(recorder.recording, zeroed().microkernels()), replace(BRIEF, zeros=True))
    assert again.ceiling("fp32").measurement == machine.ceiling("fp32").measurement

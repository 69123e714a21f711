"""One ceiling: which variant wins, what is refused, and what the result says about itself."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.errors import BackendUnavailable, CheckFailed, OutOfDeviceMemory
from roofline.machine.record import Health
from roofline.measure.ceiling import measure_ceiling
from roofline.measure.stopping import StoppingRule

from .fake import BRIEF, FP32_LIMIT, TOY, Behaviour, FakeBench

# Work of 1e9 flops at 2e12 flops a second: 0.5 ms a launch.
GOOD = Behaviour(2e12)


def measure(variants, ceiling="fp32", effort=BRIEF, **options):
    """Measures one ceiling with the variants of one or (as a dictionary of dictionaries) of several backends."""
    by_backend = variants if isinstance(next(iter(variants.values())), dict) else {"cupy": variants}
    bench = FakeBench({(ceiling, backend): given for backend, given in by_backend.items()}, **options)
    return measure_ceiling(bench, bench.microkernels(), effort), bench


def flags(variants, **options):
    return measure(variants, **options)[0].measurement.flags


def test_a_good_ceiling_is_complete():
    ceiling, bench = measure({"only": replace(GOOD, error=1e-6, buffer_bytes=4096)})
    assert (ceiling.name, ceiling.value, ceiling.unit, ceiling.source) == ("fp32", 2e12, "flops_per_s", "measured")
    found = ceiling.measurement
    assert (found.backend, found.variant, found.work, found.error) == ("cupy", "only", 1e9, 1e-6)
    assert found.low == found.high == 2e12 and found.converged and found.flags == ()
    assert found.limit == pytest.approx(FP32_LIMIT) and found.limit_basis == "256/clk/SM x 10 SMs x 1000 MHz"
    assert found.scaling == pytest.approx(1) and found.buffer_bytes == 4096
    assert found.health == bench.health and bench.watched == 1


def test_every_sample_is_kept():
    found = measure({"only": GOOD})[0].measurement
    # 0.1 s of 0.5 ms launches is the least that the rule accepts.
    assert set(found.samples_s) == {5e-4} and 200 <= len(found.samples_s) < 300


@pytest.mark.parametrize(("ceiling", "unit", "best"), [("fp32", "flops_per_s", "b"), ("latency_l2", "s", "a")])
def test_the_best_variant_is_the_fastest_rate_or_the_shortest_time(ceiling, unit, best):
    work, *rates = {"flops_per_s": (1e9, 1e12, 2e12, 1.5e12), "s": (1e6, 1e-9, 3e-9, 2e-9)}[unit]
    variants = {"abc"[i]: Behaviour(rates[i], work) for i in range(3)}
    found = measure(variants, ceiling)[0]
    assert found.measurement.variant == best
    assert found.value == pytest.approx(max(rates) if unit != "s" else min(rates))
    assert [t.variant for t in found.measurement.trials] == ["cupy: a", "cupy: b", "cupy: c"]
    assert [t.value for t in found.measurement.trials] == pytest.approx(rates)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.floats(1e11, 1e13), min_size=1, max_size=5, unique=True))
def test_the_winner_is_the_best_trial(rates):
    found = measure({f"variant {i}": Behaviour(value) for i, value in enumerate(rates)})[0]
    assert found.value == pytest.approx(max(rates))
    assert found.measurement.variant == f"variant {rates.index(max(rates))}"


def test_backends_compete():
    found = measure({"triton": {"a": Behaviour(2e12)}, "cupy": {"a": Behaviour(2.1e12)}})[0]
    assert (found.measurement.backend, found.value) == ("cupy", pytest.approx(2.1e12))


def test_no_more_variants_are_tried_than_the_effort_allows():
    variants = dict.fromkeys("abcd", GOOD)
    found = measure(variants, effort=replace(BRIEF, variants=2))[0]
    assert [t.variant for t in found.measurement.trials] == ["cupy: a", "cupy: b"]


# --- what is refused ---


def test_a_wrong_output_hands_over_to_the_next_best_variant():
    # 0.5 is far above the tolerance of 1e-3; the fastest is the wrong one.
    found = measure({"slow": Behaviour(1e12), "wrong": Behaviour(9e12, error=0.5), "good": GOOD})[0].measurement
    assert found.variant == "good"
    assert {t.variant: t.reason for t in found.trials} == {
        "cupy: slow": "",
        "cupy: good": "",
        "cupy: wrong": "cupy: wrong: output differs from the reference by 0.5 (at most 0.001)",
    }


@pytest.mark.parametrize("error", [float("nan"), float("inf"), 1.01e-3])
def test_output_that_is_nan_infinite_or_just_beyond_the_tolerance_is_wrong(error):
    assert measure({"wrong": Behaviour(9e12, error=error), "good": GOOD})[0].measurement.variant == "good"


def test_an_error_as_large_as_the_tolerance_is_believed():
    assert measure({"only": replace(GOOD, error=1e-3)})[0].measurement.error == 1e-3


def test_a_check_that_cannot_run_hands_over_too():
    found = measure({"odd": Behaviour(9e12, error=OutOfDeviceMemory("no room")), "good": GOOD})[0].measurement
    assert found.variant == "good"
    assert found.trials[0].reason == "cupy: odd: its output could not be checked: no room"


def test_all_outputs_wrong_is_an_error_that_names_each():
    with pytest.raises(CheckFailed) as error:
        measure({"a": Behaviour(1e12, error=0.5), "b": Behaviour(2e12, error=0.25)})
    assert str(error.value) == (
        "cupy: b: output differs from the reference by 0.25 (at most 0.001); "
        "cupy: a: output differs from the reference by 0.5 (at most 0.001)"
    )


@pytest.mark.parametrize("when", ["prepare_raises", "time_raises"])
def test_a_variant_that_fails_is_listed_and_the_others_compete(when):
    broken = Behaviour(9e12, **{when: BackendUnavailable("CompileError: no such instruction")})
    found = measure({"broken": broken, "good": GOOD})[0].measurement
    assert found.variant == "good"
    assert found.trials[0].value is None and found.trials[0].reason == "CompileError: no such instruction"


def test_all_variants_failing_alike_give_the_reason_once():
    broken = Behaviour(1e12, prepare_raises=OutOfDeviceMemory("does not fit"))
    with pytest.raises(BackendUnavailable, match=r"^does not fit$"):
        measure({"a": broken, "b": broken})


def test_a_backend_that_is_missing_is_the_reason():
    with pytest.raises(BackendUnavailable, match=r"^cupy is not installed$"):
        measure({"a": GOOD}, unusable={"cupy": "cupy is not installed"})


def test_a_backend_that_is_missing_leaves_the_field_to_the_other():
    found, bench = measure(
        {"triton": {"a": GOOD}, "cupy": {"a": Behaviour(9e12)}}, unusable={"cupy": "cupy is not installed"}
    )
    assert found.measurement.backend == "triton"
    assert sum(request[0] == "prepare" for request in bench.requests) == 2  # in full and at half the work


def test_no_variant_for_this_device():
    with pytest.raises(BackendUnavailable, match="no microkernel is written for this device"):
        measure({"cupy": {}, "triton": {}})


# --- what the result says about itself ---


def test_impossibly_fast_is_flagged():
    # 4 TFLOP/s where 2.56 are possible: 156 %.
    assert flags({"hoisted": Behaviour(4e12)}) == (
        "above the physical limit (156% of 256/clk/SM x 10 SMs x 1000 MHz): cached, or not executed as written",
    )


def test_slow_is_flagged():
    # 1.024 of 2.56 TFLOP/s: 40 %.
    assert flags({"slow": Behaviour(1.024e12)}) == (
        "only 40% of the physical limit (256/clk/SM x 10 SMs x 1000 MHz)",
    )


def test_the_limit_moves_with_the_clock():
    # At 0.5 GHz only 1.28 TFLOP/s are possible.
    assert flags({"a": GOOD}, health=Health(clock_hz=5e8))[0].startswith("above the physical limit (156% of")


def test_the_clock_that_the_sms_counted_is_believed_rather_than_the_sensor():
    # Sensor 1 GHz, SMs 0.9 GHz: 2.304 TFLOP/s are possible.
    health = Health(clock_hz=1e9, sensor_clock_hz=1e9)
    found = measure({"a": replace(GOOD, clock_hz=9e8)}, health=health)[0].measurement
    assert (found.health.clock_hz, found.health.sensor_clock_hz) == (9e8, 1e9)
    assert found.limit == pytest.approx(2.304e12)


def test_throttling_is_flagged():
    found = flags({"a": GOOD}, health=Health(clock_hz=1e9, throttle=("SwPowerCap",)))
    assert found == ("clock held back: the board is at its power limit",)


def test_time_that_does_not_scale_is_flagged():
    # 0.5 ms fixed + 0.5 ms of work: half the work takes 0.75 ms, 1.5 x as long per unit.
    (flag,) = flags({"a": replace(GOOD, rate=2e12, fixed_s=5e-4)}, device=replace(TOY, sm_count=None))
    assert flag == "time does not scale with the work (time per unit at half the work: 1.50 of that at full)"


def test_a_loop_that_the_compiler_removed_is_flagged():
    # Constant time whatever the work: twice as long per unit at half the work.
    found = measure({"a": Behaviour(1e30, fixed_s=5e-4)}, device=replace(TOY, sm_count=None))[0].measurement
    assert found.scaling == pytest.approx(2) and "does not scale" in found.flags[0]


def test_budget_spent_is_said():
    # Times alternate by 5 %, so the interval of the median stays 5 % wide until 0.4 s are over.
    noisy = replace(GOOD, noise=lambda sample: 1 + 0.05 * (sample % 2))
    found = measure({"a": noisy})[0].measurement
    assert not found.converged
    assert found.flags == ("unsteady: interval wider than 0.5% after 0.4 s",)
    assert sum(found.samples_s) >= 0.4
    assert found.low == pytest.approx(2e12 / 1.05) and found.high == pytest.approx(2e12)


def test_warm_up_is_not_measured():
    # 40 % slow at first, falling until launch 500: a window of 20 ms is 28 to 40 launches, so it falls by 2 % and more.
    slow = replace(GOOD, noise=lambda sample: 1 + 0.4 * max(0, 1 - sample / 500))
    found = measure({"a": slow}, effort=replace(BRIEF, settling=replace(BRIEF.settling, budget_s=10.0)))[0]
    assert found.value == pytest.approx(2e12) and set(found.measurement.samples_s) == {5e-4}


# --- bursts, before a power limit acts ---


@pytest.mark.parametrize(
    ("ceiling", "rests"), [("fp32", [0.5]), ("tensor_tf32", [0.5]), ("dram_read", []), ("latency_l2", [])]
)
def test_pipes_have_a_burst_after_a_rest(ceiling, rests):
    effort = replace(BRIEF, rest_s=0.5)
    in_seconds = ceiling.startswith("latency")
    behaviour = Behaviour(1e-9, work=1e6) if in_seconds else Behaviour(2e11, work=1e8)
    found, bench = measure({"a": behaviour}, ceiling, effort)
    assert bench.rests == rests
    assert found.measurement.burst == (pytest.approx(found.value) if rests else None)


def test_no_burst_without_a_rest():
    found, bench = measure({"a": GOOD})
    assert found.measurement.burst is None and bench.rests == []


# --- operands that are all zero ---


@pytest.mark.parametrize(("ceiling", "has"), [("fp32", True), ("tensor_tf32", True), ("dram_read", False)])
def test_arithmetic_is_measured_once_more_on_zeros_if_asked(ceiling, has):
    behaviour = Behaviour(2e11, work=1e8, zeros=2.4e11)
    found = measure({"a": behaviour}, ceiling, replace(BRIEF, zeros=True))[0]
    assert found.value == pytest.approx(2e11)
    assert found.measurement.zeros == (pytest.approx(2.4e11) if has else None)


def test_zeros_are_not_measured_unless_asked():
    assert measure({"a": replace(GOOD, zeros=3e12)})[0].measurement.zeros is None


# --- limits of time ---


@pytest.mark.parametrize("seconds", [1e-6, 1e-4, 1e-2, 0.2, 3.0])
def test_launches_of_any_length_are_measured_within_the_budget(seconds):
    # At least six launches, else no more than the budget and one batch (1000 launches or 20 ms, at least six).
    found = measure({"a": Behaviour(1e9 / seconds)}, device=replace(TOY, sm_count=None))[0].measurement
    assert len(found.samples_s) >= 6
    assert sum(found.samples_s) <= BRIEF.stopping.budget_s + max(0.02, 6 * seconds)
    assert found.converged


def test_a_width_that_no_timer_resolves_ends_with_the_budget():
    effort = replace(BRIEF, stopping=StoppingRule(0.0, 0.01, 0.05))
    noisy = replace(GOOD, noise=lambda sample: 1 + 1e-9 * (sample % 2))
    assert not measure({"a": noisy}, effort=effort)[0].measurement.converged

"""Trials on a synthetic device: written variants, the guided search, and rates that depend on what ran before."""

from collections import Counter

import pytest

from roofline.errors import OutOfDeviceMemory
from roofline.kernels.microkernel import Job, Microkernel, Variant
from roofline.measure.stopping import Effort, SettlingRule, StoppingRule
from roofline.measure.trials import LONGEST_S, try_all

EFFORT = Effort("brief", 2, 0.01, 0.0, SettlingRule(0.01, 0.02, 0.2), StoppingRule(0.005, 0.1, 0.4), shapes=12)
AXES = {"m": (1, 2, 3, 4), "n": (1, 2, 3, 4)}


class Device:
    """Rate of a job = its true rate x the clock; the clock falls under load and recovers when little power is drawn."""

    device = None

    def __init__(self, true_rate, work=lambda o: 1e9, power=lambda o: 1.0, fails=()):
        self.true_rate, self.work, self.power, self.fails = true_rate, work, power, fails
        self.clock, self.prepared, self.jobs = 1.3, Counter(), {}

    def prepare(self, kernel, variant, scale):
        self.prepared[variant.name] += 1
        if variant.name in self.fails:
            raise OutOfDeviceMemory("too large")
        job = Job(lambda launch: None, self.work(variant.options), lambda: 0.0)
        self.jobs[id(job)] = (job, variant.options)
        return job

    def time(self, job, launches):
        options = self.jobs[id(job)][1]
        times = []
        for _ in range(launches):
            times.append(job.work / (self.true_rate(options) * self.clock))
            goal = 1.0 / self.power(options)  # reached with a time constant of 20 ms
            self.clock += (goal - self.clock) * min(1.0, times[-1] / 0.02)
        return times


def kernel(axes=None, variants=((1, 1), (4, 4)), ceiling="gemm_bf16"):
    named = tuple(Variant(f"{m} x {n}", {"m": m, "n": n}) for m, n in variants)
    return Microkernel(ceiling, "torch", lambda _: named, lambda *_: None, 0.0, axes=axes and (lambda _: axes))


def rising(options):
    """From 1.1 to 1.8 TFLOP/s, more with each step of m than of n."""
    return 1e12 * (1 + 0.15 * options["m"] + 0.05 * options["n"])


def best(candidates):
    return max(candidates, key=lambda c: c.value).variant.options


def test_written_variants_are_tried_up_to_the_effort_s_number():
    candidates, trials = try_all(Device(rising), [kernel(variants=((1, 1), (2, 2), (4, 4)))], EFFORT)
    assert [c.variant.name for c in candidates] == ["1 x 1", "2 x 2"] == [t.variant[7:] for t in trials]


def test_a_variant_that_fails_leaves_its_reason():
    candidates, trials = try_all(Device(rising, fails=("1 x 1",)), [kernel()], EFFORT)
    assert [c.name for c in candidates] == ["torch: 4 x 4"]
    assert (trials[0].value, trials[0].reason) == (None, "too large")


def test_the_search_goes_beyond_the_written_variants():
    candidates, trials = try_all(Device(rising), [kernel(AXES, ((1, 1), (1, 3), (3, 1)))], EFFORT)
    assert best(candidates) == {"m": 4, "n": 4}
    assert len(trials) == EFFORT.shapes and len({t.variant for t in trials}) == len(trials)


def test_only_finalists_are_candidates_and_trials_have_their_last_value():
    candidates, trials = try_all(Device(rising), [kernel(AXES)], EFFORT)
    assert len(candidates) == 6
    values = {t.variant: t.value for t in trials}
    assert all(values[c.name] == c.value for c in candidates)


def test_what_ran_before_does_not_mislead():
    # (2, 2) draws a third of the power, so whatever follows it runs up to three times as fast for some 20 ms; without
    # a reference around it, the shape after it would win.
    device = Device(rising, power=lambda o: 1 / 3 if o == {"m": 2, "n": 2} else 1.0)
    starts = ((1, 1), (2, 2), (1, 2), (4, 4), (3, 3))
    _, trials = try_all(device, [kernel(AXES, starts)], EFFORT)
    tried = {t.variant.removeprefix("torch: "): t.value for t in trials}
    assert tried["4 x 4"] > tried["1 x 2"]
    assert tried["4 x 4"] / tried["1 x 2"] == pytest.approx(1.8 / 1.25, rel=0.1)


def test_points_that_take_long_are_passed_over():
    # At 1.2e12 flops a second, 1e9 flops take 0.8 ms; 1e11 take 83 ms, more than the longest.
    device = Device(rising, work=lambda o: 1e11 if o["m"] == 4 else 1e9)
    candidates, trials = try_all(device, [kernel(AXES, ((1, 1),))], EFFORT)
    assert LONGEST_S < 1e11 / 1.8e12
    assert best(candidates) == {"m": 3, "n": 4} and not [t for t in trials if t.variant.startswith("torch: 4")]


def test_a_lattice_on_which_nothing_runs():
    candidates, trials = try_all(Device(rising, fails=("1 x 1", "4 x 4")), [kernel(AXES)], EFFORT)
    assert candidates == [] and [t.reason for t in trials] == ["too large"] * 2

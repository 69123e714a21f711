import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.measure.statistics import relative_width
from roofline.measure.stopping import EFFORTS, SettlingRule, StoppingRule

RULE = StoppingRule(width=0.005, minimum_s=0.1, budget_s=0.4)
SETTLING = SettlingRule(spread=0.01, window_s=0.02, budget_s=0.2)
WIDE = [0.009, 0.011]  # 20 % apart, 20 ms together


def test_steady_samples_converge_after_the_minimum_and_not_before():
    # 9 x 10 ms is 90 ms, 11 x 10 ms is 110.
    assert RULE.verdict([0.01] * 9) == "continue"
    assert RULE.verdict([0.01] * 11) == "converged"


def test_wide_samples_spend_the_budget():
    # 20 ms a pair: 19 pairs are 0.38 s, 21 are 0.42.
    assert RULE.verdict(WIDE * 19) == "continue"
    assert RULE.verdict(WIDE * 21) == "budget spent"


def test_an_interval_as_wide_as_allowed_converges():
    # Six samples: the interval is their whole range, (1.005 - 1) / median 1 = 0.5 %, in floating point a bit less.
    samples = [1.0, 1.0, 1.0, 1.0, 1.0, 1.00499]
    assert StoppingRule(0.005, 1.0, 60.0).verdict(samples) == "converged"
    assert StoppingRule(0.00498, 1.0, 60.0).verdict(samples) == "continue"


def test_nothing_measured_yet():
    assert RULE.verdict([]) == "continue"


def test_slow_launches_need_six_samples_even_if_the_minimum_is_over():
    assert RULE.verdict([0.03] * 5) == "continue"
    assert RULE.verdict([0.03] * 6) == "converged"


def test_a_launch_longer_than_the_budget_stops_at_once():
    assert RULE.verdict([0.5]) == "budget spent"


@settings(deadline=None)
@given(st.lists(st.floats(1e-4, 0.05), max_size=80))
def test_verdicts_mean_what_they_say(samples):
    verdict, spent = RULE.verdict(samples), sum(samples)
    narrow = bool(samples) and relative_width(samples) <= RULE.width
    assert (verdict == "converged") == (narrow and spent >= RULE.minimum_s)
    assert (verdict == "budget spent") == (spent >= RULE.budget_s and not narrow)


@settings(deadline=None, max_examples=30)
@given(st.floats(1e-3, 0.1), st.floats(0, 0.3))
def test_measuring_always_ends(seconds, spread):
    samples = []
    while RULE.verdict(samples) == "continue":
        samples.append(seconds * (1 + spread * (len(samples) % 2)))
    assert sum(samples) <= RULE.budget_s + 2 * seconds


@pytest.mark.parametrize(
    ("windows", "settled"),
    [
        ([], False),
        ([[0.01], [0.01]], False),  # three are needed
        ([[0.01], [0.01], [0.01009]], True),  # 0.9 % apart
        ([[0.01], [0.01], [0.01011]], False),  # 1.1 %
        ([[0.02], [0.01], [0.01], [0.01]], True),  # only the last three count
        ([[0.01], [0.01], [0.012]], False),
        ([[0.01, 0.01, 0.03]] * 3, True),  # medians: an outlier in each window does not count
        ([[0.1], [0.15]], True),  # 0.25 s: the budget is spent
    ],
)
def test_warm_up_ends_when_three_windows_agree(windows, settled):
    assert SETTLING.settled(windows) is settled


def test_clocks_that_fall_are_waited_for():
    # Time rises by 5 % a window up to the sixth: the windows 6, 7 and 8 are the first three that agree.
    windows = []
    while not SETTLING.settled(windows):
        windows.append([0.005 * 1.05 ** min(len(windows), 5)])
    assert len(windows) == 8


def test_more_effort_is_more_of_everything():
    quick, standard, thorough = (EFFORTS[name] for name in ("quick", "standard", "thorough"))
    for less, more in ((quick, standard), (standard, thorough)):
        assert less.variants < more.variants and less.trial_s < more.trial_s
        assert less.stopping.budget_s < more.stopping.budget_s and less.stopping.width >= more.stopping.width
        assert less.settling.budget_s < more.settling.budget_s and less.settling.spread > more.settling.spread


@pytest.mark.parametrize("effort", EFFORTS.values(), ids=lambda effort: effort.name)
def test_every_effort_can_converge_and_asks_for_the_promised_interval(effort):
    assert effort.stopping.width <= 0.005
    assert 0 < effort.stopping.minimum_s < effort.stopping.budget_s
    assert 3 * effort.settling.window_s < effort.settling.budget_s

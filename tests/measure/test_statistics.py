import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.measure.statistics import MINIMUM_SAMPLES, median, median_interval, relative_width

samples = st.lists(st.floats(1e-9, 1e3), min_size=MINIMUM_SAMPLES, max_size=60)


def coverage(n, depth):
    """Chance that the median lies between the depth-th smallest and largest of n: 1 - 2 P(Binomial(n, 1/2) < depth)."""
    return 1 - 2 * sum(math.comb(n, k) for k in range(depth)) / 2**n


def depth_of(n):
    """The interval of 1, 2, ... n is (depth, n + 1 - depth)."""
    low, high = median_interval(range(1, n + 1))
    assert low + high == n + 1
    return low


def test_the_median_of_even_and_odd_counts():
    assert median([3.0, 1.0, 2.0]) == 2.0
    assert median([4.0, 1.0, 2.0, 3.0]) == 2.5


# As tables of the 95 % interval of a median print them.
@pytest.mark.parametrize(
    ("n", "depth"),
    [(6, 1), (8, 1), (9, 2), (11, 2), (12, 3), (15, 4), (17, 5), (20, 6), (25, 8), (30, 10), (50, 18), (100, 40)],
)
def test_known_order_statistics(n, depth):
    assert depth_of(n) == depth


@pytest.mark.parametrize("n", [*range(6, 80), 101, 500, 1000])
def test_the_interval_is_the_narrowest_that_covers_95_percent(n):
    assert coverage(n, depth_of(n)) >= 0.95 > coverage(n, depth_of(n) + 1)


@pytest.mark.parametrize("n", range(MINIMUM_SAMPLES))
def test_too_few_samples_bound_nothing(n):
    # The extremes of 5 samples cover the median with 1 - 2 / 2**5 = 93.75 %.
    assert median_interval([1.0] * n) == (-math.inf, math.inf)


def test_a_simulation_covers_as_often_as_it_says():
    # Skewed samples with median ln 2. Of 1000 intervals of 25 samples 95.7 % (1 - 2 P(B < 8)) cover it; the standard
    # deviation of that share is 0.64 %, so four of them are 2.6 %.
    draw = random.Random(1)
    intervals = (median_interval([draw.expovariate(1) for _ in range(25)]) for _ in range(1000))
    covered = sum(low <= math.log(2) <= high for low, high in intervals) / 1000
    assert covered == pytest.approx(coverage(25, 8), abs=0.026)


@settings(deadline=None)
@given(samples, st.randoms())
def test_the_interval_holds_the_median_and_forgets_the_order(values, shuffler):
    low, high = median_interval(values)
    assert min(values) <= low <= median(values) <= high <= max(values)
    shuffler.shuffle(values)
    assert median_interval(values) == (low, high)


@settings(deadline=None)
@given(samples, st.integers(-20, 20))
def test_the_relative_width_has_no_unit(values, exponent):
    assert relative_width([v * 2.0**exponent for v in values]) == relative_width(values)


def test_one_outlier_changes_nothing():
    # Of 12 samples the third smallest and third largest count.
    assert relative_width([1.0] * 11 + [1000.0]) == 0

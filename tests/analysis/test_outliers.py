"""Which device of several does not measure like the others of its kind?"""

import pytest

from roofline.analysis.outliers import outliers


def test_only_what_is_more_than_three_percent_from_the_median(make_machine):
    # Medians 100 and 50: 96 is 4 % below, 102.9 within 3 %; 52 is 4 % above.
    machines = [make_machine(fp32=v, fp64=w) for v, w in ((100.0, 50.0), (96.0, 50.0), (102.9, 52.0))]
    assert outliers(machines) == {(1, "fp32"): pytest.approx(-0.04), (2, "fp64"): pytest.approx(0.04)}


def test_other_devices_are_no_measure(make_machine):
    machines = [make_machine(name=name, fp32=v) for name, v in (("A", 100.0), ("B", 50.0), ("A", 100.0))]
    assert outliers(machines) == {}


def test_two_devices_can_only_tell_that_they_differ(make_machine):
    # The median is 95: one is 5.3 % above, the other 5.3 % below.
    found = outliers([make_machine(fp32=100.0), make_machine(fp32=90.0)])
    assert found == {(0, "fp32"): pytest.approx(5 / 95), (1, "fp32"): pytest.approx(-5 / 95)}


def test_a_ceiling_that_only_some_have(make_machine):
    machines = [make_machine(fp32=100.0), make_machine(fp64=1.0), make_machine(fp32=100.0)]
    assert outliers(machines) == {}


def test_one_device_and_another_tolerance(make_machine):
    assert outliers([make_machine(fp32=100.0)]) == {}
    pair = [make_machine(fp32=100.0), make_machine(fp32=90.0)]
    assert outliers(pair, tolerance=0.06) == {} and len(outliers(pair, tolerance=0.05)) == 2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.analysis.memory import bandwidths, fastest, ridge_points, seconds
from roofline.errors import MissingCeiling

KNOTS = {0.0: 4.0, 1 / 3: 3.0, 1 / 2: 2.5, 1.0: 5.0}


@pytest.mark.parametrize(
    ("read", "written", "expected"),
    [
        (12, 0, 12 / 4.0),  # pure read
        (8, 4, 12 / 3.0),  # 2:1 is the triad
        (6, 6, 12 / 2.5),  # 1:1 is the copy
        (0, 12, 12 / 5.0),  # pure write
        (3, 9, 12 * (0.5 / 2.5 + 0.5 / 5.0)),  # 3/4 written: half way between copy and write
        (0, 0, 0.0),
    ],
)
def test_seconds_at_and_between_the_measured_mixes(read, written, expected):
    assert seconds(KNOTS, read, written) == pytest.approx(expected)


def test_read_and_write_alone_add_up():
    # 10 bytes read at 4 B/s and 20 written at 5 B/s: 2.5 s + 4 s.
    assert seconds({0.0: 4.0, 1.0: 5.0}, 10, 20) == pytest.approx(6.5)


def test_a_single_direction_stands_for_all():
    assert seconds({0.5: 2.0}, 6, 0) == seconds({0.5: 2.0}, 0, 6) == 3.0


@given(
    st.integers(0, 10**15),
    st.integers(0, 10**15),
    st.sampled_from(sorted(KNOTS)),
    st.floats(1, 100),
)
def test_a_faster_direction_is_never_slower(read, written, knot, factor):
    faster = {**KNOTS, knot: KNOTS[knot] * factor}
    assert seconds(faster, read, written) <= seconds(KNOTS, read, written) * (1 + 1e-12)


@given(st.integers(1, 10**15), st.integers(0, 10**15))
def test_time_lies_between_the_slowest_and_the_fastest_direction(read, written):
    total = read + written
    assert total / 5.0 * (1 - 1e-12) <= seconds(KNOTS, read, written) <= total / 2.5 * (1 + 1e-12)


def test_bandwidths_are_those_the_machine_has(make_machine):
    toy = make_machine(dram_read=4.0, dram_copy=3.0, l2_read=9.0)
    assert bandwidths(toy, "dram") == {0.0: 4.0, 0.5: 3.0}
    assert bandwidths(toy, "l2") == {0.0: 9.0}
    assert fastest(toy) == 4.0


def test_no_bandwidth_is_an_error_that_names_the_machine(make_machine):
    with pytest.raises(MissingCeiling, match=r"Toy has no ceiling 'dram_read'.*fp32"):
        fastest(make_machine(fp32=1.0))


def test_ridge_point_is_pipe_over_fastest_bandwidth(make_machine):
    # 90 flop/s over max(3, 4.5) byte/s = 20 flop/byte.
    toy = make_machine(dram_read=3.0, dram_write=4.5, fp32=90.0)
    assert ridge_points(toy) == {"fp32": 20.0}

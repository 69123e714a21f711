"""Sensors in the background: readings are condensed to medians, and the thread ends with the context."""

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.machine.record import Health
from roofline.measure.monitor import condense, watching
from roofline.measure.nvml import Reading


def test_medians_of_what_answered():
    readings = [Reading(1.0e9, 3e9, None, 40), Reading(1.2e9, None, None, 50), Reading(1.9e9, 3e9, None, 60)]
    assert condense(readings) == Health(
        clock_hz=1.2e9, sensor_clock_hz=1.2e9, memory_clock_hz=3e9, power_w=None, temperature_c=50.0, samples=3
    )


def test_no_sensor_at_all():
    assert condense([Reading()]) == Health(samples=1)


def test_a_reason_counts_from_a_tenth_of_the_readings_on():
    # 2 of 20 is a tenth, 1 of 20 is not.
    readings = [Reading(throttle=("power",))] * 2 + [Reading(throttle=("heat",))] + [Reading()] * 17
    assert condense(readings).throttle == ("power",)


reading = st.builds(
    Reading,
    clock_hz=st.none() | st.floats(1e8, 3e9),
    power_w=st.none() | st.floats(0, 1000),
    throttle=st.lists(st.sampled_from(["power", "heat"]), unique=True).map(tuple),
)


@settings(deadline=None)
@given(st.lists(reading, min_size=1, max_size=30))
def test_a_condensed_value_lies_among_the_readings(readings):
    health = condense(readings)
    for field in ("clock_hz", "power_w"):
        seen = [getattr(r, field) for r in readings if getattr(r, field) is not None]
        found = getattr(health, field)
        assert (found is None) == (not seen)
        assert not seen or min(seen) <= found <= max(seen)


def test_sensors_are_read_while_the_context_is_open_and_never_after():
    reads, enough = [], threading.Event()

    def read():
        reads.append(Reading(clock_hz=float(len(reads))))
        if len(reads) >= 5:
            enough.set()
        return reads[-1]

    threads = threading.active_count()
    with watching(read, 0.001) as health:
        assert enough.wait(10)
        assert health().samples >= 4
    assert threading.active_count() == threads
    ended = len(reads)
    assert not threading.Event().wait(0.02)
    assert len(reads) == ended


def test_a_measurement_shorter_than_the_interval_still_has_one_reading():
    with watching(lambda: Reading(power_w=300.0), 60) as health:
        assert health() == Health(power_w=300.0, samples=1)


def test_the_thread_ends_when_the_measurement_fails():
    threads = threading.active_count()
    with pytest.raises(RuntimeError, match="broken"), watching(Reading, 60):
        raise RuntimeError("broken")
    assert threading.active_count() == threads

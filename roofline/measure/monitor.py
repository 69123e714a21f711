"""Samples sensors in the background while a measurement runs, and condenses them into a Health record."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from roofline.machine.record import Health
from roofline.measure.nvml import Reading
from roofline.measure.statistics import median


def condense(readings: list[Reading]) -> Health:
    """Medians over the readings that answered, and every throttle reason seen in at least a tenth of them."""

    def middle(field: str) -> float | None:
        values = [getattr(r, field) for r in readings if getattr(r, field) is not None]
        return float(median(values)) if values else None

    seen = sorted({reason for r in readings for reason in r.throttle})
    often = [s for s in seen if sum(s in r.throttle for r in readings) * 10 >= len(readings)]
    return Health(
        clock_hz=middle("clock_hz"),
        sensor_clock_hz=middle("clock_hz"),
        memory_clock_hz=middle("memory_clock_hz"),
        power_w=middle("power_w"),
        temperature_c=middle("temperature_c"),
        throttle=tuple(often),
        samples=len(readings),
    )


@contextmanager
def watching(read: Callable[[], Reading], interval_s: float = 0.02) -> Iterator[Callable[[], Health]]:
    """Calls `read` every `interval_s` seconds on a thread while the context is open; yields the Health so far."""
    readings: list[Reading] = []
    stop = threading.Event()

    def loop() -> None:
        while not stop.wait(interval_s):
            readings.append(read())

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    try:
        yield lambda: condense(list(readings) or [read()])
    finally:
        stop.set()
        thread.join()

"""Tests that need an NVIDIA GPU: `pytest -m gpu`. They use cuda:0 and take about a minute."""

from pathlib import Path

import pytest

from roofline.env import backend_reason
from roofline.measure.devices import open_bench

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session", autouse=True)
def _needs_a_gpu():
    reason = backend_reason("cuda")
    if reason:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def bench():
    """The bench of cuda:0."""
    return open_bench("cuda:0")


@pytest.fixture
def fresh_bench():
    """Another bench of cuda:0, as if the probe began now."""
    return lambda: open_bench("cuda:0")


@pytest.fixture(scope="session")
def root():
    """The repository."""
    return ROOT

"""What took part in a measurement."""

import platform
from importlib.metadata import PackageNotFoundError, version

import numpy
import pytest
import torch

from roofline.measure import provenance


def test_versions_of_what_is_installed(monkeypatch):
    def installed(package):
        if package.startswith("cupy"):
            raise PackageNotFoundError(package)
        return version(package)

    monkeypatch.setattr(provenance, "version", installed)
    found = provenance.software(driver="580.1")
    assert found["torch"] == version("torch") and found["numpy"] == numpy.__version__
    assert found["python"] == platform.python_version() and found["driver"] == "580.1"
    assert not any("cupy" in name for name in found)


def test_cuda_is_named_where_torch_has_it(monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    assert provenance.software()["cuda"] == "13.0"
    monkeypatch.setattr(torch.version, "cuda", None)
    assert not {"cuda", "driver"} & provenance.software().keys()


def test_only_variables_that_change_numbers_are_kept(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,0")
    monkeypatch.setenv("SECRET_TOKEN", "1234")
    monkeypatch.delenv("CUDA_LAUNCH_BLOCKING", raising=False)
    found = provenance.environment()
    assert found["CUDA_VISIBLE_DEVICES"] == "1,0"
    assert not {"SECRET_TOKEN", "CUDA_LAUNCH_BLOCKING"} & found.keys()


def test_threads_and_affinity_of_a_cpu():
    found = provenance.cpu_environment("Toy 9000", (0, 1, 4))
    assert found["cpu"] == "Toy 9000" and found["affinity"] == "0-1,4"
    assert found["threads"] == str(torch.get_num_threads())


@pytest.mark.parametrize(
    ("numbers", "text"), [((), ""), ((3,), "3"), ((0, 1, 2, 5), "0-2,5"), ((0, 2, 4), "0,2,4"), ((7, 8, 9), "7-9")]
)
def test_ranges(numbers, text):
    assert provenance.ranges(numbers) == text

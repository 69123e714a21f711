"""CUDA C through a CuPy that is not there."""

import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from roofline.kernels import raw


@pytest.fixture
def cupy(monkeypatch):
    """A fake of CuPy: `compiled` and `launched` collect what it was asked for."""
    fake = SimpleNamespace(compiled=[], launched=[])

    def module(code, options):
        fake.compiled.append((code, options))
        return SimpleNamespace(get_function=function)

    def function(name):
        return lambda *arguments, stream: fake.launched.append((name, arguments, stream))

    fake.RawModule = module
    fake.cuda = SimpleNamespace(
        Device=lambda index: nullcontext(), ExternalStream=lambda pointer, device: ("stream", pointer, device)
    )
    monkeypatch.setitem(sys.modules, "cupy", fake)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=1234))
    raw._function.cache_clear()
    yield fake
    raw._function.cache_clear()


def test_tensors_go_by_pointer_on_torch_s_own_stream(cupy):
    x = torch.zeros(3)
    raw.launcher("source", "kernel", {"A": 1}, 2)(7, 64, (x, 5))
    assert cupy.launched == [("kernel", ((7,), (64,), (x.data_ptr(), 5)), ("stream", 1234, 2))]


def test_a_kernel_is_compiled_once_for_all_its_launchers(cupy):
    for _ in range(2):
        raw.launcher("source", "kernel", {"B": "x", "A": 1}, 0)
    assert cupy.compiled == [("source", ("-DA=1", "-DB=x"))]
    raw.launcher("source", "kernel", {"A": 2}, 0)
    assert len(cupy.compiled) == 2


def test_a_missing_cupy_is_an_import_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    raw._function.cache_clear()
    with pytest.raises(ImportError, match="cupy"):
        raw.launcher("source", "kernel", {}, 0)


def test_the_clock_is_cycles_over_time():
    # The block that ran longest: 2400 cycles in 1500 ns, 1.6 GHz.
    assert raw.clock_hz(torch.tensor([[1000, 500], [2400, 1500]])) == 1.6e9

"""Triton kernels launched by the program itself. A stand-in for the launcher class: no GPU is needed."""

import sys
from types import ModuleType

import pytest
import torch

import roofline
from roofline.work import registry


class Launcher:
    """As Triton's JITFunction: `run` starts a kernel."""

    __name__ = "scale"

    def run(self, *args, grid, warmup, **kwargs):
        args[1].copy_(args[0] * 2)
        return None

    def __getitem__(self, grid):
        return lambda *args, **kwargs: self.run(*args, grid=grid, warmup=False, **kwargs)


@pytest.fixture
def kernel(monkeypatch):
    module = ModuleType("triton.runtime.jit")
    module.JITFunction = Launcher
    monkeypatch.setitem(sys.modules, "triton.runtime.jit", module)
    monkeypatch.delitem(sys.modules, "triton.runtime.interpreter", raising=False)
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))
    return Launcher()


def launch(kernel, x):
    out = torch.empty_like(x)
    kernel[(1,)](x, out, BLOCK=64)
    return out


def test_a_launch_is_named(kernel):
    before = Launcher.run
    result = roofline.trace(lambda x: launch(kernel, x), (torch.ones(50),))
    assert result.uncounted == {"triton.scale": 1}
    assert torch.equal(result.output, torch.full((50,), 2.0))
    assert result.bytes == 2 * 4 * 50  # both tensors, once each; what the launcher does inside is not seen
    assert Launcher.run is before


def test_a_registered_kernel_counts(kernel):
    roofline.register_op("triton.scale", lambda x, out, BLOCK: x.numel() + BLOCK)
    assert roofline.trace(lambda x: launch(kernel, x), (torch.ones(50),)).flops == 50 + 64

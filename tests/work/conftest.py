"""Tracing with the checks that hold for every program."""

import pytest
import torch

import roofline


@pytest.fixture
def trace():
    """`roofline.trace` with plain arguments; whatever runs must have a formula, and the modules must add up."""

    def run(program, *args, backward=False, **options):
        result = roofline.trace(program, args, backward=backward, **options)
        assert result.uncounted == {}
        layers = result.by_layer().values()
        assert sum(layer.flops for layer in layers) == result.flops == result.by_module()[""].flops
        assert sum(layer.flops_backward for layer in layers) == result.flops_backward
        return result

    return run


@pytest.fixture
def rand():
    """Random tensors; `grad` makes them leaves that need a gradient."""

    def make(*shape, grad=False, dtype=torch.float32, device="cpu"):
        return torch.randn(*shape, dtype=dtype, device=device).requires_grad_(grad)

    return make

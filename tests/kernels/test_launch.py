"""Launch overhead: number of ops, and that each takes effect."""

import pytest

from roofline.kernels import launch
from roofline.kernels.microkernel import Variant


@pytest.mark.parametrize(("scale", "ops"), [(1.0, 1000), (0.5, 500)])
def test_every_op_is_launched(cpu_arena, scale, ops):
    arena = cpu_arena()
    x = arena.empty((1,), "float32").zero_()
    arena.random = lambda *_: x
    job = launch.MICROKERNELS[0].prepare(Variant(""), arena, scale)
    job.run(0)
    assert job.work == x.item() == ops


def test_the_check_adds_ten(cpu_arena):
    job = launch.MICROKERNELS[0].prepare(Variant(""), cpu_arena(), 1.0)
    assert job.check() <= launch.MICROKERNELS[0].tolerance


def test_eager_and_graph():
    assert [k.ceiling for k in launch.MICROKERNELS] == ["launch_eager", "launch_graph"]
    assert all(k.backend == "torch" and len(k.variants(None)) == 1 for k in launch.MICROKERNELS)

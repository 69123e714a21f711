"""Formulas of the user's own, and names of what has none."""

import subprocess
import sys

import pytest
import torch

import roofline
from roofline.errors import UsageError
from roofline.work import registry

LIBRARY = torch.library.Library("rooftest", "DEF")
LIBRARY.define("mymm(Tensor a, Tensor b) -> Tensor")
LIBRARY.impl("mymm", lambda a, b: a @ b, "CPU")


@pytest.fixture
def fresh(monkeypatch):
    """Registrations of a test end with it."""
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))


def run():
    return roofline.trace(torch.ops.rooftest.mymm, (torch.randn(3, 4), torch.randn(4, 5)))


def test_an_unknown_op_is_named_and_its_bytes_count():
    result = run()
    assert result.uncounted == {"rooftest.mymm": 1}
    assert result.by_operator()["rooftest.mymm"].uncounted == 1
    assert result.bytes == 4 * (12 + 20 + 15)


@pytest.mark.parametrize("name", ["rooftest.mymm", "rooftest::mymm", "torch.ops.rooftest.mymm"])
def test_a_registered_op_counts(fresh, name):
    roofline.register_op(name, lambda a, b: 2 * a.shape[0] * a.shape[1] * b.shape[1], kind="gemm")
    result = run()
    assert (result.flops, result.uncounted) == (2 * 3 * 4 * 5, {})
    assert (result.calls[0].kind, result.calls[0].pipe) == ("gemm", "fp32")


def test_as_a_decorator_with_the_result(fresh):
    @roofline.register_op("rooftest.mymm")
    def formula(a, b, *, output):
        return registry.Work(flops=2 * output.numel() * a.shape[1])

    assert run().flops == 2 * 15 * 4


def test_a_built_in_formula_can_be_replaced_before_anything_was_traced():
    program = """
import torch, roofline
roofline.register_op("aten.mm", lambda a, b: 7, kind="gemm")
print(roofline.trace(torch.mm, (torch.ones(3, 4), torch.ones(4, 5))).flops)
"""
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "7\n"


def test_a_failing_formula_warns_and_never_ends_the_program(fresh):
    roofline.register_op("rooftest.mymm", lambda a, b: 1 / 0)
    with pytest.warns(UserWarning, match=r"rooftest\.mymm failed"):
        assert run().uncounted == {"rooftest.mymm": 1}


def test_bad_registrations():
    with pytest.raises(UsageError, match="namespace"):
        roofline.register_op("mymm", lambda: 1)
    with pytest.raises(UsageError, match="callable"):
        roofline.register_op("rooftest.mymm", 3)


def test_in_place_forms_share_the_formula():
    assert registry.lookup("aten.addmm_") is registry.lookup("aten.addmm")
    assert registry.lookup("aten.no_such_op") is None

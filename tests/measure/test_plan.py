"""Which microkernels answer which ceiling."""

import sys

import pytest

from roofline.errors import UsageError
from roofline.kernels import wmma
from roofline.kernels.microkernel import Microkernel
from roofline.machine.ceilings import BY_NAME, KINDS
from roofline.machine.record import Device
from roofline.measure import plan

CARDS = [Device(name=cc, kind="cuda", compute_capability=cc, sm_count=8) for cc in ("7.0", "8.6", "9.0", "12.0")]


def kernel(ceiling, backend="triton"):
    return Microkernel(ceiling, backend, lambda device: (), None, 0.0)


KERNELS = [kernel("fp32"), kernel("dram_read", "cupy"), kernel("dram_read"), kernel("fp64"), kernel("tensor_int8")]


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        (None, ["dram_read", "fp32", "fp64", "tensor_int8"]),
        ([], ["dram_read", "fp32", "fp64", "tensor_int8"]),
        (["fp64", "fp32"], ["fp32", "fp64"]),
        (["vector"], ["fp32", "fp64"]),
        (["dram", "fp32", "fp32"], ["dram_read", "fp32"]),
    ],
)
def test_names_and_groups_in_the_order_of_the_vocabulary(only, expected):
    assert list(plan.select(KERNELS, only)) == expected


def test_microkernels_compete_for_their_ceiling():
    assert plan.select(KERNELS, ["dram_read"]) == {"dram_read": [KERNELS[1], KERNELS[2]]}


def test_an_unknown_name_is_refused_with_the_nearest_and_all_known():
    with pytest.raises(UsageError) as error:
        plan.select(KERNELS, ["fp32", "fp23"])
    assert str(error.value).startswith("'fp23' is no ceiling of this device. Did you mean fp32")
    assert "Known: dram, dram_read, fp32, fp64, tensor, tensor_int8, vector." in str(error.value)
    assert error.value.exit_code == 2


def test_nothing_is_near_to_nonsense():
    with pytest.raises(UsageError, match=r"'qqq' is no ceiling of this device\. Known"):
        plan.select(KERNELS, ["qqq"])


def test_a_ceiling_that_no_microkernel_answers_is_unknown_here():
    with pytest.raises(UsageError, match="'launch_graph' is no ceiling of this device"):
        plan.select(KERNELS, ["launch_graph"])


def test_every_ceiling_of_the_chip_itself_is_answered_on_a_gpu():
    # The others are rates of libraries.
    chip = {kind.name for kind in KINDS if kind.group not in ("gemm", "conv")}
    assert chip <= {k.ceiling for k in plan.cuda_microkernels()}


@pytest.mark.parametrize("device", CARDS, ids=lambda device: device.name)
@pytest.mark.parametrize("kernel", plan.cuda_microkernels(), ids=lambda k: f"{k.ceiling}-{k.backend}")
def test_every_microkernel_offers_variants_with_names_of_their_own(kernel, device):
    names = [variant.name for variant in kernel.variants(device)]
    # Volta and Turing alone need `wmma`.
    assert bool(names) != (kernel in wmma.MICROKERNELS and float(device.compute_capability) >= 8)
    assert len(set(names)) == len(names)
    assert kernel.backend in ("triton", "cupy", "torch")
    assert 0 <= kernel.tolerance < 0.1


def test_cpu_microkernels_use_what_is_always_there():
    assert {k.backend for k in plan.cpu_microkernels()} == {"torch", "numpy"}
    assert {BY_NAME[k.ceiling].group for k in plan.cpu_microkernels()} == {"dram", "vector", "tensor"}


def test_microkernels_load_without_cupy(monkeypatch):
    for module in [name for name in sys.modules if name.startswith(("roofline.kernels.", "cupy"))]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert {k.backend for k in plan.cuda_microkernels()} >= {"cupy", "triton"}

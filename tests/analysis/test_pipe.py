import pytest

from roofline.analysis.pipe import fallback, resolve
from roofline.errors import MissingCeiling


@pytest.mark.parametrize(
    ("asked", "capability", "used"),
    [
        ("fp32", "9.0", "fp32"),
        ("tensor_tf32", "7.5", "fp32"),  # TF32 came with Ampere
        ("tensor_bf16_fp32", "7.0", "fp32"),
        ("tensor_fp16_fp32", "6.1", "fp32"),  # an fp32 accumulator: Pascal's packed fp16 cannot do it
        ("tensor_fp16_fp16", "6.0", "fp16x2"),
        ("tensor_fp64", "8.6", "fp64"),
        ("bf16x2", "9.0", "fp32"),
    ],
)
def test_what_stands_for_a_missing_pipe(make_machine, asked, capability, used):
    toy = make_machine(capability=capability, dram_read=1.0, fp32=2.0, fp16x2=4.0, fp64=1.0)
    assert resolve(toy, asked) == used


@pytest.mark.parametrize(
    ("asked", "used"),
    [
        ("fp32", "gemm_fp32"),
        ("tensor_fp64", "gemm_fp64"),
        ("tensor_tf32", "gemm_fp32"),
        ("tensor_bf16_fp32", "gemm_bf16"),
    ],
)
def test_a_cpu_is_held_against_its_library(make_machine, asked, used):
    cpu = make_machine(kind="cpu", capability=None, gemm_fp32=2.0, gemm_fp64=1.0, gemm_bf16=3.0)
    assert resolve(cpu, asked) == used


@pytest.mark.parametrize("asked", ["tensor_fp16_fp32", "tensor_tf32", "tensor_fp8_e4m3", "tensor_int8"])
def test_a_rate_that_is_merely_unknown_is_no_guess(make_machine, asked):
    hopper = make_machine(capability="9.0", fp32=1.0, fp16x2=2.0)
    with pytest.raises(MissingCeiling, match=asked):
        resolve(hopper, asked)


def test_the_record_says_what_and_why(make_machine):
    toy = make_machine(capability="6.1", fp32=1.0)
    note = fallback(toy, "tensor_fp16_fp32", "fp32", 7)
    assert (note.asked, note.used, note.calls) == ("tensor_fp16_fp32", "fp32", 7)
    assert note.reason.startswith("Toy has no ceiling for tensor fp16→fp32: ")

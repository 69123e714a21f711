import pytest

from roofline.errors import RooflineError
from roofline.measure import aot, sass
from roofline.measure.sass import Instruction, Listing

TWO_KERNELS = r"""
extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }
extern "C" __global__ void scale(float* x, float a, int n) {
#pragma unroll 1
    for (int i = threadIdx.x; i < n; i += 32) x[i] *= a;
}
"""


def listing(*rows):
    """Instructions from "@P0 BRA 0x10" and the like, 16 bytes each."""
    instructions = []
    for i, row in enumerate(rows):
        predicate, _, rest = row.partition(" ") if row.startswith("@") else ("", "", row)
        opcode, _, operands = rest.partition(" ")
        instructions.append(Instruction(16 * i, opcode, operands, predicate))
    return Listing(tuple(instructions), "kernel")


def bodies(code):
    return [[i.address // 16 for i in loop.instructions] for loop in code.loops]


@pytest.mark.parametrize(
    ("opcode", "pattern", "expected"),
    [
        ("FFMA", "FFMA", True),
        ("FFMA2", "FFMA", False),
        ("HFMA2.MMA", "HFMA2", True),
        ("LDG.E.128.STRONG.GPU", "LDG.E.128", True),
        ("LDG.E.LTC128B.128.CONSTANT", "LDG.128", True),
        ("LDG.E.64", "LDG.128", False),
        ("HMMA.16816.F32.BF16", "HMMA.16816.BF16", True),
        ("HMMA.16816.F32", "HMMA.16816.BF16", False),
    ],
)
def test_a_pattern_names_the_operation_and_some_modifiers(opcode, pattern, expected):
    assert Instruction(0, opcode).matches(pattern) == expected


def test_no_loop():
    assert bodies(listing("MOV", "FFMA", "EXIT")) == []


def test_the_trap_behind_the_code_is_no_loop():
    assert bodies(listing("FFMA", "EXIT", "BRA 0x20", "NOP", "NOP")) == []


def test_loop():
    assert bodies(listing("MOV", "FFMA", "IADD3", "@P0 BRA 0x10", "EXIT")) == [[1, 2, 3]]


def test_a_forward_branch_is_no_loop():
    assert bodies(listing("MOV", "@P0 BRA 0x30", "FFMA", "EXIT")) == []


def test_uniform_branch_whose_predicate_is_an_operand():
    # sm_100 and later: "BRA.U !UP0,0x10" falls through, so what follows it belongs to the outer loop.
    code = listing("MOV", "FFMA", "BRA.U !UP0,0x10", "FADD", "BRA.U UP1,0x0", "EXIT")
    assert bodies(code) == [[1, 2], [0, 1, 2, 3, 4]]


def test_a_cold_block_that_jumps_back_is_no_loop():
    # 1 → 4 → 2: the way back leads to code that the entry also reaches without it.
    assert bodies(listing("MOV", "@P0 BRA 0x40", "FFMA", "EXIT", "MUFU", "BRA 0x20")) == []


def test_a_cold_block_within_a_loop_belongs_to_it():
    code = listing("MOV", "@P1 BRA 0x50", "FFMA", "@P0 BRA 0x10", "EXIT", "MUFU", "BRA 0x20")
    assert bodies(code) == [[1, 2, 3, 5, 6]]


def test_two_ways_back_to_one_head_are_one_loop():
    code = listing("FFMA", "@P0 BRA 0x0", "FADD", "@P1 BRA 0x0", "EXIT")
    assert bodies(code) == [[0, 1, 2, 3]]


def test_the_innermost_loop_that_holds_the_instruction_is_the_hottest():
    # Spinning on a barrier (1) within the loop of the work (0 to 3): the inner one holds no FFMA.
    code = listing("FFMA", "@!P1 BRA 0x10", "FFMA", "@P0 BRA 0x0", "FFMA", "EXIT")
    nested = listing("FFMA", "SYNCS", "@!P1 BRA 0x10", "FFMA", "@P0 BRA 0x0", "FFMA", "EXIT")
    assert code.hottest(["FFMA"]).count("FFMA") == 2
    assert nested.hottest(["FFMA"]).count("FFMA") == 2
    assert len(nested.hottest(["SYNCS"]).instructions) == 2
    assert nested.hottest(["DFMA"]) is None


def test_of_an_unrolled_loop_and_its_remainder_the_fuller_is_the_hottest():
    code = listing("FFMA", "FFMA", "FFMA", "@P0 BRA 0x0", "FFMA", "@P1 BRA 0x40", "EXIT")
    assert code.hottest(["FFMA"]).count("FFMA") == 3


def test_counts():
    code = listing("LDL.64 R0", "FFMA", "FFMA.FTZ", "STL [R1]", "LDG.E", "EXIT")
    assert code.spills == 2
    assert code.count("FFMA") == 2
    assert code.count("FFMA", "LDG") == 3
    assert code.opcodes["FFMA.FTZ"] == 1


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
def test_a_kernel_is_found_by_its_name(cuda_listing, arch):
    twice = cuda_listing(TWO_KERNELS, arch, function="twice")
    scale = cuda_listing(TWO_KERNELS, arch, function="scale")
    assert (twice.function, len(twice.loops)) == ("twice", 0)
    assert (scale.function, len(scale.loops)) == ("scale", 1)
    assert scale.loops[0].count("FMUL") == scale.loops[0].count("STG") == 1
    assert 0 < scale.registers < 32


def test_addresses_of_branches_meet_instructions(cuda_listing):
    scale = cuda_listing(TWO_KERNELS, "sm_86", function="scale")
    addresses = {i.address for i in scale.instructions}
    assert {i.target for i in scale.instructions if i.target is not None} <= addresses


def test_several_kernels_and_no_name(cuda_listing):
    cuda_listing(TWO_KERNELS, "sm_80", function="twice")
    with pytest.raises(
        RooflineError, match=r"No kernel '' in this cubin; it has: (twice, scale|scale, twice)\.$"
    ):
        sass.disassemble(aot.compile_cuda(TWO_KERNELS, "sm_80"))


def test_volta_is_read_although_new_disassemblers_refuse_its_name(cuda_listing):
    volta = cuda_listing(TWO_KERNELS, "sm_70", function="scale")
    assert volta.loops[0].count("FMUL") == volta.loops[0].count("LDG") == 1


def test_what_is_no_cubin():
    with pytest.raises(RooflineError, match=r"nvdisasm .* failed"):
        sass.disassemble(b"no cubin".ljust(64))

"""The audit must pass what is right and catch what went wrong in real compilers."""

import pytest
import triton
import triton.language as tl

from roofline.measure import aot, sass
from roofline.measure.audit import Claim, check
from roofline.measure.sass import Instruction, Listing

FMA = r"""
extern "C" __global__ void LAUNCH fma_loop(float* out, float a, float b, int n) {
    float x[CHAINS];
    for (int c = 0; c < CHAINS; ++c) x[c] = out[c * 1024 + threadIdx.x];
#pragma unroll 1
    for (int i = 0; i < n; ++i)
#pragma unroll
        for (int u = 0; u < 8; ++u)
#pragma unroll
            for (int c = 0; c < CHAINS; ++c) x[c] = fmaf(x[c], a, b);
    for (int c = 0; c < KEPT; ++c) out[c * 1024 + threadIdx.x] = x[c];
}
"""

SHARED = r"""
extern "C" __global__ void shared_loop(const float4* source, float* out, int n) {
    __shared__ float4 tile[256];
    tile[threadIdx.x] = source[threadIdx.x];
    __syncthreads();
    const unsigned address = (unsigned)__cvta_generic_to_shared(tile + threadIdx.x);
    float sum = 0;
#pragma unroll 1
    for (int i = 0; i < n; ++i) {
        float4 v;
        asm volatile("ld" VOLATILE ".shared.v4.f32 {%0,%1,%2,%3}, [%4];"
            : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(address));
        sum += v.x + v.y + v.z + v.w;
    }
    out[threadIdx.x] = sum;
}
"""


def fma(cuda_listing, arch, chains=16, kept=None, launch=""):
    return cuda_listing(FMA, arch, [f"-DCHAINS={chains}", f"-DKEPT={kept or chains}", f"-DLAUNCH={launch}"])


def code(*opcodes, registers=None):
    """A loop of these opcodes, closed by a branch, and an EXIT behind it."""
    rows = [(o, "", "") for o in opcodes] + [("BRA", "0x0", "@P0"), ("EXIT", "", "")]
    instructions = tuple(Instruction(16 * i, *row) for i, row in enumerate(rows))
    return Listing(instructions, "kernel", registers)


def failures(listing, **claim):
    return list(check(listing, Claim(**claim)).failures)


@pytest.mark.parametrize("arch", ["sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"])
def test_an_honest_loop_passes(cuda_listing, arch):
    # 16 chains x 8 times unrolled = 128; counter, comparison and branch are 3 to 6 more: below 5 % of 134.
    audit = check(fma(cuda_listing, arch), Claim(counts={"FFMA": 128, "LDG": 0}, overhead=0.05, registers=64))
    assert str(audit) == "fma_loop: as claimed"
    assert audit.passed


def test_dead_code_is_caught(cuda_listing):
    # Only 6 of 16 chains are stored: 10 x 8 of the 128 products vanish.
    audit = check(fma(cuda_listing, "sm_86", kept=6), Claim(counts={"FFMA": 128}))
    assert str(audit) == "fma_loop: expected 128 FFMA in the loop, found 48"


def test_a_loop_that_vanished_is_caught(cuda_listing):
    source = (
        'extern "C" __global__ void none(float a, int n) { for (int i = 0; i < n; ++i) a = fmaf(a, a, a); }'
    )
    audit = check(cuda_listing(source, "sm_80"), Claim(counts={"FFMA": 1}))
    assert str(audit) == "none: expected a loop with FFMA, found none; the whole kernel has 0 FFMA"


def test_spills_are_caught(cuda_listing):
    # 2048 threads per SM leave 65536 / 2048 = 32 registers for 64 chains.
    listing = fma(cuda_listing, "sm_80", chains=64, launch="__launch_bounds__(1024,2)")
    audit = check(listing, Claim(counts={"FFMA": 512}))
    assert audit.failures == (
        f"expected no spills, found {listing.spills} accesses to local memory (LDL, STL)",
    )
    assert listing.registers == 32


def test_hoisted_loads_are_caught(cuda_listing):
    # The address does not change: the assembler loads once, before the loop, although the C compiler was told
    # `asm volatile`. A bandwidth measured with it is fiction.
    claim = Claim(counts={"LDS.128": 1})
    audit = check(cuda_listing(SHARED, "sm_90", ['-DVOLATILE=""']), claim)
    assert (
        str(audit) == "shared_loop: expected a loop with LDS.128, found none; the whole kernel has 1 LDS.128"
    )
    assert check(cuda_listing(SHARED, "sm_90", ['-DVOLATILE=".volatile"']), claim).passed


@triton.jit
def dot_loop(a, b, out, loops, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    left = tl.load(a + rows[:, None] * K + inner[None, :])
    right = tl.load(b + inner[:, None] * N + columns[None, :])
    acc = tl.zeros((M, N), tl.float32)
    for _ in range(loops):
        acc = tl.dot(left, right, acc)
    tl.store(out + rows[:, None] * N + columns[None, :], acc)


# 128 x 128 x 64 multiply-adds. HMMA does 16 x 8 x 16 for one of 4 warps: 512 / 4 = 128.
# HGMMA does 64 x 128 x 16 for all 4 warps: 2 x 4 = 8. UTCHMMA does 128 x 128 x 16 for the whole block: 4.
@pytest.mark.parametrize(
    ("arch", "instruction", "count"),
    [
        (80, "HMMA.16816.F32", 128),
        (90, "HGMMA.64x128x16.F32", 8),
        (100, "UTCHMMA", 4),
        (120, "HMMA.16816.F32", 128),
    ],
)
def test_the_tensor_instruction_of_each_architecture(arch, instruction, count):
    signature = {"a": "*fp16:16", "b": "*fp16:16", "out": "*fp32:16", "loops": "i32"}
    cubin = aot.compile_triton(dot_loop, signature, {"M": 128, "N": 128, "K": 64}, arch)
    audit = check(
        sass.disassemble(cubin), Claim(counts={instruction: count, "FFMA": 0, "LDG": 0}, unrolled=True)
    )
    assert str(audit) == "dot_loop: as claimed"


def test_turing_has_no_tensor_products_in_triton():
    # There `tl.dot` silently becomes FFMA, which a tensor rate must not be measured with.
    signature = {"a": "*fp16:16", "b": "*fp16:16", "out": "*fp32:16", "loops": "i32"}
    cubin = aot.compile_triton(dot_loop, signature, {"M": 16, "N": 16, "K": 16}, 75)
    audit = check(sass.disassemble(cubin), Claim(counts={"HMMA": 1}))
    assert str(audit).startswith(
        "dot_loop: expected a loop with HMMA, found none; the whole kernel has 0 HMMA"
    )


def test_overhead():
    # 4 of 5 instructions, NOP left out, are the claimed ones: 20 % are not.
    listing = code("FFMA", "FFMA", "FFMA", "NOP", "FFMA")
    assert failures(listing, counts={"FFMA": 4}, overhead=0.2) == []
    assert failures(listing, counts={"FFMA": 4}, overhead=0.19) == [
        "expected at most 19% other instructions in the loop, found 1 of 5"
    ]


def test_a_multiple_passes_only_if_unrolling_is_allowed():
    listing = code(*["HMMA", "LDSM"] * 4)
    assert failures(listing, counts={"HMMA": 1, "LDSM": 1}, unrolled=True) == []
    assert check(listing, Claim(counts={"HMMA": 1}, unrolled=True)).iterations == 4
    assert failures(listing, counts={"HMMA": 1}) == ["expected 1 HMMA in the loop, found 4"]
    # 4 / 3 is 1 iteration with one too many; of LDSM there must then be as many as claimed.
    assert failures(listing, counts={"HMMA": 3, "LDSM": 1}, unrolled=True) == [
        "expected 3 HMMA in the loop, found 4",
        "expected 1 LDSM in the loop, found 4",
    ]


def test_counts_must_have_grown_together():
    listing = code("HMMA", "HMMA", "LDSM")
    assert failures(listing, counts={"HMMA": 1, "LDSM": 1}, unrolled=True) == [
        "expected 2 LDSM in the loop (2 iterations unrolled), found 1"
    ]


def test_what_must_not_be_there():
    assert failures(code("FFMA", "LDG.E"), counts={"FFMA": 1, "LDG": 0}) == [
        "expected 0 LDG in the loop, found 1"
    ]


def test_the_whole_kernel():
    listing = code("LDG.E.128", "STG.E.128")
    assert failures(listing, counts={"LDG.128": 1, "STG.128": 1}, scope="kernel") == []
    assert failures(listing, counts={"LDG.128": 2}, scope="kernel") == [
        "expected 2 LDG.128 in the kernel, found 1"
    ]


def test_registers():
    assert failures(code("FFMA", registers=33), counts={"FFMA": 1}, registers=32) == [
        "expected at most 32 registers per thread, found 33"
    ]
    assert failures(code("FFMA", registers=32), counts={"FFMA": 1}, registers=32) == []


def test_every_failure_is_named():
    audit = check(code("FADD", "STL"), Claim(counts={"FFMA": 1, "FADD": 2}))
    assert str(audit) == (
        "kernel: expected 1 FFMA in the loop, found 0; expected 2 FADD in the loop, found 1; "
        "expected no spills, found 1 accesses to local memory (LDL, STL)"
    )
    assert not audit.passed

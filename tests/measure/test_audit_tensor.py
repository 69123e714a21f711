"""Machine code of the tensor microkernels: the loop holds the tensor instructions that the formula counts."""

import pytest
import triton

from roofline.kernels import mma, tensor_dot
from roofline.kernels.raw import defines
from roofline.machine.record import Device
from roofline.measure import aot, sass
from roofline.measure.audit import Claim, check

ARCHITECTURES = (80, 86, 89, 90, 100, 120)
TYPES = {
    "float16": "fp16",
    "bfloat16": "bf16",
    "float32": "fp32",
    "float8_e4m3fn": "fp8e4nv",
    "float8_e5m2": "fp8e5",
    "int8": "i8",
    "int32": "i32",
}

# (instruction, m, n, k of one instruction) on sm_80, 86, 89 and 120: one warp each.
WARP = {
    "tensor_fp16_fp16": ("HMMA.16816.F16", 16, 8, 16),
    "tensor_fp16_fp32": ("HMMA.16816.F32", 16, 8, 16),
    "tensor_bf16_fp32": ("HMMA.16816.F32.BF16", 16, 8, 16),
    "tensor_tf32": ("HMMA.1688.F32.TF32", 16, 8, 8),
    "tensor_fp8_e4m3": ("QMMA.16832.F32.E4M3", 16, 8, 32),
    "tensor_fp8_e5m2": ("QMMA.16832.F32.E5M2", 16, 8, 32),
    "tensor_int8": ("IMMA.16832.S8", 16, 8, 32),
}
# On sm_90 a group of four warps does 64 rows and up to 256 columns (integers: 128), on sm_100 one instruction does
# 128 (or 64) rows and up to 256 columns for the whole block. k is 32 bytes of operands in both.
GROUP = {
    "tensor_fp16_fp16": ("HGMMA.64x{n}x16.F16", 16),
    "tensor_fp16_fp32": ("HGMMA.64x{n}x16.F32", 16),
    "tensor_bf16_fp32": ("HGMMA.64x{n}x16.F32.BF16", 16),
    "tensor_tf32": ("HGMMA.64x{n}x8.F32.TF32", 8),
    "tensor_fp8_e4m3": ("QGMMA.64x{n}x32.F32.E4M3", 32),
    "tensor_fp8_e5m2": ("QGMMA.64x{n}x32.F32.E5M2", 32),
    "tensor_int8": ("IGMMA.64x{n}x32.S8", 32),
}
BLOCK = {"tensor_fp8_e4m3": "UTCQMMA", "tensor_fp8_e5m2": "UTCQMMA", "tensor_int8": "UTCIMMA"}


def instruction(ceiling, arch, o):
    """(pattern, multiply-adds of one instruction, executing units per block)."""
    if arch == 90:
        pattern, k = GROUP[ceiling]
        n = min(o["N"], 128 if ceiling == "tensor_int8" else 256)
        return pattern.format(n=n), 64 * n * k, o["warps"] // 4
    if arch == 100:
        return BLOCK.get(ceiling, "UTCHMMA"), min(o["M"], 128) * min(o["N"], 256) * GROUP[ceiling][1], 1
    pattern, m, n, k = WARP[ceiling]
    return pattern, m * n * k, o["warps"]


# What the audit found in Triton 3.6 and not in 3.8.
OLD_TRITON = {
    ("tensor_int8", 100): "uses IMMA, which one warp executes, in place of UTCIMMA",
    ("tensor_fp16_fp16", 120): "spills with the first variant; the others do not",
}


def device(arch):
    return Device(name="audited", kind="cuda", compute_capability=f"{arch // 10}.{arch % 10}")


def dot_cases():
    for ceiling, (*_, capability) in tensor_dot.PIPES.items():
        for arch in ARCHITECTURES:
            if divmod(arch, 10) >= capability:
                variant = tensor_dot.variants(ceiling, device(arch))[0]
                marks = known_faults(ceiling, arch)
                yield pytest.param(
                    ceiling, arch, variant, id=f"{ceiling}-sm_{arch}-{variant.name}", marks=marks
                )


def known_faults(ceiling, arch):
    version = tuple(int(part) for part in triton.__version__.split(".")[:2])
    reason = OLD_TRITON.get((ceiling, arch)) if version <= (3, 6) else None
    return [pytest.mark.xfail(reason=f"Triton {triton.__version__} {reason}", strict=True)] if reason else []


@pytest.mark.parametrize(("ceiling", "arch", "variant"), dot_cases())
def test_dot(ceiling, arch, variant):
    o = variant.options
    operand, accumulator = (TYPES[name] for name in tensor_dot.PIPES[ceiling][:2])
    signature = {
        "a": f"*{operand}:16",
        "bt": f"*{operand}:16",
        "out": f"*{accumulator}:16",
        "ticks": "*i64:16",
    }
    constants = tensor_dot.meta(ceiling, variant)
    cubin = aot.compile_triton(
        tensor_dot.dot_kernel, {**signature, "loops": "i32"}, constants, arch, num_warps=o["warps"]
    )
    pattern, multiply_adds, units = instruction(ceiling, arch, o)
    count = o["M"] * o["N"] * o["K"] // multiply_adds // units
    # Operands stay in shared memory or registers: nothing is fetched from DRAM in the loop.
    claim = Claim(counts={pattern: count, "LDG": 0, "LDGSTS": 0, "STG": 0, "FFMA": 0}, unrolled=True)
    assert str(check(sass.disassemble(cubin), claim)) == "dot_kernel: as claimed"


# fp64 tensor instruction of each architecture and its m n k. From sm_100 on the larger shape is made of small ones.
DMMA = {
    80: ("DMMA.884", 8 * 8 * 4),
    86: ("DMMA.884", 8 * 8 * 4),
    89: ("DMMA.884", 8 * 8 * 4),
    90: ("DMMA.16x8x16", 16 * 8 * 16),
    100: ("DMMA.8x8x4", 8 * 8 * 4),
    120: ("DMMA.8x8x4", 8 * 8 * 4),
}


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_fp64(cuda_listing, arch):
    variant = mma.variants(device(arch))[0]
    o = variant.options
    pattern, multiply_adds = DMMA[arch]
    products = 8 * o["ROWS8"] * 8 * 4 * o["STEPS4"] * o["TILES"] * o["UNROLL"]
    # One DMMA occupies its pipe for 16 cycles or more (128 fp64 multiply-adds per cycle and SM at most): the few
    # other instructions of a loop of at least 16 are hidden behind it.
    claim = Claim(counts={pattern: products // multiply_adds, "DFMA": 0}, overhead=0.2)
    listing = cuda_listing(mma.SOURCE, f"sm_{arch}", defines(mma.compile_options(variant)))
    assert str(check(listing, claim)) == "mma_fp64: as claimed"

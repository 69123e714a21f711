"""Machine code of the fused multiply-add microkernels: the loop is these instructions and next to nothing else."""

import pytest

from roofline.kernels import fma
from roofline.kernels.raw import defines
from roofline.machine.record import Device
from roofline.measure.audit import Claim, check

THREADS_PER_SM = {70: 2048, 75: 1024, 80: 2048, 86: 1536, 89: 1536, 90: 2048, 100: 2048, 120: 1536}
REGISTERS_PER_SM = 65536
PATTERNS = {"fp32": "FFMA", "fp64": "DFMA", "fp16x2": "HFMA2", "bf16x2": "HFMA2.BF16_V2"}


def device(arch):
    return Device(name="audited", kind="cuda", compute_capability=f"{arch // 10}.{arch % 10}")


def resident(arch, variant, registers):
    """Whether all blocks of a launch run at once; registers are given out by eights."""
    threads = variant.options["THREADS"] * variant.options["BLOCKS"]
    return threads <= THREADS_PER_SM[arch] and threads * -(-registers // 8) * 8 <= REGISTERS_PER_SM


CASES = [
    pytest.param(kernel, arch, id=f"{kernel.ceiling}-sm_{arch}")
    for kernel in fma.MICROKERNELS
    for arch in THREADS_PER_SM
    if divmod(arch, 10) >= kernel.minimum_capability
]


@pytest.mark.parametrize(("kernel", "arch"), CASES)
def test_fma(cuda_listing, kernel, arch):
    at_once = []
    for variant in kernel.variants(device(arch))[:2]:
        options = defines(fma.compile_options(kernel.ceiling, variant))
        listing = cuda_listing(fma.SOURCE, f"sm_{arch}", options)
        # Counter, comparison, branch and a few loads of constants: below 2 % of hundreds of instructions.
        products = variant.options["CHAINS"] * variant.options["UNROLL"]
        claim = Claim(counts={PATTERNS[kernel.ceiling]: products, "LDG": 0}, overhead=0.02)
        assert str(check(listing, claim)) == "fma_loop: as claimed"
        at_once.append(resident(arch, variant, listing.registers))
    # A block that waits for another to end leaves a tail in which the pipe is half empty.
    assert any(at_once)


def test_residency():
    # 4 blocks of 256 threads: 65536 / 1024 = 64 registers. sm_75 holds 1024 threads, 5 blocks of 256 are 1280.
    four, five = (fma.Variant("", {"THREADS": 256, "BLOCKS": blocks}) for blocks in (4, 5))
    assert resident(75, four, 64)
    assert not resident(75, four, 65)
    assert not resident(75, five, 32)
    assert resident(86, five, 32)

"""Machine code of the sweeps and of `wmma`: exactly the instructions that the formulas count, and every byte moved."""

import pytest

from roofline.kernels import intensity, intensity_dot, wmma
from roofline.kernels.raw import defines
from roofline.machine.record import Device
from roofline.measure import aot, sass
from roofline.measure.audit import Claim, check

ARCHITECTURES = (70, 75, 80, 86, 89, 90, 100, 120)
PATTERNS = {"fp32": "FFMA", "fp64": "DFMA", "fp16x2": "HFMA2"}


def device(arch):
    return Device(name="audited", kind="cuda", compute_capability=f"{arch // 10}.{arch % 10}")


def points(ceiling, arch):
    """The last point of one vector; on some architectures also the first point, the longest body and the last point."""
    found = intensity.variants(ceiling, device(arch))
    one = [i for i, v in enumerate(found) if v.options["VECTORS"] == 1]
    written_out = [i for i, v in enumerate(found) if v.options["ROUNDS"] == 1]
    return dict.fromkeys((0, one[-1], written_out[-1], len(found) - 1) if arch in (70, 90) else (one[-1],))


def cases():
    for ceiling in intensity.PIPES:
        for arch in ARCHITECTURES:
            for index in points(ceiling, arch):
                variant = intensity.variants(ceiling, device(arch))[index]
                yield pytest.param(ceiling, arch, variant, id=f"{ceiling}-sm_{arch}-{variant.name}")


@pytest.mark.parametrize(("ceiling", "arch", "variant"), cases())
def test_intensity(cuda_listing, ceiling, arch, variant):
    o = variant.options
    options = defines(intensity.compile_options(ceiling, variant))
    listing = cuda_listing(intensity.SOURCE, f"sm_{arch}", options)
    # Whole occupancy: 65536 registers for 2048 threads leave 32 to each.
    claim = Claim(counts={PATTERNS[ceiling]: o["FMAS"], "LDG": 0, "STG": 0}, registers=32)
    assert str(check(listing, claim)) == "intensity: as claimed"
    # All bytes in 16-byte accesses; the stopwatch stores two words more.
    counts = {"LDG.128": o["VECTORS"], "LDG": o["VECTORS"], "STG.128": o["VECTORS"], "STG": o["VECTORS"] + 2}
    assert str(check(listing, Claim(counts=counts, scope="kernel"))) == "intensity: as claimed"


def test_a_body_of_512_hides_its_loop(cuda_listing):
    variant = intensity.variants("fp32", device(90))[-1]
    options = defines(intensity.compile_options("fp32", variant))
    listing = cuda_listing(intensity.SOURCE, "sm_90", options)
    assert check(listing, Claim(counts={"FFMA": 512}, overhead=0.01)).passed


# Multiply-adds of one instruction. Volta's makes 8 x 8 x 4 for each of four groups of eight threads in as many steps
# as its accumulator has halves: 4 (fp32) or 2 (fp16), so 1024 multiply-adds take 4 or 2 instructions.
WMMA = {
    ("tensor_fp16_fp16", 70): ("HMMA.884.F16", 8 * 8 * 4 * 4 // 2),
    ("tensor_fp16_fp32", 70): ("HMMA.884.F32", 8 * 8 * 4 * 4 // 4),
    ("tensor_fp16_fp16", 75): ("HMMA.1688.F16", 16 * 8 * 8),
    ("tensor_fp16_fp32", 75): ("HMMA.1688.F32", 16 * 8 * 8),
    ("tensor_int8", 75): ("IMMA.8816.S8", 8 * 8 * 16),
    ("tensor_fp16_fp16", 80): ("HMMA.16816.F16", 16 * 8 * 16),
    ("tensor_fp16_fp32", 90): ("HMMA.16816.F32", 16 * 8 * 16),
    ("tensor_int8", 80): ("IMMA.16816.S8", 16 * 8 * 16),
}


@pytest.mark.parametrize("variant", wmma.VARIANTS[:2], ids=lambda v: v.name)
@pytest.mark.parametrize(("ceiling", "arch"), WMMA)
def test_wmma(cuda_listing, ceiling, arch, variant):
    o = variant.options
    pattern, multiply_adds = WMMA[ceiling, arch]
    listing = cuda_listing(wmma.source(ceiling), f"sm_{arch}", defines(wmma.compile_options(variant)))
    count = 16**3 * o["TILES"] * o["UNROLL"] // multiply_adds
    resident = 65536 // (o["THREADS"] * o["BLOCKS"]) // 8 * 8
    claim = Claim(counts={pattern: count, "LDG": 0, "LDS": 0}, overhead=0.05, registers=resident)
    assert str(check(listing, claim)) == "wmma_loop: as claimed"


SIGNATURE = {
    "a": "*fp32:16", "bt": "*fp16:16", "out": "*fp32:16", "ticks": "*i64:16",
    "tiles": "i32", "start": "i32", "groups": "i32", "P": "i32", "R": "i32",
}  # fmt: skip


def forms():
    """Every distinct compilation of the tensor sweep, where one warp and where four execute an instruction."""
    for arch in (80, 86, 90):
        variants = {str(intensity_dot.meta(v)): v for v in intensity_dot.variants(device(arch))}
        for variant in variants.values():
            o = variant.options
            form = f"sm_{arch}-{o['N']} wide{', summed' if o['P'] > 1 else ''}"
            yield pytest.param(arch, variant, id=form)


@pytest.mark.parametrize(("arch", "variant"), forms())
def test_intensity_dot(arch, variant):
    o = variant.options
    cubin = aot.compile_triton(
        intensity_dot.intensity_dot_kernel, SIGNATURE, intensity_dot.meta(variant), arch, intensity_dot.WARPS
    )
    listing = sass.disassemble(cubin)
    n = o["N"]
    # One of four warps makes 16 x 8 x 16 with an HMMA, all four 64 x n x 16 with an HGMMA.
    pattern, count = (f"HGMMA.64x{n}x16.F32", 4) if arch == 90 else ("HMMA.16816.F32", n // 8 * 4)
    registers = 65536 // (128 * intensity_dot.programs_per_sm(variant)) // 8 * 8
    claim = Claim(counts={pattern: count, "LDG": 0, "STG": 0}, registers=registers, unrolled=True)
    assert str(check(listing, claim)) == "intensity_dot_kernel: as claimed"
    # B is n x 64 fp16 in 16-byte loads of 128 threads; a tile of A takes 8 per thread, before the loop and in it.
    loads = n * 64 * 2 // 16 // 128 + 2 * 8
    assert listing.count("LDG") == listing.count("LDG.128") == loads
    # Further tiles of a group go past the registers.
    assert (listing.count("LDGSTS.128") > 0) == (o["P"] > 1)

import pytest
import triton
import triton.language as tl

from roofline.errors import BackendUnavailable, RooflineError
from roofline.measure import aot, nvrtc, sass

EMPTY = 'extern "C" __global__ void empty() {}'


@triton.jit
def copy(a, b, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(a + index, tl.load(b + index))


ARCHITECTURES = ("sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120")


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_cuda_for_every_architecture(cuda_listing, arch):
    assert cuda_listing(EMPTY, arch).count("EXIT") == 1


def test_macros_reach_the_compiler(cuda_listing):
    source = 'extern "C" __global__ void NAME() {}'
    assert cuda_listing(source, "sm_80", ["-DNAME=chosen"]).function == "chosen"


def test_a_mistake_in_the_source_is_shown(cuda_listing):
    cuda_listing(EMPTY, "sm_80")
    with pytest.raises(
        RooflineError, match=r"(?s)refused the source with .*sm_80.*\"nonsense\" is undefined"
    ):
        aot.compile_cuda("__global__ void f() { nonsense; }", "sm_80")


def test_an_architecture_nobody_compiles_for():
    with pytest.raises(BackendUnavailable, match=r"No NVRTC here compiles for sm_20; found: .*pip install"):
        aot.compile_cuda(EMPTY, "sm_20")


def test_an_architecture_that_is_none():
    with pytest.raises(ValueError, match="arch is 'hopper'; expected sm_80"):
        aot.compile_cuda(EMPTY, "hopper")


def test_the_newest_release_that_fits_is_taken():
    # Several releases are loaded side by side; each one lists what it can do.
    releases = nvrtc.installed()
    if not releases:
        pytest.skip("no NVRTC is installed")
    for capability in {a for release in releases for a in release.architectures}:
        assert nvrtc.supporting(capability) is next(r for r in releases if capability in r.architectures)


@pytest.mark.parametrize("aligned", [True, False])
def test_triton_and_the_alignment_of_its_pointers(aligned):
    # 1024 elements of 4 bytes over 2 warps = 16 per thread:
    # 4 accesses of 16 bytes if the pointers allow it, else 16 of 4.
    kind = "*fp32:16" if aligned else "*fp32"
    cubin = aot.compile_triton(copy, {"a": kind, "b": kind}, {"BLOCK": 1024}, 86, num_warps=2)
    code = sass.disassemble(cubin)
    assert code.function == "copy"
    assert (code.count("LDG.128"), code.count("LDG")) == ((4, 4) if aligned else (0, 16))

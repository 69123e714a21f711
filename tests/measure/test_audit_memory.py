"""Machine code of the memory microkernels: 16-byte accesses, as many as the formula counts, none of them hoisted."""

import re

import pytest

from roofline.kernels import cache, latency, shared, stream_cuda, stream_triton
from roofline.kernels.raw import defines
from roofline.machine.record import Device
from roofline.measure import aot, sass
from roofline.measure.audit import Claim, check

TRITON_ARCHITECTURES = (80, 86, 89, 90, 100, 120)
ARCHITECTURES = (70, 75, *TRITON_ARCHITECTURES)
LOADS = {"read": 1, "write": 0, "copy": 1, "triad": 2}
STORES = {"read": 0, "write": 1, "copy": 1, "triad": 1}


def device(arch):
    return Device(
        name="audited", kind="cuda", compute_capability=f"{arch // 10}.{arch % 10}", l2_bytes=40 << 20
    )


def streams(kernels, architectures):
    """One case per operation, architecture and first variant."""
    for kernel in kernels:
        for arch in architectures:
            operation, variant = kernel.ceiling.removeprefix("dram_"), kernel.variants(device(arch))[0]
            yield pytest.param(operation, arch, variant, id=f"{operation}-sm_{arch}-{variant.name}")


@pytest.mark.parametrize(("operation", "arch", "variant"), streams(stream_cuda.MICROKERNELS, ARCHITECTURES))
def test_cuda_stream(cuda_listing, operation, arch, variant):
    options = defines(stream_cuda.compile_options(variant))
    listing = cuda_listing(stream_cuda.SOURCE, f"sm_{arch}", options, f"{operation}_stream")
    loads, stores = (n[operation] * variant.options["VECTORS"] for n in (LOADS, STORES))
    # All accesses are of 16 bytes, but for the sum of a warp that `read` stores.
    sums = 1 if operation == "read" else 0
    counts = {"LDG.128": loads, "LDG": loads, "STG.128": stores, "STG": stores + sums}
    assert str(check(listing, Claim(counts=counts, scope="kernel"))) == f"{operation}_stream: as claimed"


SIGNATURES = {
    "read": {"b": "*fp32:16", "out": "*fp32:16", "n": "i32:16"},
    "write": {"a": "*i32:16", "n": "i32:16", "seed": "i32"},
    "copy": {"a": "*fp32:16", "b": "*fp32:16", "n": "i32:16"},
    "triad": {"a": "*fp32:16", "b": "*fp32:16", "c": "*fp32:16", "q": "fp32", "n": "i32:16"},
}


@pytest.mark.parametrize(
    ("operation", "arch", "variant"), streams(stream_triton.MICROKERNELS, TRITON_ARCHITECTURES)
)
def test_triton_stream(operation, arch, variant):
    o = variant.options
    kernel = getattr(stream_triton, f"{operation}_kernel")
    constants = {"BLOCK": o["BLOCK"], "STAGES": o["STAGES"]}
    cubin = aot.compile_triton(kernel, SIGNATURES[operation], constants, arch, num_warps=o["warps"])
    vectors = o["BLOCK"] // (4 * 32 * o["warps"])
    if operation == "read":
        # Pipelined: copied past the registers to shared memory, and read from there, one vector each.
        claim = Claim(counts={"LDGSTS.128": vectors, "LDS.128": vectors, "LDG": 0, "STG": 0})
    else:
        loads, stores = LOADS[operation] * vectors, STORES[operation] * vectors
        counts = {"LDG.128": loads, "LDG": loads, "STG.128": stores, "STG": stores}
        claim = Claim(counts=counts, scope="kernel")
    assert str(check(sass.disassemble(cubin), claim)) == f"{operation}_kernel: as claimed"


def first_variants(kernels):
    for kernel in kernels:
        for arch in ARCHITECTURES:
            variant = kernel.variants(device(arch))[0]
            yield pytest.param(kernel.ceiling, arch, variant, id=f"{kernel.ceiling}-sm_{arch}-{variant.name}")


@pytest.mark.parametrize(("ceiling", "arch", "variant"), first_variants(cache.MICROKERNELS))
def test_cache(cuda_listing, ceiling, arch, variant):
    level, kind = ceiling.split("_")[:2]
    function = f"cache_{kind}"
    options = defines(cache.compile_options(ceiling, variant))
    listing = cuda_listing(cache.SOURCE, f"sm_{arch}", options, function)
    vectors = variant.options["VECTORS"]
    access, other = ("LDG", "STG") if kind == "read" else ("STG", "LDG")
    # "GPU": coherent among all SMs, which only L2 is; such an access passes L1 by.
    counts = {
        f"{access}.128": vectors,
        access: vectors,
        f"{access}.GPU": vectors if level == "l2" else 0,
        other: 0,
    }
    assert str(check(listing, Claim(counts=counts))) == f"{function}: as claimed"


@pytest.mark.parametrize(("ceiling", "arch", "variant"), first_variants(shared.MICROKERNELS))
def test_shared(cuda_listing, ceiling, arch, variant):
    listing = cuda_listing(shared.SOURCE, f"sm_{arch}", defines(shared.compile_options(variant)))
    claim = Claim(counts={"LDS.128": variant.options["LOADS"], "LDS": variant.options["LOADS"], "LDG": 0})
    assert str(check(listing, claim)) == "shared_read: as claimed"


@pytest.mark.parametrize(("ceiling", "arch", "variant"), first_variants(latency.MICROKERNELS))
def test_latency(cuda_listing, ceiling, arch, variant):
    listing = cuda_listing(latency.SOURCE, f"sm_{arch}", defines(latency.compile_options(ceiling)))
    claim = Claim(counts={"LDG.64": 16, "LDG.GPU": 0 if ceiling == "latency_l1" else 16}, overhead=0.25)
    assert str(check(listing, claim)) == "chase: as claimed"
    # Each load takes its address from the one before and nothing is computed in between.
    loads = [i.operands for i in listing.hottest(["LDG"]).instructions if i.matches("LDG")]
    results = [re.match(r"R\d+", operands)[0] for operands in loads]
    addresses = [re.findall(r"R\d+", operands)[-1] for operands in loads]
    assert addresses[1:] == results[:-1]

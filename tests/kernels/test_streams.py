"""DRAM streams: bytes, rotation and the check, with the operations done by torch, right or wrong."""

import pytest
import torch

from roofline.kernels import stream_cuda, stream_triton, streams
from roofline.kernels.microkernel import Variant

N = 1 << 20  # four caches of 1 MiB, fp32
VARIANT = Variant("", {"BLOCK": 1024, "per_sm": 0})


def grid_of(n):
    return -(-n // 1024)


def right(operation):
    """What the kernels do, by torch."""

    def launch(grid, tensors):
        if operation == "read":
            tensors[1].copy_(sums(tensors[0], grid))
        elif operation == "write":
            streams.as_words(tensors[0]).copy_(streams.written(tensors[0].numel(), "cpu"))
        elif operation == "copy":
            tensors[0].copy_(tensors[1])
        else:
            torch.add(tensors[1], tensors[2], alpha=0.4375, out=tensors[0])

    return launch


def sums(b, grid):
    return stream_triton.partial_sums(VARIANT, b, grid)


def job(operation, arena, launch=None, scale=1.0):
    return streams.prepare(operation, arena, scale, grid_of, launch or right(operation), sums)


@pytest.mark.parametrize(("operation", "per_element"), [("read", 4), ("write", 4), ("copy", 8), ("triad", 12)])
def test_bytes_are_those_of_every_array_once(cpu_arena, operation, per_element):
    made = job(operation, cpu_arena())
    assert made.work == per_element * N and made.buffer_bytes == 4 * N
    assert job(operation, cpu_arena(), scale=0.5).work == per_element * N / 2


@pytest.mark.parametrize("operation", streams.OPERATIONS)
def test_a_right_stream_is_believed(cpu_arena, operation):
    assert job(operation, cpu_arena()).check() <= streams.TOLERANCE[operation]


@pytest.mark.parametrize("operation", streams.OPERATIONS)
def test_a_stream_that_stops_one_element_early_is_refused(cpu_arena, operation):
    def lazy(grid, tensors):
        if operation == "read":
            tensors[1].copy_(sums(tensors[0], grid))
            tensors[1][-1] -= tensors[0][-1]
        else:
            right(operation)(grid, [t[:-1] for t in tensors])

    made = job(operation, cpu_arena(), lazy)
    assert made.check() > streams.TOLERANCE[operation]


def test_a_triad_with_another_factor_is_refused(cpu_arena):
    made = job("triad", cpu_arena(), lambda grid, t: torch.add(t[1], t[2], alpha=0.4376, out=t[0]))
    assert made.check() > streams.TOLERANCE["triad"]


@pytest.mark.parametrize("operation", streams.OPERATIONS)
def test_sources_stay_random_and_every_buffer_takes_part(cpu_arena, operation):
    arena = cpu_arena()
    arrays = arena.arrays(4, 1.0)
    before = [a.clone() for a in arrays]
    touched = []
    made = job(operation, arena, lambda grid, tensors: touched.append(tensors) or right(operation)(grid, tensors))
    for i in range(4):
        made.run(i)
    written = {"read": 0, "write": 2, "copy": 2, "triad": 2}[operation]
    assert sum(not torch.equal(a, b) for a, b in zip(arrays, before, strict=True)) == written
    # Consecutive launches never begin with the same buffer: it would still be in the cache.
    first = [tensors[0].data_ptr() for tensors in touched]
    assert first[0] != first[1] and first[:2] == first[2:]


def test_words_written_are_distinct_and_known():
    # 0x9E3779B1 is odd, so multiples of it repeat only after 2^32.
    words = streams.written(5000, "cpu")
    assert words.unique().numel() == 5000
    assert [w % 2**32 for w in words[:3].tolist()] == [(i * 0x9E3779B1 + 123456789) % 2**32 for i in range(3)]


# --- CUDA C ---

CUDA = [(operation, variant) for operation in streams.OPERATIONS for variant in stream_cuda.VARIANTS[operation]]
IDS = [f"{operation}-{variant.name}" for operation, variant in CUDA]


def cuda(name, options, grid, block, *arguments):
    """The streams of `stream_cuda.SOURCE` by torch; sums go warp by warp, in a loop as simple as possible."""
    vectors = options["VECTORS"]
    if name == "write_stream":
        right("write")(grid, arguments)
    elif name == "copy_stream":
        right("copy")(grid, arguments)
    elif name == "triad_stream":
        assert arguments[3] == 0.4375
        right("triad")(grid, arguments)
    else:
        b, out, n4 = arguments
        padded = torch.zeros(grid * block * vectors * 4)
        padded[: 4 * n4] = b
        out.zero_()
        thread_sums = padded.view(grid * vectors, block, 4).double().sum(2)
        for row in range(grid * vectors):
            first = row // vectors * (block // 32)
            out[first : first + block // 32] += thread_sums[row].view(-1, 32).sum(1).float()


def prepared(operation, variant, arena):
    kernel = next(k for k in stream_cuda.MICROKERNELS if k.ceiling == f"dram_{operation}")
    return kernel.prepare(variant, arena, 1.0)


@pytest.mark.parametrize(("operation", "variant"), CUDA, ids=IDS)
def test_every_cuda_variant_agrees_with_its_reference(emulate, cpu_arena, operation, variant):
    emulate(stream_cuda, cuda)
    assert prepared(operation, variant, cpu_arena()).check() <= streams.TOLERANCE[operation]


@pytest.mark.parametrize(("operation", "variant"), CUDA, ids=IDS)
def test_every_element_has_its_thread(emulate, cpu_arena, operation, variant):
    launches = emulate(stream_cuda)
    prepared(operation, variant, cpu_arena()).run(0)
    ((grid, block, arguments),) = launches
    per_block = 4 * variant.options["VECTORS"] * block
    assert block == variant.options["THREADS"] and arguments[-1] == N // 4
    assert (grid - 1) * per_block < N <= grid * per_block


def test_cache_policies_came_with_ampere(cpu_arena):
    for operation in ("copy", "triad"):
        turing = stream_cuda.variants(operation, cpu_arena("7.5").device)
        ampere = stream_cuda.variants(operation, cpu_arena("8.0").device)
        assert {v.options["POLICY"] for v in turing} == {0} and {v.options["POLICY"] for v in ampere} == {0, 1}


# --- Triton: the launcher; the kernels themselves are in test_stream_triton.py ---


@pytest.mark.parametrize("variant", stream_triton.read_variants(None), ids=lambda v: v.name)
def test_a_persistent_grid_does_not_grow_with_the_array(cpu_arena, variant):
    grids = {stream_triton.grid_of(variant, n, cpu_arena().device) for n in (1, N, 100 * N)}
    assert grids == {3 * variant.options["per_sm"]}


@pytest.mark.parametrize("variant", stream_triton.write_variants(None), ids=lambda v: v.name)
@pytest.mark.parametrize("n", [1, 511, 512, 513, N])
def test_a_full_grid_covers_the_array(variant, n):
    block, grid = variant.options["BLOCK"], stream_triton.grid_of(variant, n, None)
    assert (grid - 1) * block < n <= grid * block

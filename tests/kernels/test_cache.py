"""Caches: the bytes a launch claims are those its blocks sweep, and the check notices a sweep that is missing."""

import numpy as np
import pytest
import torch

from roofline.kernels import cache, shared
from roofline.kernels.microkernel import Variant

CEILINGS = tuple(cache.HINTS)
VARIANTS = cache.variants(None)
SMALL = Variant("small", {"VECTORS": 2, "THREADS": 32, "BLOCKS": 2})
MASK = 2**32


def sweep(missing=0):
    """The kernels of `cache.SOURCE` on NumPy words, block by block; reading may leave out some vectors."""

    def kernel(name, options, grid, block, words, second, chunk4, stride4, sweeps):
        vectors = words.numpy().view(np.uint32).reshape(-1, 4)
        for b in range(grid):
            if name == "cache_write":
                i = (b * stride4 + np.arange(chunk4))[:, None] * 4 + np.arange(4)
                vectors[b * stride4 : b * stride4 + chunk4] = (i * 0x9E3779B1 + int(second)) % MASK
                continue
            chunk = vectors[b * stride4 : b * stride4 + chunk4].sum(1, dtype=np.uint64)
            by_thread = chunk.reshape(-1, block).sum(0) * int(sweeps)
            if missing:
                by_thread[0] -= chunk[::block][:missing].sum()
            second[b] = torch.from_numpy((by_thread % MASK).astype(np.uint32).view(np.int32))

    return kernel


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
@pytest.mark.parametrize("ceiling", CEILINGS)
def test_work_is_what_all_blocks_sweep(emulate, cpu_arena, ceiling, variant):
    launches = emulate(cache)
    job = cache.prepare(ceiling, variant, cpu_arena(), 1.0)
    job.run(0)
    ((grid, block, (words, _, chunk4, stride4, sweeps)),) = launches
    assert job.work == 16 * int(chunk4) * grid * int(sweeps)
    assert (grid, block) == (3 * variant.options["BLOCKS"], variant.options["THREADS"])
    # Every block stays inside the set, in whole steps.
    assert chunk4 % (variant.options["VECTORS"] * block) == 0
    assert 16 * ((grid - 1) * int(stride4) + int(chunk4)) <= 4 * words.numel() == job.buffer_bytes


@pytest.mark.parametrize("ceiling", CEILINGS)
def test_the_set_fits_its_cache(emulate, cpu_arena, ceiling):
    emulate(cache)
    # L1 holds at least 96 KiB from Volta on; L2 here 1 MiB.
    most = 96 << 10 if ceiling == "l1_read" else 1 << 20
    assert all(cache.prepare(ceiling, v, cpu_arena(), 1.0).buffer_bytes <= most for v in VARIANTS)


@pytest.mark.parametrize("ceiling", CEILINGS)
def test_half_the_work(emulate, cpu_arena, ceiling):
    emulate(cache)
    full, half = (cache.prepare(ceiling, VARIANTS[0], cpu_arena(), scale).work for scale in (1.0, 0.5))
    assert half / full == pytest.approx(0.5, rel=0.02)


@pytest.mark.parametrize("variant", [SMALL, VARIANTS[0], VARIANTS[3]], ids=lambda v: v.name)
@pytest.mark.parametrize("ceiling", CEILINGS)
def test_a_right_sweep_is_believed(emulate, cpu_arena, ceiling, variant):
    emulate(cache, sweep())
    assert cache.prepare(ceiling, variant, cpu_arena(), 1.0).check() == 0


@pytest.mark.parametrize("ceiling", ["l1_read", "l2_read", "l2_read_shared"])
def test_one_vector_too_few_is_refused(emulate, cpu_arena, ceiling):
    emulate(cache, sweep(missing=1))
    # Thread 0 of each of the 6 blocks is wrong.
    assert cache.prepare(ceiling, SMALL, cpu_arena(), 1.0).check() == 6


@pytest.mark.parametrize("ceiling", CEILINGS)
def test_nothing_done_is_refused(emulate, cpu_arena, ceiling):
    emulate(cache)
    assert cache.prepare(ceiling, SMALL, cpu_arena(), 1.0).check() > 0


def test_points_of_a_sweep_rise_past_their_cache(cpu_arena):
    device = cpu_arena().device
    for ceiling, most in (("l1_read", 2 << 20), ("l2_read", 4 << 20)):
        sizes = [point.x for point in cache.points(ceiling, device)]
        assert sizes == sorted(set(sizes)) and sizes[-1] == pytest.approx(most, rel=0.1)


# --- shared memory ---


def shared_read(loops_missing=0):
    def kernel(name, options, grid, block, source, out, loops):
        tile = source.long().view(options["LOADS"], block, 4).sum((0, 2))
        total = (tile * (int(loops) - loops_missing)) % MASK
        out.copy_(torch.where(total >= MASK // 2, total - MASK, total).int().expand_as(out))

    return kernel


@pytest.mark.parametrize("variant", shared.variants(None), ids=lambda v: v.name)
def test_shared_memory(emulate, cpu_arena, variant):
    launches = emulate(shared, shared_read())
    job = shared.prepare(variant, cpu_arena(), 1.0)
    assert job.check() == 0
    job.run(0)
    grid, block, (_, _, loops) = launches[-1]
    assert job.work == 16 * variant.options["LOADS"] * int(loops) * grid * block
    # A block has at most 48 KiB without asking for more.
    assert job.buffer_bytes == 16 * variant.options["LOADS"] * block <= 48 << 10


def test_a_loop_of_shared_loads_too_few_is_refused(emulate, cpu_arena):
    emulate(shared, shared_read(loops_missing=1))
    assert shared.prepare(shared.variants(None)[0], cpu_arena(), 1.0).check() > 0

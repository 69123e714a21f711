"""Buffers of the DRAM streams: large enough, random, and smaller with a warning where memory is short."""

import pytest
import torch

from roofline.errors import OutOfDeviceMemory
from roofline.machine.record import Device
from roofline.measure.arena import TorchArena

L2 = 1 << 20
DEVICE = Device(name="toy", kind="cuda", l2_bytes=L2)
CPU = torch.device("cpu")
PLENTY = 1 << 40


def arena(free_bytes=PLENTY, dram_bytes_per_s=None, device=DEVICE):
    return TorchArena(device, CPU, free_bytes, dram_bytes_per_s, [])


@pytest.fixture
def capacity(monkeypatch):
    """Lets torch.empty fail as it does on a GPU where other buffers already take what `mem_get_info` called free."""

    def limit(most):
        allocate = torch.empty

        def empty(n, **options):
            if n * 4 > most:
                raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {n * 4} bytes")
            return allocate(n, **options)

        monkeypatch.setattr(torch, "empty", empty)

    return limit


def size_of(array):
    return array.numel() * array.element_size()


def test_buffers_are_four_times_the_cache_and_distinct():
    arrays = arena().arrays(3, 1.0)
    assert [size_of(a) for a in arrays] == [4 * L2] * 3
    assert len({a.data_ptr() for a in arrays}) == 3


def test_fast_memory_gets_buffers_that_keep_it_busy():
    # 0.4 ms at 100 GB/s are 40 MB, rounded down to whole 256 KiB: 152 x 262144 bytes.
    (array,) = arena(dram_bytes_per_s=1e11).arrays(1, 1.0)
    assert size_of(array) == 152 * 262144


def test_random_and_not_constant():
    (array,) = arena().arrays(1, 1.0)
    assert array.min() < -0.99 and array.max() > 0.99
    assert array.std().item() == pytest.approx(3**-0.5, rel=0.01)  # uniform over -1 ... 1


def test_half_the_work_is_the_front_of_the_same_memory():
    made = arena()
    (whole,), (half,) = made.arrays(1, 1.0), made.arrays(1, 0.5)
    assert half.numel() * 2 == whole.numel()
    assert half.data_ptr() == whole.data_ptr()


def test_buffers_are_allocated_once_until_released():
    made = arena()
    first = made.arrays(2, 1.0)
    assert [a.data_ptr() for a in made.arrays(2, 1.0)] == [a.data_ptr() for a in first]
    made.release()
    assert made.arrays(2, 1.0)[0] is not first[0]


def test_short_memory_means_smaller_buffers_and_says_so():
    # Wanted 0.4 ms x 1e11 B/s = 40 MB each; 60 % of 80 MB for 4 are 12 MB each, above 4 x 1 MiB.
    made = arena(free_bytes=80_000_000, dram_bytes_per_s=1e11)
    arrays = made.arrays(4, 1.0)
    assert 4 * L2 <= size_of(arrays[0]) <= 12_000_000
    assert made.warnings == ["memory is short: DRAM buffers of 12 MB instead of 40 MB"]


def test_memory_that_runs_out_while_allocating_halves_the_buffers(capacity):
    # 40 MB fails, 20 MB fails, 10 MB fits.
    capacity(12_000_000)
    made = arena(dram_bytes_per_s=1e11)
    assert size_of(made.arrays(2, 1.0)[0]) == 10_000_000 // 262144 * 262144
    assert made.warnings == ["memory is short: DRAM buffers of 10 MB instead of 40 MB"]


def test_never_below_four_times_the_cache(capacity):
    capacity(4 * L2 - 1)
    made = arena(dram_bytes_per_s=1e11)
    with pytest.raises(OutOfDeviceMemory, match=r"4 x the last-level cache\) do not fit into .* Free some"):
        made.arrays(2, 1.0)
    assert made.warnings == []


@pytest.mark.parametrize("free_bytes", [0, 1, 2 * 4 * L2])
def test_free_memory_below_the_minimum_is_refused_without_a_try(free_bytes):
    # 60 % of the free memory must hold both buffers.
    with pytest.raises(OutOfDeviceMemory, match="2 buffers of 4 MB"):
        arena(free_bytes=free_bytes).arrays(2, 1.0)


def test_an_unknown_cache_is_taken_for_4_mib():
    assert size_of(arena(device=Device(name="x", kind="cuda")).arrays(1, 1.0)[0]) == 16 << 20


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"])
def test_floats_are_normal(dtype):
    values = arena().random((100, 100), dtype)
    assert values.shape == (100, 100) and values.dtype == getattr(torch, dtype)
    assert values.double().std().item() == pytest.approx(1, rel=0.05)
    assert arena().random((10_000,), dtype, 0.25).double().std().item() == pytest.approx(0.25, rel=0.05)


def test_integers_are_uniform():
    small, wide = arena().random((10_000,), "int8"), arena().random((10_000,), "int32")
    assert (small.min(), small.max()) == (-64, 63)
    assert wide.dtype == torch.int32 and wide.min() < -(2**30) and wide.max() > 2**30


def test_unwritten_output_shows():
    assert arena().empty((2, 3), "float16").isnan().all()
    assert (arena().empty((2, 3), "int32") == -(2**31)).all()


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "int32"])
def test_zeros_for_once(dtype):
    made = arena()
    with made.filled(zeros=True):
        assert (made.random((50,), dtype) == 0).all() and made.random((50,), dtype).dtype == getattr(torch, dtype)
    assert (made.random((50,), dtype) != 0).any()


def test_zeros_end_with_a_failure():
    made = arena()
    with pytest.raises(RuntimeError), made.filled(zeros=True):
        raise RuntimeError
    assert not made.zeros

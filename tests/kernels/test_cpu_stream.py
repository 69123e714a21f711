"""CPU streams: each form against its reference, the bytes it claims, and what it must not touch."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from roofline.kernels import cpu_stream
from roofline.machine.record import Device
from roofline.measure.cpu import CpuArena

CASES = [(operation, form) for operation, forms in cpu_stream.FORMS.items() for form in forms]
IDS = [f"{operation}-{form.name}" for operation, form in CASES]
ELEMENTS = 65536  # 4 caches of 64 KiB, fp32


@pytest.fixture
def arena():
    return CpuArena(Device(name="toy", kind="cpu", sm_count=3, l2_bytes=1 << 16), 1 << 30, [])


@pytest.mark.parametrize(("operation", "form"), CASES, ids=IDS)
def test_output_agrees_with_its_reference(arena, operation, form):
    job = cpu_stream._prepare(operation, form, arena, 1.0)
    assert job.check() <= cpu_stream.TOLERANCE[operation]


# Half of the numbers may hold the largest: a maximum is tried below.
@pytest.mark.parametrize(("operation", "form"), [case for case in CASES if case[1].function is not np.max])
def test_a_form_that_skips_the_end_is_caught(arena, operation, form):
    def lazy(*arrays):
        return form.function(*(a[: len(a) // 2] for a in arrays))

    job = cpu_stream._prepare(operation, replace(form, function=lazy), arena, 1.0)
    assert not job.check() <= cpu_stream.TOLERANCE[operation]


def test_a_maximum_of_the_wrong_sign_is_caught(arena):
    form = next(f for f in cpu_stream.FORMS["read"] if f.function is np.max)
    job = cpu_stream._prepare("read", replace(form, function=np.min), arena, 1.0)
    assert job.check() > cpu_stream.TOLERANCE["read"]


# Arrays an element touches, 4 bytes each: sum and max 1, dot 2, write 1, copy 2, triad 3.
ARRAYS = {"torch.sum": 1, "max of slices": 1, "torch.dot": 2, "dot, BLAS threads": 2}


@pytest.mark.parametrize(("operation", "form"), CASES, ids=IDS)
def test_work_is_the_bytes_of_every_array_once(arena, operation, form):
    arrays = ARRAYS.get(form.name) or {"write": 1, "copy": 2, "triad": 3}[operation]
    job = cpu_stream._prepare(operation, form, arena, 1.0)
    assert job.work == 4 * ELEMENTS * arrays
    assert job.buffer_bytes == 4 * ELEMENTS


@pytest.mark.parametrize(("operation", "form"), CASES, ids=IDS)
def test_sources_stay_random_and_both_targets_are_written_in_turn(arena, operation, form):
    arrays = arena.arrays(4, 1.0)
    before = [a.clone() for a in arrays]
    job = cpu_stream._prepare(operation, form, arena, 1.0)
    job.run(0)
    changed = [not torch.equal(a, b) for a, b in zip(arrays, before, strict=True)]
    assert changed == [bool(form.writes), False, False, False]
    job.run(1)
    changed = [not torch.equal(a, b) for a, b in zip(arrays, before, strict=True)]
    assert changed == [bool(form.writes), bool(form.writes), False, False]


@pytest.mark.parametrize("n", [1, 7, 8, 9, 63, 64, 65, 1000])
def test_triad_in_chunks_at_their_edges(n):
    b, c = np.random.default_rng(n).standard_normal((2, n)).astype(np.float32)
    a = np.full(n, np.nan, np.float32)
    cpu_stream.triad_in_cache(a, b, c, chunk=8)
    # One rounding of the product and one of the sum, each at most 2^-24 of terms below 10.
    np.testing.assert_allclose(a, b.astype(float) + 0.4375 * c, atol=10 * 2**-23)


def test_written_word_is_four_equal_bytes():
    # 0x3F3F3F3F: exponent 126 - 127 = -1, mantissa 0x3F3F3F / 2^23; (1 + 4144959 / 8388608) / 2 = 0.747058808…
    assert abs(cpu_stream.WORD - 0.747058808) < 1e-8


def test_variants_name_the_threads_and_each_backend_competes_for_each_ceiling():
    device = Device(name="toy", kind="cpu", sm_count=6)
    asked = {(k.ceiling, k.backend) for k in cpu_stream.MICROKERNELS}
    assert asked == {
        (f"dram_{o}", backend) for o in ("read", "write", "copy", "triad") for backend in ("torch", "numpy")
    }
    assert all(v.options["threads"] == 6 for k in cpu_stream.MICROKERNELS for v in k.variants(device))

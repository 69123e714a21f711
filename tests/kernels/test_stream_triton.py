"""The Triton streams under the interpreter: awkward sizes, and no byte beyond the array."""

import numpy as np
import pytest
import torch

from roofline.kernels import stream_triton, streams

pytestmark = pytest.mark.xdist_group("interpreter")
SENTINEL = -7.0
# One element, one short of a block, a block, one more, and a prime number of several blocks.
SIZES = (1, 511, 512, 513, 2503)


def array(n, fill=None):
    """n elements that start off any 16-byte boundary, between two that nobody may touch."""
    whole = torch.full((n + 2,), SENTINEL)
    whole[1:-1] = torch.randn(n) if fill is None else fill
    return whole, whole[1:-1]


def untouched(whole):
    return whole[0] == SENTINEL and whole[-1] == SENTINEL


def blocks(n, block=512):
    return (-(-n // block),)


@pytest.mark.parametrize("n", SIZES)
def test_write(interpret, n):
    whole, a = array(n, float("nan"))
    interpret(
        stream_triton.write_kernel, blocks(n), a.view(torch.int32), n, streams.SEED, BLOCK=512, STAGES=1
    )
    # index x 0x9E3779B1 + seed modulo 2^32, in unsigned words; the kernel multiplies signed ones.
    expected = np.arange(n, dtype=np.uint32) * np.uint32(0x9E3779B1) + np.uint32(streams.SEED)
    assert np.array_equal(a.numpy().view(np.uint32), expected)
    assert untouched(whole)


@pytest.mark.parametrize("n", SIZES)
def test_copy(interpret, n):
    (whole, a), (_, b) = array(n, float("nan")), array(n)
    interpret(stream_triton.copy_kernel, blocks(n), a, b, n, BLOCK=512, STAGES=1)
    assert torch.equal(a, b)
    assert untouched(whole)


@pytest.mark.parametrize("n", SIZES)
def test_triad(interpret, n):
    (whole, a), (_, b), (_, c) = array(n, float("nan")), array(n), array(n)
    interpret(stream_triton.triad_kernel, blocks(n), a, b, c, streams.Q, n, BLOCK=512, STAGES=1)
    # Two roundings of 2^-24 at most, relative to |b| + q |c| < 8 for normal numbers.
    assert (a.double() - (b.double() + 0.4375 * c.double())).abs().max() < 8 * 2 * 2**-24
    assert untouched(whole)


# Programs: one for all blocks, as many as blocks or not a divisor of them, and more than there are blocks.
@pytest.mark.parametrize("programs", [1, 3, 5, 8])
@pytest.mark.parametrize("n", SIZES)
def test_read(interpret, n, programs):
    _, b = array(n)
    whole, out = array(programs, float("nan"))
    interpret(stream_triton.read_kernel, (programs,), b, out, n, BLOCK=512, STAGES=2)
    # Program p sums blocks p, p + programs, …; a program without a block leaves 0.
    numbers = b.double()
    expected = [
        sum(numbers[i : i + 512].sum() for i in range(512 * p, n, 512 * programs)) for p in range(programs)
    ]
    assert torch.allclose(out.double(), torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-4)
    assert untouched(whole)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("variant", stream_triton.read_variants(None), ids=lambda v: v.name)
def test_reference_of_read(variant, n):
    # What the kernel is compared with on the device: the sums above for any variant, in all the sum of b.
    b = torch.randn(n)
    sums = stream_triton.partial_sums(variant, b, 6)
    assert sums.shape == (6,)
    assert torch.allclose(sums.sum(), b.double().sum(), rtol=0, atol=1e-9)
    assert torch.allclose(sums[0], b[: variant.options["BLOCK"]].double().sum(), rtol=0, atol=1e-9)

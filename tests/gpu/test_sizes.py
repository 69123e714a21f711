"""The streams and products on the GPU at sizes that fit no block, and no byte beyond the array."""

import pytest
import torch

from roofline.kernels import stream_cuda, stream_triton, streams, tensor_dot
from roofline.kernels.microkernel import relative_error
from roofline.machine.record import Device

pytestmark = pytest.mark.gpu
SENTINEL = -7.0
SIZES = (1, 3, 511, 512, 513, 8191, 8193, 100_003)
GPU = Device(name="any", kind="cuda", compute_capability="9.0", sm_count=8)


def array(n, fill=None, front=4):
    """n elements on the GPU between some that nobody may touch; `front` = 1 puts them off any 16-byte boundary."""
    whole = torch.full((n + front + 4,), SENTINEL, device="cuda:0")
    part = whole[front : front + n]
    part.copy_(torch.randn(n) if fill is None else torch.full((n,), fill))
    return whole, part


def untouched(whole, n, front=4):
    return bool((whole[:front] == SENTINEL).all() and (whole[front + n :] == SENTINEL).all())


def error_of(operation, launch, sums, grid, n, front=4):
    """Relative error of one run and whether its neighbours are as they were."""
    (whole, a), (_, b), (_, c) = array(n, float("nan"), front), array(n, front=front), array(n, front=front)
    if operation == "read":
        whole, out = array(grid, float("nan"))
        launch(grid, [b, out])
        expected = sums(b, grid)
        # Relative to the size of the terms: sums of random numbers may be near zero.
        error = (out.double() - expected).abs().max().item() / max(1.0, b.abs().sum().item() / grid)
        return error, untouched(whole, grid)
    launch(grid, [a, b, c][: streams.ARRAYS[operation]])
    reference = {"copy": b, "triad": b.double() + streams.Q * c.double()}.get(operation)
    if operation == "write":
        return relative_error(streams.as_words(a), streams.written(n, a.device)), untouched(whole, n, front)
    return relative_error(a, reference), untouched(whole, n, front)


@pytest.mark.parametrize("front", [1, 4], ids=["unaligned", "aligned"])
@pytest.mark.parametrize("operation", streams.OPERATIONS)
def test_triton_streams(operation, front):
    variants = stream_triton.read_variants(GPU) if operation == "read" else stream_triton.write_variants(GPU)
    found = {}
    for variant in variants:
        for n in SIZES:
            found[variant.name, n] = error_of(
                operation,
                lambda grid, tensors, v=variant: stream_triton.launch(operation, v, grid, tensors),
                lambda b, grid, v=variant: stream_triton.partial_sums(v, b, grid),
                stream_triton.grid_of(variant, n, GPU),
                n,
                front,
            )
    assert {k: v for k, v in found.items() if not (v[0] <= streams.TOLERANCE[operation] and v[1])} == {}


@pytest.mark.parametrize("operation", streams.OPERATIONS)
def test_cuda_streams(operation):
    cupy = pytest.importorskip("cupy")
    numpy, found = pytest.importorskip("numpy"), {}
    scalar = {"write": (numpy.uint32(streams.SEED),), "triad": (numpy.float32(streams.Q),)}.get(operation, ())
    for variant in stream_cuda.VARIANTS[operation]:
        if variant.options["POLICY"] and cupy.cuda.Device(0).compute_capability < "80":
            continue
        threads = variant.options["THREADS"]
        call = stream_cuda.launcher(
            stream_cuda.SOURCE, f"{operation}_stream", stream_cuda.compile_options(variant), 0
        )
        warps = threads // 32 if operation == "read" else 1

        def launch(grid, tensors, call=call, threads=threads, warps=warps):
            call(grid // warps, threads, (*tensors, *scalar, numpy.int64(tensors[0].numel() // 4)))

        for n in (4 * size for size in SIZES):
            grid = stream_cuda.grid_of(variant, n) * warps
            sums = lambda b, _, v=variant: stream_cuda.partial_sums(v, b)  # noqa: E731
            found[variant.name, n] = error_of(operation, launch, sums, grid, n)
    assert {k: v for k, v in found.items() if not (v[0] <= streams.TOLERANCE[operation] and v[1])} == {}


@pytest.mark.parametrize("loops", [0, 1, 7])
@pytest.mark.parametrize("ceiling", tensor_dot.PIPES)
def test_products_of_any_number_of_loops(bench, ceiling, loops):
    kernel = next(k for k in tensor_dot.MICROKERNELS if k.ceiling == ceiling)
    if bench.unusable(kernel):
        pytest.skip(bench.unusable(kernel))
    operand, accumulator, spread, tolerance, _ = tensor_dot.PIPES[ceiling]
    variant = kernel.variants(bench.device)[0]
    o = variant.options
    a, bt = (bench.arena.random((rows, o["K"]), operand, spread) for rows in (o["M"], o["N"]))
    out, ticks = bench.arena.empty((3, o["M"], o["N"]), accumulator), bench.arena.empty((3, 2), "int64")
    tensor_dot.dot_kernel[(3,)](a, bt, out, ticks, loops, **tensor_dot.meta(ceiling, variant), num_warps=o["warps"])
    expected = (loops * (a.double() @ bt.double().T)).expand_as(out)
    if loops == 0:
        assert (out == 0).all()
    else:
        assert relative_error(out, expected) <= tolerance
    assert (ticks > 0).all()

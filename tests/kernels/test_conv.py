"""Library convolutions: work, layouts, checks, switches."""

import pytest
import torch

from roofline.kernels import conv
from roofline.kernels.microkernel import Variant
from roofline.machine.record import Device
from roofline.measure.arena import TorchArena

DEVICE = Device(name="small", kind="cpu", sm_count=2, l2_bytes=1 << 12, memory_bytes=1 << 30)
KERNELS = {kernel.ceiling: kernel for kernel in conv.MICROKERNELS}


@pytest.fixture
def arena():
    torch.manual_seed(0)
    return TorchArena(DEVICE, torch.device("cpu"), 1 << 30, None, [])


def shape(*row):
    return Variant(conv.name(row), dict(zip(conv.OPTIONS, row, strict=True)))


@pytest.mark.parametrize("ceiling", conv.FORMATS)
@pytest.mark.parametrize("kernel", [1, 3])
def test_convolution_is_right(ceiling, kernel, arena):
    job = KERNELS[ceiling].prepare(shape(4, 8, 7, 16, kernel), arena, 1.0)
    assert job.check() <= conv.TOLERANCE
    # Every output element: 8 channels x kernel^2 multiply-adds; 4 x 16 x 7 x 7 of them.
    assert job.work == 2 * 4 * 16 * 7 * 7 * 8 * kernel**2


@pytest.mark.parametrize(
    ("ceiling", "layout"),
    [("conv_fp16_nchw", torch.contiguous_format), ("conv_fp16_channels_last", torch.channels_last)],
)
def test_inputs_have_the_layout_that_the_ceiling_names(ceiling, layout, arena, monkeypatch):
    seen = []
    monkeypatch.setattr(conv, "convolve", lambda x, w: seen.append((x, w)))
    KERNELS[ceiling].prepare(shape(2, 8, 7, 16, 3), arena, 1.0).run(0)
    assert all(t.is_contiguous(memory_format=layout) for t in seen[0])


def test_a_wrong_result_is_refused(arena, monkeypatch):
    job = KERNELS["conv_fp16_nchw"].prepare(shape(2, 8, 7, 16, 3), arena, 1.0)
    right = conv.convolve
    monkeypatch.setattr(conv, "convolve", lambda x, w: right(x, w) * (1.01 if x.dtype == torch.float16 else 1))
    assert job.check() > conv.TOLERANCE


def test_launches_take_turns_on_more_than_the_cache(arena, monkeypatch):
    # 2 x 8 x 7 x 7 halves = 1568 B; four caches of 4 KiB are 10.4 of them: 11 inputs.
    seen = []
    monkeypatch.setattr(conv, "convolve", lambda x, w: seen.append(x.data_ptr()))
    job = KERNELS["conv_fp16_nchw"].prepare(shape(2, 8, 7, 16, 3), arena, 1.0)
    for launch in range(22):
        job.run(launch)
    assert len(set(seen)) == 11 and seen[:11] == seen[11:] and job.buffer_bytes == 11 * 1568


def test_half_the_work_is_half_the_batch(arena):
    full, half = (KERNELS["conv_fp16_nchw"].prepare(shape(4, 8, 7, 16, 3), arena, scale).work for scale in (1.0, 0.5))
    assert half == full / 2


@pytest.mark.parametrize("before", [True, False])
def test_the_switch_is_on_during_a_call_and_put_back(before, arena, monkeypatch):
    seen = []
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", before)
    monkeypatch.setattr(conv, "convolve", lambda x, w: seen.append(torch.backends.cudnn.benchmark))
    KERNELS["conv_fp16_nchw"].prepare(shape(2, 8, 7, 16, 3), arena, 1.0).run(0)
    assert seen == [True] and torch.backends.cudnn.benchmark is before


def test_shapes_fit_into_the_memory():
    # An eighth of 256 MiB: input and output of (512, 512, 7, 512, 3) are 2 x 512 x 49 x 1024 B = 51 MB, too large;
    # an eighth of 80 GB holds all.
    assert len(conv.variants(Device(name="large", kind="cuda", memory_bytes=80 << 30))) == len(conv.SHAPES)
    assert conv.variants(Device(name="small", kind="cuda", memory_bytes=256 << 20)) == ()

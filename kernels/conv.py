"""Question: how many flops a second does the best library convolution reach, by memory layout? (torch, cuDNN)

Formula: n images of c channels, side x side, with k filters of 3 x 3 or 1 x 1, stride 1, same size out;
2 n side^2 k c r^2 flops a launch, products with the zero padding included.
fp16 operands and result, fp32 sums; NCHW or channels_last; cuDNN's fastest algorithm (`cudnn.benchmark`).
Bytes: launches take turns on several inputs, together larger than the last-level cache.
Normally distributed images and filters. The shapes are the heavy layers of ResNet-like networks.
Cannot show: strided, grouped or depthwise convolutions, small batches, backward passes, fused epilogues.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from roofline.kernels.microkernel import Arena, Job, Microkernel, Variant, relative_error
from roofline.machine.record import Device

FORMATS = {"conv_fp16_nchw": torch.contiguous_format, "conv_fp16_channels_last": torch.channels_last}
OPTIONS = ("images", "channels", "side", "filters", "kernel")
SHAPES = (
    (256, 256, 28, 256, 3),
    (256, 512, 14, 512, 3),
    (128, 512, 28, 512, 3),
    (256, 1024, 14, 1024, 1),
    (256, 512, 28, 512, 1),
    (256, 128, 56, 128, 3),
    (256, 512, 28, 1024, 1),
    (512, 512, 7, 512, 3),
    (256, 64, 56, 64, 3),
    (256, 64, 56, 256, 1),
)
"""Best guess first: many channels, deep sums."""
TOLERANCE = 2e-3
"""Above the rounding of fp16 (2^-11), below that of bf16."""
_CACHES = 4
_MEMORY_SHARE = 8


@contextmanager
def fastest_algorithms() -> Iterator[None]:
    """cuDNN tries its algorithms at the first call of a shape; afterwards torch's switch stands as before."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def variants(device: Device) -> tuple[Variant, ...]:
    """Shapes whose operands fit into the memory."""
    memory = (device.memory_bytes or 8 << 30) // _MEMORY_SHARE
    rows = (row for row in SHAPES if 2 * row[0] * row[2] ** 2 * (row[1] + row[3]) <= memory)
    return tuple(Variant(name(row), dict(zip(OPTIONS, row, strict=True))) for row in rows)


def name(row: tuple[int, ...]) -> str:
    """A shape as printed."""
    images, channels, side, filters, kernel = row
    return f"{images} x {channels} x {side} x {side}, {filters} filters {kernel} x {kernel}"


def convolve(x: Any, w: Any) -> Any:
    """x: (n, c, h, h), w: (k, c, r, r) → (n, k, h, h): stride 1, zero padding of (r - 1) / 2."""
    return torch.conv2d(x, w, padding=w.shape[-1] // 2)


def prepare(ceiling: str, variant: Variant, arena: Arena, scale: float) -> Job:
    """Variant, arena, scale of the work → job; less work is a smaller batch."""
    images, channels, side, filters, kernel = (variant.options[option] for option in OPTIONS)
    images = max(1, round(images * scale))
    bytes_in = 2 * images * channels * side**2
    sets = max(2, -(-_CACHES * (arena.device.l2_bytes or 4 << 20) // bytes_in))
    layout = FORMATS[ceiling]

    def random(*shape: int) -> Any:
        return arena.random(shape, "float16").to(memory_format=layout)

    inputs = [random(images, channels, side, side) for _ in range(sets)]
    w = random(filters, channels, kernel, kernel)

    def run(launch: int) -> None:
        with fastest_algorithms():
            convolve(inputs[launch % sets], w)

    def check() -> float:
        with fastest_algorithms():
            found = convolve(inputs[0], w)
        ends = [0, images - 1]
        reference = convolve(inputs[0][ends].contiguous().double(), w.contiguous().double())
        return relative_error(found[ends], reference) if bool(found.isfinite().all()) else float("inf")

    return Job(run, 2.0 * images * side**2 * filters * channels * kernel**2, check, sets * bytes_in)


def _microkernel(ceiling: str) -> Microkernel:
    return Microkernel(ceiling, "torch", variants, partial(prepare, ceiling), TOLERANCE, (5, 3))


MICROKERNELS = tuple(_microkernel(ceiling) for ceiling in FORMATS)

"""The committed gallery: complete, readable, and with the totals that are known for its models."""

from pathlib import Path

import pytest

from roofline.report.export import load_json

PLOTS = Path(__file__).parents[2] / "plots"


def conv(size, inputs, outputs, kernel):
    """2 flops for each output place, input channel, output channel and tap."""
    return 2 * size * size * inputs * outputs * kernel * kernel


def bottleneck(size, stride, inputs, width):
    """1x1, 3x3 (which takes the stride) and 1x1 convolution; a 1x1 on the short cut if the shape changes."""
    shortcut = conv(size, inputs, 4 * width, 1) if inputs != 4 * width else 0
    return (
        conv(size * stride, inputs, width, 1)
        + conv(size, width, width, 3)
        + conv(size, width, 4 * width, 1)
        + shortcut
    )


def resnet50():
    flops, inputs = conv(112, 3, 64, 7) + 2 * 2048 * 1000, 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width, size = 64 << stage, 56 >> stage
        for block in range(blocks):
            flops += bottleneck(size, 2 if stage and not block else 1, inputs, width)
            inputs = 4 * width
    return flops


def vit_b_16():
    """14 x 14 patches and a class token; 12 blocks of width 768; per token 4 + 8 squares of weights, and attention."""
    tokens, width = 14 * 14 + 1, 768
    block = 2 * tokens * 12 * width * width + 2 * 2 * tokens * tokens * width
    return conv(14, 3, width, 16) + 12 * block + 2 * width * 1000


FLOPS_PER_IMAGE = {"resnet50": resnet50(), "vit-b-16": vit_b_16()}
CASES = [(model, dtype) for model in FLOPS_PER_IMAGE for dtype in ("fp16", "fp32")]


@pytest.mark.parametrize(("model", "dtype"), CASES)
@pytest.mark.parametrize("machine", ["rtx-3090", "a40", "h200"])
def test_placement(model, dtype, machine):
    (sheet,) = load_json(PLOTS / f"{model}-{dtype}-{machine}.json").placements
    assert sheet.total.flops == 64 * FLOPS_PER_IMAGE[model]
    assert sum(row.flops for row in sheet.rows) == sheet.total.flops
    assert sum(row.floor_s for row in sheet.rows) == pytest.approx(sheet.total.floor_s)
    assert not sheet.total.uncounted
    assert (PLOTS / f"{model}-{dtype}-{machine}.svg").stat().st_size > 10_000


@pytest.mark.parametrize(("model", "dtype"), CASES)
def test_shares(model, dtype):
    sheets = load_json(PLOTS / f"{model}-{dtype}-share.json").placements
    assert len(sheets) == 3
    assert (PLOTS / f"{model}-{dtype}-share.svg").exists()


def test_files_stay_small():
    assert max(path.stat().st_size for path in PLOTS.glob("*.json")) < 300_000

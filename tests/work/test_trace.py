"""Whole models, errors and the record as data."""

import msgspec
import pytest
import torch
from torch import nn

import roofline
from roofline.errors import ModelError, UsageError
from roofline.work.record import Trace

models = pytest.importorskip("torchvision.models")


def on_meta(make, train=False):
    with torch.device("meta"):
        return make().train(train), torch.empty(2, 3, 224, 224)


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize(("name", "gigaflops"), [("resnet50", 8.18), ("vit_b_16", 35.13)])
def test_known_models(trace, name, gigaflops, train):
    """Per image at 224 x 224; 4.09 and 17.56 G multiply-adds are the published counts."""
    model, x = on_meta(getattr(models, name), train)
    result = trace(model, x)
    assert round(result.flops / 2 / 1e9, 2) == gigaflops


@pytest.mark.parametrize("attention", ["flash", "efficient", "math"])
def test_attention_backends_agree_on_the_forward(trace, attention):
    model, x = on_meta(models.vit_b_16)
    assert round(trace(model, x, attention=attention).flops / 2 / 1e9, 2) == 35.13


def test_cpu_and_meta_give_the_same_calls(trace):
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, dropout=0.0)
    x = torch.randn(2, 5, 16)
    on_cpu = trace(layer, x, backward=True)
    meta = trace(layer.to("meta"), x.to("meta"), backward=True)
    assert [(c.op, c.phase, c.module, c.flops, c.bytes) for c in on_cpu.calls] == [
        (c.op, c.phase, c.module, c.flops, c.bytes) for c in meta.calls
    ]


def test_backward_of_a_whole_model(trace):
    model, x = on_meta(models.resnet18, train=True)
    result = trace(model, x, backward=True)
    stem = 2 * 2 * 64 * 112 * 112 * 3 * 49  # the image needs no gradient
    assert result.flops_backward == 2 * result.flops - stem
    assert result.bytes_backward > result.bytes > 0


def test_a_failing_model_names_its_module_and_cause(rand):
    model = nn.Sequential(nn.ReLU(), nn.Sequential(nn.Linear(4, 4)))
    with pytest.raises(ModelError, match=r"in module '1\.0'.*RuntimeError") as caught:
        roofline.trace(model, (rand(2, 3),))
    assert isinstance(caught.value.__cause__, RuntimeError)


@pytest.mark.parametrize(
    ("args", "options", "message"),
    [
        ((3,), {}, "needs a model or a function"),
        ((torch.relu,), {"target": "tpu"}, "target must be one of cuda, cpu"),
        ((torch.relu,), {"attention": "best"}, "attention must be one of auto"),
        ((torch.relu, (torch.ones(3),)), {"backward": True}, "no output of the program needs a gradient"),
    ],
)
def test_unusable_arguments(args, options, message):
    with pytest.raises(UsageError, match=message):
        roofline.trace(*args, **options)


def test_a_trace_is_plain_data(rand):
    result = roofline.trace(nn.Conv2d(3, 4, 3), (rand(1, 3, 8, 8),), name="conv")
    data = msgspec.json.encode(result.without_output())
    assert msgspec.json.decode(data)["name"] == "conv"
    assert msgspec.json.decode(data, type=Trace).flops == result.flops


def test_a_single_tensor_needs_no_tuple(rand):
    assert roofline.trace(nn.Linear(8, 4), rand(2, 8)).flops == 2 * 2 * 8 * 4


def test_views_of_one_result(trace, rand):
    result = trace(nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2)), rand(2, 8, grad=True), backward=True)
    assert set(result.by_pipe()) == {"fp32", "none"}
    for view in (result.by_layer(), result.by_operator(), result.by_pipe()):
        assert sum(sums.bytes for sums in view.values()) == result.bytes
        assert sum(sums.bytes_backward for sums in view.values()) == result.bytes_backward
        assert sum(sums.calls for sums in view.values()) == len(result.calls)
        assert sum(sums.elementwise_flops for sums in view.values()) == result.elementwise_flops > 0

"""What holds for any program."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import roofline

SIZES = st.integers(1, 6)


@st.composite
def networks(draw):
    """A few layers of random widths on a (batch, channels, length) input; returns the network and its channels."""
    channels = first = draw(SIZES)
    layers = []
    for _ in range(draw(st.integers(1, 4))):
        width = draw(SIZES)
        layer = draw(
            st.sampled_from(
                [
                    lambda c, w: nn.Conv1d(c, w, 3, padding=1),
                    lambda c, w: nn.ConvTranspose1d(c, w, 1),
                    lambda c, w: nn.Sequential(nn.BatchNorm1d(c), nn.Conv1d(c, w, 1, bias=False)),
                    lambda c, w: nn.Sequential(nn.GELU(), nn.Conv1d(c, w, 1), nn.Softmax(-1)),
                ]
            )
        )
        layers.append(layer(channels, width))
        channels = width
    return nn.Sequential(*layers).eval(), first


def size(tensor):
    return tensor.numel() * tensor.element_size()


@settings(deadline=None, max_examples=40)
@given(networks(), SIZES, SIZES, SIZES)
def test_flops_of_joined_batches_add(network, length, one, other):
    model, channels = network

    def flops(batch):
        result = roofline.trace(model, (torch.ones(batch, channels, length, requires_grad=True),), backward=True)
        return result.flops, result.flops_backward

    assert flops(one + other) == tuple(a + b for a, b in zip(flops(one), flops(other), strict=True))


@settings(deadline=None, max_examples=40)
@given(networks(), SIZES, SIZES)
def test_views_add_up_and_bytes_cover_inputs_and_output(network, length, batch):
    model, channels = network
    x = torch.ones(batch, channels, length)
    result = roofline.trace(model, (x,))
    modules = result.by_module()
    children = [name for name, _ in model.named_children()]
    for field in ("flops", "bytes", "elementwise_flops", "calls"):
        assert sum(getattr(modules[name], field) for name in children) == getattr(modules[""], field)
        assert sum(getattr(sums, field) for sums in result.by_layer().values()) == getattr(modules[""], field)
    weights = sum(size(p) for p in model.parameters())
    assert result.bytes >= size(x) + size(result.output) + weights
    assert result.peak_activation_bytes >= size(result.output)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 5), st.integers(0, 5), SIZES, SIZES, st.integers(1, 3), st.integers(1, 3))
def test_bytes_of_two_overlapping_views_are_those_of_their_union(row, column, height, width, step, other_step):
    x = torch.arange(900.0).view(30, 30)
    a = x[row : row + height * step : step, :width]
    b = x[:height, column : column + width * other_step : other_step]
    distinct = len({*a.flatten().tolist(), *b.flatten().tolist()})
    assert roofline.trace(torch.add, (a, b)).bytes == 4 * (distinct + a.numel())

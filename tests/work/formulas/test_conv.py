"""Convolutions: 2 x kernel elements x input channels of the group, for every output element."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

F32 = 4

# module, input shape, forward flops: 2 x batch x out channels x output positions x in channels per group x kernel
LAYERS = [
    (nn.Conv2d(8, 12, 3, groups=4), (2, 8, 9, 9), 2 * 2 * 12 * 49 * 2 * 9),
    (nn.Conv1d(4, 8, 5, groups=4), (3, 4, 20), 2 * 3 * 8 * 16 * 1 * 5),
    (nn.Conv2d(8, 8, 3, groups=8, padding=1), (2, 8, 6, 6), 2 * 2 * 8 * 36 * 1 * 9),
    (nn.Conv2d(3, 8, 3, stride=2, padding=1), (2, 3, 15, 15), 2 * 2 * 8 * 64 * 3 * 9),
    (nn.Conv3d(2, 4, 3, padding=2, dilation=2), (1, 2, 6, 7, 8), 2 * 4 * (6 * 7 * 8) * 2 * 27),
    (nn.Conv2d(4, 6, (3, 5), dilation=(2, 1), padding="same"), (1, 4, 9, 11), 2 * 6 * (9 * 11) * 4 * 15),
    (nn.Conv3d(4, 6, (1, 2, 3), groups=2, stride=(1, 2, 1)), (2, 4, 4, 5, 6), 2 * 2 * 6 * (4 * 2 * 4) * 2 * 6),
    (nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular"), (1, 3, 8, 8), 2 * 4 * 64 * 3 * 9),
    # transposed: 2 x batch x in channels x input positions x out channels per group x kernel
    (nn.ConvTranspose2d(6, 4, 4, stride=2, padding=1), (1, 6, 5, 5), 2 * 6 * 25 * 4 * 16),
    (nn.ConvTranspose3d(4, 2, 2, stride=2), (1, 4, 3, 3, 3), 2 * 4 * 27 * 2 * 8),
    (nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2, output_padding=1), (2, 4, 5, 5), 2 * 2 * 4 * 25 * 3 * 9),
    (nn.ConvTranspose1d(4, 6, 3, dilation=2), (2, 4, 5), 2 * 2 * 4 * 5 * 6 * 3),
    # without a batch
    (nn.Conv2d(3, 4, 3), (3, 8, 8), 2 * 4 * 36 * 3 * 9),
    (nn.ConvTranspose2d(3, 4, 2), (3, 8, 8), 2 * 3 * 64 * 4 * 4),
]


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize(("layer", "shape", "flops"), LAYERS)
def test_forward_and_both_gradients(trace, rand, layer, shape, flops, device):
    result = trace(copy.deepcopy(layer).to(device), rand(*shape, grad=True, device=device), backward=True)
    assert result.flops == flops
    assert result.flops_backward == 2 * flops  # dX and dW pair the same elements


def test_first_layer_has_no_input_gradient(trace, rand):
    result = trace(nn.Conv2d(3, 8, 3), rand(2, 3, 15, 15), backward=True)
    assert result.flops_backward == result.flops == 2 * 2 * 8 * 169 * 27


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_memory_format_changes_neither_flops_nor_bytes(trace, rand, layout):
    layer = nn.Conv2d(8, 16, 3, padding=1).to(memory_format=layout)
    result = trace(layer, rand(2, 8, 8, 8).to(memory_format=layout))
    assert result.flops == 2 * 2 * 16 * 64 * 8 * 9
    assert result.bytes == F32 * (2 * 8 * 64 + 16 * 8 * 9 + 16 + 2 * 16 * 64)
    (call,) = result.calls
    assert call.attributes["layout"] == ("channels_last" if layout is torch.channels_last else "contiguous")


def test_geometry_and_implicit_product(trace, rand):
    (call,) = trace(nn.Conv2d(8, 12, (3, 1), stride=2, groups=4), rand(2, 8, 9, 9)).calls
    facts = call.attributes
    assert (facts["kernel"], facts["stride"], facts["groups"], facts["transposed"]) == ((3, 1), (2, 2), 4, False)
    assert (facts["in_channels"], facts["out_channels"], facts["output_size"]) == (8, 12, (4, 5))
    # per group: 2 x 4 x 5 positions, 12/4 channels, 8/4 x 3 x 1 summed
    assert (call.product.batch, call.product.m, call.product.n, call.product.k) == (4, 40, 3, 6)


def test_backward_reads_only_what_it_needs(trace, rand):
    x, layer = rand(2, 3, 8, 8), nn.Conv2d(3, 4, 3)
    (call,) = [c for c in trace(layer, x, backward=True).calls if c.op == "aten.convolution_backward"]
    assert call.bytes_read == F32 * (2 * 4 * 36 + x.numel())  # the incoming gradient and x; dW needs no weight
    assert call.bytes_written == F32 * (4 * 27 + 4)


def test_complex_convolution_counts_the_real_ones_that_run(trace, rand):
    # torch makes three real convolutions of a complex one
    result = trace(nn.Conv1d(2, 3, 3, dtype=torch.cfloat), rand(1, 2, 10, dtype=torch.cfloat))
    assert result.flops == 3 * (2 * 3 * 8 * 2 * 3)


def test_functional_forms(trace, rand):
    assert trace(lambda x, w: w @ F.unfold(x, 3), rand(1, 3, 8, 8), rand(4, 27)).flops == 2 * 4 * 27 * 36
    assert trace(torch.conv_tbc, rand(10, 2, 3), rand(3, 3, 5), rand(5)).flops == 2 * 8 * 2 * 5 * 3 * 3
    assert trace(nn.Conv2d(3, 4, 3), rand(0, 3, 8, 8)).flops == 0


def test_other_libraries_kernels(trace, rand):
    from torch.utils import mkldnn

    one = 2 * 4 * 36 * 3 * 9
    opaque = mkldnn.to_mkldnn(nn.Conv2d(3, 4, 3).eval())
    assert trace(lambda m, x: m(x.to_mkldnn()).to_dense(), opaque, rand(1, 3, 8, 8)).flops == one
    torchvision = pytest.importorskip("torchvision")
    deformed = torchvision.ops.DeformConv2d(3, 4, 3)
    assert trace(deformed, rand(1, 3, 8, 8), rand(1, 2 * 9, 6, 6)).flops == one

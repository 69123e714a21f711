"""Recurrent layers: 2 flops per cell step and weight element; backward by gradient."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

INPUT, H, T, B = 6, 8, 5, 2
CELLS = T * B


def forward(gates, inputs=INPUT, cells=CELLS):
    """Gates x H rows, inputs + H columns, per cell."""
    return 2 * cells * gates * H * (inputs + H)


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize(
    ("layer", "flops"),
    [
        (nn.LSTM(INPUT, H), forward(4)),
        (nn.GRU(INPUT, H), forward(3)),
        (nn.RNN(INPUT, H), forward(1)),
        (nn.RNN(INPUT, H, nonlinearity="relu"), forward(1)),
        # two directions; the second layer reads both
        (nn.LSTM(INPUT, H, 2, bidirectional=True), 2 * forward(4) + 2 * forward(4, inputs=2 * H)),
        # projection to 3: the state is 3 wide, and 3 x H more per cell
        (nn.LSTM(INPUT, H, proj_size=3), 2 * CELLS * (4 * H * (INPUT + 3) + 3 * H)),
    ],
)
def test_one_op_for_all_steps(trace, rand, layer, flops, device):
    result = trace(lambda m, x: m(x)[0], copy.deepcopy(layer).to(device), rand(T, B, INPUT, device=device))
    assert result.flops == flops
    assert result.by_operator()["aten._cudnn_rnn"].flops == flops
    assert result.output.shape[:2] == (T, B)


def test_a_cpu_runs_its_own(trace, rand):
    lstm = trace(lambda m, x: m(x)[0], nn.LSTM(INPUT, H), rand(T, B, INPUT), target="cpu")
    assert (lstm.flops, lstm.by_operator()["aten.mkldnn_rnn_layer"].calls) == (forward(4), 1)
    gru = trace(lambda m, x: m(x)[0], nn.GRU(INPUT, H), rand(T, B, INPUT), target="cpu")
    assert gru.flops == forward(3)  # step by step


@pytest.mark.parametrize("state_gradient", [False, True])
def test_gradients(trace, rand, state_gradient):
    gates = 3 * H
    state = rand(1, B, H, grad=state_gradient)
    result = trace(lambda m, x, h: m(x, h)[0], nn.GRU(INPUT, H), rand(T, B, INPUT, grad=True), state, backward=True)
    weights = 2 * CELLS * gates * (INPUT + H)
    inputs = 2 * CELLS * gates * INPUT
    states = 2 * (CELLS if state_gradient else CELLS - B) * gates * H  # the first step's only if wanted
    assert result.flops_backward == weights + inputs + states


@pytest.mark.parametrize("ordered", [True, False])
def test_packed_sequences_count_their_own_lengths(trace, rand, ordered):
    lengths = torch.tensor([5, 2] if ordered else [2, 5])

    def program(layer, x):
        return layer(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=ordered))[0].data

    assert trace(program, nn.GRU(INPUT, H), rand(B, T, INPUT)).flops == forward(3, cells=5 + 2)


def test_cells_and_unbatched_input(trace, rand):
    assert trace(nn.GRUCell(INPUT, H), rand(B, INPUT)).flops == forward(3, cells=B)
    assert trace(lambda m, x: m(x)[0], nn.LSTM(INPUT, H), rand(T, INPUT)).flops == forward(4, cells=T)


def test_results_and_gradients_are_those_of_the_program(trace, rand):
    layer, x = nn.LSTM(INPUT, H), rand(T, B, INPUT)
    assert torch.allclose(trace(lambda m, y: m(y)[0], layer, x).output, layer(x)[0], atol=1e-6)

    def gradient(m, y):
        return torch.autograd.grad(m(y)[0].sum(), y)[0]

    y = rand(T, B, INPUT, grad=True)
    assert torch.allclose(trace(gradient, layer, y).output, gradient(layer, y), atol=1e-5)

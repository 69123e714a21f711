"""What a traced run must not do to the program."""

import copy
import pickle
import random

import numpy as np
import pytest
import torch
from torch import nn

import roofline


def net():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 5))


def image():
    return torch.randn(2, 3, 8, 8)


def test_model_state_is_untouched():
    model = net().train()
    model[1].eval()
    state, attributes = copy.deepcopy(model.state_dict()), set(vars(model[0]))
    model.train()
    model[2].eval()
    roofline.trace(model, (image(),), backward=True)
    assert [m.training for m in model] == [True, True, False, True, True]
    assert state.keys() == model.state_dict().keys() and set(vars(model[0])) == attributes
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in state.items())
    assert all(p.grad is None for p in model.parameters())
    copy.deepcopy(model)
    pickle.dumps(model)


def step(model, x, optimizer):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss.detach()


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        torch.optim.Adam,
        lambda p: torch.optim.AdamW(p, fused=True),
        lambda p: torch.optim.Adam(p, foreach=True),
    ],
)
@pytest.mark.parametrize("trained_before", [False, True])
def test_a_training_step_is_undone(trace, make, trained_before):
    model, x = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 4)), torch.randn(2, 16)
    optimizer = make(model.parameters())
    if trained_before:
        step(model, x, optimizer)
    weights = copy.deepcopy(model.state_dict())
    moments = copy.deepcopy(optimizer.state_dict()["state"])
    gradients = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    result = trace(step, model, x, optimizer)
    # forward of both layers; backward without dX of the first
    assert (result.flops, result.flops_backward) == (2 * 2 * (128 + 32), 2 * 2 * (128 + 2 * 32))
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        assert parameter.grad is None if gradient is None else torch.equal(parameter.grad, gradient)
    after = optimizer.state_dict()["state"]
    assert after.keys() == moments.keys()
    for key, values in moments.items():
        for name, value in values.items():
            assert (
                torch.equal(value, after[key][name]) if isinstance(value, torch.Tensor) else value == after[key][name]
            )


def test_random_states_continue_where_they_were():
    torch.manual_seed(3)
    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    roofline.trace(lambda x: (nn.functional.dropout(x), np.random.rand(), random.random()), (torch.ones(9),))
    assert torch.equal(torch.get_rng_state(), states[0])
    assert (np.random.get_state()[1] == states[1]).all() and random.getstate() == states[2]


def test_arguments_are_restored_unless_they_are_the_result():
    x, cache = torch.full((3,), -1.0), torch.zeros(3)

    def fill(y, kept):
        kept.add_(1)
        return y.relu_()

    output = roofline.trace(fill, (x, cache)).output
    assert torch.equal(output, torch.zeros(3)) and torch.equal(cache, torch.zeros(3))


def test_state_is_restored_when_the_program_fails():
    model = net().train()

    def program(m, x):
        m(x)
        raise ValueError("late")

    mean = model[1].running_mean.clone()
    with pytest.raises(roofline.errors.ModelError) as caught:
        roofline.trace(program, (model, image()))
    assert isinstance(caught.value.__cause__, ValueError)
    assert torch.equal(model[1].running_mean, mean)


def test_the_count_does_not_drift():
    q = torch.randn(1, 2, 4, 8)

    def program(a):
        return torch.bmm(nn.functional.linear(a, torch.ones(8, 8))[0], a[0].transpose(1, 2))

    assert len({roofline.trace(program, (q,)).flops for _ in range(3)}) == 1


def test_grad_mode_and_dispatcher_are_as_before():
    before = torch.nn.functional.scaled_dot_product_attention
    q = torch.randn(1, 2, 4, 8, requires_grad=True)
    roofline.trace(lambda x: torch.set_grad_enabled(False), (q,))
    assert torch.is_grad_enabled()
    node = before(q, q, q).grad_fn
    assert "ScaledDotProduct" in type(node).__name__  # torch's own again

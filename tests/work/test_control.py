"""Control flow, function transforms, compiled and scripted programs: what runs is what counts."""

import pytest
import torch
from torch import nn
from torch._higher_order_ops import scan, while_loop

import roofline

ONE = 2 * 4 * 4 * 4


@pytest.mark.parametrize(("taken", "products"), [(True, 2), (False, 1)])
def test_cond_counts_the_branch_taken(trace, rand, taken, products):
    def program(p, a, b):
        return torch.cond(p, lambda x, y: x @ y @ y, lambda x, y: x @ y, (a, b))

    args = (torch.tensor(taken), rand(4, 4, grad=True), rand(4, 4, grad=True))
    result = trace(program, *args, backward=True)
    assert (result.flops, result.flops_backward) == (products * ONE, 2 * products * ONE)


def test_loops_count_every_turn_and_keep_their_result(trace, rand):
    def power(t):
        return while_loop(lambda i, u: i < 3, lambda i, u: (i + 1, u @ u), (torch.tensor(0), t))[1]

    result = trace(power, torch.eye(4) * 2)
    assert result.flops == 3 * ONE
    assert torch.equal(result.output, torch.eye(4) * 256)
    xs = rand(3, 4, 4, grad=True)
    program = lambda i, x: scan(lambda c, y: (c @ y, c + y), i, x, dim=0)  # noqa: E731
    result = trace(program, rand(4, 4, grad=True), xs, backward=True)
    assert (result.flops, result.flops_backward) == (3 * ONE, 2 * 3 * ONE)


def test_function_transforms(trace, rand):
    w, x = rand(8, 8), rand(5, 8)
    one = 2 * 5 * 8 * 8
    assert trace(lambda y: torch.func.vmap(lambda a: w @ a)(y), x).flops == one
    # value and dW: part of the function, so not of a backward
    result = trace(lambda v: torch.func.grad(lambda u: (x @ u).sum())(v), w)
    assert (result.flops, result.flops_backward) == (2 * one, 0)
    result = trace(lambda t: torch.func.jvp(lambda y: y @ w, (x,), (t,)), rand(5, 8))
    assert result.flops >= 2 * one


def mlp():
    return nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 4))


MLP = 2 * 2 * (16 * 8 + 8 * 4)


def test_compiled_models_count_as_eager_cold_and_warm(trace, rand):
    from torch._dynamo.testing import CompileCounter

    counter = CompileCounter()
    torch._dynamo.reset()
    model, x = torch.compile(mlp(), backend=counter), rand(2, 16)
    cold = trace(model, x)
    assert (cold.flops, counter.frame_count) == (MLP, 0)
    assert set(cold.by_layer()) == {"0", "1", "2"}
    model(x)
    assert counter.frame_count == 1  # tracing did not spoil its compilation
    warm = trace(model, x, backward=True)
    assert (warm.flops, warm.flops_backward, counter.frame_count) == (MLP, MLP + 2 * 2 * 8 * 4, 1)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "convert",
    [
        torch.jit.script,
        lambda m: torch.jit.trace(m, torch.ones(3, 16)),
        lambda m: torch.jit.freeze(torch.jit.script(m.eval())),
        lambda m: torch.export.export(m, (torch.ones(2, 16),)).module(),
        torch.fx.symbolic_trace,
    ],
)
def test_other_forms_of_a_model(trace, rand, convert):
    assert trace(convert(mlp()), rand(2, 16)).flops == MLP


def test_custom_autograd_function(trace, rand):
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a @ b

        @staticmethod
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            return g @ b.t(), a.t() @ g

    result = trace(Product.apply, rand(3, 4, grad=True), rand(4, 5, grad=True), backward=True)
    assert (result.flops, result.flops_backward) == (120, 240)


def test_fake_tensors(trace):
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        assert trace(mlp(), torch.randn(2, 16), backward=True).flops == MLP


def test_keyword_only_programs_and_nested_outputs(rand):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(8, 6)

        def forward(self, *, x, scale=1.0, mask=None):
            return {"logits": self.fc(x * scale), "aux": (x, None, 3)}

    result = roofline.trace(Model(), (), {"x": rand(10, 8)}, backward=True)
    assert (result.flops, result.flops_backward) == (2 * 10 * 8 * 6, 2 * 10 * 8 * 6)
    assert result.output["aux"][1:] == (None, 3)

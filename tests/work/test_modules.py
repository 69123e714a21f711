"""Which module a call belongs to: shared, tied, looped, unrun, failing and bypassed modules; in backward too."""

import contextlib

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


def flops(result):
    return {name: sums.flops for name, sums in result.by_module().items()}


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.core = nn.Linear(100, 100)
        self.branches = nn.ModuleList([nn.Sequential(self.core) for _ in range(3)])

    def forward(self, x):
        return torch.cat([b(p) for b, p in zip(self.branches, x.split(100, dim=1), strict=True)], 1)


def test_shared_module_under_each_of_its_parents(trace, rand):
    result = trace(Shared(), rand(1, 300), backward=True)
    one = 2 * 100 * 100
    found = flops(result)
    assert (found[""], found["core"], found["branches"], found["branches.1"]) == (3 * one, 3 * one, 3 * one, one)
    assert result.flops_backward == 3 * one  # dW only
    assert result.parameters == 100 * 100 + 100


class TiedLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(50, 16)
        self.head = nn.Linear(16, 50, bias=False)
        self.head.weight = self.emb.weight

    def forward(self, ids):
        return self.head(self.emb(ids))


def test_tied_weights_count_once(trace):
    result = trace(TiedLM(), torch.randint(0, 50, (2, 7)), backward=True)
    work = 2 * 14 * 16 * 50
    assert (result.parameters, result.weight_bytes) == (800, 3200)
    assert flops(result) == {"": work, "emb": 0, "head": work}
    assert result.flops_backward == 2 * work


def test_looped_container_and_unrun_modules(trace, rand):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])
            self.unused = nn.Conv2d(64, 64, 7)

        def forward(self, x):
            for layer in self.layers:
                x = layer(torch.relu(layer(x)))
            return x

    one = 2 * (4 * 8 * 8)
    found = flops(trace(Model(), rand(4, 8)))
    assert (found["layers"], found["layers.0"], found["unused"]) == (6 * one, 2 * one, 0)


class Raises(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(4, 4)

    def forward(self, x):
        self.l(x)
        raise ValueError("bad input")


def test_a_caught_exception_ends_its_module(trace, rand):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.b, self.t = Raises(), nn.Linear(4, 4)

        def forward(self, x):
            with contextlib.suppress(ValueError):
                self.b(x)
            return self.t(x)

    one = 2 * 2 * 4 * 4
    assert flops(trace(Model(), rand(2, 4))) == {"": 2 * one, "b": one, "b.l": one, "t": one}


def test_direct_forward_is_in_the_total(trace, rand):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.l1, self.l2 = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x):
            return self.l2(self.l1.forward(x))

    found = flops(trace(Model(), rand(4, 8)))
    assert (found[""], found["l2"]) == (2 * 2 * 4 * 64, 2 * 4 * 64)


def test_backward_goes_to_the_module_that_ran_forward(trace, rand):
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))
    backward = {n: s.flops_backward for n, s in trace(model, rand(4, 1, 28, 28), backward=True).by_module().items()}
    first, last = 2 * 4 * 784 * 64, 2 * 4 * 64 * 10
    assert backward == {"": first + 2 * last, "0": 0, "1": first, "2": 0, "3": 2 * last}


@pytest.mark.parametrize("reentrant", [False, True])
def test_recomputation_belongs_to_backward(trace, rand, reentrant):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.mlp = nn.Sequential(nn.Linear(8, 16, bias=False), nn.GELU(), nn.Linear(16, 4, bias=False))

        def forward(self, x):
            return checkpoint(self.mlp, x, use_reentrant=reentrant)

    first, last = 2 * 5 * 8 * 16, 2 * 5 * 16 * 4
    result = trace(Model(), rand(5, 8, grad=True), backward=True)
    again = first + (last if reentrant else 0)  # the other kind stops before the last layer
    assert (result.flops, result.flops_backward) == (first + last, 2 * (first + last) + again)
    assert result.by_module()["mlp"].flops_backward == result.flops_backward
    assert result.by_module()["mlp.0"].flops_backward == 3 * first


def test_functions_find_their_modules(trace, rand):
    model, other = nn.Sequential(nn.Linear(8, 4)), nn.Sequential(nn.Linear(8, 2))
    x = rand(3, 8)
    assert flops(trace(lambda y: model(y), x)) == {"": 192, "0": 192}
    both = flops(trace(lambda a, b, y: (a(y), b(y)), model, other, x))
    assert both == {"": 192 + 96, "a": 192, "a.0": 192, "b": 96, "b.0": 96}
    made_inside = flops(trace(lambda y: nn.Linear(8, 4)(y), x))
    assert made_inside[""] == 192


def test_hooks_are_gone_afterwards(rand):
    from torch.nn.modules import module

    import roofline

    before = (len(module._global_forward_hooks), len(module._global_forward_pre_hooks))
    with pytest.raises(roofline.errors.ModelError):
        roofline.trace(Raises(), (rand(2, 4),))
    assert (len(module._global_forward_hooks), len(module._global_forward_pre_hooks)) == before

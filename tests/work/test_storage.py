"""Bytes: distinct input bytes once, output bytes once; views move nothing."""

import pytest
import torch
from torch import nn

X = torch.randn(20, 30)
ROWS = torch.randn(2, 64)
N = 600
F32, I64 = 4, 8


def table():
    return torch.randn(1000, 64)


@pytest.mark.parametrize(
    ("program", "elements"),
    [
        (lambda x: x * x, N + N),  # the same tensor twice
        (lambda x: torch.mul(x, torch.ones(())), 1 + N + 1 + N),  # the one is made, and read
        (lambda x: x[:5].exp(), 150 + 150),
        (lambda x: x[::2, ::3] * 1.5, 100 + 100),
        (lambda x: x[:, :20] + x[:, 10:], N + 400),  # overlapping columns
        (lambda x: x[:-1] + x[1:], N + 570),  # overlapping rows
        (lambda x: x[:10] + x[10:], N + 300),
        (lambda x: x[:20, :20] + x[:20, :20].t(), 400 + 400),
        (lambda x: x.view(-1)[:100].unfold(0, 5, 1).sum(), 100 + 1),
        (lambda x: x[:1].expand(50, 30) * x[:1].expand(50, 30), 30 + 1500),
        (lambda x: x[:1].expand(50, 30).contiguous(), 30 + 1500),
        (lambda x: x.t().contiguous(), N + N),
        (lambda x: x.t().reshape(-1), N + N),
        (lambda x: torch.cat([x, x]), N + 2 * N),
        # in place
        (lambda x: x.relu_(), N + N),
        (lambda x: x.add_(x), N + N),
        (lambda x: x[:5].mul_(2), 150 + 150),
        (lambda x: x.fill_(1.0), N),
        (lambda x: x.zero_(), N),
        (lambda x: x.copy_(x.new_empty(20, 30)), N + N),
        (lambda x: x.__setitem__(slice(0, 5), x[5:10]), 150 + 150),
        (lambda x: torch.add(x, 1, out=x), N + N),
        (lambda x: torch._foreach_mul_([x[:10], x[10:]], 2.0), N + N),
        # nothing
        (lambda x: (x.view(-1), x.T, x[None], x.unbind(), x.detach(), x.contiguous(), x.to(torch.float32)), 0),
        (lambda x: x.view(5, 120).t()[1:3].unsqueeze(0).expand(5, 2, 5).permute(2, 0, 1).split(2), 0),
        (lambda x: torch.empty_like(x), 0),
        (lambda x: nn.functional.dropout(x, training=False), 0),
    ],
)
@pytest.mark.parametrize("inference", [False, True])
def test_distinct_bytes(trace, program, elements, inference):
    x = X.clone()
    with torch.inference_mode(inference):
        assert trace(lambda y: program(y), x).bytes == F32 * elements


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        # distinct rows, the indices, the result
        (lambda t: nn.functional.embedding(torch.tensor([3, 77, 500]), t), I64 * 3 + F32 * 64 * (3 + 3)),
        (lambda t: nn.functional.embedding(torch.tensor([3, 3, 3, 9]), t), I64 * 4 + F32 * 64 * (2 + 4)),
        (lambda t: t.index_select(0, torch.tensor([3, 7, 9])), I64 * 3 + F32 * 64 * (3 + 3)),
        (lambda t: t[torch.tensor([-1, 999])], I64 * 2 + F32 * 64 * (1 + 2)),
        (lambda t: t.take(torch.tensor([3, 4])), I64 * 2 + F32 * (2 + 2)),
        # in place: only the touched rows are written, and read if they are added to
        (lambda t: t.index_put_((torch.tensor([3, 7]),), ROWS), I64 * 2 + F32 * 64 * (2 + 2)),
        (lambda t: t.index_add_(0, torch.tensor([3, 7]), ROWS), I64 * 2 + F32 * 64 * (2 + 2 + 2)),
        (lambda t: t.index_copy_(0, torch.tensor([3, 7]), ROWS), I64 * 2 + F32 * 64 * (2 + 2)),
    ],
)
def test_partial_reads_and_writes(trace, program, expected):
    assert trace(program, table()).bytes == expected


def test_norms(trace, rand):
    moved = F32 * (40 * 32 + 64 + 40 * 32)
    assert 0 <= trace(nn.LayerNorm(32), rand(4, 10, 32)).bytes - moved <= F32 * 2 * 40
    # evaluation reads the running statistics and writes none
    assert trace(nn.BatchNorm2d(4).eval(), rand(2, 4, 5, 5)).bytes == F32 * (200 + 4 * 4 + 200)


def test_casts_have_two_widths(trace, rand):
    assert trace(lambda x: x.half(), rand(600)).bytes == 600 * (4 + 2)


def test_storages_roles_and_reuse(trace, rand):
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    first, second = trace(model, rand(2, 8)).calls
    roles = sorted(access.role for access in first.reads)
    assert roles == ["input", "parameter", "parameter"]
    assert first.writes[0].storage in {access.storage for access in second.reads}


def test_peak_of_activations(trace):
    x = torch.randn(1000)
    # two of the intermediates are alive at once, whatever the length of the chain
    with torch.no_grad():
        result = trace(lambda y: y.exp().exp().exp().exp(), x)
    assert result.peak_activation_bytes == 2 * F32 * 1000
    assert trace(nn.Linear(10, 20), torch.randn(1, 10)).weight_bytes == F32 * (200 + 20)

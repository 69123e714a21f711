"""Attention: 2 products forward; backward 5 if fused (the scores are made again), 4 if not."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

F32 = 4
sdpa = F.scaled_dot_product_attention


def qkv(batch, heads, queries, keys, size, kv_heads=None, v_size=None, **options):
    options = {"requires_grad": True, **options}
    kv_heads = kv_heads or heads
    return (
        torch.randn(batch, heads, queries, size, **options),
        torch.randn(batch, kv_heads, keys, size, **options),
        torch.randn(batch, kv_heads, keys, v_size or size, **options),
    )


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize(("attention", "products"), [("auto", 5), ("flash", 5), ("efficient", 5), ("math", 4)])
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_every_backend_counts_its_products(trace, device, attention, products, dropout):
    args = qkv(2, 3, 16, 20, 8, device=device)
    result = trace(lambda *a: sdpa(*a, dropout_p=dropout), *args, attention=attention, backward=True)
    one = 2 * 2 * 3 * 16 * 20 * 8
    assert (result.flops, result.flops_backward) == (2 * one, products * one)


def test_a_fused_call_moves_its_tensors_once(trace):
    result = trace(sdpa, *qkv(1, 12, 64, 64, 64))
    (call,) = result.calls
    statistics = F32 * 12 * 64  # the log-sum-exp of each row
    assert call.bytes == F32 * 4 * 12 * 64 * 64 + statistics
    assert call.op == "aten._scaled_dot_product_efficient_attention"


@pytest.mark.parametrize(
    ("dtype", "size", "mask", "causal", "keys", "expected"),
    [
        (torch.float16, 64, False, False, 16, "flash"),
        (torch.bfloat16, 256, False, True, 16, "flash"),
        (torch.float16, 512, False, False, 16, "efficient"),  # flash stops at 256 channels
        (torch.float16, 64, True, False, 16, "efficient"),  # flash takes no mask
        (torch.float16, 64, False, True, 20, "efficient"),  # nor a causal rectangle
        (torch.float32, 64, False, False, 16, "efficient"),  # nor fp32
        (torch.float64, 64, False, False, 16, None),  # no fused kernel at all
    ],
)
def test_auto_follows_the_order_of_a_gpu(trace, dtype, size, mask, causal, keys, expected):
    args = qkv(2, 3, 16, keys, size, dtype=dtype, device="meta", requires_grad=False)
    bias = torch.zeros(16, keys, dtype=dtype, device="meta") if mask else None
    ops = trace(lambda *a: sdpa(*a, attn_mask=bias, is_causal=causal), *args).by_operator()
    assert ("aten._scaled_dot_product_" + str(expected) + "_attention" in ops) == (expected is not None)
    assert ("aten.bmm" in ops) == (expected is None)


def test_the_program_s_own_choice_is_honoured(trace):
    def program(backend):
        def run(q, k, v):
            with sdpa_kernel(backend):
                return sdpa(q, k, v)

        return run

    args = qkv(2, 3, 4, 6, 8)
    one = 2 * 2 * 3 * 4 * 6 * 8
    assert trace(program(SDPBackend.MATH), *args, backward=True).flops_backward == 4 * one
    assert trace(program(SDPBackend.EFFICIENT_ATTENTION), *args, backward=True).flops_backward == 5 * one


def test_the_cpu_s_own_kernel(trace):
    args = qkv(2, 3, 16, 20, 8)
    for tensors in (args, [t.detach().to("meta") for t in args]):
        assert list(trace(sdpa, *tensors, target="cpu").by_operator()) == [
            "aten._scaled_dot_product_flash_attention_for_cpu"
        ]


def test_grouped_heads(trace):
    result = trace(lambda *a: sdpa(*a, enable_gqa=True), *qkv(2, 8, 16, 16, 4, kv_heads=2), backward=True)
    one = 2 * 2 * 8 * 16 * 16 * 4  # work goes with the 8 query heads
    assert (result.flops, result.flops_backward) == (2 * one, 5 * one)
    moved = F32 * 2 * 16 * 4 * (8 + 2 + 2 + 8)  # K and V bytes with their 2
    assert result.bytes == moved + F32 * 2 * 8 * 16


def test_unequal_value_size(trace):
    result = trace(sdpa, *qkv(2, 3, 16, 20, 8, v_size=4), backward=True)
    pairs = 2 * 3 * 16 * 20
    assert result.flops == 2 * pairs * (8 + 4)
    assert result.flops_backward == 2 * pairs * (3 * 8 + 2 * 4)  # S, dQ, dK and dP, dV


def test_causal_is_not_discounted(trace):
    result = trace(lambda *a: sdpa(*a, is_causal=True), *qkv(1, 2, 16, 16, 8))
    assert result.flops == 4 * 2 * 16 * 16 * 8
    assert result.calls[0].attributes["causal"] is True


def test_results_are_those_of_the_program(trace):
    args = qkv(2, 3, 16, 20, 8)
    assert torch.allclose(trace(sdpa, *args).output, sdpa(*args), atol=1e-5)


KERNELS = torch.ops.aten


@pytest.mark.parametrize(
    "kernel",
    [
        lambda q: KERNELS._flash_attention_forward(q, q, q, None, None, 16, 16, 0.0, False, False),
        lambda q: KERNELS._efficient_attention_forward(q, q, q, None, None, None, None, None, 0.0, 0, True),
        lambda q: KERNELS._scaled_dot_product_flash_attention(*[q.transpose(1, 2)] * 3),
        lambda q: KERNELS._scaled_dot_product_efficient_attention(*[q.transpose(1, 2)] * 3, None, True),
    ],
)
def test_kernel_layouts(trace, kernel):
    """The low-level kernels take (batch, length, heads, size), the others (batch, heads, length, size)."""
    q = torch.empty(2, 16, 4, 8, device="meta", dtype=torch.float16)
    assert trace(kernel, q).flops == 4 * (2 * 4) * 16 * 16 * 8


EMBED = 16
PROJECTIONS = 2 * 10 * EMBED * 3 * EMBED + 2 * 10 * EMBED * EMBED
SELF_ATTENTION = PROJECTIONS + 4 * 2 * 5 * 5 * EMBED  # batch 2, length 5


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_multi_head_attention_fast_path_on_or_off(trace, rand, fast, weights, device):
    layer = nn.MultiheadAttention(EMBED, 4, batch_first=True, device=device).train(not fast)

    def program(model, x):
        with torch.set_grad_enabled(not fast):
            return model(x, x, x, need_weights=weights)[0]

    assert trace(program, layer, rand(2, 5, EMBED, device=device)).flops == SELF_ATTENTION


def test_explicit_products_are_twice_in_backward(trace, rand):
    layer = nn.MultiheadAttention(EMBED, 4, batch_first=True)
    result = trace(lambda m, x: m(x, x, x)[0], layer, rand(2, 5, EMBED, grad=True), backward=True)
    assert (result.flops, result.flops_backward) == (SELF_ATTENTION, 2 * SELF_ATTENTION)


def test_cross_attention(trace, rand):
    layer = nn.MultiheadAttention(EMBED, 4, batch_first=True)
    result = trace(lambda m, q, c: m(q, c, c, need_weights=False)[0], layer, rand(2, 5, EMBED), rand(2, 7, EMBED))
    assert result.flops == 2 * 10 * 256 + 2 * 14 * 16 * 32 + 4 * 2 * 5 * 7 * 16 + 2 * 10 * 256


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_transformer_encoder(trace, rand, fast, device):
    layer = nn.TransformerEncoderLayer(EMBED, 4, 32, batch_first=True)
    model = nn.TransformerEncoder(layer, 3).train(not fast).to(device)
    with torch.set_grad_enabled(not fast):
        result = trace(model, rand(2, 5, EMBED, device=device))
    assert result.flops == 3 * (SELF_ATTENTION + 2 * 2 * 10 * EMBED * 32)


def test_padding_that_the_fast_path_drops_is_not_counted(trace, rand):
    """Lengths 5 and 3: the encoder packs them into a nested tensor of 8 rows."""
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(EMBED, 4, 32, batch_first=True), 2).eval()
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    with torch.no_grad():
        result = trace(lambda m, x: m(x, src_key_padding_mask=padding), model, rand(2, 5, EMBED))
    rows, pairs = 5 + 3, 25 + 9
    assert result.flops == 2 * (2 * rows * 16 * 48 + 4 * pairs * 16 + 2 * rows * 256 + 4 * rows * 16 * 32)


def test_jagged_sequences_count_their_own_lengths(trace, rand):
    def program(x):
        y = x.unflatten(-1, (4, 4)).transpose(1, 2)
        return sdpa(y, y, y)

    jagged = torch.nested.nested_tensor([rand(3, 16), rand(5, 16)], layout=torch.jagged)
    assert trace(program, jagged).flops == 4 * (3 * 3 + 5 * 5) * 16


def test_flex_attention_counts_the_blocks_it_keeps(trace, rand):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    q = rand(1, 2, 256, 16, grad=True)
    dense = 4 * 2 * 256 * 256 * 16
    result = trace(flex_attention, q, q, q, backward=True)
    assert (result.flops, result.flops_backward) == (dense, dense * 5 // 2)
    causal = create_block_mask(lambda b, h, i, j: i >= j, None, None, 256, 256, device="cpu")
    result = trace(lambda x: flex_attention(x, x, x, block_mask=causal), q)
    assert result.flops == dense * 3 // 4  # 3 of 4 blocks of 128 x 128

"""Attention: two products per query, key and head forward, five in a fused backward. No discount for causal masks."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from roofline.work.record import Product
from roofline.work.registry import Work, formula

FORWARD = (1, 1)
"""Products over the head size of the keys and of the values: S = Q K^T and O = P V."""
BACKWARD = (3, 2)
"""A fused backward makes S again, then dQ = dS K and dK = dS^T Q; and dP = dO V^T, dV = P^T dO."""


def attention_work(
    q: Sequence[int],
    k: Sequence[int],
    v: Sequence[int],
    products: tuple[int, int] = FORWARD,
    **attributes: Any,
) -> Work:
    """Shapes (batch …, heads, length, head size). Grouped keys and values serve several heads: those of q count."""
    return _work(prod(q[:-2]), q[-2], k[-2], q[-1], v[-1], products, attributes)


def _work(
    batch: int, queries: int, keys: int, qk_size: int, v_size: int, products: tuple[int, int], attributes: Any
) -> Work:
    pairs = batch * queries * keys
    flops = 2 * pairs * (products[0] * qk_size + products[1] * v_size)
    facts = {"head_size": qk_size, "value_size": v_size, **attributes}
    return Work(
        flops=flops,
        elementwise_flops=5 * pairs,
        product=Product(batch, queries, keys, qk_size),
        attributes=facts,
    )


def _bshd(tensor: Tensor) -> tuple[int, ...]:
    """(batch, length, heads, size) -> (batch, heads, length, size)."""
    b, s, h, d = tensor.shape
    return b, h, s, d


def _ragged(
    q: Tensor, k: Tensor, v: Tensor, q_ends: Tensor, k_ends: Tensor, longest: tuple[int, int],
    products: tuple[int, int], **attributes: Any,
) -> Work:  # fmt: skip
    """Packed sequences, (total, heads, size): sum over sequences of queries x keys; without values, at most this."""
    heads, size, v_size = q.shape[-2], q.shape[-1], v.shape[-1]
    if q_ends.device.type == "meta":
        pairs = (q_ends.numel() - 1) * int(longest[0]) * int(longest[1])
    else:
        pairs = int((q_ends.diff() * k_ends.diff()).sum())
    return _work(heads, pairs, 1, size, v_size, products, attributes)


@formula(
    "_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention", "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_fused_attention_overrideable", "scaled_dot_product_attention",
    "_scaled_dot_product_attention_math_for_mps", kind="attention",
)  # fmt: skip
def fused(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> Work:
    """Q K^T and P V."""
    return attention_work(q.shape, k.shape, v.shape)


@formula(
    "_scaled_dot_product_flash_attention_backward", "_scaled_dot_product_efficient_attention_backward",
    "_scaled_dot_product_cudnn_attention_backward", "_scaled_dot_product_flash_attention_for_cpu_backward",
    "_scaled_dot_product_fused_attention_overrideable_backward", kind="attention",
)  # fmt: skip
def fused_backward(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, *_: Any) -> Work:
    """S recomputed, then dP, dV, dQ and dK."""
    return attention_work(q.shape, k.shape, v.shape, BACKWARD)


@formula("_flash_attention_forward", kind="attention")
def flash_forward(
    q: Tensor, k: Tensor, v: Tensor, cum_seq_q: Any, cum_seq_k: Any, max_q: Any = 0, max_k: Any = 0, *_: Any
) -> Work:
    """Layout (batch, length, heads, size), or packed (total, heads, size) with the sequences' ends."""
    if cum_seq_q is not None:
        return _ragged(q, k, v, cum_seq_q, cum_seq_k, (max_q, max_k), FORWARD)
    return attention_work(_bshd(q), _bshd(k), _bshd(v))


@formula("_flash_attention_backward", kind="attention")
def flash_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, logsumexp: Tensor, cum_seq_q: Any, cum_seq_k: Any,
    max_q: Any = 0, max_k: Any = 0, *_: Any,
) -> Work:  # fmt: skip
    """Five products in the layout of the forward."""
    if cum_seq_q is not None and cum_seq_q.numel():
        return _ragged(q, k, v, cum_seq_q, cum_seq_k, (max_q, max_k), BACKWARD)
    return attention_work(_bshd(q), _bshd(k), _bshd(v), BACKWARD)


@formula("_efficient_attention_forward", "_cudnn_attention_forward", kind="attention")
def efficient_forward(
    q: Tensor, k: Tensor, v: Tensor, bias: Any, cu_seqlens_q: Any = None, cu_seqlens_k: Any = None, max_q: Any = 0,
    max_k: Any = 0, *_: Any,
) -> Work:  # fmt: skip
    """Layout (batch, length, heads, size); ragged ones have batch 1 and the sequences' ends."""
    if cu_seqlens_q is not None:
        return _ragged(q, k, v, cu_seqlens_q, cu_seqlens_k, (max_q or 0, max_k or 0), FORWARD)
    return attention_work(_bshd(q), _bshd(k), _bshd(v))


@formula("_efficient_attention_backward", "_cudnn_attention_backward", kind="attention")
def efficient_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, bias: Any, out: Tensor, cu_seqlens_q: Any = None,
    cu_seqlens_k: Any = None, max_q: Any = 0, max_k: Any = 0, *_: Any,
) -> Work:  # fmt: skip
    """Five products in the layout of the forward."""
    if cu_seqlens_q is not None:
        return _ragged(q, k, v, cu_seqlens_q, cu_seqlens_k, (max_q or 0, max_k or 0), BACKWARD)
    return attention_work(_bshd(q), _bshd(k), _bshd(v), BACKWARD)


@formula("_native_multi_head_attention", kind="attention")
def native_multi_head_attention(
    query: Tensor, key: Tensor, value: Tensor, embed: int, heads: int, qkv_weight: Tensor, qkv_bias: Any,
    proj_weight: Tensor, *_: Any,
) -> Work:  # fmt: skip
    """Input projections (rows x embed x 3 embed), attention, output projection (rows x embed x embed)."""
    return _native_attention(_lengths(query), _lengths(key), embed, heads)


@formula("_transformer_encoder_layer_fwd", kind="attention")
def encoder_layer(src: Tensor, embed: int, heads: int, *rest: Any) -> Work:
    """Self-attention as above, then two feed-forward products: 2 x 2 x rows x embed x hidden."""
    first = next(t for t in rest[12:] if isinstance(t, Tensor) and t.dim() == 2)
    attention = _native_attention(_lengths(src), _lengths(src), embed, heads)
    feed_forward = 4 * sum(_lengths(src)) * first.numel()
    return Work(
        flops=attention.flops + feed_forward, elementwise_flops=attention.elementwise_flops, product=attention.product,
        attributes={**attention.attributes, "feed_forward_flops": feed_forward},
    )  # fmt: skip


def _native_attention(queries: list[int], keys: list[int], embed: int, heads: int) -> Work:
    projections = 2 * (2 * sum(queries) + 2 * sum(keys)) * embed * embed
    pairs = sum(q * k for q, k in zip(queries, keys, strict=True))
    inner = _work(heads, pairs, 1, embed // heads, embed // heads, FORWARD, {"heads": heads})
    return Work(
        flops=projections + inner.flops, elementwise_flops=inner.elementwise_flops,
        product=Product(1, sum(queries), 3 * embed, embed),
        attributes={**inner.attributes, "projection_flops": projections},
    )  # fmt: skip


def _lengths(x: Tensor) -> list[int]:
    """Sequence length of each batch entry, (batch, length, embed) or nested."""
    if x.is_nested:
        return [int(part.shape[0]) for part in x.unbind()]
    return [x.shape[1]] * x.shape[0]


@formula("higher_order.flex_attention", kind="attention")
def flex(q: Tensor, k: Tensor, v: Tensor, score_mod: Any, block_mask: Any, *_: Any) -> Work:
    """Q K^T and P V in every block that the block mask keeps."""
    return flex_work(q, k, v, block_mask, FORWARD)


@formula("higher_order.flex_attention_backward", kind="attention")
def flex_backward(
    q: Tensor, k: Tensor, v: Tensor, out: Any, logsumexp: Any, grad: Any, grad_lse: Any, fw: Any, joint: Any,
    block_mask: Any, *_: Any,
) -> Work:  # fmt: skip
    """Five products in every block that the block mask keeps."""
    return flex_work(q, k, v, block_mask, BACKWARD)


def flex_work(q: Tensor, k: Tensor, v: Tensor, block_mask: Any, products: tuple[int, int]) -> Work:
    """`products` per query-key pair of the blocks that `block_mask` (the op's tuple) keeps."""
    batch, heads, queries, keys = q.shape[0], q.shape[1], q.shape[2], k.shape[2]
    pairs = batch * heads * queries * keys
    if any(isinstance(field, Tensor) for field in block_mask or ()):
        pairs = _kept_pairs(block_mask, batch * heads, queries, keys)
    return _work(
        1,
        pairs,
        1,
        q.shape[-1],
        v.shape[-1],
        products,
        {"block_mask": pairs != batch * heads * queries * keys},
    )


def _kept_pairs(block_mask: Any, matrices: int, queries: int, keys: int) -> int:
    """Query-key pairs in the kept blocks, partial and full. Blocks cut off by the edge count what is there."""
    q_block, k_block = [int(field) for field in block_mask if isinstance(field, int)][-2:]
    fields = [field for field in block_mask if not isinstance(field, int)]
    partial_counts, partial_indices, full_counts, full_indices = fields[:4]
    pairs = 0
    for counts, indices in ((partial_counts, partial_indices), (full_counts, full_indices)):
        if counts is None:
            continue
        if counts.device.type == "meta":
            return matrices * queries * keys
        rows = torch.arange(counts.shape[-1]) * q_block
        heights = (queries - rows).clamp(0, q_block)
        kept = torch.arange(indices.shape[-1]) < counts[..., None].cpu()
        widths = (keys - indices.cpu() * k_block).clamp(0, k_block) * kept
        pairs += int((widths.sum(-1) * heights).sum()) * (matrices // max(1, prod(counts.shape[:-1])))
    return pairs

"""Products with integer, fp8 or packed operands. Computed in the activations' dtype unless both are narrow."""

from __future__ import annotations

from math import prod
from typing import Any

import torch
from torch import Tensor

from roofline.work.formulas.matmul import product_work
from roofline.work.record import Product
from roofline.work.registry import Work, formula


@formula("_int_mm", kind="gemm")
def int_mm(a: Tensor, b: Tensor) -> Work:
    """int8 (m x k) @ (k x n) -> int32."""
    return product_work(1, a.shape[0], b.shape[1], a.shape[1], a, b, dtype=torch.int8)


@formula("_scaled_mm", "_scaled_mm_v2", kind="gemm")
def scaled_mm(a: Tensor, b: Tensor, *_: Any) -> Work:
    """fp8 product with scales: (m x k) @ (k x n)."""
    return product_work(1, a.shape[0], b.shape[1], a.shape[1], a, b, dtype=a.dtype)


@formula("_scaled_grouped_mm", "_grouped_mm", "_scaled_grouped_mm_v2", kind="gemm")
def grouped_mm(a: Tensor, b: Tensor, *_: Any, output: Tensor) -> Work:
    """One product per group; the groups split one axis, so each element of that axis is used once.

    2-d x 3-d: rows are split; 3-d x 2-d: columns; 2-d x 2-d: the summed axis (each group gives a full m x n result).
    """
    if a.dim() == 2 and b.dim() == 2:
        return product_work(1, a.shape[0], b.shape[1], a.shape[1], a, b, dtype=a.dtype)
    if a.dim() == 2 or b.dim() == 2:
        m, n = (a.shape[0], b.shape[-1]) if a.dim() == 2 else (a.shape[1], b.shape[1])
        return product_work(1, m, n, a.shape[-1], a, b, dtype=a.dtype)
    return product_work(a.shape[0], a.shape[1], b.shape[2], a.shape[2], a, b, dtype=a.dtype)


@formula(
    "_weight_int8pack_mm", "_weight_int4pack_mm", "_weight_int4pack_mm_for_cpu",
    "_weight_int4pack_mm_with_scales_and_zeros",
    "_mixed_dtypes_linear", "_dyn_quant_matmul_4bit", "_wrapped_quantized_linear_prepacked", "_wrapped_linear_prepack",
    "fbgemm_linear_int8_weight", "fbgemm_linear_int8_weight_fp32_activation", "fbgemm_linear_fp16_weight",
    "fbgemm_linear_fp16_weight_fp32_activation", kind="gemm",
)  # fmt: skip
def packed_weight_mm(x: Tensor, *_: Any, output: Tensor) -> Work:
    """Weights are packed, so n comes from the result: rows x n x k. The arithmetic is in the activations' dtype."""
    k = x.shape[-1]
    return product_work(1, x.numel() // max(1, k), output.shape[-1], k, x, dtype=x.dtype)


_LINEAR = """
    linear linear_relu linear_leaky_relu linear_tanh linear_dynamic linear_relu_dynamic linear_dynamic_fp16
    linear_relu_dynamic_fp16 linear_dynamic_fp16_unpacked_weight linear_with_input_q_dq_qweight_dq_output_fp32
"""


@formula(*(f"quantized.{name}" for name in _LINEAR.split()), kind="gemm")
def quantized_linear(x: Tensor, *_: Any, output: Tensor) -> Work:
    """Packed int8 weights: rows x n x k; dynamic ones quantise the activations on the way, so it is int8 work."""
    k = x.shape[-1]
    return product_work(1, x.numel() // max(1, k), output.shape[-1], k, dtype=torch.int8)


@formula(*(f"quantized.{name}" for name in ("matmul", "bmm")), kind="gemm")
def quantized_matmul(a: Tensor, b: Tensor, *_: Any, output: Tensor) -> Work:
    """Both operands quantised."""
    return product_work(prod(output.shape[:-2]), a.shape[-2], b.shape[-1], a.shape[-1], dtype=torch.int8)


@formula(*(f"quantized.conv{d}d{end}" for d in (1, 2, 3) for end in ("", "_relu", "_add", "_add_relu", "_dynamic")),
         *(f"quantized.conv_transpose{d}d" for d in (1, 2, 3)), kind="conv")  # fmt: skip
def quantized_conv(x: Tensor, *rest: Any, output: Tensor) -> Work:
    """2 x (weight elements per output channel) for every output element; transposed: per input element."""
    packed = next(p for p in rest if hasattr(p, "unpack"))
    weight = packed.unpack()[0]
    transposed = bool(packed.transpose()) if hasattr(packed, "transpose") else False
    per_element = weight.numel() // max(1, weight.shape[0])
    elements = x.numel() if transposed else output.numel()
    product = Product(1, elements // max(1, weight.shape[0]), weight.shape[0], per_element)
    return Work(flops=2 * elements * per_element, product=product, dtype=torch.int8)

"""Operators without matrix work: element-wise, norms, softmax, pooling, reductions, copies.

Their arithmetic goes to a second counter and is approximate: so many operations per element, as listed below. A
transcendental counts as one operation.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log2
from typing import Any

import torch
from torch import Tensor

from roofline.work.record import Kind
from roofline.work.registry import Entry, Work, formula


def tensors(value: Any) -> list[Tensor]:
    """All tensors in (nested lists of) arguments or results."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors(item)]
    return []


def per_output(cost: int) -> Callable[..., Work]:
    """`cost` operations for each element of the (first) result."""

    def work(*args: Any, output: Any, **kwargs: Any) -> Work:
        if isinstance(output, Tensor):
            return Work(elementwise_flops=cost * output.numel())
        return Work(elementwise_flops=cost * max((t.numel() for t in tensors(output)), default=0))

    return work


def per_input(cost: int) -> Callable[..., Work]:
    """`cost` operations for each element of the largest argument."""

    def work(*args: Any, **kwargs: Any) -> Work:
        return Work(elementwise_flops=cost * max((t.numel() for t in tensors(args)), default=0))

    return work


def per_list(cost: int) -> Callable[..., Work]:
    """`cost` operations for each element of the tensors in the first argument."""

    def work(first: Any, *args: Any, **kwargs: Any) -> Work:
        return Work(elementwise_flops=cost * sum(t.numel() for t in tensors(first)))

    return work


POINTWISE = Entry(per_output(1), "elementwise", None, True)
"""For every operator that torch itself tags as pointwise and that has no row below."""
FOREACH = Entry(per_list(1), "elementwise", None, False)
"""For the `_foreach_…` family: one operation per element of the list."""

_PER_OUTPUT: tuple[tuple[Kind, int, str], ...] = (
    ("copy", 0, """
        clone copy _to_copy _copy_from contiguous cat stack concat _cat repeat constant_pad_nd roll flip tile
        _resize_output set_data pixel_shuffle pixel_unshuffle channel_shuffle native_channel_shuffle unfold_copy
        im2col col2im tril triu block_diag slice_backward select_backward diagonal_backward unfold_backward
        as_strided_copy as_strided_scatter slice_scatter select_scatter diagonal_scatter _unsafe_view_copy
        view_copy reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d
        replication_pad3d repeat_interleave rot90 _pin_memory split_with_sizes_copy permute_copy transpose_copy
        expand_copy t_copy narrow_copy unbind_copy unsqueeze_copy squeeze_copy alias_copy detach_copy
        _reshape_copy _nested_view_from_jagged_copy fill zero zeros ones full zeros_like ones_like full_like
        new_zeros _new_zeros_with_same_feature_meta new_ones new_full scalar_tensor eye arange range linspace
        logspace _local_scalar_dense masked_scatter resize _foreach_copy _foreach_zero tril_indices triu_indices
        vander complex real_copy _conj_physical resolve_conj resolve_neg quantize_per_tensor
        quantize_per_channel quantize_per_tensor_dynamic dequantize int_repr unsafe_split
        unsafe_split_with_sizes unsafe_chunk split_copy chunk _chunk_cat lift _dim_arange
        _upsample_nearest_exact1d hann_window hamming_window _to_dense _to_sparse _coalesce to_dense sparse_mask
        to_padded_tensor _nested_tensor_from_mask _nested_from_padded _nested_tensor_from_tensor_list
        _jagged_to_padded_dense_forward _padded_dense_to_jagged_forward _convert_indices_from_coo_to_csr
        _convert_indices_from_csr_to_coo _to_sparse_csr _sparse_coo_tensor_with_dims_and_tensors to_mkldnn
        _reshape_from_tensor mkldnn_reorder_conv2d_weight upsample_nearest1d upsample_nearest2d
        upsample_nearest3d segment_reduce _assert_tensor_metadata _assert_async _transform_bias_rescale_qkv
        _nested_tensor_size _nested_tensor_strides _pack_padded_sequence _pad_packed_sequence nonzero
        nonzero_static masked_select diag_embed diagonal_copy select_copy slice_copy values_copy indices_copy
        lift_fresh_copy view_as_real_copy view_as_complex_copy _stack _reshape_alias_copy bartlett_window
        blackman_window kaiser_window fft_fftfreq fft_rfftfreq _to_sparse_bsr _to_sparse_csc _to_sparse_bsc
        sparse_coo_tensor sparse_compressed_tensor put masked_scatter_backward
    """),
    ("elementwise", 1, """
        fused_dropout native_dropout native_dropout_backward _fused_dropout dropout add_relu addcmul addcdiv
        where lerp threshold threshold_backward relu6 hardtanh hardtanh_backward rsub _masked_scale masked_fill
        masked_fill_ relu leaky_relu_backward bucketize searchsorted one_hot isin
        fake_quantize_per_tensor_affine histc equal _has_same_storage_numel allclose
        _amp_foreach_non_finite_check_and_unscale _amp_update_scale cross linalg_cross polar renorm
        floor_divide isinf isnan fake_quantize_per_tensor_affine_cachemask
        fake_quantize_per_channel_affine_cachemask _fake_quantize_per_tensor_affine_cachemask_tensor_qparams
        _fake_quantize_learnable_per_tensor_affine _fake_quantize_learnable_per_channel_affine
        _unsafe_masked_index_put_accumulate
        channel_last_relu _add_relu _masked_softmax_dim_mask quantized_mul _thnn_fused_rnn_pointwise
    """),
    ("elementwise", 4, """
        silu_backward gelu_backward sigmoid_backward tanh_backward elu_backward softplus_backward
        hardswish_backward hardsigmoid_backward mish_backward log_sigmoid_backward glu glu_backward silu gelu
        mish prelu _prelu_kernel _prelu_kernel_backward elu selu celu log_sigmoid_forward softplus
        rrelu_with_noise rrelu_with_noise_backward softshrink softshrink_backward hardshrink hardshrink_backward
        leaky_relu hardswish hardsigmoid
    """),
    ("pool", 8, """
        upsample_bilinear2d upsample_linear1d upsample_trilinear3d upsample_bicubic2d grid_sampler_2d
        grid_sampler_3d _upsample_bilinear2d_aa _upsample_bicubic2d_aa _upsample_nearest_exact2d
        _upsample_nearest_exact3d affine_grid_generator grid_sampler cudnn_grid_sampler
        torchvision.roi_align torchvision.roi_pool torchvision.ps_roi_align torchvision.ps_roi_pool
    """),
    ("pool", 1, """
        upsample_nearest1d_backward upsample_nearest2d_backward upsample_nearest3d_backward
        _upsample_nearest_exact1d_backward _upsample_nearest_exact2d_backward _upsample_nearest_exact3d_backward
    """),
    ("random", 1, """
        rand randn randint randperm rand_like randn_like randint_like bernoulli normal uniform random
        exponential geometric cauchy log_normal multinomial poisson binomial _sample_dirichlet _standard_gamma
    """),
    ("norm", 2, """
        _native_batch_norm_legit_no_training
    """),
)  # fmt: skip

_PER_INPUT: tuple[tuple[Kind, int, str], ...] = (
    ("reduction", 1, """
        sum mean prod amax amin max min argmax argmin any all nansum count_nonzero logical_or_reduce cumsum
        cumprod cummax cummin logcumsumexp _logcumsumexp trace _cummax_helper _cummin_helper aminmax hash_tensor
        _unique _unique2 unique_dim unique_consecutive bincount histogram _sparse_sum _nested_sum_backward
        sum_dim _is_all_true _is_any_true is_nonzero _sparse_softmax_sum value_selecting_reduction_backward
        _segment_reduce_backward _histogramdd_bin_edges _histogramdd_from_bin_cts _histogramdd_from_bin_tensors
        cumsum_backward embedding_renorm _aminmax nanmedian_reduce _fused_moving_avg_obs_fq_helper
    """),
    ("reduction", 2, """
        norm linalg_vector_norm _linalg_norm std var std_mean var_mean logsumexp dist nuclear_norm _weight_norm
        _weight_norm_interface _weight_norm_interface_backward frobenius_norm var_correction mse_loss
        mse_loss_backward l1_loss smooth_l1_loss smooth_l1_loss_backward huber_loss huber_loss_backward nll_loss
        nll_loss_forward nll_loss_backward nll_loss2d_forward nll_loss2d_backward nll_loss2d
        binary_cross_entropy binary_cross_entropy_backward binary_cross_entropy_with_logits kl_div
        soft_margin_loss soft_margin_loss_backward multilabel_margin_loss_forward multi_margin_loss _ctc_loss
        _ctc_loss_backward _cudnn_ctc_loss _use_cudnn_ctc_loss multilabel_margin_loss_backward
        multi_margin_loss_backward _embedding_bag_per_sample_weights_backward
    """),
    ("softmax", 4, """
        _softmax _log_softmax _softmax_backward_data _log_softmax_backward_data _safe_softmax _masked_softmax
        _masked_softmax_backward softmax log_softmax _sparse_softmax _sparse_log_softmax
        _sparse_softmax_backward_data _nested_tensor_softmax_with_shape
    """),
    ("norm", 5, """
        native_layer_norm native_group_norm native_batch_norm cudnn_batch_norm miopen_batch_norm
        _native_batch_norm_legit _native_batch_norm_legit_functional _batch_norm_with_update
        batch_norm_update_stats _batch_norm_no_update batch_norm_stats batch_norm_elemt
        batch_norm_gather_stats_with_counts instance_norm _fused_rms_norm rms_norm local_response_norm
        batch_norm_gather_stats _batch_norm_with_update_functional native_norm _batch_norm_impl_index
    """),
    ("norm", 8, """
        native_layer_norm_backward native_group_norm_backward native_batch_norm_backward
        cudnn_batch_norm_backward miopen_batch_norm_backward batch_norm_backward _fused_rms_norm_backward
        batch_norm_backward_reduce batch_norm_backward_elemt _batch_norm_impl_index_backward
    """),
    ("pool", 1, """
        max_pool2d_with_indices max_pool3d_with_indices avg_pool1d avg_pool2d avg_pool3d _adaptive_avg_pool2d
        _adaptive_avg_pool3d adaptive_max_pool2d adaptive_max_pool3d max_pool2d max_pool1d mkldnn_max_pool2d
        max_pool3d fractional_max_pool2d fractional_max_pool3d max_unpool2d max_unpool3d
        max_pool2d_with_indices_backward max_pool3d_with_indices_backward avg_pool2d_backward
        avg_pool3d_backward _adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward
        adaptive_max_pool2d_backward adaptive_max_pool3d_backward max_pool2d_backward
        fractional_max_pool2d_backward fractional_max_pool3d_backward adaptive_avg_pool2d adaptive_avg_pool1d
        adaptive_max_pool1d mkldnn_adaptive_avg_pool2d adaptive_avg_pool3d adaptive_avg_pool3d_backward
        quantized_max_pool1d quantized_max_pool2d quantized_max_pool3d reflection_pad1d_backward
        reflection_pad2d_backward reflection_pad3d_backward replication_pad1d_backward
        replication_pad2d_backward replication_pad3d_backward
    """),
    ("pool", 8, """
        upsample_bilinear2d_backward upsample_linear1d_backward upsample_trilinear3d_backward
        upsample_bicubic2d_backward grid_sampler_2d_backward grid_sampler_3d_backward
        _upsample_bilinear2d_aa_backward _upsample_bicubic2d_aa_backward
    """),
    ("sort", 1, """
        torchvision.nms sort topk argsort msort kthvalue median nanmedian mode
    """),
    ("elementwise", 12, """
        _fused_adam _fused_adamw _fused_sgd _fused_adagrad
    """),
    ("elementwise", 12, """
        _thnn_fused_lstm_cell _thnn_fused_lstm_cell_backward_impl _thnn_fused_gru_cell
        _thnn_fused_gru_cell_backward
    """),
)  # fmt: skip

for _kind, _cost, _names in _PER_OUTPUT:
    formula(*_names.split(), kind=_kind)(per_output(_cost))
for _kind, _cost, _names in _PER_INPUT:
    formula(*_names.split(), kind=_kind)(per_input(_cost))


@formula("_fft_r2c", "_fft_c2r", "_fft_c2c", kind="fft")
def fft(x: Tensor, dim: list[int], *rest: Any, output: Tensor) -> Work:
    """Cooley-Tukey: 5 N log2 N operations for each complex transform of N points, half of it for real ones."""
    larger = x if x.numel() >= output.numel() else output
    points = 1
    for axis in dim:
        points *= larger.shape[axis]
    real = not (x.is_complex() and output.is_complex())
    return Work(elementwise_flops=int((2.5 if real else 5) * larger.numel() * log2(points)) if points > 1 else 0)


@formula("_cdist_forward", "_cdist_backward", "_pdist_forward", "_pdist_backward", kind="reduction")
def distances(first: Tensor, *rest: Any, output: Tensor) -> Work:
    """Difference, power and sum over the last axis, for every pair."""
    return Work(elementwise_flops=3 * output.numel() * first.shape[-1])


def entry_by_tag(func: Any) -> Entry | None:
    """The entry of an operator without a row of its own: pointwise by torch's own tag, or a list of pointwise ones."""
    if func._schema.name.startswith("aten::_foreach_"):
        return FOREACH
    return POINTWISE if torch.Tag.pointwise in func.tags or _has_pointwise_form(func._opname) else None


def _has_pointwise_form(name: str) -> bool:
    """Whether torch tags another overload, or the plain form of an in-place operator, and only forgot this one."""
    packets = (getattr(torch.ops.aten, form, None) for form in {name, name.removesuffix("_")} if form)
    return any(
        torch.Tag.pointwise in getattr(packet, overload).tags
        for packet in packets if packet is not None for overload in packet.overloads()
    )  # fmt: skip

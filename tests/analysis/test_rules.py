from dataclasses import replace

import numpy as np
import programs
import pytest

from roofline.analysis import rules
from roofline.analysis.constants import shipped
from roofline.analysis.demand import demand
from roofline.analysis.hardware import hardware
from roofline.analysis.software import AS_TRACED, TORCH_1_9, Software
from roofline.machine.catalog import machine

CONSTANTS = shipped().values


def gpu(name):
    return hardware(machine(name, prefer="datasheet"))


def asked(*calls, software=AS_TRACED):
    return demand(programs.program(*calls), software)


def rate(name, *calls, software=AS_TRACED):
    return float(rules.product_rate(asked(*calls, software=software), gpu(name), CONSTANTS)[0])


def test_tf32_is_the_users_switch():
    product = programs.product(dtype="float32", pipe="fp32")
    assert rules.tf32_switch(product, AS_TRACED) == "fp32"
    assert rules.tf32_switch(product, TORCH_1_9) == "tensor_tf32"
    assert rules.tf32_switch(product, Software(tf32_convolutions=True)) == "fp32"
    assert rules.tf32_switch(programs.product(), TORCH_1_9) == "tensor_fp16_fp32"


def test_tf32_runs_on_the_lanes_before_ampere():
    product = programs.product(dtype="float32", pipe="tensor_tf32")
    # 2080 Ti: 64 lanes x 2 = 128 flops per clock and SM; A100: TF32 at half the 2048 of fp16.
    assert rate("RTX 2080 Ti", product) == pytest.approx(128 * CONSTANTS.fp32_efficiency)
    assert rate("A100 SXM4 40GB", product) == pytest.approx(1024 * CONSTANTS.tensor_efficiency)


def test_fp32_accumulation_runs_at_half_rate_on_geforce():
    # GA102 twice: 512 flops per clock and SM on the 3090, 1024 on the A40.
    assert rate("A40", programs.product()) == pytest.approx(2 * rate("RTX 3090", programs.product()))


def test_pascal_has_no_fast_fp16():
    # 1080 Ti: 128 lanes x 2 = 256 flops per clock and SM, and conversions on top.
    expected = 256 * CONSTANTS.fp32_efficiency * CONSTANTS.emulated_half_rate
    assert rate("GTX 1080 Ti", programs.product()) == pytest.approx(expected)


def test_odd_strides_miss_the_tensor_cores_in_old_libraries_and_slow_new_ones():
    odd, even = programs.product(m=197, n=197, k=64, batch=768), programs.product(m=192, n=192, k=64, batch=768)
    assert rate("A40", odd, software=TORCH_1_9) == pytest.approx(256 * CONSTANTS.odd_stride_rate)
    assert rate("A40", odd) == pytest.approx(rate("A40", even) * CONSTANTS.unaligned_share)
    assert rate("A40", even, software=TORCH_1_9) == rate("A40", even)


def test_winograd_may_take_over_3x3_stride_one_fp32_convolutions_only():
    fp32 = {"dtype": "float32", "pipe": "tensor_tf32"}
    calls = [
        programs.convolution(0, **fp32), programs.convolution(1, stride=2, **fp32),
        programs.convolution(2, kernel=1, **fp32), programs.convolution(3, groups=64, **fp32), programs.convolution(4),
    ]  # fmt: skip
    assert list(rules.winograd_takes_over(asked(*calls), gpu("A40"), CONSTANTS)) == [True, False, False, False, False]


def test_layout_is_converted_around_tensor_core_convolutions_in_nchw():
    calls = [
        programs.convolution(0),
        programs.convolution(1, layout="channels_last"),
        programs.convolution(2, groups=64),
    ]
    elements = rules.layout_elements(asked(*calls), gpu("A40"), CONSTANTS)
    # Input and output of 64 x 64 x 56 x 56 each, and 64 x 64 x 9 weights.
    assert elements[0] == pytest.approx((2 * 64 * 64 * 56 * 56 + 64 * 64 * 9) * CONSTANTS.layout_share)
    assert list(elements[1:]) == [0, 0]
    assert not rules.layout_elements(asked(*calls), gpu("GTX 1080 Ti"), CONSTANTS).any()


def test_written_out_attention_does_the_same_products_and_more_traffic():
    fused, plain = asked(programs.attention()), asked(programs.attention(), software=TORCH_1_9)
    assert plain.flops.sum() == fused.flops.sum()
    assert sorted(plain.equation) == sorted(["copy"] * 4 + ["product"] * 2 + ["norm", "pointwise"])
    # Scores of 64 x 12 x 197 x 197 fp16 are written, read and written, read and written, and read: six passes.
    scores = 64 * 12 * 197 * 197 * 2
    assert plain.moved.sum() > 6 * scores > fused.moved.sum()
    assert set(plain.call) == {0}


def test_a_batch_norm_passes_twice_over_its_input_in_training_only():
    size = 64 * programs.MIB
    reads, writes = [programs.Access(0, size), programs.Access(1, 256)], [programs.Access(2, size)]
    norm = programs.call(0, "aten.native_batch_norm", "norm", reads, writes)
    backward = programs.pointwise(1, phase="backward")
    inference, training = asked(norm), asked(norm, backward)
    assert inference.elements[0] == size / 2
    assert training.elements[0] == size
    assert training.moved[0] == inference.moved[0] + size


def test_a_recurrent_backward_repeats_the_steps_of_its_forward():
    facts = {"steps": 100, "layers": 2, "bidirectional": True}
    forward = programs.call(0, "aten._cudnn_rnn", "recurrent", [], [], attributes=facts)
    backward = programs.call(1, "aten._cudnn_rnn_backward", "recurrent", [], [], phase="backward")
    found = asked(forward, backward)
    # 100 steps x 2 layers x 2 directions.
    assert list(found.launches) == [400 * rules.RECURRENT_KERNELS["forward"], 400 * rules.RECURRENT_KERNELS["backward"]]


def test_ecc_and_measured_bandwidth():
    a40 = gpu("A40")
    on, off = (rules.dram_bandwidth(replace(a40, ecc=ecc), CONSTANTS) for ecc in (True, False))
    assert off == pytest.approx(696e9 * CONSTANTS.dram_efficiency)
    assert on == pytest.approx(off * CONSTANTS.ecc_bandwidth)
    assert rules.dram_bandwidth(replace(a40, ecc=False, dram_measured=True), CONSTANTS) == 696e9


def test_the_power_limit_falls_with_load_and_never_raises_the_clock():
    share = np.array([0.01, 0.3, 0.6, 1.0])
    clocks = rules.power_limited(share, gpu("T4"), CONSTANTS)
    assert all(np.diff(clocks) <= 0) and clocks[0] == 1.0
    # T4: base over boost 585 / 1590 MHz, at full load.
    assert clocks[-1] == pytest.approx((585 / 1590) ** CONSTANTS.power_depth)


def test_geforce_boards_run_above_their_nominal_boost():
    assert rules.top_clock(gpu("RTX 3090"), CONSTANTS) == pytest.approx(1695e6 * CONSTANTS.consumer_clock)
    assert rules.top_clock(gpu("A40"), CONSTANTS) == 1740e6


def test_a_reused_operand_stays_in_the_l2_while_it_fits():
    l2 = gpu("A40").l2_bytes
    # None gone at 0.85 L2 sizes, half at the middle of 0.85 and 1.7, all from 1.7 on and for what was never there.
    missed = rules.l2_misses(np.array([0.5, 0.85, 1.275, 1.7, np.inf]) * l2, gpu("A40"))
    assert missed == pytest.approx([0, 0, 0.5, 1, 1])


def test_few_channels_are_gathered_one_by_one_but_never_slower_than_the_lanes():
    first = programs.convolution(channels=3)
    lanes = 256 * CONSTANTS.fp32_efficiency
    # Padded from 3 to 8 channels: 8 / 3 of the work.
    narrow = 4096 * CONSTANTS.tensor_efficiency * CONSTANTS.unaligned_share / (8 / 3)
    assert rate("H200 SXM 141GB", first) == pytest.approx(max(narrow, lanes))
    assert rate("RTX 3090", first) == pytest.approx(lanes)


def test_a_batch_norm_in_nhwc_is_as_fast_as_an_element_wise_kernel():
    access = [programs.Access(8, 1024)]
    norm = programs.call(1, "aten.native_batch_norm", "norm", access, access)
    nchw, nhwc = (asked(programs.convolution(layout=layout), norm) for layout in ("contiguous", "channels_last"))
    assert (nchw.equation[1], nhwc.equation[1]) == ("norm", "pointwise")


def biased(**more):
    """A convolution of 64 x 64 x 56 x 56 outputs with a bias."""
    return programs.convolution(shapes=((64, 64, 56, 56), (64, 64, 3, 3), (64,)), **more)


def test_a_bias_is_added_to_the_output_of_a_convolution_in_a_kernel_of_its_own():
    plain, found = asked(programs.convolution()), asked(biased())
    assert list(found.equation) == ["product", "copy"] and list(plain.equation) == ["product"]
    # Read and written once more, in two bytes each; the host does not issue it apart.
    outputs = 64 * 64 * 56 * 56
    assert (found.elements[1], found.moved[1], found.host_calls) == (outputs, 2 * outputs * 2, 1)
    assert found.flops.sum() == plain.flops.sum()
    assert list(asked(biased(groups=64)).equation) == ["product"]


def test_the_gradient_of_a_bias_is_a_sum_over_the_gradient_of_the_output():
    backward = programs.convolution(phase="backward")
    wanted, unwanted = (
        replace(backward, attributes=dict(backward.attributes) | {"gradients": (True, True, bias)})
        for bias in (True, False)
    )
    assert list(asked(unwanted).equation) == list(asked(backward).equation) == ["product"]
    assert list(asked(wanted).equation) == ["product", "pointwise"]
    assert asked(wanted).elements[1] == 64 * 64 * 56 * 56


def test_instructions_limit_special_functions_and_indexed_operands_but_not_sums():
    size = 64 * programs.MIB
    image = (1024, 32768)  # 2^25 fp16 elements are 64 MiB
    plain = programs.pointwise(size=size, shapes=(image, image, ()), elementwise_flops=2**25)
    special = programs.pointwise(size=size, shapes=(image,), elementwise_flops=4 * 2**25)
    broadcast = programs.pointwise(size=size, shapes=(image, (32768,)), elementwise_flops=2**25)
    assert [asked(call).elements[0] for call in (plain, special, broadcast)] == [0, 2**25, 2**25]
    assert [asked(call).equation[0] for call in (plain, special, broadcast)] == ["pointwise", "pointwise", "copy"]

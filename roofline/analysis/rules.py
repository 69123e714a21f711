"""What libraries make of an op call: small named rules, each with its reason. Calls in, kernels or factors out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from roofline.analysis.constants import Constants
from roofline.analysis.demand import Demand, Kernel, basic
from roofline.analysis.hardware import Hardware
from roofline.analysis.software import Software
from roofline.work.record import Access, Call

RECURRENT_KERNELS = {"forward": 6, "backward": 18}
"""Kernels per step and layer of a recurrent layer: products, gates and copies; three times that backward."""
CHANNEL_GRAIN = 8
"""Input channels of a tensor-core convolution are padded to a multiple of this."""


def kernels_of(call: Call, software: Software, training: bool, nhwc: bool = False) -> tuple[Kernel, ...]:
    """The kernels that a library runs for one op call."""
    pipe = tf32_switch(call, software)
    if call.kind == "attention" and not software.fused_attention:
        return unfused_attention(call, pipe)
    if call.kind == "conv":
        return convolution(call, pipe)
    if call.kind == "recurrent":
        return (basic(call, pipe=pipe, launches=recurrent_steps(call)),)
    if call.kind == "elementwise":
        return (elementwise(call),)
    if "batch_norm" in call.op and nhwc and not training:
        return (channels_last_norm(call),)
    if "batch_norm" in call.op and training:
        return (two_passes(call),)
    return (basic(call, pipe=pipe),)


def tf32_switch(call: Call, software: Software) -> str | None:
    """torch <= 1.11 lets fp32 products run as TF32, later ones only convolutions: a switch of the user."""
    if call.pipe not in ("fp32", "tensor_tf32") or call.dtype != "float32":
        return call.pipe
    allowed = software.tf32_convolutions if call.kind in ("conv", "recurrent") else software.tf32_products
    return call.pipe if allowed is None else ("tensor_tf32" if allowed else "fp32")


def convolution(call: Call, pipe: str | None) -> tuple[Kernel, ...]:
    """An implicit product, backward two of them (for inputs and for weights), and what its bias costs."""
    facts = call.attributes
    kernel, groups = tuple(facts.get("kernel", ())), facts.get("groups", 1)
    stride_one = all(step == 1 for step in facts.get("stride", ()))
    depthwise = groups > 1 and groups == facts.get("in_channels")
    channels = max(facts.get("in_channels", groups) // groups, 1)
    return (
        basic(
            call, pipe="fp32" if depthwise and pipe == "tensor_tf32" else pipe, depthwise=depthwise,
            layout=facts.get("layout") == "contiguous" and not depthwise and kernel != (),
            winograd=kernel == (3, 3) and stride_one and groups == 1,
            launches=2 if call.phase == "backward" else 1, few_channels=channels % CHANNEL_GRAIN != 0,
            backward=call.phase == "backward", padding=-(-channels // CHANNEL_GRAIN) * CHANNEL_GRAIN / channels,
        ),
        *bias(call, depthwise),
    )  # fmt: skip


def bias(call: Call, depthwise: bool) -> tuple[Kernel, ...]:
    """The bias of a convolution: torch adds it to the output, and sums its gradient, in a kernel of its own.

    Adding it indexes every element, as a permuting copy does. Only the depthwise forward kernel adds it on the way.
    """
    item = basic(call).item_bytes
    if call.phase == "backward":
        summed = call.attributes.get("gradients", (False,))[-1]
        gradient = call.reads[:1]
        return (_alone(call, "reduction", gradient, call.writes[-1:], gradient[0].bytes // item),) if summed else ()
    added = call.op.endswith("convolution") and len(call.shapes) > 2 and not depthwise
    return (_alone(call, "copy", call.writes, call.writes, call.writes[0].bytes // item),) if added else ()


def _alone(call: Call, kind: str, reads: tuple[Access, ...], writes: tuple[Access, ...], elements: int) -> Kernel:
    """A kernel without arithmetic to speak of, run for a part of `call`."""
    item = basic(call).item_bytes
    return Kernel(
        call=call.index, kind=kind, item_bytes=item, reads=reads, writes=writes, elements=elements, op_call=False
    )  # fmt: skip


def elementwise(call: Call) -> Kernel:
    """One flop per element takes a few instructions, and bytes limit it; special functions take dozens.

    A broadcast operand leaves the kernels that read vectors: it is indexed for every element, as in permuting copies.
    """
    if len({shape for shape in call.shapes if shape}) > 1:
        return basic(call, kind="copy")
    kernel = basic(call)
    return basic(call, elements=0) if call.elementwise_flops <= kernel.elements else kernel


def recurrent_steps(call: Call) -> int:
    """Steps depend on each other: every step of every layer and direction launches its own kernels."""
    facts = call.attributes
    directions = 2 if facts.get("bidirectional") else 1
    return RECURRENT_KERNELS[call.phase] * int(facts.get("steps", 1)) * int(facts.get("layers", 1)) * directions


def recurrent_facts(calls: Iterable[Call]) -> Iterator[Call]:
    """The calls, each recurrent backward told the steps and layers of its forward; backward runs in reverse."""
    forward: list[Call] = []
    for call in calls:
        if call.kind == "recurrent" and call.phase == "forward":
            forward.append(call)
        elif call.kind == "recurrent" and "steps" not in call.attributes and forward:
            call = replace(call, attributes=forward.pop().attributes)
        yield call


def channels_last_norm(call: Call) -> Kernel:
    """A batch norm in NHWC applies one factor per column to whole rows: as fast as an element-wise kernel."""
    return basic(call, kind="elementwise")


def two_passes(call: Call) -> Kernel:
    """In training a batch norm reads its inputs once for the statistics and again to apply them, backward as well."""
    kernel = basic(call)
    large = tuple(a for a in call.reads if 2 * a.bytes > max(other.bytes for other in call.reads))
    elements = 2 * sum(access.bytes for access in large) // kernel.item_bytes
    return basic(call, elements=elements, reads=(*call.reads, *large), launches=2)


def unfused_attention(call: Call, pipe: str | None) -> tuple[Kernel, ...]:
    """Attention as written out before torch 2: copies of q, k and v, product, scale, softmax, product, copy back."""
    product, size = call.product, call.attributes.get("value_size", 64)
    if product is None or call.phase == "backward":
        return (basic(call, pipe=pipe),)
    item = basic(call).item_bytes
    scores = product.batch * product.m * product.n
    storage = -8 * (call.index + 1)  # no traced storage has a negative number

    def tensor(number: int, elements: int) -> tuple[Access, ...]:
        return (Access(storage + number, elements * item),)

    q, k, v, out, table, scaled, weights, merged = (
        tensor(i, elements)
        for i, elements in enumerate(
            (product.batch * product.m * product.k, product.batch * product.n * product.k,
             product.batch * product.n * size, product.batch * product.m * size, scores, scores, scores,
             product.batch * product.m * size)
        )
    )  # fmt: skip

    def move(source: tuple[Access, ...], target: tuple[Access, ...], kind: str = "copy") -> Kernel:
        return Kernel(
            call=call.index, kind=kind, item_bytes=item, reads=source, writes=target, elements=target[0].bytes // item
        )

    def bmm(reads: tuple[Access, ...], target: tuple[Access, ...], n: int, k: int) -> Kernel:
        return Kernel(
            call=call.index, kind="gemm", pipe=pipe, flops=2 * product.batch * product.m * n * k, batch=product.batch,
            m=product.m, n=n, k=k, item_bytes=item, reads=reads, writes=target,
        )  # fmt: skip

    return (
        move(q, q), move(k, k), bmm(q + k, table, product.n, product.k), move(table, scaled, "elementwise"),
        move(scaled, weights, "softmax"), move(v, v), bmm(weights + v, out, size, product.n), move(out, merged),
    )  # fmt: skip


def product_rate(demand: Demand, machine: Hardware, constants: Constants) -> np.ndarray:
    """Flops per clock and SM that each kernel's products reach when only arithmetic limits them."""
    lanes = machine.fp32_per_clock * constants.fp32_efficiency
    rate = np.where(demand.depthwise, machine.fp32_per_clock * constants.depthwise_efficiency, lanes)
    rate = np.where(demand.depthwise & demand.backward, rate * constants.depthwise_backward_share, rate)
    for pipe in sorted(set(demand.pipe)):
        mine = (demand.pipe == pipe) & ~demand.depthwise
        rate = np.where(mine, pipe_rate(pipe, machine, constants), rate)
    rate = np.where(demand.equation == "attention", rate * attention_share(demand, machine, constants), rate)
    narrow = demand.few_channels & on_tensor(demand, machine)
    rate = np.where(narrow, np.maximum(rate * constants.unaligned_share / demand.padding, lanes), rate)
    return odd_strides(rate, demand, machine, constants)


def pipe_rate(pipe: str, machine: Hardware, constants: Constants) -> float:
    """Rate of a pipe, library efficiency included; the fp32 lanes stand for units that the machine lacks.

    Tensor rates are those with fp32 accumulators, which torch asks for: half on GeForce Turing to Blackwell, L40 and
    L20. There is no TF32 or bf16 before Ampere, and no fast fp16 before Volta, where values are converted to fp32
    and back on the way.
    """
    lanes = machine.fp32_per_clock * constants.fp32_efficiency
    if pipe in machine.pipe_per_clock:
        vector = pipe in ("fp64",)
        return machine.pipe_per_clock[pipe] * (constants.fp32_efficiency if vector else constants.tensor_efficiency)
    if pipe in ("tensor_fp16_fp32", "tensor_bf16_fp32"):
        return lanes * constants.emulated_half_rate
    if pipe == "tensor_fp64":
        return pipe_rate("fp64", machine, constants)
    return lanes / 32 if pipe == "fp64" else lanes


def attention_share(demand: Demand, machine: Hardware, constants: Constants) -> np.ndarray:
    """What fused attention reaches of its pipe: softmax between its two products leaves tensor cores idle longer."""
    tensor, lanes = constants.attention_efficiency, constants.attention_lanes_efficiency
    return np.where(on_tensor(demand, machine), tensor, lanes)


def odd_strides(rate: np.ndarray, demand: Demand, machine: Hardware, constants: Constants) -> np.ndarray:
    """16-bit products whose rows are no multiple of eight elements (197 tokens, 50257 words).

    Libraries of torch 1.9's time leave the tensor cores; later ones use narrow loads at a part of the tensor rate.
    """
    sixteen = np.isin(demand.pipe, ("tensor_fp16_fp32", "tensor_bf16_fp32"))
    lanes = machine.fp32_per_clock * constants.odd_stride_rate
    slow = rate * constants.unaligned_share if demand.unaligned_tensor else lanes
    return np.where(sixteen & demand.odd, np.minimum(rate, slow), rate)


def winograd_takes_over(demand: Demand, machine: Hardware, constants: Constants) -> np.ndarray:
    """Which convolutions may run as fp32 Winograd: 3x3, stride one, fp32, whether or not TF32 is allowed.

    It needs fewer multiplications and no NHWC; the library takes whichever is faster.
    """
    return demand.winograd & np.isin(demand.pipe, ("fp32", "tensor_tf32"))


def layout_elements(demand: Demand, machine: Hardware, constants: Constants) -> np.ndarray:
    """Elements copied around convolutions: NCHW to NHWC for tensor cores; none if the network is NHWC.

    Backward the two products each want their operands in a layout of their own, and weight gradients are summed from
    partial ones, whatever the units.
    """
    forward = demand.layout & ~demand.backward & on_tensor(demand, machine)
    backward = demand.conv & demand.backward & ~demand.depthwise
    share = np.where(backward, constants.conv_backward_copies, np.where(forward, constants.layout_share, 0.0))
    return demand.moved / demand.item * share


def on_tensor(demand: Demand, machine: Hardware) -> np.ndarray:
    """Which kernels find tensor units for their format on this machine."""
    return np.array([pipe.startswith("tensor") and pipe in machine.pipe_per_clock for pipe in demand.pipe])


def dram_bandwidth(machine: Hardware, constants: Constants) -> float:
    """What kernels get of the pin bandwidth; ECC in GDDR memory takes its share."""
    efficiency = 1.0 if machine.dram_measured else constants.dram_efficiency
    return machine.dram_bytes_per_s * efficiency * (constants.ecc_bandwidth if machine.ecc else 1.0)


def top_clock(machine: Hardware, constants: Constants) -> float:
    """GeForce boards hold clocks above their nominal boost, data-centre boards do not."""
    return machine.clock_hz * (constants.consumer_clock if machine.consumer else 1.0)


def power_limited(share: np.ndarray, machine: Hardware, constants: Constants) -> np.ndarray:
    """Clock under the board's power limit, relative to its top clock.

    `share` is the part of the time in which the arithmetic units would be busy at the top clock. At full load the
    limit holds the clock near the base clock, which is what the data sheet promises; power grows with activity and
    with a power of the clock, so the clock recovers as share ** -power_activity, up to the top.
    """
    raised = constants.consumer_clock if machine.consumer else 1.0
    floor = (machine.base_share / raised) ** constants.power_depth
    return np.minimum(1.0, floor * np.maximum(share, 1e-3) ** -constants.power_activity)


def l2_misses(distance: np.ndarray, machine: Hardware) -> np.ndarray:
    """Share of a reused operand that has left the L2: from none at 0.85 of its size passed since to all at 1.7."""
    return np.clip((distance / machine.l2_bytes - 0.85) / 0.85, 0.0, 1.0)

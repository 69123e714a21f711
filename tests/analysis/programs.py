"""Small hand-made traces: sizes that a reader can compute with."""

from roofline.work.record import Access, Call, Product, Trace

MIB = 2**20


def call(index, op, kind, reads, writes, **more):
    fields = {
        "module": f"layer{index}", "phase": "forward", "flops": 0, "elementwise_flops": 0, "pipe": None,
        "dtype": "float16", "shapes": (),
    } | more  # fmt: skip
    return Call(index=index, op=op, kind=kind, reads=tuple(reads), writes=tuple(writes), **fields)


def product(index=0, m=8192, n=8192, k=8192, batch=1, dtype="float16", pipe="tensor_fp16_fp32", storage=0, **more):
    item = 4 if dtype == "float32" else 2
    sizes = [batch * m * k * item, batch * k * n * item, batch * m * n * item]
    a, b, c = (Access(storage + i, size) for i, size in enumerate(sizes))
    return call(
        index, "aten.mm", "gemm", (a, b), (c,), flops=2 * batch * m * n * k, pipe=pipe, dtype=dtype,
        product=Product(batch, m, n, k), **more,
    )  # fmt: skip


def pointwise(index=0, size=512 * MIB, read=100, write=101, **more):
    return call(index, "aten.relu", "elementwise", (Access(read, size),), (Access(write, size),), **more)


def convolution(index=0, channels=64, kernel=3, stride=1, groups=1, layout="contiguous", **more):
    side, batch = 56, 64
    spots = batch * side * side
    k = channels // groups * kernel * kernel
    facts = {
        "kernel": (kernel, kernel), "stride": (stride, stride), "groups": groups, "layout": layout,
        "in_channels": channels, "out_channels": channels,
    }  # fmt: skip
    fields = {"pipe": "tensor_fp16_fp32", "dtype": "float16"} | more
    item = 4 if fields["dtype"] == "float32" else 2
    image, weights = spots * channels * item, channels * k * item
    return call(
        index, "aten.convolution", "conv", (Access(0, image), Access(1, weights, "parameter")), (Access(2, image),),
        flops=2 * spots * channels * k, product=Product(groups, spots, channels // groups, k), attributes=facts,
        **fields,
    )  # fmt: skip


def attention(index=0, heads=12, tokens=197, width=64, batch=64, **more):
    size = batch * heads * tokens * width * 2
    facts = {"head_size": width, "value_size": width, "backend": "flash", "causal": False}
    return call(
        index, "aten._scaled_dot_product_flash_attention", "attention", [Access(i, size) for i in range(3)],
        [Access(9, size)], flops=4 * batch * heads * tokens * tokens * width, pipe="tensor_fp16_fp32",
        product=Product(batch * heads, tokens, tokens, width), attributes=facts, **more,
    )  # fmt: skip


def program(*calls, name="program", **more):
    return Trace(name=name, calls=calls, **more)

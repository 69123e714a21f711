"""The record on its own: sums and views of hand-made calls."""

from roofline.work.record import Access, Call, Trace, total


def call(index, module, phase, flops, read, **facts):
    scope = ("", module) if module else ("",)
    return Call(
        index=index, op="aten.mm", module=module, phase=phase, kind="gemm", flops=flops, elementwise_flops=0,
        pipe="fp32", dtype="float32", shapes=(), reads=(Access(1, read),), writes=(Access(2, 8),), scope=scope, **facts,
    )  # fmt: skip


CALLS = (
    call(0, "a", "forward", 10, 16),
    call(1, "b", "forward", 5, 4, counted=False),
    call(2, "a", "backward", 20, 32),
)
TRACE = Trace(name="made", calls=CALLS, modules=("", "a", "b", "never"))


def test_forward_and_backward_are_apart():
    assert (TRACE.flops, TRACE.flops_backward) == (10 + 5, 20)
    assert (TRACE.bytes, TRACE.bytes_backward) == (16 + 8 + 4 + 8, 32 + 8)
    assert total(CALLS).calls == 3


def test_modules_that_never_ran_show_zeros():
    found = TRACE.by_module()
    assert (found["a"].flops, found["a"].flops_backward, found["never"].calls) == (10, 20, 0)
    assert found[""].flops == TRACE.flops


def test_uncounted_calls_are_named():
    assert TRACE.uncounted == {"aten.mm": 1}
    assert TRACE.by_layer()["b"].uncounted == 1


def test_bytes_of_a_call():
    assert (CALLS[0].bytes_read, CALLS[0].bytes_written, CALLS[0].bytes) == (16, 8, 24)


def test_output_is_left_out_of_plain_data():
    with_output = Trace(name="x", calls=(), output=object())
    assert with_output.without_output().output is None

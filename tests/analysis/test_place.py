from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofline
from roofline.analysis.place import View, place
from roofline.errors import MissingCeiling, UsageError
from roofline.work.record import Product

CEILINGS = {
    "dram_read": 10.0, "dram_write": 8.0, "dram_copy": 6.0, "dram_triad": 7.0, "l2_read": 40.0,
    "fp32": 100.0, "tensor_fp16_fp32": 1000.0,
}  # fmt: skip


@pytest.fixture
def toy(make_machine):
    return make_machine(**CEILINGS)


def test_a_compute_bound_call(make_call, make_trace, toy):
    # 50 B at the read rate of 10 B/s: 5 s. 9000 flop at 1000 flop/s: 9 s, so the pipe binds; 9000/50 = 180 flop/B.
    placed = place(make_trace(make_call(read=50, flops=9000, pipe="tensor_fp16_fp32")), toy).calls[0]
    assert placed.floor_s == 9.0
    assert placed.binding == placed.pipe == "tensor_fp16_fp32"
    assert placed.attainable_flops_per_s == 1000.0
    assert placed.intensity() == 180.0


def test_a_memory_bound_call_at_its_own_mix(make_call, make_trace, toy):
    # 30 B read and 30 written run at the copy rate: 60/6 = 10 s. 1000 flop at 1000 flop/s: 1 s. Roof: 1000/10 = 100.
    placed = place(make_trace(make_call(read=30, written=30, flops=1000, pipe="tensor_fp16_fp32")), toy).calls[0]
    assert (placed.floor_s, placed.binding) == (10.0, "dram")
    assert placed.attainable_flops_per_s == 100.0


def test_a_call_without_flops_is_placed_by_its_bytes(make_call, make_trace, toy):
    placed = place(make_trace(make_call(read=20, written=10, kind="copy")), toy).calls[0]
    assert placed.floor_s == pytest.approx(30 / 7)  # 2:1 is the triad
    assert placed.binding == "dram"
    assert placed.attainable_flops_per_s is None
    assert placed.intensity() == 0


def test_empty_tensors_do_not_divide_by_zero(make_call, make_trace, toy):
    placement = place(make_trace(make_call(pipe="fp32")), toy)
    assert placement.floor_s == 0
    assert placement.calls[0].binding == placement.total.binding == "none"
    assert placement.calls[0].intensity() is None
    assert placement.total.attainable_flops_per_s is None


def test_an_empty_trace(make_trace, toy):
    placement = place(make_trace(), toy)
    assert placement.floor_s == 0
    assert all(placement.by(view) == () for view in get_args(View))


def test_l2_traffic_of_a_product_counts_each_row_and_column_of_tiles(make_call, make_trace, toy):
    # m = 512 is 2 rows of 256-tiles, n = 1024 is 4 columns. A (512 x 10, 2 B) is swept 4 times, B (10 x 1024) twice:
    # 4 x 10240 + 2 x 20480 = 81920 B against 30720 B at DRAM; output 1 MiB once on each level.
    call = make_call(read=30720, written=2**20, flops=1, pipe="fp32", product=Product(batch=1, m=512, n=1024, k=10))
    placed = place(make_trace(call), toy).calls[0]
    assert placed.level_bytes == {"dram": 30720 + 2**20, "l2": 81920 + 2**20}


def test_l2_can_bind(make_call, make_trace, make_machine):
    # DRAM at the read rate: 2048 B / 100 = 20.48 s. L2: k = 1, n = 768 is 3 columns, m = 256 one row:
    # swept 3 x 256 + 768 = 1536 of 1024 elements, so 3072 B / 10 = 307.2 s.
    toy = make_machine(dram_read=100.0, l2_read=10.0, fp32=1e9)
    call = make_call(read=2048, flops=1, pipe="fp32", product=Product(batch=1, m=256, n=768, k=1))
    placed = place(make_trace(call), toy).calls[0]
    assert (placed.binding, placed.floor_s) == ("l2", pytest.approx(307.2))
    assert placed.intensity("l2") == pytest.approx(1 / 3072)


def test_a_fallback_is_recorded(make_call, make_trace, make_machine):
    volta = make_machine(capability="7.0", dram_read=10.0, fp32=100.0)
    calls = [
        make_call(read=1, flops=500, pipe="tensor_tf32"),
        make_call(read=1, flops=500, pipe="tensor_tf32"),
    ]
    placement = place(make_trace(*calls), volta)
    assert [placed.pipe for placed in placement.calls] == ["fp32", "fp32"]
    assert placement.floor_s == 10.0
    (note,) = placement.fallbacks
    assert (note.asked, note.used, note.calls) == ("tensor_tf32", "fp32", 2)


def test_products_without_a_known_pipe_are_listed(make_call, make_trace, toy):
    placement = place(make_trace(make_call(read=10, flops=500, pipe=None, dtype="int64")), toy)
    assert placement.floor_s == 1.0
    (note,) = placement.fallbacks
    assert (note.used, note.calls) == (None, 1)


def test_missing_ceilings_are_errors(make_call, make_trace, make_machine):
    trace = make_trace(make_call(read=1, flops=1, pipe="tensor_int8"))
    with pytest.raises(MissingCeiling, match="tensor_int8"):
        place(trace, make_machine(dram_read=1.0, fp32=1.0))
    with pytest.raises(MissingCeiling, match="dram_read"):
        place(trace, make_machine(tensor_int8=1.0))


def test_a_pipe_that_no_work_asks_for_may_be_missing(make_call, make_trace, make_machine):
    assert place(make_trace(make_call(read=1, pipe="tensor_int8")), make_machine(dram_read=1.0)).floor_s == 1.0


@pytest.fixture
def network(make_call, make_trace):
    return make_trace(
        make_call(read=50, flops=9000, pipe="tensor_fp16_fp32", module="a.x", scope=("", "a", "a.x")),
        make_call(read=20, op="aten.relu", kind="elementwise", module="a.y", scope=("", "a", "a.y")),
        make_call(read=10, flops=500, pipe="fp32", module="b", scope=("", "b")),
        make_call(read=30, op="my.op", kind="other", counted=False, module="", scope=("",)),
    )


def test_sums_by_every_view(network, toy):
    # Floors: 9 s (pipe), 2 s, 5 s (fp32), 3 s.
    placement = place(network, toy)

    def floors(view):
        return {row.name: row.floor_s for row in placement.by(view)}

    assert placement.floor_s == 19
    assert floors("layer") == {"a.x": 9, "a.y": 2, "b": 5, "": 3}
    assert floors("module") == {"": 19, "a": 11, "a.x": 9, "a.y": 2, "b": 5}
    assert floors("operator") == {"aten.mm": 14, "aten.relu": 2, "my.op": 3}
    assert floors("pipe") == {"tensor_fp16_fp32": 9, "none": 5, "fp32": 5}
    assert floors("call") == {"0 a.x aten.mm": 9, "1 a.y aten.relu": 2, "2 b aten.mm": 5, "3 my.op": 3}
    assert placement.total.seconds_by_ceiling == {"tensor_fp16_fp32": 9, "dram": 5, "fp32": 5}
    assert placement.uncounted == {"my.op": 1}
    assert placement.by("module")[1].kind == "gemm"  # 9 of 11 s


def test_unknown_view(network, toy):
    with pytest.raises(UsageError, match=r"'block'.*layer, module"):
        place(network, toy).by("block")


amounts = st.integers(0, 10**6)
calls = st.lists(st.tuples(amounts, amounts, amounts, st.sampled_from(["fp32", "tensor_fp16_fp32"])), max_size=8)


@given(calls)
def test_exclusive_views_add_up_to_the_whole(make_call, make_trace, make_machine, given_calls):
    trace = make_trace(*(make_call(r, w, f, p, module=f"m{i % 3}") for i, (r, w, f, p) in enumerate(given_calls)))
    placement = place(trace, make_machine(**CEILINGS))
    for view in ("call", "layer", "operator", "pipe"):
        rows = placement.by(view)
        assert sum(row.flops for row in rows) == trace.flops
        assert sum(row.bytes_read + row.bytes_written for row in rows) == trace.bytes
        assert sum(row.floor_s for row in rows) == pytest.approx(placement.floor_s)
        assert sum(sum(row.seconds_by_ceiling.values()) for row in rows) == pytest.approx(placement.floor_s)


@given(calls, st.sampled_from(sorted(CEILINGS)), st.floats(1, 1000))
def test_raising_a_ceiling_never_raises_a_floor(make_call, make_trace, make_machine, given_calls, name, factor):
    trace = make_trace(*(make_call(*each) for each in given_calls))
    slow = place(trace, make_machine(**CEILINGS))
    fast = place(trace, make_machine(**{**CEILINGS, name: CEILINGS[name] * factor}))
    for before, after in zip(slow.calls, fast.calls, strict=True):
        assert after.floor_s <= before.floor_s * (1 + 1e-12)
        if before.call.flops:
            assert after.attainable_flops_per_s >= before.attainable_flops_per_s * (1 - 1e-12)


@given(calls)
def test_attainable_is_the_lowest_roof(make_call, make_trace, make_machine, given_calls):
    for placed in place(make_trace(*(make_call(*each) for each in given_calls)), make_machine(**CEILINGS)).calls:
        if placed.call.flops:
            assert placed.attainable_flops_per_s <= CEILINGS[placed.pipe] * (1 + 1e-12)
            if placed.call.bytes:
                assert placed.attainable_flops_per_s <= placed.intensity() * 10.0 * (1 + 1e-12)


def test_a_real_layer_end_to_end():
    """64 x 128 times 128 x 32 in fp16 on the data sheet of an A40.

    flops = 2 x 64 x 128 x 32 = 524288. Bytes: (64 x 128 + 128 x 32 + 32) x 2 read, 64 x 32 x 2 written = 28736.
    At 696 GB/s: 41.29 ns; at 149.7 TFLOP/s: 3.5 ns. So DRAM binds.
    """
    torch = pytest.importorskip("torch")
    layer = torch.nn.Linear(128, 32).to("meta", torch.float16)
    placement = roofline.place(
        roofline.trace(layer, torch.empty(64, 128, device="meta", dtype=torch.float16)),
        roofline.machine("A40"),
    )
    assert placement.total.flops == 524288
    assert placement.floor_s == pytest.approx(28736 / 696e9)
    assert placement.total.binding == "dram"


def test_placement_does_not_change_with_the_trace_kept(network, toy):
    assert place(network, toy) == place(replace(network), toy)

import pytest

from roofline.analysis.place import place
from roofline.report.points import fold, points


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["conv1"], "conv1"),
        (["layer1.0.conv1", "layer1.1.conv1"], "layer1.{0,1}.conv1 (×2)"),
        ([f"blocks.{i}.mlp" for i in range(12)], "blocks.{0–11}.mlp (×12)"),
        (["bn1", "layer1.bn1", "layer2.bn1"], "bn1, layer{1,2}.bn1 (×3)"),
        (["head.a", "head.b", "tail"], "head.{a,b}, tail (×3)"),
        (["mlp", "mlp.x", "a.a"], "mlp, mlp.x, a.a (×3)"),
        (["m.0.mlp.up", "m.1.mlp.up", "m.0.mlp.down", "m.1.mlp.down"], "m.{0,1}.mlp.{up,down} (×4)"),
        (["x" * 50], "…" + "x" * 29),
        (["a" * 20, "b" * 20, "c" * 20], "a" * 20 + " … (×3)"),
    ],
)
def test_fold(names, text):
    assert fold(names, 30) == text


def test_every_layer_that_takes_time_is_named_once(placement):
    names = [name for point in points(placement.by("layer")) for name in point.names]
    assert sorted(names) == ["[odd]", "head.0", "head.1", "stem", "stem.bn", "stem.conv"]


def test_coincident_layers_are_one_mark_and_slowest_come_first(placement):
    marks = points(placement.by("layer"))
    assert any(mark.names == ("head.0", "head.1") for mark in marks)
    assert [mark.floor_s for mark in marks] == sorted((mark.floor_s for mark in marks), reverse=True)
    assert sum(mark.floor_s for mark in marks) == pytest.approx(placement.floor_s)


def test_where_a_mark_lies(placement):
    marks = {mark.names[0]: mark for mark in points(placement.by("layer"))}
    # 8 GFLOP over 4 MB = 2000 flop/B at 15 TFLOP/s.
    assert marks["stem.conv"].intensity == 2000
    assert marks["stem.conv"].rate == pytest.approx(15e12)
    # 4 Mflop of element-wise work over 2 MB at the copy rate.
    assert marks["stem.bn"].counted_apart
    assert marks["stem.bn"].intensity == 2
    assert marks["stem.bn"].rate == pytest.approx(2 * 700e9)
    assert marks["stem"].intensity is None


def test_empty_layers_have_no_place_on_logarithmic_axes(make_call, make_trace, make_machine):
    placement = place(make_trace(make_call(pipe="fp32")), make_machine(dram_read=1.0, fp32=1.0))
    assert points(placement.by("layer")) == []

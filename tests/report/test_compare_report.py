import io
from dataclasses import replace
from math import log

import pytest
from rich.console import Console

from roofline.analysis.compare import compare
from roofline.analysis.constants import shipped
from roofline.analysis.predict import predict
from roofline.machine.catalog import machine
from roofline.report.compare_figure import comparison_figure
from roofline.report.compare_text import comparison_data, comparison_tables
from roofline.report.predict_text import layers_table, prediction_data, prediction_table, terms_table
from roofline.work.record import Access, Call, Product, Trace

A, B = (machine(name, prefer="datasheet") for name in ("RTX 3090", "A40"))


def call(index, kind, flops=0, product=None):
    size = 2 * 4096 * 4096
    return Call(
        index=index, op=f"aten.{kind}", module=f"layer{index}", phase="forward", kind=kind, flops=flops,
        elementwise_flops=0, pipe="tensor_fp16_fp32" if flops else None, dtype="float16", shapes=(),
        reads=(Access(3 * index, size), Access(3 * index + 1, size)), writes=(Access(3 * index + 2, size),),
        product=product,
    )  # fmt: skip


TRACE = Trace(
    name="toy",
    calls=(call(0, "gemm", 2 * 4096**3, Product(1, 4096, 4096, 4096)), call(1, "elementwise"), call(2, "norm")),
)


def text(renderable):
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(renderable)
    return console.export_text()


@pytest.fixture(scope="module")
def comparison():
    return compare(TRACE, A, B, observed_a=1.0, observed_b=1.1)


def test_prediction_tables_show_every_machine_and_doubt():
    found = [predict(TRACE, one) for one in (A, B)]
    table = text(prediction_table(found, batch=8))
    assert "RTX 3090" in table and "A40" in table and "interval" in table
    assert "A40: ecc assumed" in table
    assert f"{8 / found[0].seconds:.4g}" in table
    assert "arithmetic" in text(terms_table(found))
    layers = text(layers_table(found, 1))
    assert "slowest 1 of 3 layers" in layers and "layer0" in layers and "layer1" not in layers
    assert "layer2" in text(layers_table(found, 0))


def test_a_board_that_is_too_small_is_marked():
    large = replace(TRACE, weight_bytes=10**12)
    assert "too small" in text(prediction_table([predict(large, A)]))


def test_prediction_data_add_up():
    data = prediction_data(predict(TRACE, A), shipped())
    assert sum(data["terms_s"].values()) == pytest.approx(data["seconds"])
    assert [row["module"] for row in data["calls"]] == ["layer0", "layer1", "layer2"]
    assert set(data["constants"]) == {constant.name for constant in shipped().constants}


def test_comparison_tables_close_the_sum(comparison):
    table = text(comparison_tables(comparison))
    for word in ("why: RTX 3090 over A40", "predicted", "unexplained", "observed", "layers that decide"):
        assert word in table
    assert f"{100 * log(1.1):+.1f}" in table


def test_comparison_data_add_up(comparison):
    data = comparison_data(comparison)
    assert sum(data["causes"].values()) == pytest.approx(data["log_ratio"], abs=1e-9)
    assert sum(data["layers"].values()) == pytest.approx(data["log_ratio"], abs=1e-9)
    assert data["log_ratio"] + data["unexplained"] == pytest.approx(log(data["observed_ratio"]))


def test_the_figure_shows_roofs_causes_and_layers(comparison):
    roofs, causes, layers = comparison_figure(comparison, TRACE, A, B).axes
    assert {line.get_label().split(":")[0] for line in roofs.lines} >= {"RTX 3090", "A40"}
    bottom, top = roofs.get_ylim()
    assert all(bottom < rate < top for line in roofs.lines for rate in line.get_ydata())
    assert top < 100 * max(rate for line in roofs.lines for rate in line.get_ydata())
    names = [label.get_text() for label in causes.get_yticklabels()]
    assert names[-3:] == ["predicted", "unexplained", "observed"]
    # A bar per layer and machine; a layer's bar is as high as its time in ms.
    heights = [bar.get_height() for bar in layers.patches]
    assert heights[:3] == pytest.approx([1e3 * seconds for seconds in comparison.a.by_layer().values()])
    assert heights[3:6] == pytest.approx([-1e3 * seconds for seconds in comparison.b.by_layer().values()])

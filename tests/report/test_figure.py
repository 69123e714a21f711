import os
import subprocess
import sys
from itertools import combinations

import pytest
from matplotlib.text import Text

import roofline
from roofline.analysis.place import place
from roofline.errors import BackendUnavailable, FileError, MissingCeiling, UsageError
from roofline.report.canvas import new_figure
from roofline.report.figure import draw_placement, save_machine_figure, save_placement_figure
from roofline.report.shares import bars, save_share_figure

MAGIC = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}


@pytest.fixture(scope="session")
def big(make_machine):
    """A machine with every level and pipe, some of them equal and some close."""
    return make_machine(
        dram_read=4.5e12, dram_write=4.6e12, dram_copy=4.3e12, dram_triad=4.4e12, l2_read=13e12, l2_write=7e12,
        l1_read=29e12, shared_read=31e12, fp32=64e12, fp16x2=130e12, bf16x2=130e12, fp64=33e12,
        tensor_fp16_fp16=910e12, tensor_fp16_fp32=885e12, tensor_bf16_fp32=916e12, tensor_tf32=480e12,
        tensor_fp8_e4m3=1775e12, tensor_int8=1827e12, gemm_fp16=780e12, conv_fp16_nchw=300e12, launch_eager=5e-6,
    )  # fmt: skip


@pytest.mark.parametrize("suffix", MAGIC)
def test_formats(big, tmp_path, suffix):
    path = save_machine_figure(big, tmp_path / f"out.{suffix}")
    assert path.read_bytes().startswith(MAGIC[suffix])


def test_the_same_figure_gives_the_same_bytes(big, tmp_path):
    first, second = (save_machine_figure(big, tmp_path / name).read_bytes() for name in ("a.svg", "b.svg"))
    assert first == second


def test_unknown_suffix(big, tmp_path):
    with pytest.raises(FileError, match=r"\.svg, \.png, \.pdf"):
        save_machine_figure(big, tmp_path / "out.gif")


def test_unwritable(big, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError):
        save_machine_figure(big, tmp_path / "file" / "out.svg")


def texts(ax):
    return [text for text in ax.texts if text.get_text()]


def overlapping(ax):
    """Pairs of upright labels that cover each other, their leaders aside."""
    for text in texts(ax):
        text.get_window_extent()  # puts an annotation where it belongs
    boxes = [(text.get_text(), Text.get_window_extent(text)) for text in texts(ax) if not text.get_rotation()]
    return [(a, b) for (a, first), (b, second) in combinations(boxes, 2) if first.overlaps(second)]


@pytest.mark.parametrize("count", [1, 3])
def test_every_ceiling_is_named_and_no_label_covers_another(big, make_machine, count):
    others = [
        make_machine(name="Small", dram_read=936e9, fp32=35.6e12, tensor_fp16_fp32=71e12),
        make_machine(name="Smaller", dram_read=696e9, fp32=37.4e12, tensor_fp16_fp32=149.7e12),
    ]
    ax = roofline.plot([big, *others][:count])
    words = " ".join(text.get_text() for text in texts(ax))
    for name in ("DRAM", "L2", "fp32 FMA", "tensor fp16→fp32", "ridge"):
        assert name in words
    assert overlapping(ax) == []


def test_memory_lines_end_at_the_highest_roof_that_exists(make_machine):
    # No matrix pipe at all: the only roof is fp32, and both diagonals end there, at 100/10 and 100/40 flop/byte.
    ax = roofline.plot(make_machine(dram_read=10.0, l2_read=40.0, fp32=100.0, fp64=50.0))
    ends = [line.get_xydata()[-1].tolist() for line in ax.lines if len(line.get_xdata()) == 2]
    assert [10.0, 100.0] in ends
    assert [2.5, 100.0] in ends
    assert all(y > 0 for line in ax.lines for y in line.get_ydata())


def test_only_some_ceilings(big):
    words = " ".join(text.get_text() for text in texts(roofline.plot(big, only=("dram", "fp32"))))
    assert "fp32 FMA" in words
    assert "tensor" not in words
    assert "L2" not in words


def test_unknown_names_and_nothing_to_draw(big, make_machine):
    with pytest.raises(UsageError, match="dramm"):
        roofline.plot(big, only=("dramm",))
    with pytest.raises(UsageError, match="at least one machine"):
        roofline.plot([])
    with pytest.raises(MissingCeiling, match="bandwidth"):
        roofline.plot(make_machine(fp32=1.0))


@pytest.mark.parametrize("view", ["layer", "operator"])
def test_placement_figures(placement, tmp_path, view):
    assert save_placement_figure(placement, tmp_path / "place.png", view).stat().st_size > 10_000
    assert save_share_figure([placement, placement], tmp_path / "share.png").stat().st_size > 10_000


def test_every_mark_has_a_number_or_a_name(placement):
    ax = new_figure(12, 8).add_axes((0.1, 0.1, 0.6, 0.8))
    marks = draw_placement(ax, placement)
    written = [text.get_text() for text in texts(ax)]
    for number in range(1, len(marks) + 1):
        assert any(text.split()[0] == str(number) for text in written)
    assert overlapping(ax) == []


def test_fifty_layers_stay_legible(make_call, make_trace, make_machine):
    calls = [
        make_call(
            10**6, 10**5 * (1 + i % 5), 10**6 * 3 ** (i % 17), "fp32", module=f"block{i}.{'abcde'[i % 5]}"
        )
        for i in range(50)
    ]
    ax = new_figure(15, 8.5).add_axes((0.06, 0.1, 0.55, 0.79))
    marks = draw_placement(
        ax, place(make_trace(*calls), make_machine(dram_read=1e12, dram_write=9e11, fp32=2e13))
    )
    numbers = {text.get_text().split()[0] for text in texts(ax)}
    assert {str(i + 1) for i in range(len(marks))} <= numbers
    assert overlapping(ax) == []


def test_empty_placement_can_be_drawn(make_call, make_trace, make_machine, tmp_path):
    empty = place(make_trace(make_call(pipe="fp32")), make_machine(dram_read=1e9, fp32=1e12))
    assert save_placement_figure(empty, tmp_path / "empty.svg").exists()
    assert save_share_figure([empty], tmp_path / "empty-share.svg").exists()


def test_remarks_stand_in_the_figures(placement, tmp_path, monkeypatch):
    shown = []
    monkeypatch.setattr("roofline.report.figure.save", lambda figure, path: shown.append(figure))
    monkeypatch.setattr("roofline.report.shares.save", lambda figure, path: shown.append(figure))
    save_placement_figure(placement, tmp_path / "a.svg")
    save_share_figure([placement], tmp_path / "b.svg")
    for figure in shown:
        inside = [text for ax in figure.axes for text in ax.texts]
        words = " ".join(text.get_text() for text in [*figure.texts, *inside])
        assert "my::kernel (1)" in words
        assert "no ceiling for tensor TF32" in words


def test_bars_hold_all_the_time(placement):
    total, *kinds = bars(placement)
    assert sum(total[1].values()) == pytest.approx(placement.floor_s)
    assert sum(sum(parts.values()) for _, parts, _ in kinds) == pytest.approx(placement.floor_s)


def test_plot_on_given_axes_and_with_a_placement(placement):
    ax = new_figure(10, 6).add_subplot()
    assert roofline.plot(placement.machine, placement, ax) is ax
    assert ax.collections
    assert "my::kernel (1)" in " ".join(text.get_text() for text in texts(ax))


def test_without_a_display_and_without_pyplot(tmp_path):
    code = (
        "import sys, roofline; from roofline.report.figure import save_machine_figure; "
        f"save_machine_figure(roofline.machine('A40'), {str(tmp_path / 'a.png')!r}); "
        "print('matplotlib.pyplot' in sys.modules, 'tkinter' in sys.modules)"
    )
    environment = {k: v for k, v in os.environ.items() if k != "DISPLAY"} | {"MPLBACKEND": "TkAgg"}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == ["False", "False"]


def test_without_matplotlib(big, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(BackendUnavailable, match="pip install matplotlib"):
        save_machine_figure(big, tmp_path / "out.svg")

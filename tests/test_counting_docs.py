"""docs/counting.md says what the program does: its snippet runs and its table still holds."""

import importlib
import importlib.util
import re
import sys
from pathlib import Path

import pytest

from roofline.work import registry

ROOT = Path(__file__).parents[1]
DOC = (ROOT / "docs" / "counting.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.split("|")[1:-1]] for line in DOC.splitlines() if line.count("|") == 8]
TABLE = {row[0]: row[1:] for row in ROWS[2:]}  # below the headings


@pytest.fixture(scope="module")
def counters():
    pytest.importorskip("torchvision")
    spec = importlib.util.spec_from_file_location("flop_counters", ROOT / "benchmarks" / "flop_counters.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_the_snippet_prints_what_it_says(capsys, monkeypatch):
    importlib.import_module("roofline.work.formulas")
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))
    (snippet,) = re.findall(r"```python\n(.*?)```", DOC, re.DOTALL)
    exec(compile(snippet, "docs/counting.md", "exec"), {"__name__": "snippet"})
    # (64 x 32) @ (32 x 16); each operand read once, the result written once
    assert capsys.readouterr().out.strip() == f"{2 * 64 * 32 * 16} {4 * (64 * 32 + 32 * 16 + 64 * 16)} {{}}"
    assert f"# {2 * 64 * 32 * 16} {4 * (64 * 32 + 32 * 16 + 64 * 16)} {{}}" in snippet


def test_the_table_holds_every_model(counters):
    assert list(TABLE) == list(counters.subjects())
    assert len(TABLE) >= 30
    assert "UNEXPLAINED" not in DOC


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["alexnet", "mobilenet_v3_large", "shufflenet_v2_x1_0", "vit_b_16"])
def test_the_table_still_holds(counters, name):
    row = counters.compare(counters.subjects()[name])
    assert row.unexplained == {}
    ours, printed = counters.cells(row), TABLE[name]
    assert (ours[1], ours[3]) == (printed[0], printed[2])  # the counter's own figures may change with torch


@pytest.mark.filterwarnings("ignore")
def test_a_wrong_count_would_not_be_explained(counters, monkeypatch):
    linear = registry._ENTRIES["aten.addmm"]
    wrong = registry.Entry(lambda *args, **kwargs: 1, linear.kind, None, False)
    monkeypatch.setitem(registry._ENTRIES, "aten.addmm", wrong)
    assert set(counters.compare(counters.subjects()["alexnet"]).unexplained) == {"aten.addmm forward"}

import json
from math import log

import pytest

from roofline.commands.compare import command
from roofline.errors import FileError, UsageError


def test_everything_at_once(toy_module, invoke):
    outcome = invoke(
        command, "RTX 3090", "A40", "--model", "toymodel:net", "--batch", 4, "--observed-a", 100, "--observed-b", 80,
        "--plot", "out.svg", "--json", "out.json",
    )  # fmt: skip
    assert outcome.exit_code == 0, outcome.output
    for text in ("why: RTX 3090 over A40", "unexplained", "observed", "layers that decide", "batch 256, fp16"):
        assert text in outcome.output
    found = json.loads((toy_module / "out.json").read_text())
    assert sum(found["causes"].values()) == pytest.approx(log(found["ratio"]), abs=1e-9)
    assert found["observed_ratio"] == pytest.approx(100 / 80)
    assert (toy_module / "out.svg").read_text().lstrip().startswith("<?xml")


def test_quick_asks_for_no_crossover(toy_module, invoke):
    outcome = invoke(command, "RTX 3090", "RTX 4090", "--model", "toymodel:net", "--batch", 4, "--quick")
    assert outcome.exit_code == 0 and "batch 256" not in outcome.output


@pytest.mark.parametrize(
    ("more", "error", "text"),
    [
        (["--observed-a", 1.0], UsageError, "both"),
        (["--observed-a", -1, "--observed-b", 1], UsageError, "positive"),
        (["--plot", "out.gif"], FileError, "out.gif"),
    ],
)
def test_bad_input(toy_module, invoke, more, error, text):
    outcome = invoke(command, "RTX 3090", "A40", "--model", "toymodel:net", "--quick", *more)
    assert isinstance(outcome.exception, error) and text in str(outcome.exception)

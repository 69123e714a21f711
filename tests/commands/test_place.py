import csv

import pytest

from roofline.commands.place import command
from roofline.errors import FileError, MissingCeiling, ModelError, UnknownMachine, UsageError
from roofline.report.export import load_json


def test_table_and_every_file(toy_module, invoke):
    outcome = invoke(
        command, "toymodel:net", "--machine", "RTX 3090", "--machine", "A40", "--batch", 4, "--dtype", "fp16",
        "--plot", "out.svg", "--json", "out.json", "--csv", "rows.csv",
    )  # fmt: skip
    assert outcome.exit_code == 0, outcome.output
    assert "toymodel:net, batch 4, fp16 on RTX 3090 (data sheet), by layer" in outcome.output
    assert "toymodel:net, batch 4, fp16 on A40" in outcome.output
    written = {path.name for path in toy_module.iterdir()}
    assert {"out-rtx-3090.svg", "out-a40.svg", "out-share.svg", "out.csv", "out.json", "rows.csv"} <= written
    first, second = load_json("out.json").placements
    assert first.total.flops == second.total.flops == 2 * 4 * 8 * 16
    with open("out.csv") as file:
        assert {row["machine"] for row in csv.DictReader(file)} == {"RTX 3090", "A40"}


def test_one_machine_keeps_the_figures_name(toy_module, invoke):
    assert invoke(command, "toymodel:net", "--machine", "A40", "--plot", "f.png").exit_code == 0
    assert {"f.png", "f-share.png", "f.csv"} <= {path.name for path in toy_module.iterdir()}


@pytest.mark.parametrize("view", ["call", "layer", "module", "operator", "pipe"])
def test_views(toy_module, invoke, view):
    outcome = invoke(command, "toymodel:fixed", "--machine", "A40", "--by", view)
    assert f"by {view}" in outcome.output


def test_training_counts_the_backward(toy_module, invoke):
    # Forward 2 x 4 x 8 x 16; the weight's gradient costs the same; the input needs none: twice as much in all.
    invoke(command, "toymodel:net", "--machine", "A40", "--batch", 4, "--train", "--json", "out.json")
    (sheet,) = load_json("out.json").placements
    assert sheet.total.flops == 2 * (2 * 4 * 8 * 16)


def test_batch_zero(toy_module, invoke):
    outcome = invoke(command, "toymodel:net", "--machine", "A40", "--batch", 0, "--plot", "out.svg")
    assert outcome.exit_code == 0, outcome.output


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (["toymodel:nothing", "--machine", "A40"], UsageError, "cannot import 'toymodel:nothing'"),
        (["nomodule:f", "--machine", "A40"], UsageError, "nomodule"),
        (["toymodel:wrong", "--machine", "A40"], UsageError, r"must return \(model, args\)"),
        (["toymodel:fixed", "--machine", "A40", "--batch", 3], UsageError, "has no parameter 'batch'"),
        (["toymodel:broken", "--machine", "A40"], ModelError, "ValueError: no weights here"),
        (["toymodel:failing", "--machine", "A40"], ModelError, "shapes"),
        (["toymodel:net", "--machine", "RTX 3091"], UnknownMachine, "RTX 3090"),
        (["toymodel:net", "--machine", "none.json"], FileError, "none.json"),
        (["toymodel:net", "--machine", "A40", "--plot", "out.gif"], FileError, "out.gif"),
        (["resnet5O", "--machine", "A40"], UsageError, "resnet50"),
    ],
)
def test_bad_input_is_one_error(toy_module, invoke, arguments, error, text):
    outcome = invoke(command, *arguments)
    assert isinstance(outcome.exception, error)
    assert __import__("re").search(text, str(outcome.exception))


def test_missing_ceiling(toy_module, invoke, make_machine):
    from roofline.machine.file import save

    save(make_machine(dram_read=1e9, fp64=1e9), "slow.json")
    outcome = invoke(command, "toymodel:net", "--machine", "slow.json")
    assert isinstance(outcome.exception, MissingCeiling)


def test_a_machine_is_required(invoke):
    outcome = invoke(command, "resnet50")
    assert outcome.exit_code == 2
    assert "--machine" in outcome.output

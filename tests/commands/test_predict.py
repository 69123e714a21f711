import json

import pytest

from roofline.commands.predict import batch_of, command, software_of
from roofline.errors import FileError, UnknownMachine, UsageError


def test_tables_and_json(toy_module, invoke):
    outcome = invoke(
        command, "--model", "toymodel:net", "--batch", 4, "--machine", "RTX 3090", "--machine", "A40",
        "--json", "out.json",
    )  # fmt: skip
    assert outcome.exit_code == 0, outcome.output
    for text in ("RTX 3090", "A40", "interval holds 80 %", "made of", "written: out.json"):
        assert text in outcome.output
    first, second = json.loads((toy_module / "out.json").read_text())
    assert (first["machine"], second["machine"]) == ("RTX 3090", "A40")
    assert sum(first["terms_s"].values()) == pytest.approx(first["seconds"])
    assert first["low_s"] < first["seconds"] < first["high_s"]
    assert first["sources"]["ecc"] and first["constants"]["overlap"]["value"] > 1


def test_the_host_time_can_be_given(toy_module, invoke):
    # One op call of a linear layer at 1000 us each: the host decides.
    invoke(command, "--model", "toymodel:net", "--batch", 4, "--machine", "A40", "--host-us", 1000, "--json", "a.json")
    (found,) = json.loads((toy_module / "a.json").read_text())
    assert found["seconds"] == pytest.approx(1e-3 * len(found["calls"]))


def test_named_models_have_a_batch_and_functions_their_own():
    assert batch_of("resnet50", None) == batch_of("timm:resnet50", None) == batch_of("hf:gpt2", None) == 64
    assert batch_of("my.module:function", None) is None
    assert batch_of("my.module:function", 8) == 8


def test_software_from_options():
    found = software_of("torch 1.9", "off", 5.0)
    assert found.tf32_products is True and found.ecc is False and found.host_s == pytest.approx(5e-6)
    assert software_of("as traced", "default", None).ecc is None


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--model", "toymodel:nothing", "--machine", "A40"], UsageError),
        (["--model", "toymodel:net", "--machine", "RTX 3091"], UnknownMachine),
        (["--model", "toymodel:net", "--machine", "none.json"], FileError),
    ],
)
def test_bad_input(toy_module, invoke, arguments, error):
    assert isinstance(invoke(command, *arguments).exception, error)

import msgspec

from roofline.analysis.machines import MachineComparison
from roofline.commands.machines import command


def test_two_machines(invoke, tmp_path):
    outcome = invoke(command, "RTX 3090", "A40", "--json", tmp_path / "out.json")
    assert "RTX 3090 against A40" in outcome.output
    comparison = msgspec.json.decode((tmp_path / "out.json").read_bytes(), type=MachineComparison)
    assert (comparison.a, comparison.b) == ("RTX 3090", "A40")


def test_without_arguments_the_known_names(invoke):
    lines = invoke(command).output.splitlines()
    assert {"RTX 3090", "A40"} <= set(lines)


def test_one_or_three_is_a_usage_error(invoke):
    for count in (1, 3):
        outcome = invoke(command, *["A40"] * count)
        assert outcome.exit_code == 2
        assert f"{count} were given" in outcome.output

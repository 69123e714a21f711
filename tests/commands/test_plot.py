from roofline.commands.plot import command
from roofline.errors import UnknownMachine, UsageError


def test_several_machines_and_the_data_beside(invoke, tmp_path):
    outcome = invoke(command, "RTX 3090", "A40", "--out", tmp_path / "both.svg")
    assert outcome.exit_code == 0, outcome.output
    assert (tmp_path / "both.svg").stat().st_size > 10_000
    assert {line.split(",")[0] for line in (tmp_path / "both.csv").read_text().splitlines()[1:]} == {
        "RTX 3090",
        "A40",
    }


def test_saved_machine_can_be_drawn_again_in_part(invoke, tmp_path, make_measured):
    from roofline.machine.file import save

    path = save(make_measured(dram_read=1e12, fp32=1e13, fp64=1e12), tmp_path / "m.json")
    assert invoke(command, path, "--only", "dram,fp32", "--out", tmp_path / "m.png").exit_code == 0


def test_unknown_names(invoke, tmp_path):
    outcome = invoke(command, "A40", "--only", "drum", "--out", tmp_path / "m.png")
    assert isinstance(outcome.exception, UsageError)
    assert isinstance(invoke(command, "A41").exception, UnknownMachine)
    assert list(tmp_path.iterdir()) == []

"""`roofline probe` with a synthetic device: what is printed, kept, drawn and refused."""

import json
import os

import pytest

from roofline import cli
from roofline.errors import DeviceError
from roofline.machine import file
from roofline.machine.record import CounterAudit
from roofline.measure import devices, ncu, run

from ..measure.fake import BRIEF, Behaviour, FakeBench


@pytest.fixture
def bench(monkeypatch, tmp_path):
    """The only device there is; the data folder is an empty one."""
    fake = FakeBench(
        {
            ("dram_read", "triton"): {"1024 elements": Behaviour(2e11, work=1e8)},
            ("fp32", "cupy"): {"8 chains": Behaviour(2.5e12)},
            ("fp64", "cupy"): {"8 chains": Behaviour(1.2e12)},
        },
        warnings=["the GPU was 40 % busy"],
    )
    fake.opened = []
    monkeypatch.setattr(devices, "open_bench", lambda name: fake.opened.append(name) or fake)
    for effort in ("quick", "standard"):
        monkeypatch.setitem(run.EFFORTS, effort, BRIEF)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "160")
    return fake


@pytest.fixture
def probe(capsys):
    """`probe(*arguments)` → (exit code, stdout, stderr), as the shell sees them."""

    def call(*arguments):
        try:
            cli.main(["probe", *map(str, arguments)])
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        return code, *capsys.readouterr()

    return call


def test_a_table_and_the_path_of_the_file(bench, probe, tmp_path):
    code, out, err = probe("--device", "cuda:0", "--out", tmp_path / "toy.json")
    assert (code, bench.opened) == (0, ["cuda:0"])
    for text in ("DRAM read", "200 GB/s", "fp32 FMA", "2.5 TFLOP/s", "8 chains", "the GPU was 40 % busy"):
        assert text in out, text
    assert f"Machine file: {tmp_path / 'toy.json'}" in out.replace("\n", "") + err.replace("\n", "")
    assert file.load(tmp_path / "toy.json").get("fp32").value == pytest.approx(2.5e12)


def test_without_a_path_the_file_goes_to_the_user_s_data_folder(bench, probe, tmp_path):
    code, out, _ = probe("--only", "fp32")
    (path,) = (tmp_path / "data").rglob("*.json")
    assert code == 0 and str(path) in out.replace("\n", "")
    assert path.name.startswith("toy-20") and file.load(path).device.name == "Toy"


def test_json_is_the_file_and_nothing_else(bench, probe, tmp_path):
    code, out, err = probe("--json", "--out", tmp_path / "toy.json")
    assert code == 0
    assert out.strip() == (tmp_path / "toy.json").read_text().strip()
    assert [c["name"] for c in json.loads(out)["ceilings"]] == ["dram_read", "fp32", "fp64"]
    assert "Machine file: " in err


@pytest.mark.parametrize("suffix", ["svg", "png", "pdf"])
def test_a_figure(bench, probe, tmp_path, suffix):
    code, out, _ = probe("--out", tmp_path / "toy.json", "--plot", tmp_path / f"toy.{suffix}")
    head = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}[suffix]
    assert code == 0 and (tmp_path / f"toy.{suffix}").read_bytes().startswith(head)
    assert f"toy.{suffix}" in out


def test_only_names_and_groups(bench, probe, tmp_path):
    probe("--only", " vector , dram_read", "--out", tmp_path / "a.json")
    probe("--only", "fp64", "--out", tmp_path / "b.json")
    names = [[c.name for c in file.load(tmp_path / f"{x}.json").ceilings] for x in "ab"]
    assert names == [["dram_read", "fp32", "fp64"], ["fp64"]]


def test_all_devices_have_a_file_each(bench, probe, tmp_path, monkeypatch):
    monkeypatch.setattr(devices, "visible_devices", lambda: ("cuda:0", "cuda:1"))
    code, out, _ = probe("--device", "all", "--out", tmp_path / "toy.json", "--plot", tmp_path / "toy.svg")
    assert "All devices" in out and "No ceiling is more than 3 % from the median" in out
    assert (code, bench.opened) == (0, ["cuda:0", "cuda:1"])
    assert {p.name for p in tmp_path.glob("toy*")} == {f"toy-cuda{i}.{x}" for i in "01" for x in ("json", "svg")}


def test_all_of_one_device_keeps_the_name(bench, probe, tmp_path, monkeypatch):
    monkeypatch.setattr(devices, "visible_devices", lambda: ("cpu",))
    assert probe("--device", "all", "--out", tmp_path / "toy.json")[0] == 0
    assert bench.opened == ["cpu"] and (tmp_path / "toy.json").exists()


def test_zeros_beside_random_data(bench, probe, tmp_path):
    bench.behaviours["fp32", "cupy"] = {"8 chains": Behaviour(2.5e12, zeros=2.6e12)}
    code, out, _ = probe("--zeros", "--only", "fp32", "--out", tmp_path / "toy.json")
    assert code == 0 and "on zeros" in out and "2.6 TFLOP/s" in out
    assert file.load(tmp_path / "toy.json").ceiling("fp32").measurement.zeros == pytest.approx(2.6e12)


# --- refused before anything is measured ---


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--only", "fp23"), 2, "'fp23' is no ceiling of this device. Did you mean fp32"),
        (("--effort", "heroic"), 2, "'heroic' is not one of 'quick', 'standard', 'thorough'"),
        (("--colour",), 2, "No such option"),
        (("--out", "{tmp}/file/toy.json"), 4, "/file/toy.json: cannot write this file"),
        (("--out", "{tmp}"), 4, "is a folder; expected the path of a file"),
        (("--plot", "{tmp}/toy.gif"), 4, ".gif"),
        (("--plot", "{tmp}/file/toy.svg"), 4, "/file/toy.svg: cannot write this file"),
    ],
)
def test_bad_input_is_one_message_and_nothing_is_measured(bench, probe, tmp_path, arguments, code, message):
    (tmp_path / "file").write_text("in the way")
    found, out, err = probe(*(a.format(tmp=tmp_path) for a in arguments))
    assert (found, out) == (code, "")
    assert message in " ".join(err.split()) and "Traceback" not in err
    assert bench.requests == []
    assert [p.name for p in tmp_path.rglob("*")] == ["file"]


def test_a_device_that_cannot_be_used(bench, probe, monkeypatch):
    def refuse(name):
        raise DeviceError("cuda:9 cannot be used: no NVIDIA driver")

    monkeypatch.setattr(devices, "open_bench", refuse)
    code, out, err = probe("--device", "cuda:9")
    assert (code, out, err.strip()) == (3, "", "Error: cuda:9 cannot be used: no NVIDIA driver")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(bench, probe, tmp_path):
    tmp_path.chmod(0o500)
    code, _, err = probe("--out", tmp_path / "toy.json")
    assert code == 4 and "Permission denied" in err and bench.requests == []


def test_a_path_under_the_home_folder(bench, probe, tmp_path, monkeypatch):
    # Shells leave `--out=~/toy.json` as it is.
    monkeypatch.setenv("HOME", str(tmp_path))
    assert probe("--out=~/toy.json", "--only", "fp32")[0] == 0
    assert [p.name for p in tmp_path.glob("*.json")] == ["toy.json"]


# --- Ctrl-C ---


@pytest.mark.parametrize("as_json", [False, True])
def test_ctrl_c_keeps_what_was_measured_and_exits_130(bench, probe, tmp_path, as_json):
    behaviour = bench.behaviours["fp32", "cupy"]["8 chains"]
    behaviour.time_raises, behaviour.after = KeyboardInterrupt(), 3
    code, out, err = probe("--out", tmp_path / "toy.json", *["--json"] * as_json)
    machine = file.load(tmp_path / "toy.json")
    assert code == 130 and err.rstrip().endswith("Interrupted.") and "Traceback" not in err
    assert [c.name for c in machine.ceilings] == ["dram_read"]
    assert machine.not_measured == dict.fromkeys(("fp32", "fp64"), "interrupted by the user")
    assert ("interrupted by the user" in out) and (json.loads(out) if as_json else True)


def test_ctrl_c_before_the_first_ceiling(bench, probe, tmp_path):
    bench.compile_raises = KeyboardInterrupt()
    code, *_ = probe("--out", tmp_path / "toy.json", "--plot", tmp_path / "toy.svg")
    assert code == 130 and file.load(tmp_path / "toy.json").ceilings == ()


# --- help ---


def test_help_documents_options_and_exit_codes(bench, probe):
    code, out, _ = probe("--help")
    assert code == 0
    for text in ("--device", "--effort", "--only", "--out", "--plot", "--json", "Exit codes", "130"):
        assert text in out, text


def test_an_audit_that_is_not_possible_says_why_and_keeps_the_rest(bench, probe, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(ncu, "_PLACES", ())
    code, out, err = probe("--audit", "--out", tmp_path / "toy.json")
    assert code == 0 and "Auditing" in err
    assert "not audited by counters: Nsight Compute (ncu) is not installed" in out
    assert file.load(tmp_path / "toy.json").get("fp32") is not None


def test_an_audit_is_printed_and_kept(bench, probe, tmp_path, monkeypatch):
    found = CounterAudit(
        ceiling="fp32", variant="cupy: 8 chains", quantity="flops", counters=("ffma.sum",), claimed=1e9,
        counted=1e9, ratio=1.0, ok=True, tolerance=0.005,
    )  # fmt: skip
    monkeypatch.setattr(ncu, "audit", lambda machine, device: (found,))
    code, out, _ = probe("--audit", "--out", tmp_path / "toy.json")
    assert code == 0 and "claims against counters" in out
    assert file.load(tmp_path / "toy.json").audits == (found,)


def test_an_interrupted_audit_keeps_what_was_measured(bench, probe, tmp_path, monkeypatch):
    def interrupted(machine, device):
        raise KeyboardInterrupt

    monkeypatch.setattr(ncu, "audit", interrupted)
    code, _, _ = probe("--audit", "--out", tmp_path / "toy.json")
    assert code == 130 and file.load(tmp_path / "toy.json").get("fp32") is not None

"""Machine files: what is saved comes back; what is damaged, newer or impossible is one clear error."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roofline.errors import FileError
from roofline.machine import file
from roofline.machine.ceilings import KINDS
from roofline.machine.record import (
    SCHEMA_VERSION,
    Ceiling,
    Device,
    Health,
    Machine,
    Measurement,
    Provenance,
    Trial,
)

text = st.text(st.characters(codec="utf-8"), max_size=12)
number = st.floats(allow_nan=False, allow_infinity=False)
positive = st.floats(min_value=1e-12, max_value=1e18)
texts = st.dictionaries(text, text, max_size=3)


def records(cls, **fields):
    return st.builds(cls, **fields)


measurements = records(
    Measurement,
    backend=text,
    variant=text,
    work=positive,
    samples_s=st.lists(positive, max_size=5).map(tuple),
    low=number,
    high=number,
    converged=st.booleans(),
    health=records(Health, clock_hz=st.none() | positive, throttle=st.lists(text, max_size=2).map(tuple)),
    limit=st.none() | positive,
    trials=st.lists(records(Trial, variant=text, value=st.none() | positive, reason=text), max_size=3).map(
        tuple
    ),
    flags=st.lists(text, max_size=2).map(tuple),
)


@st.composite
def ceilings(draw):
    kinds = draw(st.lists(st.sampled_from(KINDS), unique=True, max_size=5))
    return tuple(
        Ceiling(
            name=kind.name,
            value=draw(positive),
            unit=kind.unit,
            source=draw(text),
            measurement=draw(st.none() | measurements),
            published=draw(st.none() | positive),
        )
        for kind in kinds
    )


machines = records(
    Machine,
    name=text,
    device=records(
        Device,
        name=text,
        kind=st.sampled_from(("cuda", "cpu", "other")),
        sm_count=st.none() | st.integers(1, 10**4),
        memory_bytes=st.none() | st.integers(0, 2**50),
        tdp_w=st.none() | positive,
        ecc=st.none() | st.booleans(),
        fp32_accumulate=st.sampled_from((None, "full", "half")),
        notes=text,
    ),
    ceilings=ceilings(),
    not_measured=texts,
    warnings=st.lists(text, max_size=2).map(tuple),
    provenance=st.none()
    | records(
        Provenance,
        created=text,
        effort=text,
        method_version=st.integers(0, 9),
        roofline_version=text,
        software=texts,
        environment=texts,
        duration_s=positive,
    ),
)

EXAMPLE = Machine(
    name="box",
    device=Device(name="NVIDIA H200", kind="cuda", sm_count=132),
    ceilings=(Ceiling(name="dram_read", value=4.5e12, unit="bytes_per_s", source="measured"),),
    provenance=Provenance(
        created="2026-01-02T03:04:05+00:00", effort="quick", method_version=1, roofline_version="0.1.0"
    ),
)


@given(machine=machines)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
def test_what_is_saved_comes_back(machine, tmp_path):
    assert file.load(file.save(machine, tmp_path / "machine.json")) == machine


def test_saving_twice_gives_the_same_bytes_and_leaves_no_draft(tmp_path):
    path = tmp_path / "new folder" / "machine.json"
    first = file.save(EXAMPLE, path).read_bytes()
    assert file.save(file.load(path), path).read_bytes() == first
    assert os.listdir(path.parent) == ["machine.json"]


def test_a_file_names_its_schema_version(tmp_path):
    content = json.loads(file.save(EXAMPLE, tmp_path / "machine.json").read_text())
    assert content["schema_version"] == SCHEMA_VERSION


def test_a_failed_write_keeps_the_old_file_and_no_draft(tmp_path, monkeypatch):
    path = file.save(EXAMPLE, tmp_path / "machine.json")
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(FileError, match="No space left on device"):
        file.save(replace(EXAMPLE, name="other"), path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["machine.json"]


def test_a_path_that_cannot_be_written_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "machine.json", tmp_path):
        with pytest.raises(FileError, match="cannot write"):
            file.save(EXAMPLE, path)


def with_value(value):
    return replace(EXAMPLE, ceilings=(replace(EXAMPLE.ceilings[0], value=value),))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_json_does_not_have_are_refused(tmp_path, value):
    with pytest.raises(FileError, match=r"not a finite number - at `\$.ceilings\[0\].value`"):
        file.save(with_value(value), tmp_path / "machine.json")
    with pytest.raises(FileError, match=r"at `\$.device.tdp_w`"):
        file.save(replace(EXAMPLE, device=replace(EXAMPLE.device, tdp_w=value)), tmp_path / "machine.json")
    assert os.listdir(tmp_path) == []


def change(**fields):
    """The example's JSON with top-level fields replaced."""
    import msgspec

    return json.dumps(msgspec.to_builtins(EXAMPLE) | fields).encode()


CEILING = {"name": "dram_read", "value": 4.5e12, "unit": "bytes_per_s", "source": "measured"}


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (b"", "truncated"),
        (b"\xff\xfe\x00", "malformed"),
        (b"not json", "malformed"),
        (b"[]", "object"),
        (b"{}", "schema_version"),
        (b'{"schema_version": "1"}', r"\$.schema_version"),
        (change(schema_version=0), r"\$.schema_version"),
        (change(name=7), r"\$.name"),
        (change(device={"name": "x"}), r"`kind`.*\$.device"),
        (change(device={"name": "x", "kind": "tpu"}), r"'tpu'.*\$.device.kind"),
        (change(ceilings={}), r"\$.ceilings"),
        (change(ceilings=[CEILING | {"value": None}]), r"\$.ceilings\[0\].value"),
        (change(ceilings=[CEILING | {"value": "fast"}]), r"\$.ceilings\[0\].value"),
        (change(ceilings=[CEILING | {"unit": "GB/s"}]), r"\$.ceilings\[0\].unit"),
        (
            change(ceilings=[CEILING | {"unit": "flops_per_s"}]),
            r"expected bytes_per_s - at `\$.ceilings\[0\]`",
        ),
        (change(ceilings=[CEILING | {"value": 0.0}]), r"more than 0 - at `\$.ceilings\[0\]`"),
        (change(ceilings=[CEILING | {"value": -1.0}]), r"more than 0"),
        (change(ceilings=[CEILING, CEILING]), r"twice - at `\$.ceilings\[1\]`"),
        (change(ceilings=[CEILING]).replace(b"4500000000000.0", b"1e999"), "."),
        (b"[" * 100_000, "."),
    ],
)
def test_a_damaged_file_is_one_error_that_names_the_field(tmp_path, content, names):
    path = tmp_path / "machine.json"
    path.write_bytes(content)
    with pytest.raises(FileError, match=names) as error:
        file.load(path)
    assert str(error.value).startswith(f"{path}: not a machine file, or a damaged one: ")


@given(st.integers(min_value=0))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_file_cut_anywhere_is_damaged(tmp_path, at):
    whole = file.save(EXAMPLE, tmp_path / "machine.json").read_bytes().rstrip()
    cut = tmp_path / "cut.json"
    cut.write_bytes(whole[: at % len(whole)])
    with pytest.raises(FileError, match="damaged"):
        file.load(cut)


def test_a_newer_file_asks_for_an_upgrade_whatever_else_it_holds(tmp_path):
    path = tmp_path / "machine.json"
    path.write_text(json.dumps({"schema_version": SCHEMA_VERSION + 1, "ceilings": "who knows"}))
    with pytest.raises(FileError, match=f"schema version {SCHEMA_VERSION + 1}.*Upgrade roofline"):
        file.load(path)


def test_fields_of_a_later_version_of_the_same_schema_are_ignored(tmp_path):
    path = tmp_path / "machine.json"
    path.write_bytes(change(colour="green"))
    assert file.load(path) == EXAMPLE


def test_a_missing_file_or_a_folder_cannot_be_read(tmp_path):
    for path in (tmp_path / "missing.json", tmp_path):
        with pytest.raises(FileError, match="cannot read this machine file"):
            file.load(path)


def test_default_path_names_device_and_time_in_the_users_data_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    expected = tmp_path / "roofline" / "machines" / "nvidia-h200-20260102T030405Z.json"
    assert file.default_path(EXAMPLE) == expected


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "AMD EPYC™ 9654 @ 2.4 GHz / 96"])
def test_default_path_is_a_plain_file_name_whatever_the_device_is_called(name):
    path = file.default_path(replace(EXAMPLE, device=replace(EXAMPLE.device, name=name)))
    assert path.parent == file.default_path(EXAMPLE).parent
    assert Path(path).name.removesuffix("-20260102T030405Z.json").replace("-", "").isalnum()

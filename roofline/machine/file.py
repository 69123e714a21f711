"""Machine files: a `Machine` as JSON with a schema version, written atomically, checked when it is read."""

from __future__ import annotations

import math
import os
import re
from datetime import datetime, timezone
from pathlib import Path

import msgspec
import platformdirs

from roofline.errors import FileError
from roofline.machine.ceilings import BY_NAME
from roofline.machine.record import SCHEMA_VERSION, Machine

AnyPath = str | os.PathLike[str]


class _Header(msgspec.Struct):
    schema_version: int


def save(machine: Machine, path: AnyPath) -> Path:
    """Write `machine` to `path`, whole or not at all, and return the path. Raises `FileError`."""
    try:
        _check(msgspec.to_builtins(machine))
        _check_ceilings(machine)
    except ValueError as error:
        raise FileError(f"{path}: this machine cannot be saved: {error}.") from error
    return write_atomically(path, msgspec.json.format(msgspec.json.encode(machine), indent=1) + b"\n")


def load(path: AnyPath) -> Machine:
    """Read a machine file. `FileError` if it is missing, damaged, or written by a newer version."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise FileError(f"{path}: cannot read this machine file: {error.strerror or error}.") from error
    try:
        _check_version(path, msgspec.json.decode(data, type=_Header).schema_version)
        machine = msgspec.json.decode(data, type=Machine)
        _check_ceilings(machine)
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise FileError(
            f"{path}: not a machine file, or a damaged one: {error}. Measure again with `roofline probe`."
        ) from error
    return machine


def default_path(machine: Machine) -> Path:
    """Where a measurement goes by default: the user's data folder, device and UTC time in the name."""
    created = machine.provenance.created if machine.provenance else datetime.now(timezone.utc).isoformat()
    time = re.sub(r"[-:]|\.\d+", "", created).replace("+0000", "Z")
    device = re.sub(r"[^a-z0-9]+", "-", machine.device.name.lower()).strip("-")
    folder = platformdirs.user_data_path("roofline", appauthor=False) / "machines"
    return folder / f"{device or 'device'}-{time}.json"


def write_atomically(path: AnyPath, data: bytes) -> Path:
    """Write `data` beside `path`, then rename: a reader sees the old or the new file. Raises `FileError`."""
    target = Path(path).expanduser()
    draft = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            draft.write_bytes(data)
            os.replace(draft, target)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise FileError(
            f"{path}: cannot write this file: {error.strerror or error}. Name another."
        ) from error
    return target


def _check_version(path: AnyPath, version: int) -> None:
    if version > SCHEMA_VERSION:
        raise FileError(
            f"{path}: schema version {version}; this roofline reads up to {SCHEMA_VERSION}. "
            "Upgrade roofline to read it, or measure again with `roofline probe`."
        )
    if version < 1:
        raise ValueError(
            f"schema_version is {version}, expected 1 to {SCHEMA_VERSION} - at `$.schema_version`"
        )


def _check(value: object, where: str = "$") -> None:
    """JSON has no NaN and no infinity: name the field rather than write null."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is not a finite number - at `{where}`")
    if isinstance(value, dict):
        for key, item in value.items():
            _check(item, f"{where}.{key}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _check(item, f"{where}[{index}]")


def _check_ceilings(machine: Machine) -> None:
    """What types cannot say: names once, in their unit, above zero."""
    seen = set()
    for index, ceiling in enumerate(machine.ceilings):
        where = f"`$.ceilings[{index}]`"
        kind = BY_NAME.get(ceiling.name)
        if kind is not None and kind.unit != ceiling.unit:
            raise ValueError(f"{ceiling.name} is in {ceiling.unit}, expected {kind.unit} - at {where}")
        if ceiling.value <= 0:
            raise ValueError(f"{ceiling.name} is {ceiling.value}, expected more than 0 - at {where}")
        if ceiling.name in seen:
            raise ValueError(f"{ceiling.name} is there twice - at {where}")
        seen.add(ceiling.name)

"""Names of machines: `roofline.machine("RTX 3090")`, the names drivers print, and paths of machine files.

A name is a set of words. It stands for a GPU only if its words are exactly that GPU's words, so that a word
which tells variants apart (Ti, SUPER, Laptop, Max-Q, PCIe, 80GB …) can never be overlooked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import fields, replace
from difflib import SequenceMatcher
from functools import lru_cache
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Literal

from roofline.errors import UnknownMachine, UsageError
from roofline.machine import file
from roofline.machine.record import Device, Machine
from roofline.machine.specs import Row, datasheet_machine, rows

Prefer = Literal["measured", "datasheet"]
Words = frozenset[str]

_EMPTY_WORDS = {
    "NVIDIA": frozenset(("nvidia", "geforce", "tesla", "corporation", "gpu", "generation")),
    "AMD": frozenset(("amd", "radeon", "instinct", "gpu", "graphics")),
}
"""Words of a vendor that tell none of its GPUs apart."""

_MEMORY_SEEN = (0.85, 1.03)
"""Memory a driver reports, as a share of what is on the board: ECC and firmware keep up to 9 % (T4, A40)."""


def machine(name_or_path: str | os.PathLike[str], *, prefer: Prefer = "measured") -> Machine:
    """A GPU by name, or a machine file by path.

    `prefer` decides between a shipped measurement and the data sheet where both exist.
    Raises `UnknownMachine` (with the nearest names) for a name and `FileError` for a path.
    """
    if prefer not in ("measured", "datasheet"):
        raise UsageError(f"prefer is {prefer!r}; it must be 'measured' or 'datasheet'.")
    if not isinstance(name_or_path, str | os.PathLike):
        raise UsageError(f"A machine is named by text or a path, not by {type(name_or_path).__name__}.")
    text = os.fspath(name_or_path)
    if isinstance(name_or_path, os.PathLike) or _is_path(text):
        return file.load(text)
    shipped = _shipped().get(_identity(text)) if prefer == "measured" else None
    return shipped or datasheet(text)


def datasheet(name: str, memory_bytes: int | None = None) -> Machine:
    """The data-sheet machine of that name.

    `memory_bytes`, if the driver reports it, tells apart GPUs that have one name in two memory sizes
    (RTX 3080 and RTX 3080 12GB), and keeps a slice of a GPU from passing for the whole.
    Raises `UnknownMachine`.
    """
    return datasheet_machine(_find(name, memory_bytes))


def with_published(measured: Machine) -> Machine:
    """`measured` with what the data sheet knows: each ceiling's `published` number, and the device's blanks.

    A device without a data sheet comes back as it was.
    """
    try:
        sheet = datasheet(measured.device.name, measured.device.memory_bytes)
    except UnknownMachine:
        return measured
    peaks = {ceiling.name: ceiling.value for ceiling in sheet.ceilings}
    ceilings = (replace(c, published=peaks.get(c.name, c.published)) for c in measured.ceilings)
    return replace(measured, ceilings=tuple(ceilings), device=_filled(measured.device, sheet.device))


def names() -> tuple[str, ...]:
    """Every name the table has, then the names of shipped measurements without a data sheet."""
    known = [row.name for row in rows()]
    return (*known, *(m.device.name for key, m in _shipped().items() if key not in known))


def _filled(device: Device, sheet: Device) -> Device:
    missing = {f.name: getattr(sheet, f.name) for f in fields(device) if getattr(device, f.name) is None}
    return replace(device, **missing)


def _is_path(text: str) -> bool:
    return os.sep in text or text.endswith(".json") or os.path.isfile(text)


def _identity(name: str, memory_bytes: int | None = None) -> str:
    """What two names of one GPU share: its name in the table, or else the name itself."""
    try:
        return _find(name, memory_bytes).name
    except UnknownMachine:
        return " ".join(sorted(_words(name)))


@lru_cache(maxsize=1)
def _shipped() -> dict[str, Machine]:
    """Measurements that come with the package, by identity."""
    folder = Path(str(files("roofline.machine") / "measured"))
    machines = [with_published(file.load(path)) for path in sorted(folder.glob("*.json"))]
    return {_identity(m.device.name, m.device.memory_bytes): m for m in machines}


def _find(name: str, memory_bytes: int | None) -> Row:
    words = _words(name)
    matches = [row for row in rows() if words - _EMPTY_WORDS[row.vendor] in _keys(row)]
    if memory_bytes is not None:
        sized = [row for row in rows() if _with_size(words, row) - _EMPTY_WORDS[row.vendor] in _keys(row)]
        matches = [row for row in chain(matches, sized) if _fits(row, memory_bytes)]
    if len({row.name for row in matches}) != 1:
        raise UnknownMachine(_unknown(name, words, memory_bytes))
    return matches[0]


def _fits(row: Row, memory_bytes: int) -> bool:
    low, high = _MEMORY_SEEN
    return row.memory_bytes is None or low <= memory_bytes / row.memory_bytes <= high


def _words(name: str) -> Words:
    """`NVIDIA A100-SXM4-80GB` → {nvidia, a100, sxm4, 80gb}; `RTX3090Ti` → {rtx, 3090, ti}; `32 GB` → 32gb."""
    text = re.sub(r"\(r\)|\(tm\)|\([^)]*gpu[^)]*\)", " ", name.lower())
    text = re.sub(r"\b(rtx|gtx)(?=\d)", r"\1 ", text)
    text = re.sub(r"\b(\d{4})(ti|super|d)\b", r"\1 \2", text)
    text = re.sub(r"\b(ti)(super)\b|(?<=\d)(ti)(super)\b", r" ti super", text)
    text = re.sub(r"\b(\d+)\s*gi?b\b", r"\1gb", text)
    return frozenset(re.findall(r"[^\W_]+", text))


def _size(row: Row) -> str:
    return f"{float(row.cells['mem_gb']):.0f}gb"


def _with_size(words: Words, row: Row) -> Words:
    return words | {_size(row)}


@lru_cache(maxsize=256)
def _keys(row: Row) -> frozenset[Words]:
    return frozenset(chain.from_iterable(_spellings(row, name) for name in row.names))


def _spellings(row: Row, name: str) -> Iterator[Words]:
    """Word sets that mean `row`: as written, without a leading RTX, `SXM` for `SXM4`, memory size added."""
    words = _words(name) - _EMPTY_WORDS[row.vendor]
    brand = re.match(r"(rtx|gtx) ", name.lower())
    for base in (words, words - {brand[1]} if brand else words):
        for form in (base, frozenset(re.sub(r"^sxm\d$", "sxm", word) for word in base)):
            yield form
            yield _with_size(form, row)


def _unknown(name: str, words: Words, memory_bytes: int | None) -> str:
    variants = [row.name for row in rows() if words and words - _EMPTY_WORDS[row.vendor] < _words(row.name)]
    size = f" with {memory_bytes / 2**30:.1f} GiB" if memory_bytes is not None else ""
    if variants:
        known = f"That could be any of: {', '.join(variants)}"
    else:
        known = f"Nearest known: {', '.join(_nearest(name))}"
    return (
        f"No machine is called '{name}'{size}. {known}. "
        "Give one of these exactly, or the path of a machine file; `roofline probe` measures one."
    )


def _nearest(name: str, count: int = 4) -> list[str]:
    words = _words(name).difference(*_EMPTY_WORDS.values())

    def likeness(row: Row) -> tuple[int, float]:
        known = _words(row.name)
        letters = SequenceMatcher(None, " ".join(sorted(words)), " ".join(sorted(known)))
        return len(words & known), letters.ratio()

    return [row.name for row in sorted(rows(), key=likeness, reverse=True)[:count]]

"""The data-sheet table `specs.csv`: one row per GPU, dense peaks by pipe and accumulator, with sources."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Literal

from roofline.machine.ceilings import BY_NAME
from roofline.machine.record import Ceiling, Device, Machine

_PEAKS = {
    "fp32": ("fp32_tflops", "fp32"),
    "fp16x2": ("fp16_vector_tflops", "fp16v"),
    "fp64": ("fp64_tflops", "fp64"),
    "tensor_fp16_fp16": ("fp16_tensor_fp16acc_tflops", "f16a16"),
    "tensor_fp16_fp32": ("fp16_tensor_fp32acc_tflops", "f16a32"),
    "tensor_bf16_fp32": ("bf16_tensor_tflops", "bf16"),
    "tensor_tf32": ("tf32_tensor_tflops", "tf32"),
    "tensor_fp8_e4m3": ("fp8_tensor_fp32acc_tflops", "fp8a32"),
    "tensor_fp8_e5m2": ("fp8_tensor_fp32acc_tflops", "fp8a32"),
    "tensor_int8": ("int8_tensor_tops", "int8"),
    "tensor_fp64": ("fp64_tensor_tflops", "fp64t"),
}
"""Ceiling → its column of the table, and the word for it in published_fields and derived_fields."""

_ACCUMULATE: dict[str, Literal["full", "half"]] = {"full": "full", "half": "half"}


@dataclass(frozen=True, eq=False)
class Row:
    """One GPU of the table."""

    cells: Mapping[str, str]
    """Column → text as it stands in the file; "" is unknown."""

    @property
    def name(self) -> str:
        """What the table calls this GPU."""
        return self.cells["gpu"]

    @property
    def vendor(self) -> str:
        """NVIDIA or AMD."""
        return self.cells["vendor"]

    @property
    def names(self) -> tuple[str, ...]:
        """The table's name and the names drivers print that do not follow from it."""
        aliases = (alias.strip() for alias in self.cells["aliases"].split(";"))
        return (self.name, *(alias for alias in aliases if alias))

    @property
    def memory_bytes(self) -> int | None:
        """Size of the device memory; boards are sold in GB that are GiB."""
        return _integer(self.cells["mem_gb"], 2**30)


@lru_cache(maxsize=1)
def rows() -> tuple[Row, ...]:
    """The whole table, in the file's order."""
    text = files("roofline.machine").joinpath("specs.csv").read_text(encoding="utf-8")
    return tuple(Row(cells) for cells in csv.DictReader(text.splitlines()))


def datasheet_machine(row: Row) -> Machine:
    """The machine that a data sheet promises: each ceiling is a published or derived peak and says which."""
    return Machine(name=row.name, device=_device(row), ceilings=(*_dram(row), *_compute(row)))


def _device(row: Row) -> Device:
    cells = row.cells
    return Device(
        name=row.name,
        kind="cuda" if row.vendor == "NVIDIA" else "other",
        vendor=row.vendor,
        architecture=cells["architecture"] or None,
        compute_capability=cells["compute_capability"] or None,
        sm_count=_integer(cells["sm_count"]),
        base_clock_hz=_scaled(cells["base_mhz"], 6),
        boost_clock_hz=_scaled(cells["boost_mhz"], 6),
        memory_bus_bits=_integer(cells["bus_bits"]),
        memory_type=cells["mem_type"] or None,
        memory_bytes=row.memory_bytes,
        l2_bytes=_integer(cells["l2_mb"], 2**20),
        tdp_w=_scaled(cells["tdp_w"], 0),
        fp32_accumulate=_ACCUMULATE.get(cells["fp32acc_rate"]),
        launch_year=_integer(cells["launch_year"]),
        launch_price_usd=_scaled(cells["launch_price_usd"], 0),
        notes=cells["notes"],
    )


def _dram(row: Row) -> tuple[Ceiling, ...]:
    """A data sheet knows only the pin bandwidth, so all directions share it."""
    value = _scaled(row.cells["bandwidth_gbs"], 9)
    if value is None:
        return ()
    overridden = re.search(r"\bbw\b", row.cells["base_source"].partition("overridden:")[2])
    source = f"pin bandwidth: {_published_source(row) if overridden else row.cells['base_source']}"
    names = ("dram_read", "dram_write", "dram_copy", "dram_triad")
    return tuple(_ceiling(name, value, source) for name in names)


def _compute(row: Row) -> tuple[Ceiling, ...]:
    found = []
    for name, (column, word) in _PEAKS.items():
        value = _scaled(row.cells[column], 12)
        if value is not None:
            derived = word in row.cells["derived_fields"].split()
            found.append(_ceiling(name, value, _derived_source(row) if derived else _published_source(row)))
    return tuple(found)


def _ceiling(name: str, value: float, source: str) -> Ceiling:
    return Ceiling(name=name, value=value, unit=BY_NAME[name].unit, source=source, published=value)


def _derived_source(row: Row) -> str:
    return f"derived: SM x boost clock x FLOP/clock/SM, from {row.cells['base_source']}"


def _published_source(row: Row) -> str:
    """The table's own words, without its remark on the derived numbers of the row."""
    return row.cells["peaks_source"].partition("others derived")[0].rstrip(" ;")


def _scaled(text: str, exponent: int) -> float | None:
    """`text` times 10**exponent, rounded once: 35.6 TFLOP/s is 35.6e12 and not 35600000000000.004."""
    return float(f"{text}e{exponent}") if text else None


def _integer(text: str, factor: int = 1) -> int | None:
    return round(float(text) * factor) if text else None

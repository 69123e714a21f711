"""What each constant was taken to be before any fit, how sure that is, and why: benchmarks/data/priors.csv."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Prior:
    """Value and relative standard deviation; a spread of 0 keeps the value as it is."""

    value: float
    spread: float
    unit: str
    meaning: str
    source: str


def read(path: Path = Path(__file__).parent / "data" / "priors.csv") -> dict[str, Prior]:
    """Name → prior, in the file's order."""
    with path.open(encoding="utf-8") as file:
        return {
            row["name"]: Prior(float(row["value"]), float(row["spread"]), row["unit"], row["meaning"], row["source"])
            for row in csv.DictReader(file)
        }


PRIORS = read()

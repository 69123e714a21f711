"""Predictions as tables and as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType

from roofline.analysis.constants import Calibration
from roofline.analysis.predict import Prediction
from roofline.report.text import make_table, notes
from roofline.units import si

SCHEMA_VERSION = 1
MEANING = {
    "math": "arithmetic", "l2": "L2 traffic", "dram": "DRAM traffic", "issue": "instruction issue",
    "layout": "NCHW/NHWC conversions", "launch": "kernel start and drain", "host": "waiting for the host",
}  # fmt: skip
"""Term of a prediction → what it is called in print."""


def prediction_table(predictions: Sequence[Prediction], batch: int | None = None) -> RenderableType:
    """One row per machine: time, interval, rate, what binds, memory."""
    rows = []
    for p in sorted(predictions, key=lambda found: found.seconds):
        fits = {True: "fits", False: "too small", None: "size unknown"}[p.fits]
        rows.append((
            p.machine, MEANING[p.bound], si(p.seconds, "s"), f"{si(p.low_s, 's')} to {si(p.high_s, 's')}",
            f"{batch / p.seconds:.4g}" if batch else "", si(p.clock_hz, "hz"), f"{si(p.memory_bytes, 'bytes')} {fits}",
        ))  # fmt: skip
    first = predictions[0]
    title = f"{first.name}, predicted ({first.software.name}; interval holds {100 * first.coverage:.0f} %)"
    right = ("time", "interval", "per second", "clock", "memory")
    remarks = [f"{p.machine}: {text}" for p in predictions for text in (*p.warnings, *p.assumptions)]
    return Group(make_table(title, ("machine", "largest part"), right, rows), *notes(remarks))


def terms_table(predictions: Sequence[Prediction]) -> RenderableType:
    """What the time is made of, one column per machine."""
    rows = []
    for term, meaning in MEANING.items():
        seconds = [p.terms.get(term, 0.0) for p in predictions]
        if any(seconds):
            rows.append((meaning, *(si(value, "s") if value else "–" for value in seconds)))
    return make_table("made of", ("",), tuple(p.machine for p in predictions), rows)


def layers_table(predictions: Sequence[Prediction], top: int) -> RenderableType:
    """The slowest layers, one column per machine."""
    tables = [p.by_layer() for p in predictions]
    names = sorted(tables[0], key=lambda name: -tables[0][name])
    kept = names[:top] if top else names
    rows = [(name or "(root)", *(si(table.get(name, 0.0), "s") for table in tables)) for name in kept]
    title = "layers" if len(kept) == len(names) else f"slowest {len(kept)} of {len(names)} layers"
    return make_table(title, ("layer",), tuple(p.machine for p in predictions), rows)


def prediction_data(prediction: Prediction, calibration: Calibration) -> dict[str, Any]:
    """Everything a prediction says, for JSON; seconds and bytes, no rounding."""
    return {
        "schema_version": SCHEMA_VERSION, "kind": "prediction", "name": prediction.name, "machine": prediction.machine,
        "software": prediction.software.name, "seconds": prediction.seconds, "low_s": prediction.low_s,
        "high_s": prediction.high_s, "coverage": prediction.coverage, "terms_s": dict(prediction.terms),
        "clock_hz": prediction.clock_hz, "host_s": prediction.host_s, "memory_bytes": prediction.memory_bytes,
        "memory_available_bytes": prediction.memory_available_bytes, "fits": prediction.fits,
        "sources": dict(prediction.sources), "assumptions": list(prediction.assumptions),
        "warnings": list(prediction.warnings), "layers_s": prediction.by_layer(),
        "calls": [_call(call) for call in prediction.calls],
        "constants": {c.name: {"value": c.value, "spread": c.spread, "unit": c.unit} for c in calibration.constants},
    }  # fmt: skip


def _call(call: Any) -> Mapping[str, Any]:
    return {
        "index": call.index, "op": call.op, "module": call.module, "kind": call.kind, "seconds": call.seconds,
        "terms_s": dict(call.terms),
    }  # fmt: skip

"""Comparisons as tables and as plain data."""

from __future__ import annotations

from math import exp, log
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from roofline.analysis.compare import Comparison
from roofline.report.predict_text import SCHEMA_VERSION
from roofline.report.text import make_table
from roofline.units import si


def comparison_tables(comparison: Comparison, top: int = 12) -> RenderableType:
    """Text, causes, layers and variants."""
    parts: list[RenderableType] = [Text(comparison.text), Text(), _causes(comparison), _layers(comparison, top)]
    if comparison.variants:
        parts.append(_variants(comparison))
    return Group(*parts)


def share(value: float) -> str:
    """A share of the log-ratio: 100 x ln, which adds up, and not percent, which does not."""
    return f"{100 * value:+.1f}"


def _causes(comparison: Comparison) -> RenderableType:
    a, b = comparison.a.machine, comparison.b.machine
    rows = [(name, a if value > 0 else b, share(value)) for name, value in comparison.causes.items()]
    rows.append(("predicted", f"{comparison.ratio:.3f}", share(log(comparison.ratio))))
    if comparison.observed_ratio is not None and comparison.unexplained is not None:
        rows.append(("unexplained", f"{exp(comparison.unexplained):.3f}", share(comparison.unexplained)))
        rows.append(("observed", f"{comparison.observed_ratio:.3f}", share(log(comparison.observed_ratio))))
    return make_table(f"why: {a} over {b}", ("cause", "favours"), ("100 x ln ratio",), rows)


def _layers(comparison: Comparison, top: int) -> RenderableType:
    a, b = comparison.a.by_layer(), comparison.b.by_layer()
    shares = comparison.layers
    names = sorted(shares, key=lambda name: -abs(shares[name]))[:top]
    rows = [
        (name or "(root)", si(a.get(name, 0.0), "s"), si(b.get(name, 0.0), "s"), share(shares[name])) for name in names
    ]
    right = (comparison.a.machine, comparison.b.machine, "100 x ln ratio")
    return make_table(f"layers that decide, {len(names)} of {len(shares)}", ("layer",), right, rows)


def _variants(comparison: Comparison) -> RenderableType:
    rows = [(v.label, v.question, f"{v.ratio:.3f}") for v in comparison.variants]
    return make_table("if it were otherwise", ("variant", "varies"), ("ratio",), rows)


def comparison_data(comparison: Comparison) -> dict[str, Any]:
    """Everything a comparison says, for JSON."""
    return {
        "schema_version": SCHEMA_VERSION, "kind": "comparison", "name": comparison.name,
        "a": comparison.a.machine, "b": comparison.b.machine, "software": comparison.a.software.name,
        "ratio": comparison.ratio, "interval": comparison.interval, "log_ratio": log(comparison.ratio),
        "seconds_a": comparison.a.seconds,
        "seconds_b": comparison.b.seconds, "causes": dict(comparison.causes), "layers": comparison.layers,
        "kinds": comparison.kinds, "observed_ratio": comparison.observed_ratio,
        "unexplained": comparison.unexplained, "text": comparison.text,
        "variants": [{"label": v.label, "question": v.question, "ratio": v.ratio} for v in comparison.variants],
        "assumptions": {p.machine: list(p.assumptions) for p in (comparison.a, comparison.b)},
        "sources": {p.machine: dict(p.sources) for p in (comparison.a, comparison.b)},
    }  # fmt: skip

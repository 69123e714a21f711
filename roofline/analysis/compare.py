"""COMPARISON: how much faster one machine runs a program than another, and why, in shares that add up.

The log-ratio ln(seconds_b / seconds_a) is shared out over hardware differences (Shapley values, `attribution`) and,
independently, over layers (logarithmic mean: exact as well). Positive shares favour `a`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import exp, hypot, log

from roofline.analysis.attribution import attribute
from roofline.analysis.constants import Calibration
from roofline.analysis.hardware import ecc_costs
from roofline.analysis.predict import Model, Prediction
from roofline.analysis.software import AS_TRACED, Software
from roofline.errors import UsageError
from roofline.machine.record import Machine
from roofline.work.record import Trace

PRODUCTS = ("gemm", "conv", "attention", "recurrent")


@dataclass(frozen=True, kw_only=True)
class Variant:
    """The ratio under another batch, precision or assumption."""

    label: str
    ratio: float
    question: str
    """Which assumption or choice it varies."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A program on two machines."""

    name: str
    a: Prediction
    b: Prediction
    causes: Mapping[str, float]
    """Named difference → share of ln(ratio); they sum to it. Positive: it favours `a`."""
    variants: tuple[Variant, ...] = ()
    observed_a_s: float | None = None
    observed_b_s: float | None = None

    @property
    def ratio(self) -> float:
        """Predicted speed of `a` over `b`."""
        return self.b.seconds / self.a.seconds

    @property
    def interval(self) -> tuple[float, float]:
        """Low and high of the ratio: the two predictions err independently, so their log-widths add in quadrature."""
        half = hypot(log(self.a.high_s / self.a.seconds), log(self.b.high_s / self.b.seconds))
        return self.ratio * exp(-half), self.ratio * exp(half)

    @property
    def observed_ratio(self) -> float | None:
        """Measured or published speed of `a` over `b`, if both times were given."""
        if self.observed_a_s is None or self.observed_b_s is None:
            return None
        return self.observed_b_s / self.observed_a_s

    @property
    def unexplained(self) -> float | None:
        """ln(observed ratio / predicted ratio): what no named cause accounts for."""
        return None if self.observed_ratio is None else log(self.observed_ratio / self.ratio)

    @property
    def layers(self) -> dict[str, float]:
        """Layer → share of ln(ratio), the host's waiting as its own row; they sum to it."""
        a, b = self.a.by_layer(), self.b.by_layer()
        if self.a.waiting_s or self.b.waiting_s:
            a["(waiting for the host)"], b["(waiting for the host)"] = self.a.waiting_s, self.b.waiting_s
        return self._shares(a, b)

    @property
    def kinds(self) -> dict[str, float]:
        """Kernel class → share of ln(ratio), the host's waiting apart."""
        a, b = self.a.by_kind(), self.b.by_kind()
        if self.a.waiting_s or self.b.waiting_s:
            a["host"], b["host"] = self.a.waiting_s, self.b.waiting_s
        return self._shares(a, b)

    def _shares(self, a: Mapping[str, float], b: Mapping[str, float]) -> dict[str, float]:
        """(b_i - a_i) over the logarithmic mean of the totals: adds up to ln(b / a)."""
        difference = self.b.seconds - self.a.seconds
        mean = difference / log(self.ratio) if abs(log(self.ratio)) > 1e-12 else self.a.seconds
        return {key: (b[key] - a[key]) / mean for key in a}

    @property
    def mix(self) -> tuple[float, float, float | None]:
        """Ratio on matrix work, ratio on everything else, and the share of `a`'s time in matrix work at which the two
        machines would be equal; None if one machine wins both."""
        product = [sum(c.seconds for c in p.calls if c.kind in PRODUCTS) for p in (self.a, self.b)]
        rest = [sum(c.seconds for c in p.calls if c.kind not in PRODUCTS) for p in (self.a, self.b)]
        on_products = product[1] / product[0] if product[0] else 1.0
        on_rest = rest[1] / rest[0] if rest[0] else 1.0
        if (on_products - 1) * (on_rest - 1) >= 0:
            return on_products, on_rest, None
        return on_products, on_rest, (1 - on_rest) / (on_products - on_rest)

    @property
    def crossovers(self) -> tuple[Variant, ...]:
        """Variants in which the other machine wins."""
        return tuple(v for v in self.variants if (v.ratio - 1) * (self.ratio - 1) < 0)

    @property
    def text(self) -> str:
        """A few sentences for someone who has to choose, each claim with its number."""
        return " ".join(sentences(self))


def compare(
    trace: Trace, a: Machine, b: Machine, *, software: Software = AS_TRACED, observed_a: float | None = None,
    observed_b: float | None = None, alternatives: Mapping[str, Trace] | None = None,
    calibration: Calibration | None = None,
) -> Comparison:  # fmt: skip
    """Speed of `a` over `b` on `trace`, with causes, layers and where the winner changes.

    `observed_a`, `observed_b`: measured or published seconds, both or neither. `alternatives`: label → the program at
    another batch or precision, to find where the winner changes.
    """
    if (observed_a is None) != (observed_b is None):
        raise UsageError("give the observed seconds of both machines or of neither.")
    if any(observed is not None and observed <= 0 for observed in (observed_a, observed_b)):
        raise UsageError("observed seconds must be positive.")
    model = Model(trace, software, calibration)
    causes = attribute(model.hardware(a), model.hardware(b), model.seconds)
    variants = [
        *_alternatives(alternatives or {}, a, b, software, calibration),
        *_ecc_flipped(model, a, b),
    ]
    return Comparison(
        name=trace.name, a=model.on(a), b=model.on(b), causes=causes, variants=tuple(variants),
        observed_a_s=observed_a, observed_b_s=observed_b,
    )  # fmt: skip


def _alternatives(
    traces: Mapping[str, Trace], a: Machine, b: Machine, software: Software, calibration: Calibration | None
) -> Iterable[Variant]:
    for label, trace in traces.items():
        model = Model(trace, software, calibration)
        ratio = model.seconds(model.hardware(b)) / model.seconds(model.hardware(a))
        yield Variant(label=label, ratio=ratio, question="batch or precision")


def _ecc_flipped(model: Model, a: Machine, b: Machine) -> Iterable[Variant]:
    """The ratio with ECC in the other state on each board where its state is only assumed."""
    pair = {"a": model.hardware(a), "b": model.hardware(b)}
    for side, machine in (("a", a), ("b", b)):
        assumed = pair[side].sources.get("ecc", "").startswith("assumed")
        if assumed and ecc_costs(machine, True):
            flipped = pair | {side: replace(pair[side], ecc=not pair[side].ecc)}
            ratio = model.seconds(flipped["b"]) / model.seconds(flipped["a"])
            state = "off" if pair[side].ecc else "on"
            yield Variant(label=f"ECC {state} on {machine.name}", ratio=ratio, question="ECC state, which is assumed")


def _percent(share: float) -> str:
    """A share of the log-ratio as the factor it stands for, in percent."""
    return f"{100 * (exp(share) - 1):+.1f} %"


def sentences(comparison: Comparison) -> Iterable[str]:
    """The text, sentence by sentence."""
    a, b, ratio = comparison.a.machine, comparison.b.machine, comparison.ratio
    winner, loser, factor = (a, b, ratio) if ratio >= 1 else (b, a, 1 / ratio)
    low, high = comparison.interval
    yield (
        f"On {comparison.name} the {winner} is predicted to run {factor:.2f} times as fast as the {loser} "
        f"({1e3 * comparison.a.seconds:.3g} ms on the {a}, {1e3 * comparison.b.seconds:.3g} ms on the {b}; "
        f"{a} over {b} {ratio:.2f}, interval {low:.2f} to {high:.2f})."
    )
    for owner, sign in ((a, 1), (b, -1)):
        found = [f"{name} ({_percent(abs(s))})" for name, s in comparison.causes.items() if s * sign > 0.005]
        if found:
            yield f"For the {owner} speak: {', '.join(found)}."
    yield from _mix_sentence(comparison)
    variants = comparison.crossovers or comparison.variants
    if variants:
        verb = "changes" if comparison.crossovers else "stays the same"
        yield f"The winner {verb} with: {', '.join(f'{v.label} ({v.ratio:.2f})' for v in variants)}."
    if comparison.observed_ratio is not None and comparison.unexplained is not None:
        yield (f"Observed: {comparison.observed_ratio:.3f}; {_percent(comparison.unexplained)} of it is unexplained.")
    for prediction in (comparison.a, comparison.b):
        if prediction.assumptions:
            yield f"Assumed for the {prediction.machine}: {'; '.join(prediction.assumptions)}."
        yield from prediction.warnings


def _mix_sentence(comparison: Comparison) -> Iterable[str]:
    products, rest, even = comparison.mix
    a = comparison.a
    share = sum(c.seconds for c in a.calls if c.kind in PRODUCTS) / (sum(c.seconds for c in a.calls) or 1.0)
    sentence = (
        f"Matrix work alone runs {products:.2f} times as fast on the {a.machine} as on the {comparison.b.machine}, "
        f"everything else {rest:.2f} times"
    )
    if even is not None:
        sentence += (
            f"; they draw level where matrix work takes {100 * even:.0f} % of the {a.machine}'s time "
            f"(here {100 * share:.0f} %)"
        )
    yield sentence + "."

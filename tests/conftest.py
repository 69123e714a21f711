"""Builders of small machines and traces with round numbers, for tests of what is made from them."""

import pytest

from roofline.machine.ceilings import BY_NAME
from roofline.machine.record import Ceiling, Device, Health, Machine, Measurement, Provenance
from roofline.work.record import Access, Call, Trace


@pytest.fixture(scope="session")
def make_machine():
    """A data-sheet machine: ceilings by keyword, in base units."""

    def make(name="Toy", capability="9.0", kind="cuda", **ceilings):
        return Machine(
            name=name,
            device=Device(name=name, kind=kind, compute_capability=capability),
            ceilings=tuple(
                Ceiling(name=n, value=v, unit=BY_NAME[n].unit, source="https://example.org/toy")
                for n, v in ceilings.items()
            ),
        )

    return make


@pytest.fixture(scope="session")
def make_measured():
    """A measured machine: ceilings by keyword; (value, published) or value."""

    def measured(name, given, flags):
        value, published = given if isinstance(given, tuple) else (given, None)
        measurement = Measurement(
            backend="triton", variant="block 1024", work=1e9, samples_s=(1e9 / value,), low=0.998 * value,
            high=1.002 * value, converged=name != "fp64", limit=1.25 * value,
            health=Health(clock_hz=1.98e9, power_w=512.4, throttle=("power cap",) if name == "fp64" else ()),
            flags=flags.get(name, ()),
        )  # fmt: skip
        unit = BY_NAME[name].unit
        return Ceiling(
            name=name, value=value, unit=unit, source="measured", published=published, measurement=measurement
        )

    def make(name="Toy measured", flags=None, not_measured=None, **ceilings):
        return Machine(
            name=name,
            device=Device(name=name, kind="cuda", compute_capability="9.0"),
            ceilings=tuple(measured(n, given, flags or {}) for n, given in ceilings.items()),
            not_measured=not_measured or {},
            provenance=Provenance(
                created="2026-01-02T03:04:05Z", effort="quick", method_version=1, roofline_version="0"
            ),
        )

    return make


@pytest.fixture(scope="session")
def make_call():
    """One op call that reads and writes so many bytes and does so many flops."""

    def make(read=0, written=0, flops=0, pipe=None, **fields):
        given = {
            "index": 0, "op": "aten.mm", "module": "layer", "phase": "forward", "kind": "gemm",
            "elementwise_flops": 0, "dtype": "float16", "shapes": (), **fields,
        }  # fmt: skip
        given.setdefault("scope", ("", given["module"]))
        return Call(
            flops=flops,
            pipe=pipe,
            reads=(Access(0, read),),
            writes=(Access(1, written, "activation"),),
            **given,
        )

    return make


@pytest.fixture(scope="session")
def make_trace():
    """A trace of the calls, numbered in their order."""
    from dataclasses import replace

    def make(*calls, name="toy"):
        return Trace(name=name, calls=tuple(replace(call, index=i) for i, call in enumerate(calls)))

    return make

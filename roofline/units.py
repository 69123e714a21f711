"""Printing of SI quantities with decimal prefixes. Nothing inside the package is scaled; only printed text is."""

from __future__ import annotations

_PREFIXES = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_SMALL = ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))

SYMBOLS = {
    "flops_per_s": "FLOP/s",
    "ops_per_s": "OP/s",
    "bytes_per_s": "B/s",
    "s": "s",
    "flops": "FLOP",
    "bytes": "B",
    "hz": "Hz",
    "w": "W",
}


def si(value: float, unit: str = "", digits: int = 3) -> str:
    """`value` in base units as text with a decimal prefix: `si(4.52e12, "bytes_per_s") == "4.52 TB/s"`."""
    symbol = SYMBOLS.get(unit, unit)
    if value == 0:
        return f"0 {symbol}".rstrip()
    table = _SMALL if unit == "s" else _PREFIXES
    size = abs(value)
    factor, prefix = next(((f, p) for f, p in table if size >= f * 0.99999), table[-1])
    return f"{value / factor:.{digits}g} {prefix}{symbol}".rstrip() if size / factor < 1000 else (
        f"{value / factor:.0f} {prefix}{symbol}".rstrip()
    )

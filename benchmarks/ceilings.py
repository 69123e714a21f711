"""Our ceilings against torch's own kernels on this GPU, in one run and by one engine.

    python benchmarks/ceilings.py --out ceilings.json

torch's `fill_`, `copy_`, `add(out=)` and `mm` are measured exactly as the microkernels are (settled, random data,
rotated buffers of the same size, median), so the ratios compare kernels and nothing else.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from roofline.kernels.microkernel import Arena, Job, Microkernel, Variant
from roofline.kernels.streams import ARRAYS
from roofline.machine.file import write_atomically
from roofline.machine.record import Ceiling
from roofline.measure.ceiling import measure_ceiling
from roofline.measure.devices import open_bench
from roofline.measure.stopping import EFFORTS
from roofline.units import si

SIZES = (4096, 8192, 16384)
TARGETS = {"dram_write": 0.995, "dram_copy": 1.01, "tensor_bf16_fp32": 1.10, "tensor_fp64": 1.00}
"""Smallest ratio of ours to torch's that is good enough."""


def _stream(operation: str, run: Callable[[list[Any]], Any]) -> Microkernel:
    def prepare(variant: Variant, arena: Arena, scale: float) -> Job:
        arrays = arena.arrays(4, scale)
        count = ARRAYS[operation]
        rotated = [[arrays[(i + k) % 4] for k in range(count)] for i in range(4)]
        return Job(lambda i: run(rotated[i % 4]), 4.0 * arrays[0].numel() * count, lambda: 0.0)

    return Microkernel(f"dram_{operation}", "torch", lambda _: (Variant(f"torch {operation}"),), prepare, 0.0)


def _product(ceiling: str, dtype: str) -> Microkernel:
    def variants(_: Any) -> tuple[Variant, ...]:
        return tuple(Variant(f"torch.mm {n}", {"n": n}) for n in SIZES)

    def prepare(variant: Variant, arena: Arena, scale: float) -> Job:
        import torch

        n, rows = variant.options["n"], int(variant.options["n"] * scale)
        a, b = arena.random((rows, n), dtype), arena.random((n, n), dtype)
        out = arena.random((rows, n), dtype)
        return Job(lambda _: torch.mm(a, b, out=out), 2.0 * rows * n * n, lambda: 0.0)

    return Microkernel(ceiling, "torch", variants, prepare, 0.0)


def _peers() -> tuple[Microkernel, ...]:
    import torch

    return (
        _stream("write", lambda t: t[0].fill_(0.7310585)),
        _stream("copy", lambda t: t[0].copy_(t[1])),
        _stream("triad", lambda t: torch.add(t[1], t[2], alpha=0.4375, out=t[0])),
        _product("tensor_bf16_fp32", "bfloat16"),
        _product("tensor_fp64", "float64"),
    )


def compare(device: str, effort: str) -> list[tuple[Ceiling, Ceiling]]:
    """Pairs of (ours, torch's) for every ceiling that has a counterpart."""
    bench = open_bench(device)
    kernels = bench.microkernels()
    pairs = []
    for peer in _peers():
        ours = [kernel for kernel in kernels if kernel.ceiling == peer.ceiling]
        pairs.append((measure_ceiling(bench, ours, EFFORTS[effort]), measure_ceiling(bench, [peer], EFFORTS[effort])))
        bench.release()
    return pairs


def main() -> None:
    """Measures, prints the table and writes the JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--effort", default="standard", choices=EFFORTS)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    table = Table("ceiling", "ours", "torch", "ratio", "wanted", "met")
    rows = []
    for ours, torchs in compare(options.device, options.effort):
        ratio, wanted = ours.value / torchs.value, TARGETS.get(ours.name)
        met = "" if wanted is None else "yes" if ratio >= wanted else "no"
        texts = (si(ours.value, ours.unit, 4), si(torchs.value, torchs.unit, 4), f"{ratio:.3f}", str(wanted or ""), met)
        table.add_row(ours.name, *texts)
        peer = torchs.measurement.variant if torchs.measurement else ""
        rows.append({"ceiling": ours.name, "ours": ours.value, "torch": torchs.value, "peer": peer, "ratio": ratio})
    Console(width=100).print(table)
    if options.out:
        write_atomically(options.out, json.dumps(rows, indent=1).encode())


if __name__ == "__main__":
    main()

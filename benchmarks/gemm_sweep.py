"""Brute force: the rate of every shape of the lattice of matrix products, as the yardstick of the guided search.

    python benchmarks/gemm_sweep.py --dtypes bf16 fp8 --seconds 100

Each shape is launched for some tens of milliseconds, the second half of which counts: by then the power limit has
settled on this shape. A reference shape comes every few shapes and shows the drift. Shapes come in random order,
so that a run which is broken off is a fair sample of the lattice. At the end the best shapes are measured again in
turns, since the maximum of a thousand noisy numbers lies above the truth. Needs a CUDA GPU to itself.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roofline.errors import RooflineError
from roofline.kernels import gemm
from roofline.kernels.microkernel import Job
from roofline.machine.file import write_atomically
from roofline.measure.bench import Bench
from roofline.measure.devices import open_bench
from roofline.measure.statistics import median

REFERENCE = (8192, 8192, 8192)
REFERENCE_EVERY = 10
SETTLE_S = 0.6
LONGEST_S = 0.012
"""A shape whose launch would take longer at the reference's rate is left out, and counted as such."""
SHAPE_S, AGAIN_S = 0.025, 0.05
ROUNDS = 7
AGAIN = 24
"""So many of the best are measured again, in so many turns."""


@dataclass(frozen=True)
class Point:
    """One shape, measured once."""

    shape: tuple[int, int, int]
    flops_per_s: float
    clock_hz: float | None
    power_w: float | None
    reference_flops_per_s: float
    """Of the last reference before this shape."""


class Sweep:
    """Measures shapes of one dtype on one device."""

    def __init__(self, bench: Bench, ceiling: str) -> None:
        self.bench = bench
        self.kernel = next(kernel for kernel in gemm.MICROKERNELS if kernel.ceiling == ceiling)
        reason = bench.unusable(self.kernel)
        if reason:
            raise SystemExit(f"{ceiling}: {reason}")
        lattice = gemm.axes(ceiling, bench.device)
        sides, depths = lattice["m"], lattice["k"]
        self.shapes = [(m, n, k) for m in sides for n in sides for k in depths]
        self.reference = REFERENCE if REFERENCE in self.shapes else self.shapes[len(self.shapes) // 2]
        self._reference_job = self.job(self.reference)

    def job(self, shape: tuple[int, int, int]) -> Job:
        """The product of that shape, its operands taken from memory that all shapes share."""
        return self.bench.prepare(self.kernel, gemm.variant(shape), 1.0)

    def rate(self, job: Job, seconds: float) -> float:
        """Flops a second in the second half of about so many seconds of launches."""
        first = min(self.bench.time(job, 2))
        times = self.bench.time(job, max(4, int(seconds / first)))
        return job.work / median(times[len(times) // 2 :])

    def point(self, shape: tuple[int, int, int], seconds: float, reference: float) -> Point:
        """The rate of a shape with what the sensors said meanwhile."""
        job = self.job(shape)
        with self.bench.watch() as health:
            rate = self.rate(job, seconds)
            observed = health()
        return Point(shape, rate, observed.clock_hz, observed.power_w, reference)

    def references(self, seconds: float) -> float:
        """The rate of the reference shape now."""
        return self.rate(self._reference_job, seconds)

    def run(self, budget_s: float, left_out: list[Any], drift: list[list[float]]) -> Iterator[Point]:
        """Every shape that is short enough, in random order, until the time is up."""
        began = time.monotonic()
        reference = self.references(SETTLE_S)
        shapes = list(self.shapes)
        random.Random(0).shuffle(shapes)
        for count, shape in enumerate(shapes):
            if time.monotonic() - began > budget_s:
                left_out += shapes[count:]
                return
            if count % REFERENCE_EVERY == 0:
                reference = self.references(SHAPE_S)
                drift.append([time.monotonic() - began, reference])
            if 2 * shape[0] * shape[1] * shape[2] > LONGEST_S * reference:
                left_out.append(shape)
                continue
            try:
                yield self.point(shape, SHAPE_S, reference)
            except RooflineError as error:
                print(f"{shape}: {error}", flush=True)
                left_out.append(shape)

    def again(self, best: list[Point]) -> list[dict[str, Any]]:
        """The best shapes and the reference, measured in turns: the rates of each, the best median first."""
        shapes = [*(point.shape for point in best), self.reference]
        jobs = {shape: self.job(shape) for shape in shapes}
        rates: dict[Any, list[float]] = {shape: [] for shape in jobs}
        for turn in range(ROUNDS):
            for shape, job in list(jobs.items())[:: -1 if turn % 2 else 1]:
                rates[shape].append(self.rate(job, AGAIN_S))
        rows = [{"shape": s, "flops_per_s": median(r), "rates": r, "error": jobs[s].check()} for s, r in rates.items()]
        return sorted(rows, key=lambda row: -row["flops_per_s"])


def sweep(bench: Bench, ceiling: str, budget_s: float) -> dict[str, Any]:
    """Everything about one dtype, ready to be written."""
    began = time.monotonic()
    runner = Sweep(bench, ceiling)
    left_out: list[Any] = []
    drift: list[list[float]] = []
    points = list(runner.run(budget_s, left_out, drift))
    best = sorted(points, key=lambda p: -p.flops_per_s)[:AGAIN]
    again = runner.again(best)
    report(ceiling, points, again, drift, len(left_out), time.monotonic() - began)
    return {
        "reference": runner.reference,
        "lattice": gemm.axes(ceiling, bench.device),
        "columns": ["m", "n", "k", "flops_per_s", "clock_hz", "power_w", "reference_flops_per_s"],
        "shapes": [
            [*p.shape, round(p.flops_per_s), p.clock_hz, p.power_w, round(p.reference_flops_per_s)] for p in points
        ],
        "best": again,
        "drift": drift,
        "left_out": left_out,
    }


def report(
    ceiling: str, points: list[Point], again: list[Any], drift: list[list[float]], left_out: int, seconds: float
) -> None:
    """A few lines for whoever watches."""
    references = [rate for _, rate in drift]
    print(f"{ceiling}: {len(points)} shapes in {seconds:.0f} s, {left_out} left out")
    print(f"  reference {min(references) / 1e12:.1f} ... {max(references) / 1e12:.1f} TFLOP/s during the sweep")
    for row in again[:5]:
        rates = row["rates"]
        spread = f"{min(rates) / 1e12:.1f} ... {max(rates) / 1e12:.1f}"
        print(f"  {row['shape']}  {row['flops_per_s'] / 1e12:.1f} TFLOP/s ({spread}), error {row['error']:.2g}")


def about(bench: Bench) -> dict[str, Any]:
    """The device and the software, so that the numbers can be placed."""
    device = bench.device
    return {
        "device": device.name,
        "sm_count": device.sm_count,
        "compute_capability": device.compute_capability,
        "memory_bytes": device.memory_bytes,
        "tdp_w": device.tdp_w,
        "l2_bytes": device.l2_bytes,
        "software": dict(bench.software),
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "method": {"settle_s": SETTLE_S, "shape_s": SHAPE_S, "longest_s": LONGEST_S, "rounds": ROUNDS},
    }


def main() -> None:
    """Sweep one dtype after the other; the file is written anew after each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    kinds = [ceiling.removeprefix("gemm_") for ceiling in gemm.PRODUCTS]
    parser.add_argument("--dtypes", nargs="*", default=["bf16", "fp8"], choices=kinds)
    parser.add_argument("--seconds", type=float, default=100.0, help="for the sweep of one dtype")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/data/gemm_sweep_h200.json"))
    options = parser.parse_args()
    try:
        bench = open_bench(options.device)
    except RooflineError as error:
        raise SystemExit(str(error)) from None
    result: dict[str, Any] = {"about": about(bench), "sweeps": {}}
    for dtype in options.dtypes:
        ceiling = f"gemm_{dtype}"
        result["sweeps"][ceiling] = sweep(bench, ceiling, options.seconds)
        write_atomically(options.out, json.dumps(result).replace(", [", ",\n[").encode() + b"\n")
        bench.release()
    print(f"-> {options.out}")


if __name__ == "__main__":
    main()

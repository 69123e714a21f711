"""Brute force: the rate of every shape of the lattice of matrix products, as the yardstick of the guided search.

    python benchmarks/gemm_sweep.py --dtypes bf16 fp8 --seconds 100

A power limit makes rates depend on what ran before: a shape that follows an idle moment or a light one runs up to
15 % faster than the same shape in a hot device. So a reference shape runs before and after each shape, for longer than
the shape itself: it sets the clock, and the ratio of the shape's rate to that of the reference is what compares.
Shapes come in random order, so that a run which is broken off is a fair sample of the lattice, and twice, which shows
the noise. At the end the best are measured in turns, which decides, and each for a while alone, with clock and watts.
Needs a CUDA GPU to itself.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from contextlib import suppress
from math import prod
from pathlib import Path
from statistics import mean
from typing import Any

from roofline.errors import RooflineError
from roofline.kernels import gemm
from roofline.kernels.microkernel import Job
from roofline.machine.file import write_atomically
from roofline.measure.bench import Bench
from roofline.measure.devices import open_bench
from roofline.measure.statistics import median

REFERENCE = (8192, 8192, 8192)
SETTLE_S = 1.0
PASSES = 2
LONGEST_S = 0.012
"""A shape whose launch would take longer at the reference's rate is left out, and counted as such."""
REFERENCE_S, SHAPE_S, AGAIN_S, ALONE_S = 0.016, 0.008, 0.06, 0.4
ROUNDS = 7
AGAIN, ALONE = 24, 6
"""So many of the best are measured in turns, so many alone."""

Shape = tuple[int, int, int]


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
        self._expected = 0.0
        self.ratios: dict[Shape, list[float]] = {shape: [] for shape in self.shapes}
        self.references: list[float] = []

    def job(self, shape: Shape) -> Job:
        """The product of that shape, its operands taken from memory that all shapes share."""
        return self.bench.prepare(self.kernel, gemm.variant(shape), 1.0)

    def rate(self, job: Job, seconds: float) -> float:
        """Flops a second in the second half of about so many seconds of launches."""
        launches = max(4, int(seconds * self._expected / job.work))
        times = self.bench.time(job, launches)
        return job.work / median(times[len(times) // 2 :])

    def ratio(self, shape: Shape) -> float:
        """The rate of a shape over that of the reference, at the clock that the reference sets."""
        job = self.job(shape)
        self.bench.time(job, 1)  # loads the library's kernel
        before = self.rate(self._reference_job, REFERENCE_S)
        rate = self.rate(job, SHAPE_S)
        reference = (before + self.rate(self._reference_job, SHAPE_S)) / 2
        self.references.append(reference)
        return rate / reference

    def settle(self) -> float:
        """The rate of the reference shape in a hot device."""
        times = self.bench.time(self._reference_job, 2)
        self._expected = self._reference_job.work / min(times)
        self._expected = self.rate(self._reference_job, SETTLE_S)
        return self._expected

    def run(self, budget_s: float) -> None:
        """Every shape that is short enough, in random order, until the time is up or all had their passes."""
        began = time.monotonic()
        longest = LONGEST_S * self.settle()
        for turn in range(PASSES):
            shapes = [shape for shape in self.shapes if 2 * prod(shape) <= longest]
            random.Random(turn).shuffle(shapes)
            for shape in shapes:
                if time.monotonic() - began > budget_s:
                    return
                with suppress(RooflineError):
                    self.ratios[shape].append(self.ratio(shape))

    def best(self, count: int) -> list[Shape]:
        """The shapes with the highest mean ratio."""
        tried = [shape for shape, ratios in self.ratios.items() if ratios]
        return sorted(tried, key=lambda shape: -mean(self.ratios[shape]))[:count]

    def again(self, shapes: list[Shape]) -> list[dict[str, Any]]:
        """Shapes measured in turns, so that all see the same clocks: the best median first."""
        jobs = {shape: self.job(shape) for shape in shapes}
        rates: dict[Any, list[float]] = {shape: [] for shape in jobs}
        for turn in range(ROUNDS):
            for shape, job in list(jobs.items())[:: -1 if turn % 2 else 1]:
                rates[shape].append(self.rate(job, AGAIN_S))
        rows = [{"shape": s, "flops_per_s": median(r), "rates": r, "error": jobs[s].check()} for s, r in rates.items()]
        return sorted(rows, key=lambda row: -row["flops_per_s"])

    def alone(self, shape: Shape) -> dict[str, Any]:
        """The rate of a shape under nothing but its own load, with what the sensors said meanwhile."""
        job = self.job(shape)
        self.rate(job, ALONE_S / 2)
        with self.bench.watch() as health:
            rate = self.rate(job, ALONE_S)
            observed = health()
        sensors = {"clock_hz": observed.sensor_clock_hz, "power_w": observed.power_w, "throttle": observed.throttle}
        return {"shape": shape, "flops_per_s": rate, **sensors}


def sweep(bench: Bench, ceiling: str, budget_s: float) -> dict[str, Any]:
    """Everything about one dtype, ready to be written."""
    began = time.monotonic()
    runner = Sweep(bench, ceiling)
    runner.run(budget_s)
    again = runner.again([*runner.best(AGAIN), runner.reference])
    alone = [runner.alone(row["shape"]) for row in again[:ALONE]]
    report(runner, ceiling, again, alone, time.monotonic() - began)
    return {
        "reference": runner.reference,
        "reference_flops_per_s": median(runner.references),
        "lattice": gemm.axes(ceiling, bench.device),
        "columns": ["m", "n", "k", "rate over the reference's", "again"],
        "shapes": [[*shape, *(round(r, 5) for r in ratios)] for shape, ratios in runner.ratios.items() if ratios],
        "left_out": [shape for shape, ratios in runner.ratios.items() if not ratios],
        "in_turns": again,
        "alone": alone,
    }


def report(runner: Sweep, ceiling: str, again: list[Any], alone: list[Any], seconds: float) -> None:
    """A few lines for whoever watches."""
    twice = [ratios for ratios in runner.ratios.values() if len(ratios) > 1]
    noise = median([abs(a / b - 1) for a, b, *_ in twice]) if twice else 0.0
    tried = sum(1 for ratios in runner.ratios.values() if ratios)
    slowest, fastest = min(runner.references), max(runner.references)
    print(f"{ceiling}: {tried} of {len(runner.shapes)} shapes, {len(twice)} of them twice, in {seconds:.0f} s")
    print(f"  reference {slowest / 1e12:.1f} ... {fastest / 1e12:.1f} TFLOP/s; ratios repeat within {noise:.2%}")
    for row in again[:5]:
        rates = row["rates"]
        spread = f"{min(rates) / 1e12:.1f} ... {max(rates) / 1e12:.1f}"
        ratios = ", ".join(f"{r:.4f}" for r in runner.ratios[row["shape"]])
        print(f"  {row['shape']}  {row['flops_per_s'] / 1e12:.1f} TFLOP/s in turns ({spread}); ratios {ratios}")
    for row in alone:
        clock, watts = row["clock_hz"] or 0, row["power_w"] or 0
        print(f"  {row['shape']}  {row['flops_per_s'] / 1e12:.1f} alone, {clock / 1e6:.0f} MHz, {watts:.0f} W")


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
        "method": {
            "settle_s": SETTLE_S,
            "reference_s": REFERENCE_S,
            "shape_s": SHAPE_S,
            "longest_s": LONGEST_S,
            "rounds": ROUNDS,
        },
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

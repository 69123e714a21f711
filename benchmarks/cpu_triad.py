"""Our CPU triad beside an OpenMP C triad, in one run: `python benchmarks/cpu_triad.py [--rounds 30]`.

The C program is compiled here by the system's compiler (`cc -O3 -march=native -fopenmp`) and runs in a process of
its own, so that two OpenMP runtimes never share one. Both sides take turns, one launch each, so that they see the same
machine; elements and threads are equal. A ratio above 1 means that ours is faster. Target: 0.9 at every size.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from roofline.kernels import cpu_stream
from roofline.measure.arena import CACHE_MULTIPLE
from roofline.measure.cpu import CpuBench
from roofline.measure.statistics import median

SOURCE = r"""
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **argument) {
    long n = atol(argument[1]);
    float *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b), *c = malloc(n * sizeof *c), q = 0.4375f;
    #pragma omp parallel for
    for (long i = 0; i < n; ++i) { a[i] = 0; b[i] = i % 7; c[i] = i % 11; }
    while (getchar() != EOF) {
        double start = omp_get_wtime();
        #pragma omp parallel for
        for (long i = 0; i < n; ++i) a[i] = b[i] + q * c[i];
        printf("%.9f\n", omp_get_wtime() - start);
        fflush(stdout);
    }
    return a[n - 1] != b[n - 1] + q * c[n - 1];
}
"""
WARM_UP = 2
"""Rounds that do not count."""
FLAGS = ("-O3", "-march=native", "-fopenmp")
MULTIPLES = (4, 8, 16)
"""Sizes of one array, in last-level caches."""


class CTriad:
    """The C program: one launch for each byte it is sent."""

    def __init__(self, program: Path, elements: int, threads: int) -> None:
        setting = {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "passive"}
        self._process = subprocess.Popen(
            [program, str(elements)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **setting},
        )

    def seconds(self) -> float:
        """Time of one launch, by the program's own clock."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(b"g")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        """Ends the program, which checks its result at last."""
        self._process.communicate()
        if self._process.returncode:
            raise click.ClickException(f"The C triad failed (exit code {self._process.returncode}).")


def compile_c(folder: Path) -> Path:
    """Compiles SOURCE into `folder`."""
    (folder / "triad.c").write_text(SOURCE)
    command = [os.environ.get("CC", "cc"), *FLAGS, "-o", str(folder / "triad"), str(folder / "triad.c")]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise click.ClickException(
            f"There is no C compiler '{command[0]}'. Install one, or name it in CC."
        ) from None
    except subprocess.CalledProcessError as error:
        raise click.ClickException(f"{' '.join(command)} failed: {error.stderr.strip()}") from None
    return folder / "triad"


def compare(program: Path, multiple: int, rounds: int) -> dict[str, list[float]]:
    """Bandwidth in bytes/s of every round: "C" and each of our variants, taking turns."""
    bench = CpuBench()
    cache_bytes = bench.device.l2_bytes or 4 << 20
    bench.device = replace(bench.device, l2_bytes=cache_bytes * multiple // CACHE_MULTIPLE)
    kernels = [k for k in cpu_stream.MICROKERNELS if k.ceiling == "dram_triad"]
    jobs = {
        f"{k.backend}: {v.name}": bench.prepare(k, v, 1.0) for k in kernels for v in k.variants(bench.device)
    }
    work = next(iter(jobs.values())).work
    reference = CTriad(program, int(work) // 12, bench.threads)
    rates: dict[str, list[float]] = {name: [] for name in ("C", *jobs)}
    for _ in range(rounds):
        rates["C"].append(work / reference.seconds())
        for name, job in jobs.items():
            rates[name].append(job.work / bench.time(job, 1)[0])
    reference.close()
    return {name: values[WARM_UP:] for name, values in rates.items()}


def show(rates: dict[str, list[float]], title: str) -> None:
    """One row for each program: median, best, and the ratio of medians to C."""
    table = Table("triad", "median GB/s", "best GB/s", "ours / C, medians", "best", title=title)
    reference = rates["C"]
    for name, values in rates.items():
        middle, best = median(values), max(values)
        ratios = (f"{middle / median(reference):.2f}", f"{best / max(reference):.2f}")
        table.add_row(name, f"{middle / 1e9:.2f}", f"{best / 1e9:.2f}", *ratios)
    Console().print(table)


@click.command()
@click.option(
    "--rounds", default=30, show_default=True, type=click.IntRange(min=5), help="Launches of each program."
)
def main(rounds: int) -> None:
    """Compare our CPU triad with an OpenMP C triad."""
    with tempfile.TemporaryDirectory() as folder:
        program = compile_c(Path(folder))
        for multiple in MULTIPLES:
            show(compare(program, multiple, rounds), f"each array {multiple} x the last-level cache")


if __name__ == "__main__":
    main()

"""The guided search of matrix products against the brute-force sweep: shapes tried, share of the best.

    python benchmarks/gemm_search.py                 # on the recorded sweep, no GPU needed
    python benchmarks/gemm_search.py --live          # search for real, then found and recorded best in turns

On the recording the search sees what the sweep saw (mean ratio to the reference). Live, it sees the device, and its
shape is judged beside the best recorded ones in turns, under the same clocks. Target: 99 % of the best in 60 shapes.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import mean
from typing import Any

from roofline.errors import RooflineError
from roofline.kernels import gemm
from roofline.machine.record import Device
from roofline.measure.bench import Bench
from roofline.measure.search import Point, search
from roofline.measure.statistics import median
from roofline.measure.stopping import EFFORTS
from roofline.measure.trials import LONGEST_S, try_all

BUDGET = 60
RECORDED = 5
"""So many of the recorded best take part in the final."""
ROUNDS, ROUND_S = 9, 0.06


def device_of(about: dict[str, Any]) -> Device:
    """The recorded device, as far as it decides which shapes are searched."""
    return Device(
        name=about["device"],
        kind="cuda",
        compute_capability=about["compute_capability"],
        sm_count=about["sm_count"],
        memory_bytes=about["memory_bytes"],
        l2_bytes=about["l2_bytes"],
    )


def recorded(ceiling: str, table: dict[str, Any], device: Device) -> str:
    """What the search finds if every rate is the recorded one."""
    rates: dict[Point, float] = {tuple(row[:3]): mean(row[3:]) for row in table["shapes"]}
    longest = LONGEST_S * table["reference_flops_per_s"]

    def rate(shape: Point) -> float | None:
        return rates.get(shape) if 2 * shape[0] * shape[1] * shape[2] <= longest else None

    starts = [(v.options["m"], v.options["n"], v.options["k"]) for v in gemm.starts(ceiling, device)]
    tried = search(rate, list(gemm.axes(ceiling, device).values()), starts, BUDGET)
    found, best = max(tried, key=lambda p: tried[p]), max(rates, key=lambda p: rates[p])
    when = 1 + list(tried).index(found)
    return (
        f"{ceiling}: {len(tried)} of {len(rates)} shapes tried, best {found} at number {when}: "
        f"{tried[found] / rates[best]:.2%} of the sweep's best {best}"
    )


def live(ceiling: str, table: dict[str, Any], bench: Bench) -> str:
    """What the search finds on the device, in turns with the recorded best shapes."""
    kernel = next(k for k in gemm.MICROKERNELS if k.ceiling == ceiling)
    candidates, trials = try_all(bench, [kernel], EFFORTS["standard"])
    found = max(candidates, key=lambda c: c.value)
    best = [tuple(row["shape"]) for row in table["in_turns"][:RECORDED]]
    jobs = {found.variant.name: found.job}
    jobs |= {v.name: bench.prepare(kernel, v, 1.0) for v in map(gemm.variant, best)}
    rates: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(ROUNDS):
        for name, job in list(jobs.items())[:: -1 if turn % 2 else 1]:
            times = bench.time(job, max(4, int(ROUND_S * found.value / job.work)))
            rates[name].append(job.work / median(times[len(times) // 2 :]))
    medians = {name: median(values) for name, values in rates.items()}
    rival = max((gemm.variant(shape).name for shape in best), key=lambda name: medians[name])
    tried = sum(t.value is not None for t in trials)
    lines = [f"  {name}: {value / 1e12:.1f} TFLOP/s in turns" for name, value in medians.items()]
    share = medians[found.variant.name] / medians[rival]
    head = f"{ceiling}: {tried} shapes tried live, best {found.variant.name}: {share:.2%} of the sweep's best ({rival})"
    return "\n".join([head, *lines])


def main() -> None:
    """Every dtype of the recorded sweep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sweep", type=Path, default=Path(__file__).parent / "data" / "gemm_sweep_h200.json")
    parser.add_argument("--live", action="store_true", help="search on the GPU rather than in the recording")
    options = parser.parse_args()
    data = json.loads(options.sweep.read_text())
    if not options.live:
        for ceiling, table in data["sweeps"].items():
            print(recorded(ceiling, table, device_of(data["about"])))
        return
    from roofline.measure.devices import open_bench

    try:
        bench = open_bench("cuda")
    except RooflineError as error:
        raise SystemExit(str(error)) from None
    for ceiling, table in data["sweeps"].items():
        print(live(ceiling, table, bench))
        bench.release()


if __name__ == "__main__":
    main()

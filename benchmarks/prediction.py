"""How wrong predictions are, on points that the constants have not seen, and what each part of the model is worth.

    python benchmarks/prediction.py [--quick]

Tables: leave-one-GPU-out and leave-one-architecture-out on the published throughputs, pairs ordered right, coverage
of the interval, two baselines (plain data-sheet roofline; with one efficiency per resource), RTX 3090 against A40,
sensitivity to what nobody published, ablations, other published tables (timm on a 3090, training on both), the H200's
networks left out in turn and its kernel classes. `--quick` leaves out the H200.
"""

from __future__ import annotations

import argparse
import dataclasses
import warnings
from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
from calibrate import class_seconds, fit, gpus, host_bound, left_out, log_errors, seconds
from points import (
    H200,
    NOW,
    Point,
    class_points,
    h200_points,
    hardware_of,
    published,
    published_trace,
    recording,
    rows,
)  # fmt: skip
from priors import PRIORS, Prior
from scipy.optimize import least_squares

from roofline.analysis.constants import Constants, shipped
from roofline.analysis.demand import Demand
from roofline.analysis.demand import demand as demand_of
from roofline.analysis.hardware import Hardware, hardware
from roofline.machine.catalog import machine

ARCHITECTURES = (
    {"GTX 1080 Ti"}, {"V100"}, {"Tesla T4", "RTX 2080 Ti"}, {"A100"},
    {"RTX 3080", "RTX 3090", "RTX A5000", "A40"}, {"RTX 4090", "L40"},
)  # fmt: skip
WORKLOADS = [(m, p) for p in ("fp16", "fp32") for m in ("resnet50", "vit_base_patch16_224")]


def summary(errors: np.ndarray) -> str:
    """Median, mean and 90th percentile of |predicted / measured - 1|."""
    off = np.abs(np.exp(errors) - 1)
    return f"median {np.median(off):6.1%}   mean {off.mean():6.1%}   p90 {np.quantile(off, 0.9):6.1%}"


def pairs_right(points: Sequence[Point], errors: np.ndarray) -> float:
    """Share of GPU pairs, per workload, whose order is predicted right."""
    right = total = 0
    for (p, e), (q, f) in combinations(zip(points, errors, strict=True), 2):
        if p.label[1:] == q.label[1:]:
            total += 1
            right += (p.seconds > q.seconds) == (p.seconds * np.exp(e) > q.seconds * np.exp(f))
    return right / total


def interval(errors: np.ndarray, half: float) -> str:
    """Coverage of an interval of that half-width, and the half-width that 80 % would have needed."""
    needed = np.quantile(np.abs(errors), 0.8)
    return f"± {half:.3f} holds {np.mean(np.abs(errors) <= half):.0%}; 80 % would need ± {needed:.3f}"


def line(name: str, points: Sequence[Point], errors: np.ndarray) -> None:
    """One row of a table."""
    print(f"{name:34} {summary(errors)}   pairs {pairs_right(points, errors):6.1%}")


def roofline_seconds(asked: Demand, gpu: Hardware, math: float = 1.0, dram: float = 1.0) -> float:
    """Sum over ops of the longer of flops / peak and bytes / bandwidth, each peak times one efficiency."""
    lanes = gpu.sm_count * gpu.clock_hz
    peak = np.array([gpu.pipe_per_clock.get(pipe, gpu.fp32_per_clock) for pipe in asked.pipe]) * lanes
    return float(np.maximum(asked.flops / (peak * math), asked.moved / (gpu.dram_bytes_per_s * dram)).sum())


def baseline_errors(points: Sequence[Point], math: float, dram: float) -> np.ndarray:
    """ln errors of the plain roofline with the two efficiencies."""
    predicted = [roofline_seconds(p.demand, p.machine, math, dram) for p in points]
    return np.log(np.array(predicted) / [p.seconds for p in points])


def baselines(points: Sequence[Point]) -> None:
    """(a) data-sheet roofline; (b) with one efficiency per resource, fitted without each GPU."""
    line("(a) data-sheet roofline", points, baseline_errors(points, 1.0, 1.0))
    errors = []
    for gpu in gpus(points):
        train = [p for p in points if p.group != gpu]
        best = least_squares(lambda x, seen=train: baseline_errors(seen, *np.exp(x)), np.log([0.7, 0.8])).x
        errors.append(baseline_errors([p for p in points if p.group == gpu], *np.exp(best)))
    line("(b) with one efficiency each", points, np.concatenate(errors))


def per_gpu(points: Sequence[Point], errors: np.ndarray) -> None:
    """Signed errors in percent, one row per GPU."""
    print(f"{'':14}" + "".join(f"{m.split('_')[0]:>10} {p}" for m, p in WORKLOADS))
    table = {point.label: error for point, error in zip(points, errors, strict=True)}
    for gpu in gpus(points):
        print(f"{gpu:14}" + "".join(f"{np.exp(table[(gpu, *w)]) - 1:>+15.1%}" for w in WORKLOADS))


def story(points: Sequence[Point], errors: np.ndarray, constants: Constants) -> None:
    """Speed of a 3090 over an A40: published, plain roofline, held out, shipped."""
    held = {p.label: p.seconds * np.exp(e) for p, e in zip(points, errors, strict=True)}
    found = {p.label: p for p in points}
    print(f"{'RTX 3090 / A40':30}{'published':>10}{'roofline':>10}{'held out':>10}{'shipped':>10}")
    for w in WORKLOADS:
        a, b = found[("RTX 3090", *w)], found[("A40", *w)]
        plain = roofline_seconds(b.demand, b.machine) / roofline_seconds(a.demand, a.machine)
        ours = seconds(b, constants) / seconds(a, constants)
        unseen = held[("A40", *w)] / held[("RTX 3090", *w)]
        print(f"{' '.join(w):30}{b.seconds / a.seconds:10.3f}{plain:10.3f}{unseen:10.3f}{ours:10.3f}")


def without(prior: str, value: float) -> dict[str, Prior]:
    """The priors with one constant held at a value that switches its effect off."""
    return {n: dataclasses.replace(p, value=value, spread=0.0) if n == prior else p for n, p in PRIORS.items()}


def changed(points: Sequence[Point], edit: Callable[[Point], Point]) -> list[Point]:
    """The points with something about their machine or demand edited."""
    return [edit(point) for point in points]


def _no_tf32_rule(point: Point) -> Point:
    rates = {"tensor_tf32": point.machine.fp32_per_clock * 2, **point.machine.pipe_per_clock}
    return dataclasses.replace(point, machine=dataclasses.replace(point.machine, pipe_per_clock=rates))


def _full_accumulate(point: Point) -> Point:
    gpu = point.machine
    rates = dict(gpu.pipe_per_clock)
    if "tensor_fp16_fp16" in rates:
        rates["tensor_fp16_fp32"] = rates["tensor_fp16_fp16"]
    return dataclasses.replace(point, machine=dataclasses.replace(gpu, pipe_per_clock=rates))


def _all_missed(point: Point) -> Point:
    asked = dataclasses.replace(point.demand, distance=np.full_like(point.demand.distance, np.inf))
    return dataclasses.replace(point, demand=asked)


def _aligned(point: Point) -> Point:
    return dataclasses.replace(point, demand=dataclasses.replace(point.demand, odd=np.zeros_like(point.demand.odd)))


def _no_winograd(point: Point) -> Point:
    asked = dataclasses.replace(point.demand, winograd=np.zeros_like(point.demand.winograd))
    return dataclasses.replace(point, demand=asked)


def _no_ecc(point: Point) -> Point:
    return dataclasses.replace(point, machine=dataclasses.replace(point.machine, ecc=False))


def ablations(points: Sequence[Point]) -> None:
    """Leave-one-GPU-out on the published points alone, with one part of the model taken out."""
    cases: dict[str, tuple[Sequence[Point], dict[str, Prior]]] = {
        "whole model": (points, PRIORS),
        "hard maximum instead of p-norm": (points, without("overlap", 20.0)),
        "sum instead of p-norm": (points, without("overlap", 1.0)),
        "no instruction limit of norms": (points, without("norm_elements_per_clock", 100.0)),
        "no power limit": (points, without("power_depth", 1e-6)),
        "TF32 assumed everywhere": (changed(points, _no_tf32_rule), PRIORS),
        "fp16 accumulate rate": (changed(points, _full_accumulate), PRIORS),
        "odd strides as aligned ones": (changed(points, _aligned), PRIORS),
        "no L2 residency": (changed(points, _all_missed), PRIORS),
        "no layout conversions": (points, without("layout_share", 1e-6)),
        "no Winograd": (changed(points, _no_winograd), PRIORS),
        "no ECC": (changed(points, _no_ecc), PRIORS),
        "Pascal fp16 as fast as fp32": (points, without("emulated_half_rate", 1.0)),
        "GeForce at nominal boost": (points, without("consumer_clock", 1.0)),
    }
    for name, (altered, priors) in cases.items():
        tested, errors = left_out(altered, [{gpu} for gpu in gpus(points)], priors=priors)
        line(name, tested, errors)


def timm_table(constants: Constants) -> None:
    """25 networks under autocast on a 3090: predicted as fp16, both layouts, torch 2.4."""
    from roofline.work.models import load
    from roofline.work.trace import trace

    gpu, errors = hardware_of("RTX 3090"), {"nchw": [], "nhwc": []}
    for row in rows("published_timm_3090.csv"):
        if row["img_size"] != "224":
            continue
        program = load(f"timm:{row['model']}", batch=64, dtype="fp16", channels_last=row["layout"] == "nhwc")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            asked = demand_of(trace(program.function, program.args, {}), NOW)
        asked = dataclasses.replace(asked, host_calls=0.0)  # published batches are far larger
        point = Point(gpu, "", (), asked, 64 / float(row["samples_per_sec"]))
        errors[row["layout"]].append(float(log_errors([point], constants)[0]))
    for layout, found in errors.items():
        print(f"timm on an RTX 3090, {layout}, {len(found)} networks   {summary(np.array(found))}   "
              f"bias {np.exp(np.median(found)) - 1:+.1%}")  # fmt: skip


def training_table(constants: Constants) -> None:
    """Published ResNet50 training on both boards: ratio only, as the software differs."""
    from roofline.work.models import load, precision
    from roofline.work.trace import trace

    rate = {(r["gpu"].removeprefix("GeForce "), r["precision_label"]): float(r["throughput"])
            for r in rows("published_training_3090_a40.csv") if r["task"] == "resnet50"}  # fmt: skip
    for label, dtype in (("FP16", "fp16"), ("FP32", "fp32")):
        program = load("resnet50", batch=64, dtype=dtype, train=True)
        with precision("tf32"):
            asked = demand_of(trace(program.function, program.args, {}, backward=True), NOW)
        asked = dataclasses.replace(asked, host_calls=0.0, trained_parameters=0.0)
        times = [seconds(Point(hardware_of(g), "", (), asked, 1.0), constants) for g in ("RTX 3090", "A40")]
        seen = rate["RTX 3090", label] / rate["A40", label]
        print(f"ResNet50 training {label}: RTX 3090 / A40 published {seen:.3f}, predicted {times[1] / times[0]:.3f}")


def sensitivity(constants: Constants) -> None:
    """What the facts that nobody published are worth: batch size and ECC state of the A40."""
    print(f"{'RTX 3090 / A40':30}" + "".join(f"{f'batch {b}':>11}" for b in (16, 64, 256)) + f"{'ECC off':>11}")
    from roofline.analysis.software import TORCH_1_9

    for w in WORKLOADS:
        ratios = []
        for batch, ecc in ((16, True), (64, True), (256, True), (64, False)):
            asked = demand_of(published_trace(*w, batch), dataclasses.replace(TORCH_1_9, host_s=0.0))
            a40 = hardware(machine("A40", prefer="datasheet"), ecc=ecc)
            pair = [Point(gpu, "", (), asked, 1.0) for gpu in (hardware_of("RTX 3090"), a40)]
            ratios.append(seconds(pair[1], constants) / seconds(pair[0], constants))
        print(f"{' '.join(w):30}" + "".join(f"{ratio:11.3f}" for ratio in ratios))


def h200_tables(public: Sequence[Point], constants: Constants) -> None:
    """Each network left out of the fit in turn; and the kernel classes of the profiled ones."""
    own, traces = h200_points([row for row in recording()["rows"] if "seconds" in row], 0.1)
    classes = class_points(traces)
    tested, errors = left_out(own, [{name} for name in gpus(own)], public, classes)
    print(f"\n{H200}: {len(gpus(own))} networks, each predicted without it, {len(own)} runs")
    print(f"{'all':14} {summary(errors)}")
    for mode in ("infer", "train"):
        for batch in ("1", "8", "64"):
            mine = np.array([p.label[2] == mode and p.label[3] == batch for p in tested])
            print(f"{mode} batch {batch:4} {summary(errors[mine])}")
    plain = np.array([p.label[2] == "infer" and not host_bound(p, constants) for p in tested])
    print(f"interval, device-bound inference: {interval(errors[plain], shipped().log_error)}")
    print(f"interval, others: {interval(errors[~plain], shipped().host_log_error)}")
    print("\nkernel classes, shipped constants (in sample)")
    for c in classes:
        predicted = float(np.squeeze(class_seconds(c, constants)))
        print(f"  {' '.join(c.label):44} {1e3 * c.seconds:7.2f} ms measured {1e3 * predicted:7.2f} predicted "
              f"{predicted / c.seconds - 1:+6.0%}   {c.share:4.0%} of the network")  # fmt: skip
    fitted = fit([*public, *own], classes).constants
    assert all(abs(np.log(getattr(fitted, n) / getattr(constants, n))) < 0.05 for n in PRIORS), "run make calibrate"


def main() -> None:
    """Print every table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="leave out what needs many traces")
    quick = parser.parse_args().quick
    constants, public = shipped().values, published()
    print("Published: 11 GPUs x 4 workloads, leaving each GPU out")
    baselines(public)
    own, classes = [], []
    if not quick:
        own, traces = h200_points([row for row in recording()["rows"] if "seconds" in row], 0.1)
        classes = class_points(traces)
    tested, errors = left_out(public, [{gpu} for gpu in gpus(public)], own, classes)
    line("this model, each GPU left out", tested, errors)
    other, other_errors = left_out(public, ARCHITECTURES, own, classes)
    line("this model, each architecture", other, other_errors)
    print(f"interval: {interval(errors, shipped().log_error)}\n")
    per_gpu(tested, errors)
    print()
    story(tested, errors, constants)
    print("\nWhat nobody published")
    sensitivity(constants)
    print("\nAblations: published points only, each GPU left out")
    ablations(public)
    print("\nOther published tables, shipped constants")
    training_table(constants)
    if not quick:
        timm_table(constants)
        h200_tables(public, constants)


if __name__ == "__main__":
    main()

"""The measured points that predictions are fitted to and judged by: published throughputs and the H200's networks."""

from __future__ import annotations

import csv
import json
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import networks
import numpy as np
import torch

from roofline.analysis.demand import Demand, demand
from roofline.analysis.hardware import Hardware, hardware
from roofline.analysis.software import TORCH_1_9, Software
from roofline.machine.catalog import machine
from roofline.work.models import load, precision
from roofline.work.record import Trace
from roofline.work.trace import trace

DATA = Path(__file__).parent / "data"
BATCH = 64
"""Batch of the published runs: not published, the usual guess."""
CATALOG = {"Tesla T4": "T4", "V100": "V100 SXM2 32GB", "A100": "A100 SXM4 40GB"}
"""Published name → the variant taken for it, where the page does not say which."""
H200 = "H200 SXM 141GB"
NOW = Software(name="torch 2.11", tf32_products=False, tf32_convolutions=True)
KIND_OF_OP = {
    "aten::batch_norm": "norm", "aten::layer_norm": "norm", "aten::conv2d": "conv", "aten::linear": "gemm",
    "aten::relu_": "elementwise", "aten::add_": "elementwise", "aten::add": "elementwise",
    "aten::gelu": "elementwise", "aten::max_pool2d": "pool", "aten::adaptive_avg_pool2d": "reduction",
    "aten::scaled_dot_product_attention": "attention", "aten::cat": "copy",
}  # fmt: skip
CONVERSIONS = ("nchwToNhwc", "nhwcToNchw")


@dataclass(frozen=True)
class Point:
    """One program on one machine, with the seconds that were measured."""

    machine: Hardware
    group: str
    """What is left out together: a GPU, or a network."""
    label: tuple[str, ...]
    demand: Demand
    seconds: float
    weight: float = 1.0


@dataclass(frozen=True)
class ClassPoint:
    """The kernels of one class in one profiled network."""

    machine: Hardware
    label: tuple[str, ...]
    demand: Demand
    members: np.ndarray
    """Which kernels of the demand belong to the class; all of them for `layout`, which is a part of each."""
    seconds: float
    share: float
    """Of the network's kernel time."""


def rows(name: str) -> list[dict[str, str]]:
    """A table of benchmarks/data."""
    with (DATA / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def hardware_of(gpu: str) -> Hardware:
    """The data-sheet attributes of a published GPU."""
    return hardware(machine(CATALOG.get(gpu, gpu), prefer="datasheet"))


@lru_cache(maxsize=16)
def published_trace(model: str, dtype: str, batch: int = BATCH) -> Trace:
    """A network as the published runs had it: NCHW, TF32 allowed for products and convolutions."""
    program = load(model, batch=batch, dtype=dtype)
    with precision("tf32"):
        return trace(program.function, program.args, dict(program.kwargs), name=f"{model} {dtype} batch {batch}")


def published(batch: int = BATCH) -> list[Point]:
    """The 11 GPUs x 4 workloads of published_inference.csv."""
    found = []
    demands: dict[tuple[str, str], Demand] = {}
    for row in rows("published_inference.csv"):
        key = (row["model"], row["precision"])
        if key not in demands:
            demands[key] = demand(published_trace(*key, batch), TORCH_1_9)
        seconds = batch / float(row["images_per_s"])
        found.append(Point(hardware_of(row["gpu"]), row["gpu"], (row["gpu"], *key), demands[key], seconds))
    return found


def recording() -> dict[str, Any]:
    """The H200's networks, as `networks.py` wrote them."""
    return json.loads((DATA / "h200_networks.json").read_text())


def h200_points(wanted: Iterable[dict[str, Any]], weight: float) -> tuple[list[Point], dict[tuple, Trace]]:
    """The rows of the recording as points, and their traces."""
    device, found, traces = hardware(machine(H200, prefer="datasheet")), [], {}
    model: torch.nn.Module | None = None
    last: tuple = ()
    for row in wanted:
        key = (row["network"], row["dtype"], row["mode"])
        if key != last:
            model, last = networks.make(row["network"], row["dtype"], "meta", row["mode"]), key
        inputs = networks.NETWORKS[row["network"]].inputs(row["batch"], getattr(torch, row["dtype"]), "meta")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            traces[(*key, row["batch"])] = trace(model, inputs, backward=row["mode"] == "train")
        asked = demand(traces[(*key, row["batch"])], NOW)
        label = (*key, str(row["batch"]))
        found.append(Point(device, row["network"], label, asked, row["seconds"], weight))
    return found, traces


def class_points(traces: dict[tuple, Trace]) -> list[ClassPoint]:
    """Kernel classes of the profiled networks that take at least 3 % of the kernel time."""
    device, found = hardware(machine(H200, prefer="datasheet")), []
    for profile in recording()["profiles"]:
        traced = traces[(profile["network"], profile["dtype"], "infer", profile["batch"])]
        asked, kinds = demand(traced, NOW), {call.index: call.kind for call in traced.calls}
        measured: dict[str, float] = {}
        for kernel in profile["kernels"]:
            converts = any(name in kernel["kernel"] for name in CONVERSIONS)
            kind = "layout" if converts else KIND_OF_OP.get(kernel["op"], "other")
            measured[kind] = measured.get(kind, 0.0) + kernel["seconds"]
        whole = sum(measured.values())
        for kind, seconds in measured.items():
            if seconds > 0.03 * whole:
                members = np.array([kind in ("layout", kinds[int(call)]) for call in asked.call])
                label = (profile["network"], profile["dtype"], kind)
                found.append(ClassPoint(device, label, asked, members, seconds, seconds / whole))
    return found

"""Which pipe ceiling of a machine stands for the pipe a call asks for, where the machine lacks that one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from roofline.errors import MissingCeiling
from roofline.machine.ceilings import BY_NAME
from roofline.machine.record import Device, Machine


@dataclass(frozen=True)
class Fallback:
    """One pipe that the machine lacks, and what stands for it."""

    asked: str
    used: str | None
    """None: no pipe at all; the calls are placed by their bytes."""
    reason: str
    calls: int = 0


def _older_than(major: int) -> Callable[[Device], bool]:
    def older(device: Device) -> bool:
        known = device.compute_capability
        return known is not None and int(known.partition(".")[0]) < major

    return older


def _cpu(device: Device) -> bool:
    return device.kind == "cpu"


def _no_nvidia_tf32(device: Device) -> bool:
    return device.kind != "cuda" or _older_than(8)(device)


def _always(device: Device) -> bool:
    return True


_TO_FP32 = "this device has no such units; the work runs at the rate of fp32"
_PRODUCT = "on a CPU the library's product is the ceiling"

RULES: tuple[tuple[str, str, Callable[[Device], bool], str], ...] = (
    ("fp32", "gemm_fp32", _cpu, _PRODUCT),
    ("fp64", "gemm_fp64", _cpu, _PRODUCT),
    ("tensor_bf16_fp32", "gemm_bf16", _cpu, _PRODUCT),
    ("tensor_fp16_fp32", "gemm_fp16", _cpu, _PRODUCT),
    ("tensor_int8", "gemm_int8", _cpu, _PRODUCT),
    ("tensor_tf32", "fp32", _no_nvidia_tf32, _TO_FP32),
    ("tensor_bf16_fp32", "fp32", _older_than(8), _TO_FP32),
    ("tensor_bf16_fp32", "fp32", _cpu, _TO_FP32),
    ("tensor_fp16_fp32", "fp32", _older_than(7), _TO_FP32),
    ("tensor_fp16_fp32", "fp32", _cpu, _TO_FP32),
    ("tensor_fp16_fp16", "fp16x2", _older_than(7), "no tensor cores before compute capability 7.0"),
    ("tensor_fp64", "fp64", _always, "no tensor rate for fp64 is known here; the fp64 units stand for it"),
    ("fp16x2", "fp32", _always, "no packed fp16 rate is known here; the fp32 units stand for it"),
    ("bf16x2", "fp32", _always, "no packed bf16 rate is known here; the fp32 units stand for it"),
)
"""(pipe, what stands for it, on which devices, why).

A rule that says "no such units" holds only where that is known: a rate that is merely unpublished or
unmeasured is an error, not a guess."""


def resolve(machine: Machine, pipe: str) -> str:
    """The ceiling that stands for `pipe` on this machine; `MissingCeiling` if no rule gives one."""
    if machine.get(pipe) is not None:
        return pipe
    for asked, used, holds, _reason in RULES:
        if asked == pipe and holds(machine.device):
            try:
                return resolve(machine, used)
            except MissingCeiling:
                continue
    return machine.ceiling(pipe).name


def fallback(machine: Machine, asked: str, used: str, calls: int) -> Fallback:
    """The record of a substitution that `resolve` made."""
    steps = (why for pipe, _, holds, why in RULES if pipe == asked and holds(machine.device))
    name = BY_NAME[asked].label if asked in BY_NAME else asked
    return Fallback(asked, used, f"{machine.name} has no ceiling for {name}: {next(steps)}", calls)

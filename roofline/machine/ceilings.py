"""The vocabulary: every ceiling this package knows, its unit, group and label. One row per ceiling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from roofline.machine.record import Unit

Group = Literal["dram", "l2", "l1", "shared", "vector", "tensor", "gemm", "conv", "latency", "launch"]


@dataclass(frozen=True)
class CeilingKind:
    """What a ceiling's name stands for."""

    name: str
    group: Group
    unit: Unit
    label: str


def _memory(name: str, group: Group, label: str) -> CeilingKind:
    return CeilingKind(name, group, "bytes_per_s", label)


def _compute(name: str, group: Group, label: str, unit: Unit = "flops_per_s") -> CeilingKind:
    return CeilingKind(name, group, unit, label)


KINDS: tuple[CeilingKind, ...] = (
    _memory("dram_read", "dram", "DRAM read"),
    _memory("dram_write", "dram", "DRAM write"),
    _memory("dram_copy", "dram", "DRAM copy"),
    _memory("dram_triad", "dram", "DRAM triad"),
    _memory("l2_read", "l2", "L2 read"),
    _memory("l2_read_shared", "l2", "L2 read, all SMs the same lines"),
    _memory("l2_write", "l2", "L2 write"),
    _memory("l1_read", "l1", "L1 read"),
    _memory("shared_read", "shared", "shared memory read"),
    _compute("fp32", "vector", "fp32 FMA"),
    _compute("fp16x2", "vector", "fp16x2 FMA"),
    _compute("bf16x2", "vector", "bf16x2 FMA"),
    _compute("fp64", "vector", "fp64 FMA"),
    _compute("tensor_fp16_fp16", "tensor", "tensor fp16→fp16"),
    _compute("tensor_fp16_fp32", "tensor", "tensor fp16→fp32"),
    _compute("tensor_bf16_fp32", "tensor", "tensor bf16→fp32"),
    _compute("tensor_tf32", "tensor", "tensor TF32"),
    _compute("tensor_fp8_e4m3", "tensor", "tensor fp8 e4m3→fp32"),
    _compute("tensor_fp8_e5m2", "tensor", "tensor fp8 e5m2→fp32"),
    _compute("tensor_int8", "tensor", "tensor int8→int32", "ops_per_s"),
    _compute("tensor_fp64", "tensor", "tensor fp64"),
    _compute("gemm_fp16", "gemm", "GEMM fp16"),
    _compute("gemm_bf16", "gemm", "GEMM bf16"),
    _compute("gemm_tf32", "gemm", "GEMM TF32"),
    _compute("gemm_fp32", "gemm", "GEMM fp32"),
    _compute("gemm_fp64", "gemm", "GEMM fp64"),
    _compute("gemm_fp8", "gemm", "GEMM fp8 e4m3"),
    _compute("gemm_int8", "gemm", "GEMM int8", "ops_per_s"),
    _compute("conv_fp16_nchw", "conv", "convolution fp16 NCHW"),
    _compute("conv_fp16_channels_last", "conv", "convolution fp16 channels_last"),
    CeilingKind("latency_l1", "latency", "s", "L1 latency"),
    CeilingKind("latency_l2", "latency", "s", "L2 latency"),
    CeilingKind("latency_dram", "latency", "s", "DRAM latency"),
    CeilingKind("launch_eager", "launch", "s", "launch, eager"),
    CeilingKind("launch_graph", "launch", "s", "launch, graph"),
)

BY_NAME = {kind.name: kind for kind in KINDS}
PIPES = tuple(kind.name for kind in KINDS if kind.group in ("vector", "tensor"))
"""Names an op call's `pipe` can take."""

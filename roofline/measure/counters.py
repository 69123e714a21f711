"""Which hardware counters show what each microkernel claims, and how far they agree. Pure functions of counter values.

Names of counters are those of Nsight Compute; which of them a GPU has is asked at run time. Bytes may differ by 2 %
(what is around a microkernel's stream takes part), flops by 0.5 %.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from roofline.errors import RooflineError
from roofline.machine.ceilings import BY_NAME
from roofline.machine.record import CounterAudit

SEPARATOR = "spin_kernel"
"""Kernel of `torch.cuda._sleep`: it runs before each microkernel, so that its rows can be told apart."""
_TOLERANCES = {"bytes": 0.02, "flops": 0.005, "ops": 0.005, "kernels": 0.0, "loads": 0.02}
_PREFIXES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_SASS = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
_SECTOR_BYTES, _WAVEFRONT_BYTES = 32.0, 128.0

Terms = tuple[tuple[str, float], ...]
"""Counters and their factors; the quantity is their sum."""

_DRAM: Terms = (("dram__bytes_read.sum", 1.0), ("dram__bytes_write.sum", 1.0))
# Ceiling → the ways to count it, the best first. SASS counters count a fused multiply-add once, per thread; a packed
# HFMA2 counts as two. Bytes that several SMs get by one request are counted where they arrive, in L1.
_COUNTERS: dict[str, tuple[Terms, ...]] = {
    "dram_read": (_DRAM,),
    "dram_write": (_DRAM,),
    "dram_copy": (_DRAM,),
    "dram_triad": (_DRAM,),
    "l2_read": ((("lts__t_bytes.sum", 1.0),),),
    "l2_read_shared": ((("l1tex__t_bytes.sum", 1.0),),),
    "l2_write": ((("lts__t_sectors_srcunit_tex_op_write.sum", _SECTOR_BYTES),), (("lts__t_bytes.sum", 1.0),)),
    "l1_read": ((("l1tex__t_bytes.sum", 1.0),),),
    "shared_read": (
        (("smsp__sass_data_bytes_mem_shared_op_ld.sum", 1.0),),
        (("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum", _WAVEFRONT_BYTES),),
    ),
    "fp32": (((_SASS.format("ffma"), 2.0),),),
    "fp16x2": (((_SASS.format("hfma"), 4.0),),),
    "bf16x2": (((_SASS.format("hfma"), 4.0),),),
    "fp64": (((_SASS.format("dfma"), 2.0),),),
    "gemm_fp32": (((_SASS.format("ffma"), 2.0),),),
    **{f"latency_{level}": ((("smsp__inst_executed_op_global_ld.sum", 1.0),),) for level in ("l1", "l2", "dram")},
}
# Operand and accumulator of the tensor pipe that a ceiling claims, as counters name them.
_TENSOR = {
    "tensor_fp16_fp16": ("fp16", "fp16"),
    "tensor_fp16_fp32": ("fp16", "fp32"),
    "tensor_bf16_fp32": ("bf16", "fp32"),
    "tensor_tf32": ("tf32", "fp32"),
    "tensor_fp8_e4m3": ("fp8", "fp32"),
    "tensor_fp8_e5m2": ("fp8", "fp32"),
    "tensor_int8": ("int8", "int32"),
    "tensor_fp64": ("fp64", "fp64"),
    "gemm_fp16": ("fp16", "fp32"),
    "gemm_bf16": ("bf16", "fp32"),
    "gemm_tf32": ("tf32", "fp32"),
    "gemm_fp64": ("fp64", "fp64"),
    "gemm_fp8": ("fp8", "fp32"),
    "gemm_int8": ("int8", "int32"),
    "conv_fp16_nchw": ("fp16", "fp32"),
    "conv_fp16_channels_last": ("fp16", "fp32"),
}
_OPS_PATH = re.compile(
    r"sm__ops_path_tensor(_op_\w+?)?_src_([a-z]+\d+)\w*?(?:_dst_([a-z]+\d+))?(?:_sparsity_(on|off))?"
)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What one launch of a microkernel says that it does."""

    ceiling: str
    backend: str
    variant: str
    work: float
    """In the ceiling's unit."""
    failure: str = ""
    """Why it could not be launched."""


@dataclass(frozen=True)
class Kernel:
    """One kernel that the profiler saw."""

    name: str
    values: Mapping[str, float]
    """Counter → value in base units."""


def quantity(ceiling: str) -> str:
    """What is compared: flops, ops, bytes, loads or kernels."""
    kind = BY_NAME[ceiling]
    if kind.group in ("latency", "launch"):
        return "loads" if kind.group == "latency" else "kernels"
    return kind.unit.removesuffix("_per_s")


def tensor_counters(available: Iterable[str], source: str, accumulator: str) -> Terms:
    """Counters of dense tensor operations on that operand type; () if this GPU has none."""
    groups: dict[tuple[bool, bool], list[tuple[str, float]]] = {}
    for name in sorted(available):
        match = _OPS_PATH.fullmatch(name)
        if match and match[2] == source and match[3] in (None, accumulator) and match[4] != "on":
            groups.setdefault((match[1] is not None, match[4] is not None), []).append((f"{name}.sum", 1.0))
    return tuple(groups[min(groups)]) if groups else ()


def counters(ceiling: str, available: Iterable[str]) -> Terms:
    """The counters to read for a ceiling, of those that the GPU has; () if it cannot be counted."""
    names = set(available)
    if ceiling in _TENSOR:
        return tensor_counters(names, *_TENSOR[ceiling])
    for terms in _COUNTERS.get(ceiling, ()):
        if all(name.partition(".")[0] in names for name, _ in terms):
            return terms
    return ()


def parse(text: str) -> list[Kernel]:
    """The kernels in Nsight Compute's raw CSV page. Raises RooflineError if there is no table in `text`."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        raise RooflineError(f"Nsight Compute printed no table of counters: {_last(lines)}")
    header, units, *rows = csv.reader(line for line in lines[start:] if line.startswith('"'))
    name = header.index("Kernel Name")
    return [Kernel(row[name], dict(_values(header, units, row))) for row in rows if len(row) == len(header)]


def _last(lines: Sequence[str]) -> str:
    return next((line.strip() for line in reversed(lines) if line.strip()), "nothing at all")


def _values(header: Sequence[str], units: Sequence[str], row: Sequence[str]) -> Iterable[tuple[str, float]]:
    for name, unit, cell in zip(header, units, row, strict=True):
        if re.fullmatch(r"-?[\d,]+(\.\d+)?", cell) and "__" in name:
            yield name, float(cell.replace(",", "")) * _scale(unit)


def _scale(unit: str) -> float:
    match = re.match(r"([KMGT]?)byte", unit)
    return _PREFIXES[match[1]] if match else 1.0


def groups(kernels: Iterable[Kernel]) -> list[list[Kernel]]:
    """The kernels behind each separator."""
    found: list[list[Kernel]] = []
    for kernel in kernels:
        if SEPARATOR in kernel.name:
            found.append([])
        elif found:
            found[-1].append(kernel)
    return found


def compare(claim: Claim, kernels: Sequence[Kernel], terms: Terms) -> CounterAudit:
    """Claimed against counted: the sum over the kernels of one launch."""
    what = quantity(claim.ceiling)
    counted, note = _count(claim, kernels, terms, what)
    ratio = counted / claim.work if counted is not None and claim.work else None
    return CounterAudit(
        ceiling=claim.ceiling,
        variant=f"{claim.backend}: {claim.variant}",
        quantity=what,
        counters=() if what == "kernels" else tuple(name for name, _ in terms),
        claimed=claim.work,
        counted=counted,
        ratio=ratio,
        ok=None if ratio is None else abs(ratio - 1) <= _TOLERANCES[what],
        tolerance=_TOLERANCES[what],
        note=note,
    )


def _count(claim: Claim, kernels: Sequence[Kernel], terms: Terms, what: str) -> tuple[float | None, str]:
    if claim.failure:
        return None, claim.failure
    if not kernels:
        return None, "Nsight Compute saw no kernel of this launch"
    if what == "kernels":
        return float(len(kernels)), ""
    if not terms:
        return None, f"this GPU has no counter of the {what} that {claim.ceiling} claims"
    missing = sorted({name for name, _ in terms for kernel in kernels if name not in kernel.values})
    if missing:
        return None, f"no value for {', '.join(missing)}"
    return sum(factor * kernel.values[name] for name, factor in terms for kernel in kernels), ""

"""Claims held against counters, and the profiler as a subprocess. The golden sample was taken on an H200."""

import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from roofline.errors import BackendUnavailable, RooflineError
from roofline.kernels.microkernel import Job, Microkernel, Variant
from roofline.machine.ceilings import KINDS
from roofline.measure import counters, ncu
from roofline.measure.counters import Claim, Kernel, compare

GOLDEN = (Path(__file__).parents[1] / "golden" / "ncu_raw.csv").read_text()
DRAM = (("dram__bytes_read.sum", 1.0), ("dram__bytes_write.sum", 1.0))
# Names as they come from `ncu --query-metrics` on that GPU's chip, some of them.
AVAILABLE = frozenset(
    {
        "dram__bytes_read", "dram__bytes_write", "lts__t_bytes", "l1tex__t_bytes",
        "smsp__sass_thread_inst_executed_op_ffma_pred_on",
        "sm__ops_path_tensor_src_bf16_dst_fp32", "sm__ops_path_tensor_src_bf16_dst_fp32_sparsity_on",
        "sm__ops_path_tensor_src_fp16_dst_fp16", "sm__ops_path_tensor_src_fp16_dst_fp32",
        "sm__ops_path_tensor_op_imma_src_int8_sparsity_off", "sm__ops_path_tensor_op_imma_src_int8_sparsity_on",
        "sm__ops_path_tensor_op_igmma_src_int8_sparsity_off", "sm__ops_path_tensor_src_fp64",
    }
)  # fmt: skip


def claim(ceiling, work, **fields):
    return Claim(ceiling=ceiling, backend="cupy", variant="v", work=work, **fields)


def test_the_golden_sample():
    read, write, copy = counters.parse(GOLDEN)
    assert (read.name, write.name, copy.name) == ("rd", "wr", "pcopy")
    assert copy.values["dram__bytes_read.sum"] == 1_926_020_608
    assert copy.values["gpu__time_duration.sum"] == 888_032
    assert "Kernel Name" not in copy.values


def test_a_copy_moves_what_it_claims():
    # It claimed 3,851,943,936 bytes; counted 1,926,020,608 + 1,920,919,296 = 3,846,939,904: 0.9987 of it.
    found = compare(claim("dram_copy", 3_851_943_936.0), counters.parse(GOLDEN)[2:], DRAM)
    assert (found.counted, found.ok) == (3_846_939_904, True)
    assert found.ratio == pytest.approx(0.9987, abs=1e-4)
    assert (found.quantity, found.variant) == ("bytes", "cupy: v")


def test_l2_reads_what_it_claims():
    # Claim 3,953,393,664 bytes, counted 3,960,231,424: 0.17 % more.
    found = compare(claim("l2_read", 3_953_393_664.0), counters.parse(GOLDEN)[:1], (("lts__t_bytes.sum", 1.0),))
    assert found.ok and found.ratio == pytest.approx(1.00173, abs=1e-5)


@pytest.mark.parametrize(
    ("ceiling", "ratio", "ok"),
    [("dram_read", 1.019, True), ("dram_read", 1.021, False), ("dram_read", 0.979, False),
     ("fp32", 1.004, True), ("fp32", 1.006, False), ("fp32", 0.5, False)],
)  # fmt: skip
def test_bytes_may_differ_by_2_percent_and_flops_by_half_a_percent(ceiling, ratio, ok):
    found = compare(claim(ceiling, 1e6), [Kernel("k", {"x.sum": ratio * 1e6})], (("x.sum", 1.0),))
    assert found.ok is ok and found.ratio == pytest.approx(ratio)


def test_a_launch_of_several_kernels_is_their_sum():
    # 2 flops x (300 + 200) = 1000.
    kernels = [Kernel("a", {"x.sum": 300.0}), Kernel("b", {"x.sum": 200.0})]
    assert compare(claim("fp32", 1000.0), kernels, (("x.sum", 2.0),)).counted == 1000


def test_launches_are_counted_as_kernels():
    kernels = [Kernel("add", {})] * 10
    assert compare(claim("launch_graph", 10.0), kernels, ()).ok is True
    assert compare(claim("launch_graph", 11.0), kernels, ()).ok is False


@pytest.mark.parametrize(
    ("given", "kernels", "terms", "says"),
    [
        (claim("fp32", 0.0, failure="out of memory"), [], DRAM, "out of memory"),
        (claim("fp32", 1.0), [], DRAM, "no kernel"),
        (claim("tensor_tf32", 1.0), [Kernel("k", {})], (), "no counter of the flops that tensor_tf32 claims"),
        (claim("dram_read", 1.0), [Kernel("k", {"dram__bytes_read.sum": 1.0})], DRAM, "dram__bytes_write.sum"),
    ],
)
def test_what_cannot_be_counted_is_named(given, kernels, terms, says):
    found = compare(given, kernels, terms)
    assert (found.counted, found.ratio, found.ok) == (None, None, None) and says in found.note


def test_counters_that_the_gpu_has():
    assert counters.counters("dram_triad", AVAILABLE) == DRAM
    assert counters.counters("fp32", AVAILABLE) == (("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", 2.0),)
    # Without the counter of writes from L1 alone, all bytes of L2 must do.
    assert counters.counters("l2_write", AVAILABLE) == (("lts__t_bytes.sum", 1.0),)
    assert counters.counters("fp64", AVAILABLE) == ()


def test_tensor_counters_are_dense_and_of_one_accumulator():
    assert counters.counters("tensor_bf16_fp32", AVAILABLE) == (("sm__ops_path_tensor_src_bf16_dst_fp32.sum", 1.0),)
    assert counters.counters("tensor_fp16_fp16", AVAILABLE) == (("sm__ops_path_tensor_src_fp16_dst_fp16.sum", 1.0),)
    assert counters.counters("gemm_fp64", AVAILABLE) == (("sm__ops_path_tensor_src_fp64.sum", 1.0),)
    # Where there is no sum over the instructions, each dense one is a term.
    names = [f"sm__ops_path_tensor_op_{op}_src_int8_sparsity_off.sum" for op in ("igmma", "imma")]
    assert counters.counters("tensor_int8", AVAILABLE) == tuple((name, 1.0) for name in names)
    assert counters.counters("tensor_fp8_e4m3", AVAILABLE) == ()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_ceiling_has_a_quantity_with_a_tolerance(kind):
    assert counters.quantity(kind.name) in counters._TOLERANCES


def test_units_with_a_prefix():
    text = '"ID","Kernel Name","dram__bytes_read.sum"\n"","","Gbyte"\n"0","k","1.5"\n'
    assert counters.parse(text)[0].values == {"dram__bytes_read.sum": 1.5e9}


def test_values_that_are_no_numbers_are_left_out():
    text = '"ID","Kernel Name","a__b.sum","c__d.sum"\n"","","",""\n"0","k","n/a","1"\n'
    assert counters.parse(text)[0].values == {"c__d.sum": 1.0}


def test_output_without_a_table_is_quoted():
    with pytest.raises(RooflineError, match="No kernels were profiled"):
        counters.parse("==PROF== Connected\n==WARNING== No kernels were profiled.\n\n")


def test_kernels_are_told_apart_by_the_separator():
    names = ["warm-up", "spin_kernel(long)", "a", "spin_kernel(long)", "spin_kernel(long)", "b", "c"]
    found = counters.groups(Kernel(name, {}) for name in names)
    assert [[k.name for k in group] for group in found] == [["a"], [], ["b", "c"]]


def table(*rows):
    lines = ['"ID","Kernel Name","dram__bytes_read.sum","dram__bytes_write.sum"', '"","","byte","byte"']
    return "\n".join([*lines, *(f'"{i}","{n}","{r}","{w}"' for i, (n, r, w) in enumerate(rows))])


def test_failed_launches_have_no_group():
    text = table(("spin_kernel", 0, 0), ("copy", 600, 400), ("spin_kernel", 0, 0), ("triad", 50, 50))
    claims = [claim("dram_copy", 1000.0), claim("dram_read", 0.0, failure="broken"), claim("dram_triad", 200.0)]
    found = ncu.outcome(text, claims, dict.fromkeys(("dram_copy", "dram_read", "dram_triad"), DRAM))
    assert [(a.ceiling, a.ok) for a in found] == [("dram_copy", True), ("dram_read", None), ("dram_triad", False)]


def test_names_of_counters_are_read_from_the_query():
    text = (
        "Device NVIDIA H200 (GH100)\n---- ----\ndram__bytes_read    Counter  byte  # of bytes\n  sm__cycles Counter\n"
    )
    assert ncu.metrics(text) == {"dram__bytes_read", "sm__cycles"}


@pytest.fixture
def machine(make_measured):
    return make_measured(dram_copy=4e12)


@pytest.fixture
def profiler(tmp_path, monkeypatch):
    """`profiler(script)`: a stand-in for ncu, which is the only one there is."""

    def install(script):
        path = tmp_path / "ncu"
        path.write_text("#!/bin/sh\n" + script)
        path.chmod(path.stat().st_mode | stat.S_IEXEC)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    return install


def test_an_audit_from_query_to_verdict(machine, profiler, tmp_path):
    # The stand-in for the profiled process writes its claims to its last argument, as the real one does.
    (tmp_path / "table").write_text(table(("spin_kernel", 0, 0), ("copy", 600, 390)))
    (tmp_path / "claims").write_text(
        json.dumps([{"ceiling": "dram_copy", "backend": "triton", "variant": "block 1024", "work": 1000.0}])
    )
    profiler(
        'if [ "$1" = --query-metrics ]; then echo dram__bytes_read; echo dram__bytes_write; exit; fi\n'
        f'for last; do :; done\ncp {tmp_path}/claims "$last"\ncat {tmp_path}/table\n'
    )
    found = ncu.audited(machine)
    (audit,) = found.audits
    assert (audit.ceiling, audit.counted, audit.ok) == ("dram_copy", 990, True)
    assert found.warnings == machine.warnings


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("echo '==ERROR== ERR_NVGPUCTRPERM - The user does not have permission'; exit 1", "may not read"),
        ("echo '==ERROR== no device' >&2; exit 1", "no device"),
        ("echo dram__bytes_read", "the profiled process failed"),
    ],
)
def test_without_permission_the_reason_is_a_warning(machine, profiler, script, says):
    profiler(script)
    found = ncu.audited(machine)
    assert found.audits == () and says in found.warnings[-1] and "machine code" in found.warnings[-1]


def test_without_a_profiler_the_reason_is_a_warning(machine, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(ncu, "_PLACES", ())
    assert "not installed" in ncu.audited(machine).warnings[-1]


def test_a_cpu_has_no_counters(machine):
    cpu = replace(machine, device=replace(machine.device, kind="cpu"))
    with pytest.raises(BackendUnavailable, match="NVIDIA"):
        ncu.audit(cpu, "cpu")


def test_the_variant_that_was_measured_is_launched(machine):
    assert ncu.chosen(machine) == {"dram_copy": {"triton": "block 1024"}}


def kernel(axes=None):
    variants = (Variant("a"), Variant("b"))
    return Microkernel("gemm_bf16", "torch", lambda _: variants, lambda *_: Job(print, 1.0, float), 0.0, axes=axes)


class Bench:
    """As much of a bench as choosing a variant needs."""

    device = None


def test_a_variant_by_name_or_by_its_place_on_the_lattice():
    lattice = kernel(lambda _: {"m": (1, 2), "n": (3, 4), "k": (5, 6)})
    assert ncu.pick(kernel(), Bench, "b").name == "b"
    assert ncu.pick(kernel(), Bench, "unknown").name == ncu.pick(lattice, Bench, None).name == "a"
    assert ncu.pick(lattice, Bench, "2 x 3 x 6") == Variant("2 x 3 x 6", {"m": 2, "n": 3, "k": 6})

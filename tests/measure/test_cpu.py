"""The CPU's bench: what it finds, its arrays, its threads, and a whole probe in miniature."""

import os
from dataclasses import replace
from types import SimpleNamespace

import psutil
import pytest
import torch

from roofline.analysis.pipe import resolve
from roofline.errors import BackendUnavailable, OutOfDeviceMemory
from roofline.kernels.microkernel import Job, Microkernel, Variant
from roofline.machine.record import Device
from roofline.measure import cpu
from roofline.measure.provenance import cpu_environment, ranges
from roofline.measure.run import measure_machine
from roofline.measure.stopping import EFFORTS, SettlingRule, StoppingRule

KIB = 1 << 10


@pytest.fixture(scope="module")
def bench():
    """The CPU of this machine, with a cache so small that its arrays are small as well."""
    found = cpu.CpuBench()
    found.device = replace(found.device, l2_bytes=128 * KIB)
    return found


def toy(threads=2, l2_bytes=64 * KIB):
    return Device(name="toy", kind="cpu", sm_count=threads, l2_bytes=l2_bytes)


def job(run):
    return Job(run, 1.0, lambda: 0.0)


@pytest.mark.parametrize(
    ("text", "threads"),
    [
        ("max 100000\n", 8),
        ("200000 100000\n", 2),
        ("150000 100000\n", 2),
        ("5000 100000\n", 1),
        ("nonsense", 8),
    ],
)
def test_a_containers_quota_bounds_the_threads(tmp_path, text, threads):
    (tmp_path / "cpu.max").write_text(text)
    assert cpu.usable_threads(8, tmp_path / "cpu.max") == threads


def test_a_quota_above_the_affinity_or_none_at_all_changes_nothing(tmp_path):
    (tmp_path / "cpu.max").write_text("1600000 100000\n")
    assert cpu.usable_threads(4, tmp_path / "cpu.max") == 4
    assert cpu.usable_threads(4, tmp_path / "missing") == 4


def test_threads_follow_the_affinity_mask(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {5, 3}, raising=False)
    assert cpu.allowed_cpus() == (3, 5)


def caches(root, cpu_number, *rows):
    for index, (level, size, sharers) in enumerate(rows):
        folder = root / f"cpu{cpu_number}" / "cache" / f"index{index}"
        folder.mkdir(parents=True)
        for name, text in (("level", level), ("size", size), ("shared_cpu_list", sharers)):
            (folder / name).write_text(f"{text}\n")


def test_the_last_level_is_summed_over_the_caches_in_use(tmp_path):
    for number in range(4):
        pair = "0-1" if number < 2 else "2-3"
        caches(tmp_path, number, (1, "32K", number), (2, "512K", number), (3, "32768K", pair))
    # CPUs 0 and 1 share one L3 of 32 MiB; CPU 2 has another.
    assert cpu.last_level_cache_bytes((0, 1), tmp_path) == 32 << 20
    assert cpu.last_level_cache_bytes((0, 1, 2), tmp_path) == 64 << 20


def test_no_cache_information_is_none(tmp_path):
    assert cpu.last_level_cache_bytes((0,), tmp_path) is None
    caches(tmp_path, 0, ("broken", "K", ""))
    assert cpu.last_level_cache_bytes((0,), tmp_path) is None


def test_the_device_is_this_machine(bench):
    assert bench.device.kind == "cpu" and bench.device.name
    assert bench.device.sm_count == bench.threads <= len(os.sched_getaffinity(0))
    assert bench.device.memory_bytes == psutil.virtual_memory().total


def test_provenance_names_threads_affinity_and_model(bench):
    found = bench.environment
    assert found["cpu"] == bench.device.name
    assert found["threads"] == str(bench.threads)
    assert found["affinity"] == ranges(cpu.allowed_cpus())
    assert "OpenMP" in cpu_environment("toy", (0,))["torch_parallel"]


@pytest.mark.parametrize(
    ("numbers", "text"), [((), ""), ((3,), "3"), ((0, 1), "0-1"), ((0, 1, 2, 5, 7, 8), "0-2,5,7-8")]
)
def test_ranges(numbers, text):
    assert ranges(numbers) == text


def test_arrays_are_four_caches_long_distinct_and_random():
    arrays = cpu.CpuArena(toy(), 1 << 30, []).arrays(4, 1.0)
    # 4 x 64 KiB of fp32 are 65536 elements.
    assert [a.numel() for a in arrays] == [65536] * 4
    assert len({a.data_ptr() for a in arrays}) == 4
    # Uniform over -1 … 1: mean 0, standard deviation 1/sqrt(3) = 0.577.
    # The mean of 65536 lies within 5 x 0.577 / 256 = 0.011.
    for array in arrays:
        assert abs(array.mean().item()) < 0.012
        assert array.std().item() == pytest.approx(0.577, rel=0.02)
    assert not torch.equal(arrays[0], arrays[1])


def test_half_the_work_is_the_front_half_of_the_same_arrays():
    arena = cpu.CpuArena(toy(l2_bytes=128 * KIB), 1 << 30, [])
    whole, half = arena.arrays(2, 1.0)[0], arena.arrays(2, 0.5)[0]
    assert half.numel() * 2 == whole.numel() and half.data_ptr() == whole.data_ptr()


def test_short_memory_gives_smaller_arrays_and_says_so():
    warnings = []
    arena = cpu.CpuArena(toy(l2_bytes=1 << 20), 16 << 20, warnings)
    # Half of 16 MiB for 4 arrays: 2 MiB each, where 4 x 1 MiB are wanted; still above the cache itself.
    assert arena.arrays(4, 1.0)[0].numel() * 4 == 2 << 20
    assert len(warnings) == 1 and "2 MB instead of 4 MB" in warnings[0]


def test_arrays_that_would_fit_in_the_cache_are_refused():
    with pytest.raises(OutOfDeviceMemory, match="Free some"):
        # Half of 4 MiB for 4 arrays: 0.5 MiB each, below the 1 MiB of the cache.
        cpu.CpuArena(toy(l2_bytes=1 << 20), 4 << 20, []).arrays(4, 1.0)


def test_torch_has_all_threads_during_a_job_and_its_own_number_afterwards(bench, monkeypatch):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        monkeypatch.setattr(bench, "threads", 2)
        seen = []
        bench.time(job(lambda i: seen.append(torch.get_num_threads())), 2)
        assert seen == [2, 2] and torch.get_num_threads() == 3

        def fail(i):
            raise RuntimeError("first line\nsecond line")

        with pytest.raises(BackendUnavailable, match=r"^RuntimeError: first line$"):
            bench.time(job(fail), 1)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_each_launch_is_timed_and_numbered(bench):
    launches = []
    seconds = bench.time(job(launches.append), 4)
    assert launches == [0, 1, 2, 3]
    assert len(seconds) == 4 and all(s > 0 for s in seconds)


@pytest.mark.parametrize(
    ("error", "expected"), [(MemoryError("8 GB"), OutOfDeviceMemory), (ValueError("bad"), BackendUnavailable)]
)
def test_a_library_that_fails_gives_one_error_with_its_message(bench, error, expected):
    def prepare(variant, arena, scale):
        raise error

    kernel = Microkernel("fp32", "torch", lambda device: (), prepare, 0.0)
    with pytest.raises(expected, match=str(error)):
        bench.prepare(kernel, Variant("any"), 1.0)


@pytest.mark.parametrize(
    ("answer", "clock_hz"),
    [(SimpleNamespace(current=2400.0), 2.4e9), (None, None), (SimpleNamespace(current=0.0), None)],
)
def test_frequency_is_the_sensor_where_there_is_one(bench, monkeypatch, answer, clock_hz):
    monkeypatch.setattr(psutil, "cpu_freq", lambda: answer)
    with bench.watch() as health:
        assert health().clock_hz == clock_hz


def test_a_hidden_frequency_is_none(monkeypatch):
    def hidden():
        raise OSError("no cpufreq")

    monkeypatch.setattr(psutil, "cpu_freq", hidden)
    assert cpu._reading().clock_hz is None


@pytest.mark.parametrize(("busy", "warned"), [(0.0, False), (63.0, True)])
def test_a_busy_cpu_is_warned_of(monkeypatch, busy, warned):
    monkeypatch.setattr(psutil, "cpu_percent", lambda interval: busy)
    assert [f"{busy:.0f} % busy" in w for w in cpu._load()] == [True] * warned


def test_a_probe_in_miniature_finds_every_ceiling_and_every_pipe(bench):
    effort = replace(
        EFFORTS["quick"], variants=1, trial_s=0.0,
        settling=SettlingRule(1e9, 0.0, 0.0), stopping=StoppingRule(1e9, 1e-9, 1e-9),
    )  # fmt: skip
    machine = measure_machine(bench, effort)
    assert not machine.not_measured
    assert {c.name for c in machine.ceilings} == {
        "dram_read", "dram_write", "dram_copy", "dram_triad", "fp32", "fp64", "tensor_bf16_fp32",
    }  # fmt: skip
    assert all(c.value > 0 and c.measurement.error < 0.01 for c in machine.ceilings)
    assert resolve(machine, "tensor_bf16_fp32") == "tensor_bf16_fp32"
    assert resolve(machine, "tensor_fp64") == "fp64"
    assert resolve(machine, "tensor_tf32") == "fp32"

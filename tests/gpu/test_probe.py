"""The whole probe on the GPU, and what may go wrong around it."""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch

import roofline
from roofline.errors import OutOfDeviceMemory
from roofline.machine import file
from roofline.measure import replay
from roofline.measure.arena import CACHE_MULTIPLE
from roofline.measure.plan import cuda_microkernels
from roofline.measure.run import measure_machine
from roofline.measure.stopping import EFFORTS

pytestmark = pytest.mark.gpu


def state():
    """What a probe might leave behind in torch."""
    matmul = torch.backends.cuda.matmul
    precision = matmul.fp32_precision if hasattr(matmul, "fp32_precision") else matmul.allow_tf32
    return precision, torch.cuda.current_device(), torch.get_default_dtype(), torch.is_grad_enabled()


@pytest.fixture(scope="module")
def before():
    """Torch's state before the probe."""
    return state()


@pytest.fixture(scope="module")
def machine(before):
    """A quick probe of cuda:0."""
    return roofline.probe("cuda:0", "quick")


# --- a quick probe ---


def test_every_ceiling_that_the_hardware_has_is_measured(machine, bench):
    kernels = [k for k in cuda_microkernels() if k.sweep is None and not bench.unusable(k)]
    expected = {k.ceiling for k in kernels if k.variants(bench.device)}
    assert {c.name for c in machine.ceilings} == expected, machine.not_measured
    assert all("not supported" in reason or "not usable" in reason for reason in machine.not_measured.values())


def test_no_rate_is_above_the_silicon_and_time_scales(machine):
    doubts = [f"{c.name}: {flag}" for c in machine.ceilings for flag in c.measurement.flags]
    assert [d for d in doubts if "above the physical limit" in d or "does not scale" in d] == []


def test_sensors_answered_while_it_ran(machine):
    measured = machine.ceiling("dram_read").measurement
    assert measured.health.samples > 0
    assert measured.buffer_bytes >= CACHE_MULTIPLE * machine.device.l2_bytes
    assert len(measured.samples_s) >= 6 and measured.low <= machine.ceiling("dram_read").value <= measured.high


def test_levels_and_precisions_are_in_their_order(machine):
    value = {c.name: c.value for c in machine.ceilings}
    assert value["latency_dram"] > value["latency_l2"] > value["latency_l1"]
    assert value["l1_read"] > value["l2_read"] > value["dram_read"]
    assert value["tensor_fp16_fp32"] > value["fp32"] and value["fp16x2"] >= 0.9 * value["fp32"]
    assert value["launch_eager"] > value["launch_graph"]


def test_the_machine_survives_its_file_and_names_its_provenance(machine, tmp_path):
    assert file.load(file.save(machine, tmp_path / "gpu.json")) == machine
    assert {"driver", "torch", "triton", "cuda", "python"} <= machine.provenance.software.keys()
    assert machine.device.name == torch.cuda.get_device_name(0)


def test_torch_is_left_as_it_was(before, machine):
    assert machine.ceilings and state() == before


# --- recording ---


def test_a_recorded_probe_is_replayed_to_the_last_digit(fresh_bench):
    effort = EFFORTS["quick"]
    recorder = replay.Recorder(fresh_bench())
    measured = measure_machine(recorder, effort, ["dram", "fp32", "tensor_fp16_fp32"])
    again = measure_machine(
        replay.Replay(recorder.recording, cuda_microkernels()), effort, ["dram", "fp32", "tensor_fp16_fp32"]
    )
    assert again.ceilings == measured.ceilings and again.not_measured == measured.not_measured


# --- memory ---


@pytest.fixture
def leave():
    """`leave(bytes)` fills the GPU's memory up to so much."""
    held = []

    def fill(keep):
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info(0)
        held.append(torch.empty(max(0, free - keep), dtype=torch.uint8, device="cuda:0"))

    yield fill
    held.clear()
    torch.cuda.empty_cache()


def test_short_memory_gives_smaller_buffers_and_a_warning(fresh_bench, bench, leave):
    bench.arena.release()
    # Four buffers of 60 % of twice the smallest each: between 4 x L2 and what is wanted, where that is more.
    minimum = bench.arena.minimum_bytes
    if bench.arena._wanted_bytes < 2 * minimum:
        pytest.skip("this GPU wants the smallest buffers anyway")
    leave(int(4 * 1.5 * minimum / 0.6))
    found = measure_machine(fresh_bench(), EFFORTS["quick"], ["dram_copy"])
    assert any("memory is short" in warning for warning in found.warnings)
    assert minimum <= found.ceiling("dram_copy").measurement.buffer_bytes < bench.arena._wanted_bytes


def test_too_little_memory_costs_the_streams_and_nothing_else(fresh_bench, bench, leave):
    bench.arena.release()
    minimum = bench.arena.minimum_bytes
    leave(2 * minimum)
    cramped = fresh_bench()
    with pytest.raises(OutOfDeviceMemory, match="4 x the last-level cache"):
        cramped.arena.arrays(4, 1.0)
    found = measure_machine(cramped, replace(EFFORTS["quick"], variants=1), ["dram_copy", "launch_eager"])
    assert "do not fit" in found.not_measured["dram_copy"]
    assert found.ceiling("launch_eager").value > 0


# --- other processes ---

LOAD = """
import torch
a = torch.randn(8192, 8192, device="cuda:0", dtype=torch.float16)
print("ready", flush=True)
while True:
    for _ in range(50):
        a @ a
    torch.cuda.synchronize()
"""


def test_another_process_is_warned_of(fresh_bench):
    other = subprocess.Popen([sys.executable, "-c", LOAD], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout.readline() == "ready\n"
        warnings, give_up = [], time.monotonic() + 10
        while not warnings and time.monotonic() < give_up:
            time.sleep(0.5)
            warnings = [w for w in fresh_bench().warnings if "other process" in w or "busy" in w]
    finally:
        other.kill()
        other.wait()
    assert warnings and "rates may be low" in warnings[0]


# --- the command ---


def run(root, *arguments, **variables):
    return subprocess.run(
        [sys.executable, "-m", "roofline.probe", *map(str, arguments)],
        cwd=root, env={**os.environ, **variables}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def test_the_command_prints_the_machine_that_it_saves(root, tmp_path):
    done = run(root, "--effort", "quick", "--only", "launch_eager,fp32", "--json", "--out", tmp_path / "gpu.json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads((tmp_path / "gpu.json").read_text())
    assert [c.name for c in file.load(tmp_path / "gpu.json").ceilings] == ["fp32", "launch_eager"]


def test_hidden_gpus_are_not_there(root):
    done = run(root, "--device", "cuda:0", "--effort", "quick", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 3 and "Traceback" not in done.stderr and "cuda:0" in done.stderr


def test_a_gpu_chosen_by_uuid_is_the_one_that_is_watched(root, tmp_path):
    uuid = str(torch.cuda.get_device_properties(0).uuid)
    done = run(
        root, "--effort", "quick", "--only", "launch_eager", "--out", tmp_path / "gpu.json",
        CUDA_VISIBLE_DEVICES=f"GPU-{uuid}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = file.load(tmp_path / "gpu.json")
    assert found.device.uuid == uuid and found.ceiling("launch_eager").measurement.health.clock_hz > 0


def test_a_number_beyond_the_last_gpu(root):
    done = run(root, "--device", "cuda:99", "--effort", "quick")
    assert done.returncode == 3 and "There is no cuda:99. There are: cuda:0" in done.stderr

"""Nsight Compute as a subprocess: counts what every microkernel of a machine really executes.

    python -m roofline.measure.ncu DEVICE PLAN CLAIMS     (run by `audited` under `ncu`)

The child prepares each microkernel, warms it up, and lets the profiler see one launch of it, behind a separator.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import msgspec

import roofline
from roofline.errors import BackendUnavailable, RooflineError
from roofline.kernels.microkernel import Microkernel, Variant
from roofline.machine.ceilings import BY_NAME
from roofline.machine.record import CounterAudit, Machine
from roofline.measure.bench import Bench
from roofline.measure.counters import Claim, Terms, compare, counters, groups, parse

_PLACES = ("/usr/local/cuda*/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu")
_SWITCHES = "--profile-from-start off --clock-control none --cache-control none --csv --page raw --print-units base"
_TIMEOUT_S = 600.0
_LAUNCHES_SCALE = 0.01
"""Ops and graphs launch thousands of kernels, each of which the profiler repeats: a few will do."""
_ALWAYS = "gpu__time_duration.sum"
_NOT_PERMITTED = "ERR_NVGPUCTRPERM"


def audited(machine: Machine, device: str = "auto") -> Machine:
    """The machine with an audit of every microkernel behind its ceilings, or with a warning why there is none."""
    try:
        return replace(machine, audits=audit(machine, device))
    except RooflineError as error:
        reason = f"not audited by counters: {error} What was audited is the machine code."
        return replace(machine, warnings=(*machine.warnings, reason))


def audit(machine: Machine, device: str) -> tuple[CounterAudit, ...]:
    """Claimed against counted for every microkernel; BackendUnavailable if there is no profiler or no permission."""
    if machine.device.kind != "cuda":
        raise BackendUnavailable("only NVIDIA GPUs have these counters.")
    profiler = find()
    _give_memory_back()
    available = metrics(_run([profiler, "--query-metrics"]))
    wanted = {c.name: counters(c.name, available) for c in machine.ceilings if c.measured}
    with tempfile.TemporaryDirectory() as folder:
        plan, claims = Path(folder) / "plan.json", Path(folder) / "claims.json"
        plan.write_bytes(msgspec.json.encode(chosen(machine)))
        names = ",".join(dict.fromkeys([_ALWAYS, *(name for terms in wanted.values() for name, _ in terms)]))
        child = [sys.executable, "-m", __name__, device, str(plan), str(claims)]
        text = _run([profiler, *_SWITCHES.split(), "--metrics", names, *child])
        if not claims.exists():
            raise BackendUnavailable(f"the profiled process failed: {_tail(text)}")
        return outcome(text, msgspec.json.decode(claims.read_bytes(), type=list[Claim]), wanted)


def _give_memory_back() -> None:
    """The child needs what this process has in its cache."""
    import torch

    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def outcome(text: str, claims: list[Claim], wanted: Mapping[str, Terms]) -> tuple[CounterAudit, ...]:
    """The profiler's output against the claims, which are in the order of the launches."""
    launched = iter(groups(parse(text)))
    return tuple(compare(c, [] if c.failure else next(launched, []), wanted.get(c.ceiling, ())) for c in claims)


def chosen(machine: Machine) -> dict[str, dict[str, str]]:
    """Ceiling → backend → variant that was measured; other backends run their first variant."""
    return {c.name: {c.measurement.backend: c.measurement.variant} for c in machine.ceilings if c.measurement}


def metrics(text: str) -> frozenset[str]:
    """Names of counters in the output of `ncu --query-metrics`."""
    return frozenset(re.findall(r"^\s*([a-z0-9]+__\w+)", text, re.MULTILINE))


def find() -> str:
    """Path of Nsight Compute's command line; BackendUnavailable if it is not installed."""
    found = shutil.which("ncu")
    places = [str(path) for place in _PLACES for path in sorted(Path("/").glob(place[1:]), reverse=True)]
    if not found and not places:
        raise BackendUnavailable("Nsight Compute (ncu) is not installed; it comes with the CUDA toolkit.")
    return found or places[0]


def _run(command: list[str]) -> str:
    package = str(Path(roofline.__file__).parents[1])
    paths = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": paths}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, env=environment)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BackendUnavailable(f"Nsight Compute failed: {error}.") from error
    text = done.stdout + "\n" + done.stderr
    if _NOT_PERMITTED in text:
        raise BackendUnavailable(
            f"this user may not read performance counters ({_NOT_PERMITTED}); the administrator can allow it: "
            "https://developer.nvidia.com/ERR_NVGPUCTRPERM."
        )
    if done.returncode and '"ID"' not in text:
        raise BackendUnavailable(f"Nsight Compute failed: {_tail(text)}")
    return text


def _tail(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"{lines[-1][:300]}." if lines else "it printed nothing."


def launch_all(bench: Bench, plan: Mapping[str, Mapping[str, str]]) -> list[Claim]:
    """Launches every usable microkernel of the plan once, visible to the profiler; what each claims, in order."""
    wanted = [k for k in bench.microkernels() if k.ceiling in plan and k.sweep is None and not bench.unusable(k)]
    claims = []
    for kernel in wanted:
        variant = pick(kernel, bench, plan[kernel.ceiling].get(kernel.backend))
        if variant is not None:
            claims.append(_launch(bench, kernel, variant))
            bench.release()
    return claims


def pick(kernel: Microkernel, bench: Bench, name: str | None) -> Variant | None:
    """The variant of that name, a point of the kernel's lattice included; its first one if it has none such."""
    variants = kernel.variants(bench.device)
    found = next((variant for variant in variants if variant.name == name), None)
    if found is None and name and kernel.axes:
        axes = kernel.axes(bench.device)
        return Variant(name, dict(zip(axes, map(int, name.split(" x ")), strict=True)))
    return found or next(iter(variants), None)


def _launch(bench: Bench, kernel: Microkernel, variant: Variant) -> Claim:
    import torch

    claim = Claim(ceiling=kernel.ceiling, backend=kernel.backend, variant=variant.name, work=0.0)
    try:
        job = bench.prepare(kernel, variant, _LAUNCHES_SCALE if BY_NAME[kernel.ceiling].group == "launch" else 1.0)
        bench.time(job, 3)
    except RooflineError as error:
        return replace(claim, failure=str(error))
    runtime = torch.cuda.cudart()
    torch.cuda.synchronize()
    runtime.cudaProfilerStart()
    torch.cuda._sleep(1)
    job.run(3)
    torch.cuda.synchronize()
    runtime.cudaProfilerStop()
    return replace(claim, work=job.work)


def main(device: str, plan: str, claims: str) -> None:
    """The child process."""
    from roofline.measure.devices import open_bench

    chosen_variants = msgspec.json.decode(Path(plan).read_bytes(), type=dict[str, dict[str, str]])
    Path(claims).write_bytes(msgspec.json.encode(launch_all(open_bench(device), chosen_variants)))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Seconds of whole networks on this machine's GPU by torch's own clocks, as a check of `predict`.

    python benchmarks/networks.py --out benchmarks/data/h200_networks.json --budget 170

Seconds per forward (`infer`) or per forward and backward (`train`, without an optimizer) from CUDA events
around back-to-back calls on random data, weights random, median of the samples. For two networks also the
seconds of every kernel, from torch.profiler, with the op and the module that launched it. The file is
rewritten after every network, and a network that fails leaves its reason in it.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

BATCHES = (64, 8, 1)
DTYPES = ("float16", "float32")
TEXT_TOKENS = 512
"""Tokens of a BERT or GPT-2 input, and of the cache that a GPT-2 decode step reads."""
LSTM_STEPS, LSTM_WIDTH = 128, 1024


class Decode(nn.Module):
    """One GPT-2 decode step: one new token per sequence against a cache of keys and values."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor, past: torch.Tensor) -> torch.Tensor:
        """Logits of the next token. tokens: (B, 1); past: (layers, 2, B, heads, T, width)."""
        from transformers import DynamicCache

        cache = DynamicCache()
        for layer, (keys, values) in enumerate(past):
            cache.update(keys, values, layer)
        return self.model(tokens, past_key_values=cache, use_cache=True).logits


class Logits(nn.Module):
    """A transformers model, or an LSTM, reduced to the one tensor that a loss would use."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """The first output of the model."""
        return self.model(inputs)[0]


def _gpt2() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))


def _bert() -> nn.Module:
    from transformers import BertConfig, BertModel

    config = BertConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    return BertModel(config, add_pooling_layer=False)


def _torchvision(name: str) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        import torchvision

        return torchvision.models.get_model(name, weights=None)

    return build


def _timm(name: str) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        import timm

        return timm.create_model(name, pretrained=False)

    return build


def _image(batch: int, dtype: torch.dtype, device: str) -> tuple[torch.Tensor, ...]:
    return (torch.randn(batch, 3, 224, 224, dtype=dtype, device=device),)


def _sequence(batch: int, dtype: torch.dtype, device: str) -> tuple[torch.Tensor, ...]:
    return (torch.randn(batch, LSTM_STEPS, LSTM_WIDTH, dtype=dtype, device=device),)


def _text(batch: int, dtype: torch.dtype, device: str) -> tuple[torch.Tensor, ...]:
    return (torch.randint(0, 30000, (batch, TEXT_TOKENS), device=device),)


def _token(batch: int, dtype: torch.dtype, device: str) -> tuple[torch.Tensor, ...]:
    past = torch.randn(12, 2, batch, 12, TEXT_TOKENS, 64, dtype=dtype, device=device)
    return torch.randint(0, 30000, (batch, 1), device=device), past


@dataclass(frozen=True)
class Network:
    """How to build a network and its inputs."""

    build: Callable[[], nn.Module]
    inputs: Callable[[int, torch.dtype, str], tuple[torch.Tensor, ...]] = _image
    trains: bool = True


NETWORKS: dict[str, Network] = {
    "resnet50": Network(_torchvision("resnet50")),
    "vit_base_patch16_224": Network(_timm("vit_base_patch16_224")),
    "bert_base": Network(lambda: Logits(_bert()), _text),
    "gpt2_prefill": Network(lambda: Logits(_gpt2()), _text),
    "gpt2_decode": Network(lambda: Decode(_gpt2()), _token, trains=False),
    "lstm": Network(lambda: Logits(nn.LSTM(LSTM_WIDTH, LSTM_WIDTH, 2, batch_first=True)), _sequence),
    "resnet18": Network(_torchvision("resnet18")),
    "vgg16": Network(_torchvision("vgg16")),
    "mobilenet_v2": Network(_torchvision("mobilenet_v2")),
    "densenet121": Network(_torchvision("densenet121")),
    "efficientnet_b0": Network(_timm("efficientnet_b0")),
    "convnext_tiny": Network(_timm("convnext_tiny")),
    "swin_tiny": Network(_timm("swin_tiny_patch4_window7_224")),
    "mixer_b16": Network(_timm("mixer_b16_224")),
    "deit_small": Network(_timm("deit_small_patch16_224")),
}
PROFILED = ("resnet50", "vit_base_patch16_224")


def make(name: str, dtype: str, device: str, mode: str = "infer") -> nn.Module:
    """The network of that name with random weights on `device`, in training mode for `train`."""
    with torch.device(device):
        model = NETWORKS[name].build()
    return model.to(getattr(torch, dtype)).train(mode == "train")


def step(model: nn.Module, inputs: tuple[torch.Tensor, ...], mode: str) -> Callable[[], Any]:
    """What is timed: a forward without gradients, or a forward and backward from the mean of the output."""

    def infer() -> Any:
        with torch.inference_mode():
            return model(*inputs)

    def train() -> Any:
        model.zero_grad(set_to_none=True)
        model(*inputs).float().mean().backward()

    return infer if mode == "infer" else train


def seconds_per_call(call: Callable[[], Any], budget_s: float) -> list[float]:
    """Seconds per call, one number per sample of back-to-back calls; at least 3 samples, after a warm-up."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    began = time.perf_counter()
    call()
    torch.cuda.synchronize()
    calls = max(1, min(50, int(0.02 / (time.perf_counter() - began))))
    samples: list[float] = []
    began = time.perf_counter()
    while len(samples) < 3 or (len(samples) < 15 and time.perf_counter() - began < budget_s):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(calls):
            call()
        end.record()
        end.synchronize()
        samples.append(start.elapsed_time(end) / 1e3 / calls)
    return samples


def sensors() -> dict[str, float]:
    """Clocks, power and temperature now, as the driver gives them; empty without NVML."""
    with suppress(Exception):
        import pynvml

        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        return {
            "clock_hz": pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM) * 1e6,
            "memory_clock_hz": pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM) * 1e6,
            "power_w": pynvml.nvmlDeviceGetPowerUsage(handle) / 1e3,
            "temperature_c": float(pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)),
        }
    return {}


def row(name: str, dtype: str, batch: int, mode: str, model: nn.Module, budget_s: float) -> dict[str, Any]:
    """One measurement, or the reason why there is none."""
    point: dict[str, Any] = {"network": name, "dtype": dtype, "batch": batch, "mode": mode}
    try:
        inputs = NETWORKS[name].inputs(batch, getattr(torch, dtype), "cuda")
        samples = seconds_per_call(step(model, inputs, mode), budget_s)
    except Exception as error:
        return point | {"error": f"{type(error).__name__}: {str(error)[:200]}"}
    return point | {"seconds": statistics.median(samples), "samples_s": samples, "sensors": sensors()}


@contextmanager
def named_modules(model: nn.Module) -> Iterator[None]:
    """Mark every module's forward in the profile with its qualified name."""
    open_ranges: list[Any] = []

    def enter(name: str) -> Callable[..., None]:
        def hook(*_: Any) -> None:
            open_ranges.append(torch.profiler.record_function(f"module:{name}"))
            open_ranges[-1].__enter__()

        return hook

    def leave(*_: Any) -> None:
        open_ranges.pop().__exit__(None, None, None)

    hooks = []
    for name, module in model.named_modules():
        hooks += [module.register_forward_pre_hook(enter(name)), module.register_forward_hook(leave)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _innermost(events: list[dict[str, Any]], begin: float, thread: Any) -> str:
    around = [e for e in events if e["tid"] == thread and e["ts"] <= begin <= e["ts"] + e["dur"]]
    return max(around, key=lambda e: e["ts"])["name"] if around else ""


def kernels(trace: dict[str, Any], steps: int) -> list[dict[str, Any]]:
    """Kernels of one step from a chrome trace of `steps`: name, op, module, launches and seconds."""
    events = [e for e in trace["traceEvents"] if e.get("ph") == "X"]
    ops = [e for e in events if e.get("cat") == "cpu_op"]
    marks = [e for e in events if e.get("cat") == "user_annotation" and e["name"].startswith("module:")]
    calls = [e for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver")]
    launches = {e["args"]["correlation"]: e for e in calls if "correlation" in e.get("args", {})}
    table: dict[tuple[str, str, str], list[float]] = {}
    for event in events:
        if event.get("cat") not in ("kernel", "gpu_memcpy", "gpu_memset"):
            continue
        launch = launches.get(event["args"].get("correlation"))
        op = _outermost_op(ops, launch) if launch else ""
        module = _innermost(marks, launch["ts"], launch["tid"]) if launch else ""
        entry = table.setdefault((event["name"], op, module.removeprefix("module:")), [0, 0.0])
        entry[0] += 1
        entry[1] += event["dur"] / 1e6
    return [
        {"kernel": kernel, "op": op, "module": module, "launches": count / steps, "seconds": total / steps}
        for (kernel, op, module), (count, total) in table.items()
    ]


def _outermost_op(ops: list[dict[str, Any]], launch: dict[str, Any]) -> str:
    begin, thread = launch["ts"], launch["tid"]
    around = [e for e in ops if e["tid"] == thread and e["ts"] <= begin <= e["ts"] + e["dur"]]
    return min(around, key=lambda e: e["ts"])["name"] if around else ""


def profile(name: str, dtype: str, batch: int, model: nn.Module, steps: int = 3) -> dict[str, Any]:
    """The kernels of one inference of the network, each with its seconds."""
    table: dict[str, Any] = {"network": name, "dtype": dtype, "batch": batch, "mode": "infer"}
    try:
        inputs = NETWORKS[name].inputs(batch, getattr(torch, dtype), "cuda")
        call = step(model, inputs, "infer")
        for _ in range(3):
            call()
        torch.cuda.synchronize()
        with tempfile.TemporaryDirectory() as folder, named_modules(model):
            kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
            with torch.profiler.profile(activities=kinds) as recording:
                for _ in range(steps):
                    call()
                torch.cuda.synchronize()
            path = os.path.join(folder, "trace.json")
            recording.export_chrome_trace(path)
            trace = json.loads(Path(path).read_text())
        return table | {"kernels": kernels(trace, steps)}
    except Exception as error:
        return table | {"error": f"{type(error).__name__}: {str(error)[:200]}"}


def about() -> dict[str, Any]:
    """The device and the software, so that the numbers can be placed."""
    properties = torch.cuda.get_device_properties(0)
    versions: dict[str, Any] = {"torch": torch.__version__, "cuda": torch.version.cuda}
    versions["cudnn"] = torch.backends.cudnn.version()
    for package in ("torchvision", "timm", "transformers"):
        with suppress(Exception):
            versions[package] = __import__(package).__version__
    return {
        "device": properties.name,
        "sm_count": properties.multi_processor_count,
        "software": versions,
        "tf32_products": torch.backends.cuda.matmul.allow_tf32,
        "tf32_convolutions": torch.backends.cudnn.allow_tf32,
        "layout": "NCHW",
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def save(path: Path, result: dict[str, Any]) -> None:
    """Write the whole result, atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".tmp")
    draft.write_text(json.dumps(result, indent=1) + "\n")
    draft.replace(path)


def measure(name: str, dtype: str, mode: str, budget_s: float, result: dict[str, Any]) -> None:
    """Add every batch of one network, dtype and mode to `result`, and the kernels of a profiled one."""
    try:
        model = make(name, dtype, "cuda", mode)
    except Exception as error:
        reason = f"{type(error).__name__}: {str(error)[:200]}"
        result["rows"].append({"network": name, "dtype": dtype, "mode": mode, "error": reason})
        return
    for batch in BATCHES:
        result["rows"].append(row(name, dtype, batch, mode, model, budget_s))
    if name in PROFILED and mode == "infer":
        result["profiles"].append(profile(name, dtype, BATCHES[0], model))
    del model
    gc.collect()
    torch.cuda.empty_cache()


def main() -> None:
    """Measure every network, inference first, until the time is up."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/data/h200_networks.json"))
    parser.add_argument("--budget", type=float, default=170.0, help="seconds for everything")
    parser.add_argument("--networks", nargs="*", default=list(NETWORKS), choices=list(NETWORKS))
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("networks.py times a CUDA GPU, and torch sees none here")
    deadline = time.monotonic() + options.budget
    result: dict[str, Any] = {"about": about(), "rows": [], "profiles": [], "skipped": []}
    kinds = [(mode, dtype) for mode in ("infer", "train") for dtype in DTYPES]
    plan = [(mode, dtype, name) for mode, dtype in kinds for name in options.networks]
    for mode, dtype, name in plan:
        if mode == "train" and not NETWORKS[name].trains:
            continue
        if time.monotonic() > deadline:
            result["skipped"].append(f"{name} {dtype} {mode}")
            continue
        measure(name, dtype, mode, options.budget / 500, result)
        save(options.out, result)
        print(f"{deadline - time.monotonic():6.0f} s left  {name} {dtype} {mode}", flush=True)
    save(options.out, result)
    failed = [r for r in result["rows"] + result["profiles"] if "error" in r]
    skipped = len(result["skipped"])
    print(f"{len(result['rows'])} rows, {len(failed)} failed, {skipped} skipped -> {options.out}")
    for failure in failed:
        print("failed:", failure)


if __name__ == "__main__":
    main()

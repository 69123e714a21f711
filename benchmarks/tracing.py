"""How fast tracing is: against `FlopCounterMode` in the same run, and on language models that fit nowhere.

python benchmarks/tracing.py [--repeats N] [--json FILE]

Times are host times of one whole trace on the meta device (no kernel runs), the fastest of N. Memory is the highest
resident size of a process that builds and traces the model.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import torch
from rich.console import Console
from rich.table import Table
from torch.utils.flop_counter import FlopCounterMode

import roofline

RATIO_TARGET = 1.5
MEMORY_TARGET_BYTES = 1_500_000_000
LLAMAS = {
    # hidden, intermediate, layers, heads, seconds allowed
    "8B": (4096, 14336, 32, 32, 5.0),
    "70B": (8192, 28672, 80, 64, 15.0),
}


def fastest_s(run: Callable[[], Any], repeats: int) -> float:
    """The fastest of `repeats` runs after one to warm up."""
    run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def against_counter(name: str, backward: bool, repeats: int) -> dict[str, Any]:
    """One torchvision model, a batch of one, on meta: our time, the counter's, and both counts."""
    from torchvision import models

    with torch.device("meta"):
        model, x = getattr(models, name)().eval(), torch.empty(1, 3, 224, 224)

    def counter() -> int:
        with FlopCounterMode(display=False) as mode:
            output = model(x)
            if backward:
                output.sum().backward()
        model.zero_grad()
        return mode.get_total_flops()

    def ours() -> int:
        result = roofline.trace(model, (x,), backward=backward)
        return result.flops + result.flops_backward

    row = {"model": name, "backward": backward, "flops": ours(), "counter_flops": counter()}
    row["counter_s"] = fastest_s(counter, repeats)
    row["ours_s"] = fastest_s(ours, repeats)
    row["ratio"] = row["ours_s"] / row["counter_s"]
    return row


def llama(size: str) -> dict[str, Any]:
    """Build and trace one Llama-class model on meta, 512 tokens, in this process."""
    from transformers import AutoModelForCausalLM, LlamaConfig

    hidden, intermediate, layers, heads, _ = LLAMAS[size]
    config = LlamaConfig(
        hidden_size=hidden, intermediate_size=intermediate, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=8, vocab_size=128256,
    )  # fmt: skip
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
    tokens = torch.zeros(1, 512, dtype=torch.long, device="meta")
    start = time.perf_counter()
    result = roofline.trace(model, (), {"input_ids": tokens})
    seconds = time.perf_counter() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"size": size, "trace_s": seconds, "memory_bytes": memory, "flops": result.flops, "calls": len(result.calls)}


def llama_apart(size: str) -> dict[str, Any]:
    """The same in a process of its own, so that its memory is its own."""
    command = [sys.executable, __file__, "--llama", size]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def tables(rows: list[dict[str, Any]], llamas: list[dict[str, Any]]) -> list[Table]:
    """What is printed."""
    first = Table("model", "backward", "counter", "roofline", "ratio", "same flops", title="against FlopCounterMode")
    for row in rows:
        same = "yes" if row["flops"] == row["counter_flops"] else f"{row['flops'] / row['counter_flops']:.4f} x"
        times = f"{row['counter_s'] * 1e3:.0f} ms", f"{row['ours_s'] * 1e3:.0f} ms", f"{row['ratio']:.2f}"
        first.add_row(row["model"], "yes" if row["backward"] else "no", *times, same)
    second = Table("Llama-class", "trace", "allowed", "memory", "calls", title="on the meta device")
    for row in llamas:
        allowed = f"{LLAMAS[row['size']][-1]:.0f} s"
        memory = f"{row['memory_bytes'] / 1e9:.2f} GB"
        second.add_row(row["size"], f"{row['trace_s']:.2f} s", allowed, memory, str(row["calls"]))
    return [first, second]


def missed(rows: list[dict[str, Any]], llamas: list[dict[str, Any]]) -> list[str]:
    """The targets that were not met."""
    slow = [f"{r['model']}: {r['ratio']:.2f} x the counter's time" for r in rows if r["ratio"] > RATIO_TARGET]
    slow += [f"Llama {r['size']}: {r['trace_s']:.1f} s" for r in llamas if r["trace_s"] > LLAMAS[r["size"]][-1]]
    big = [r for r in llamas if r["memory_bytes"] > MEMORY_TARGET_BYTES]
    return slow + [f"Llama {r['size']}: {r['memory_bytes'] / 1e9:.2f} GB" for r in big]


@click.command()
@click.option("--repeats", default=7, show_default=True)
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write the numbers here.")
@click.option("--llama", "only", type=click.Choice(list(LLAMAS)), hidden=True)
def main(repeats: int, path: Path | None, only: str | None) -> None:
    """Time tracing and compare it with the targets."""
    warnings.simplefilter("ignore")
    if only:
        click.echo(json.dumps(llama(only)))
        return
    rows = [against_counter(m, b, repeats) for m in ("resnet50", "vit_b_16") for b in (False, True)]
    llamas = [llama_apart(size) for size in LLAMAS]
    console = Console()
    for table in tables(rows, llamas):
        console.print(table)
    if path:
        path.write_text(json.dumps({"torch": torch.__version__, "counter": rows, "llama": llamas}, indent=1) + "\n")
    failures = missed(rows, llamas)
    console.print("targets met" if not failures else "missed: " + "; ".join(failures))
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()

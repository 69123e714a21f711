"""Are the counts right: every op of many models against `torch.utils.flop_counter.FlopCounterMode`.

python benchmarks/flop_counters.py [NAME ...] [--json FILE] [--markdown FILE]

Two steps, both exact. First the op lists are made alike: attention as plain products and recurrent layers step by
step, which is what the counter sees away from a GPU; then every operator must have the same count, or differ by just
what a known fault predicts. Second, the trace as a GPU runs it must differ from that by what fused kernels add.
Models have random weights and lie on the meta device unless said otherwise; nothing is downloaded.
"""

from __future__ import annotations

import gc
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import click
import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import nn
from torch.utils.flop_counter import FlopCounterMode, flop_registry

import roofline
from roofline.work.models import Program, load
from roofline.work.record import Call, Trace
from roofline.work.roots import tensors_in


@dataclass(frozen=True)
class Subject:
    """A model and how it is run."""

    name: str
    build: Callable[[], Program]
    backward: bool = True


@dataclass(frozen=True)
class Cause:
    """Why the counts of one operator differ."""

    op: str
    why: str
    flops: int
    """Ours less the counter's."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One model, counted twice."""

    model: str
    backward: bool
    ours: tuple[int, int]
    """Forward and backward, as a GPU runs them."""
    counter: tuple[int, int]
    causes: tuple[Cause, ...] = ()
    unexplained: dict[str, int] = field(default_factory=dict)
    """Operator → flops that no cause accounts for; empty, or something is wrong."""

    @property
    def ratio(self) -> float:
        """Ours over the counter's, forward and backward together."""
        return sum(self.ours) / sum(self.counter)


GROUPED = "the counter's dW of a grouped convolution is `groups` times too large"
MISSING = "the counter has no formula for it"
RECOMPUTED = "a fused backward makes the scores again: 5 products, the counter saw 4 plain ones"


def predicted(calls: Sequence[Call], op: str) -> Cause:
    """What a known fault of the counter makes of these calls of `op`."""
    if op == "aten.convolution_backward":
        wanted = [c for c in calls if c.attributes["gradients"][1]]
        return Cause(op, GROUPED, -sum((c.attributes["groups"] - 1) * one_product(c) for c in wanted))
    known = op in {str(target) for target in flop_registry}
    return Cause(op, MISSING, 0 if known else sum(call.flops for call in calls))


def one_product(call: Call) -> int:
    """Flops of the one product behind a call, whatever the call does with it."""
    product = call.product
    return 2 * product.batch * product.m * product.n * product.k if product else 0


def recomputed(trace: Trace) -> Cause:
    """The scores that fused attention makes again in backward: one product over the head size."""
    calls = [c for c in trace.calls if c.kind == "attention" and c.phase == "backward"]
    return Cause(calls[0].op if calls else "", RECOMPUTED, sum(map(one_product, calls)))


def compare(subject: Subject) -> Row:
    """Count a model with both and account for every difference."""
    program = subject.build()
    counted = count(program, subject.backward)
    with step_by_step():
        alike = _trace(program, subject.backward, "math")
    gpu = _trace(program, subject.backward, "auto")
    ours: dict[tuple[str, str], list[Call]] = {}
    for call in alike.calls:
        ours.setdefault((call.phase, call.op), []).append(call)
    causes, unexplained = [], dict.fromkeys(gpu.uncounted, 0)
    for phase, op in sorted(ours.keys() | counted.keys()):
        calls = ours.get((phase, op), [])
        difference = sum(call.flops for call in calls) - counted.get((phase, op), 0)
        cause = predicted(calls, op)
        if difference and cause.flops == difference:
            causes.append(cause)
        elif difference:
            unexplained[f"{op} {phase}"] = difference
    fused = recomputed(gpu)
    causes += [fused] if fused.flops else []
    left = gpu.flops - alike.flops, gpu.flops_backward - alike.flops_backward - fused.flops
    if any(left):
        unexplained["fused"] = sum(left)
    counter = [sum(n for (phase, _), n in counted.items() if phase == which) for which in ("forward", "backward")]
    return Row(
        model=subject.name, backward=subject.backward, ours=(gpu.flops, gpu.flops_backward),
        counter=(counter[0], counter[1]), causes=tuple(causes), unexplained=unexplained,
    )  # fmt: skip


def count(program: Program, backward: bool) -> dict[tuple[str, str], int]:
    """The counter's flops by phase and operator."""

    def by_operator() -> dict[str, int]:
        return {str(op): flops for op, flops in mode.get_flop_counts()["Global"].items()}

    with FlopCounterMode(display=False) as mode, torch.set_grad_enabled(backward):
        result = program.function(*program.args, **program.kwargs)
        forward = by_operator()
        if backward:
            outputs = [t for t in tensors_in(result) if t.requires_grad]
            torch.autograd.backward(outputs, [torch.ones_like(t) for t in outputs])
    if isinstance(program.function, nn.Module):
        program.function.zero_grad()
    both = by_operator()
    found = {("forward", op): flops for op, flops in forward.items()}
    return found | {("backward", op): both[op] - forward.get(op, 0) for op in both}


def _trace(program: Program, backward: bool, attention: str) -> Trace:
    with torch.set_grad_enabled(backward):
        result = roofline.trace(program.function, program.args, program.kwargs, backward=backward, attention=attention)
    return result.without_output()


@contextmanager
def step_by_step() -> Iterator[None]:
    """Recurrent layers without cuDNN: each step's products on their own."""
    enabled, torch.backends.cudnn.enabled = torch.backends.cudnn.enabled, False
    try:
        yield
    finally:
        torch.backends.cudnn.enabled = enabled


class WordModel(nn.Module):
    """The word-level LSTM language model of PyTorch's examples: 2 layers of 650."""

    def __init__(self, words: int = 33278, width: int = 650) -> None:
        super().__init__()
        self.embedding, self.rnn = nn.Embedding(words, width), nn.LSTM(width, width, 2)
        self.decoder = nn.Linear(width, words)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Scores (steps, batch, words) of the tokens (steps, batch)."""
        return self.decoder(self.rnn(self.embedding(tokens))[0])


def _on_meta(build: Callable[[], tuple[nn.Module, tuple[Any, ...], dict[str, Any]]]) -> Callable[[], Program]:
    def made() -> Program:
        with torch.device("meta"):
            model, args, kwargs = build()
        return Program(name=type(model).__name__, function=model.eval(), args=args, kwargs=kwargs)

    return made


def _words() -> Any:
    return WordModel(), (torch.zeros(35, 20, dtype=torch.long),), {}


def _whisper() -> Any:
    import transformers

    model = transformers.WhisperForConditionalGeneration(transformers.WhisperConfig())
    sound = torch.empty(1, 80, 3000)
    return model, (), {"input_features": sound, "decoder_input_ids": torch.zeros(1, 128, dtype=torch.long)}


def _wav2vec2() -> Any:
    import transformers

    return transformers.Wav2Vec2ForCTC(transformers.Wav2Vec2Config()), (torch.empty(1, 16000),), {}


def _clip() -> Any:
    import transformers

    tokens, images = torch.zeros(1, 77, dtype=torch.long), torch.empty(1, 3, 224, 224)
    return transformers.CLIPModel(transformers.CLIPConfig()), (), {"input_ids": tokens, "pixel_values": images}


def _mamba() -> Any:
    import transformers

    config = transformers.MambaConfig(num_hidden_layers=4)
    return transformers.MambaForCausalLM(config), (torch.zeros(1, 64, dtype=torch.long),), {}


def _retinanet() -> Program:
    from torchvision.models import detection

    torch.manual_seed(0)
    model = detection.retinanet_resnet50_fpn(weights=None, weights_backbone=None).eval()
    return Program(name="retinanet", function=model, args=([torch.rand(3, 128, 128)],))


NAMED = """
    alexnet vgg16 googlenet resnet50 resnext50_32x4d densenet121 regnet_y_400mf mobilenet_v3_large shufflenet_v2_x1_0
    convnext_tiny swin_t vit_b_16 maxvit_t deeplabv3_resnet50 lraspp_mobilenet_v3_large r3d_18 swin3d_t
    timm:efficientnet_b0 timm:tf_efficientnetv2_s timm:nfnet_f0 timm:mixer_b16_224 timm:deit3_small_patch16_224
    timm:beit_base_patch16_224 timm:coatnet_0_rw_224 timm:convmixer_768_32 timm:mobilevitv2_100
    timm:xcit_tiny_12_p8_224 timm:halonet26t timm:mambaout_tiny timm:sequencer2d_s
    hf:bert hf:gpt2 hf:t5 hf:llama hf:mistral hf:gemma2 hf:swinv2 hf:segformer hf:yolos
"""


def _trainable(name: str) -> Program:
    """A model as for inference, but with weights that a backward pass gives gradients."""
    program = load(name, sequence=128)
    for parameter in program.function.parameters():
        parameter.requires_grad_(parameter.is_floating_point())
    return program


def subjects() -> dict[str, Subject]:
    """All models by name. Language models get 128 tokens."""
    named = [Subject(name, partial(_trainable, name)) for name in NAMED.split()]
    own = [
        Subject("hf:mixtral (bf16)", partial(load, "hf:mixtral", sequence=128, dtype="bf16"), backward=False),
        Subject("hf:rwkv", partial(load, "hf:rwkv", sequence=128), backward=False),
        Subject("hf:mamba (4 layers)", _on_meta(_mamba)),
        Subject("hf:whisper", _on_meta(_whisper)),
        Subject("hf:wav2vec2", _on_meta(_wav2vec2)),
        Subject("hf:clip (both towers)", _on_meta(_clip)),
        Subject("LSTM language model", _on_meta(_words)),
        Subject("retinanet_resnet50_fpn (CPU)", _retinanet, backward=False),
    ]
    return {subject.name: subject for subject in [*named, *own]}


HEADERS = ("model", "forward", "counter", "backward", "counter", "ratio", "where they differ")


def cells(row: Row) -> tuple[str, ...]:
    """A row of the table: GFLOP forward and backward, ours and the counter's, and the causes."""

    def giga(flops: int) -> str:
        return f"{flops / 1e9:.3f}"

    ours, counter = [giga(f) for f in row.ours], [giga(f) for f in row.counter]
    if not row.backward:
        ours[1] = counter[1] = "–"
    reasons = {GROUPED: "grouped dW", MISSING: "no formula", RECOMPUTED: "scores made again"}
    where = [f"{reasons[c.why]} ({c.op.removeprefix('aten.')} {c.flops / 1e9:+.3f})" for c in row.causes]
    where += [f"UNEXPLAINED {op} {flops:+d}" for op, flops in row.unexplained.items()]
    ratio = "1" if row.ours == row.counter else f"{row.ratio:.4f}"
    return row.model, ours[0], counter[0], ours[1], counter[1], ratio, "; ".join(where) or "equal"


def markdown(rows: list[Row]) -> str:
    """The table for the documentation."""
    lines = ["| " + " | ".join(HEADERS) + " |", "|---" + "|--:" * 5 + "|---|"]
    lines += ["| " + " | ".join(cells(row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def table(rows: list[Row]) -> Table:
    """What is printed."""
    shown = Table(*HEADERS, title=f"GFLOP, against FlopCounterMode of torch {torch.__version__}")
    for row in rows:
        shown.add_row(*cells(row))
    return shown


@click.command()
@click.argument("names", nargs=-1)
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write all counts here.")
@click.option("--markdown", "markdown_file", type=click.Path(path_type=Path), help="Write the table here.")
def main(names: tuple[str, ...], json_file: Path | None, markdown_file: Path | None) -> None:
    """Count the models NAMES (all of them by default) twice; fails if a difference stays unexplained."""
    warnings.simplefilter("ignore")
    known = subjects()
    if unknown := set(names) - known.keys():
        raise click.UsageError(f"no model {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    console, rows = Console(), []
    for name in track(names or list(known), "Counting", console=Console(stderr=True)):
        rows.append(compare(known[name]))
        gc.collect()
    console.print(table(rows))
    if json_file:
        record = {"torch": torch.__version__, "models": [asdict(row) for row in rows]}
        json_file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    if markdown_file:
        markdown_file.write_text(markdown(rows), encoding="utf-8")
    wrong = [row.model for row in rows if row.unexplained]
    equal = sum(not row.causes and not row.unexplained for row in rows)
    console.print(f"{len(rows)} models: {equal} equal, {len(rows) - equal - len(wrong)} explained, {len(wrong)} not.")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()

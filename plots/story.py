"""RTX 3090 against A40: ResNet50 and ViT-B/16 in fp16 and fp32, published against predicted, with the causes."""

import sys
from pathlib import Path

import msgspec

import roofline
from roofline.analysis.compare import compare
from roofline.analysis.software import TORCH_1_9
from roofline.machine.file import write_atomically
from roofline.report.canvas import save
from roofline.report.compare_figure import comparison_figure
from roofline.report.compare_text import comparison_data
from roofline.work import models

HERE = Path(__file__).parent
BATCH = 64
PUBLISHED = {  # images/s on the RTX 3090 and the A40, https://www.autodl.com/docs/gpu_perf/
    ("resnet50", "fp16"): (2395.34, 1892.86),
    ("resnet50", "fp32"): (1492.78, 1117.56),
    ("vit_base_patch16_224", "fp16"): (1045.53, 1151.94),
    ("vit_base_patch16_224", "fp32"): (598.39, 679.02),
}


def published_run(model, dtype):
    """The program as the published runs had it: torch 1.9 lets fp32 run as TF32."""
    program = models.load(model, batch=BATCH, dtype=dtype)
    with models.precision("tf32"):
        name = f"{model}, {dtype}, batch {BATCH}"
        return roofline.trace(program.function, program.args, program.kwargs, name=name)


def story(folder=HERE):
    """A figure and a JSON file per workload, and one table of all four as JSON. Returns the comparisons."""
    a, b = (roofline.machine(name, prefer="datasheet") for name in ("RTX 3090", "A40"))
    found = {}
    for (model, dtype), (rate_a, rate_b) in PUBLISHED.items():
        trace = published_run(model, dtype)
        seconds = {"observed_a": BATCH / rate_a, "observed_b": BATCH / rate_b}
        comparison = compare(trace, a, b, software=TORCH_1_9, **seconds)
        stem = folder / f"3090_vs_a40-{model.split('_')[0]}-{dtype}"
        save(comparison_figure(comparison, trace, a, b), stem.with_suffix(".svg"))
        _write(stem.with_suffix(".json"), comparison_data(comparison))
        found[f"{model} {dtype}"] = comparison
    summary = {name: {"published": c.observed_ratio, "predicted": c.ratio, "causes": dict(c.causes),
                      "unexplained": c.unexplained} for name, c in found.items()}  # fmt: skip
    _write(folder / "3090_vs_a40.json", summary)
    return found


def _write(path, data):
    write_atomically(path, msgspec.json.format(msgspec.json.encode(data), indent=1) + b"\n")


if __name__ == "__main__":
    for comparison in story(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE).values():
        print(comparison.text + "\n")

"""Draws every figure of this folder again, with the data behind it: `make plots`."""

import argparse
from pathlib import Path

from story import story

import roofline
from roofline.machine import file
from roofline.report.export import save_ceilings_csv, save_json
from roofline.report.figure import save_machine_figure, save_placement_figure
from roofline.report.shares import save_share_figure
from roofline.work import models

HERE = Path(__file__).parent
MEASURED = Path(roofline.__file__).parent / "machine" / "measured"
MACHINES = {"rtx-3090": "RTX 3090", "a40": "A40", "h200": "H200"}
MODELS = {"resnet50": "resnet50", "vit-b-16": "vit_b_16"}
DTYPES = ("fp16", "fp32")
BATCH = 64


def draw_machines(folder):
    """The three reference machines over each other, and each measured one by itself."""
    several = [roofline.machine(name) for name in MACHINES.values()]
    save_machine_figure(several, folder / "machines.svg")
    save_ceilings_csv(several, folder / "machines.csv")
    for path in sorted(MEASURED.glob("*.json")):
        machine = file.load(path)
        save_machine_figure(machine, folder / f"{path.stem}.svg")
        save_ceilings_csv([machine], folder / f"{path.stem}.csv")


def draw_placements(folder, model, dtype):
    """One model and number format: a figure and a JSON file per machine, and the shares of all machines together."""
    program = models.load(MODELS[model], batch=BATCH, dtype=dtype)
    name = f"{MODELS[model]}, batch {BATCH}, {dtype}"
    trace = roofline.trace(program.function, program.args, program.kwargs, name=name)
    placements = {slug: roofline.place(trace, roofline.machine(m)) for slug, m in MACHINES.items()}
    for slug, placement in placements.items():
        stem = f"{model}-{dtype}-{slug}"
        save_placement_figure(placement, folder / f"{stem}.svg")
        save_json([placement], folder / f"{stem}.json")
    save_share_figure(list(placements.values()), folder / f"{model}-{dtype}-share.svg")
    save_json(list(placements.values()), folder / f"{model}-{dtype}-share.json", "operator")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE, help="folder to write to (default: this one)")
    folder = parser.parse_args().out
    draw_machines(folder)
    story(folder)
    for model in MODELS:
        for dtype in DTYPES:
            draw_placements(folder, model, dtype)


if __name__ == "__main__":
    main()

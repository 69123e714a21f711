"""Printed text against golden files. After a deliberate change: `ROOFLINE_OVERWRITE_GOLDEN=1 pytest tests/report`."""

import os
from io import StringIO
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture(scope="session")
def golden():
    """What a renderable looks like 150 columns wide, and what the golden file of that name holds."""
    from rich.console import Console

    def check(name, renderable):
        console = Console(width=150, record=True, file=StringIO(), color_system=None)
        console.print(renderable)
        text = "".join(line.rstrip() + "\n" for line in console.export_text().splitlines())
        path = GOLDEN / name
        if os.environ.get("ROOFLINE_OVERWRITE_GOLDEN"):
            path.write_text(text, encoding="utf-8")
        return text, path.read_text(encoding="utf-8")

    return check


@pytest.fixture(scope="session")
def network(make_call, make_trace):
    """A small trace with every oddity: no matrix work, an uncounted op, an empty call, a pipe to fall back from."""
    return make_trace(
        make_call(
            3_000_000,
            1_000_000,
            8_000_000_000,
            "tensor_tf32",
            kind="conv",
            op="aten.convolution",
            module="stem.conv",
        ),
        make_call(
            1_000_000,
            1_000_000,
            elementwise_flops=4_000_000,
            kind="norm",
            op="aten.batch_norm",
            module="stem.bn",
        ),
        make_call(1_000_000, 1_000_000, kind="copy", op="aten.clone", module="stem"),
        make_call(2_000_000, 1_000_000, 9_000_000, "fp32", module="head.0"),
        make_call(2_000_000, 1_000_000, 9_000_000, "fp32", module="head.1"),
        make_call(2_000_000, 0, kind="other", op="my::kernel", module="[odd]", counted=False),
        make_call(0, 0, 0, "fp32", module="empty"),
        name="toy network",
    )


@pytest.fixture(scope="session")
def placement(network, make_machine):
    """The network on a machine without TF32."""
    from roofline.analysis.place import place

    machine = make_machine(
        capability="7.0", dram_read=900e9, dram_write=800e9, dram_copy=700e9, l2_read=2e12, fp32=15e12
    )
    return place(network, machine)

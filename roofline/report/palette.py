"""Colours and markers, readable with any colour vision.

After Okabe and Ito, "Color Universal Design" (2008); the light ones are darkened for text on white.
"""

from __future__ import annotations

BLACK, GREY = "#1a1a1a", "#767676"
BLUE, SKY, GREEN, ORANGE, VERMILLION, PURPLE = (
    "#0072B2",
    "#3A93C4",
    "#00835F",
    "#B87A00",
    "#D55E00",
    "#A6558A",
)

MACHINES = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK)
"""One colour per machine where several share a figure."""

GROUPS = {
    "dram": BLUE,
    "l2": GREEN,
    "l1": PURPLE,
    "shared": PURPLE,
    "vector": ORANGE,
    "tensor": VERMILLION,
    "gemm": GREY,
    "conv": GREY,
}
"""Colour of a ceiling by its group."""

KINDS = {
    "gemm": ("s", GREEN),
    "conv": ("o", VERMILLION),
    "attention": ("D", PURPLE),
    "recurrent": ("p", BLUE),
    "norm": ("^", ORANGE),
    "softmax": ("v", BLUE),
    "pool": ("h", PURPLE),
    "elementwise": ("P", SKY),
    "reduction": ("d", BLACK),
    "copy": ("<", GREY),
    "gather": (">", GREY),
}
"""Marker and colour of a layer by its kind of operator."""

OTHER_KIND = ("X", GREY)

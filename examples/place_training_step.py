"""Counts one training step of your own and shows which ceiling of an RTX 3090 binds each part of it.

Nothing runs on a GPU and no weights are needed: everything lives on the meta device.
"""

import torch
from torch import nn

import roofline
from roofline.report.text import placement_table, show

with torch.device("meta"):
    model = nn.Sequential(nn.Conv2d(3, 64, 7), nn.BatchNorm2d(64), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10))
    images, labels = torch.empty(32, 3, 38, 38), torch.empty(32, dtype=torch.long)
    model(images)  # gives the lazy layer its size
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


# Your training step as it is: forward, loss, backward, optimizer.
def step() -> None:
    """One training step."""
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()


trace = roofline.trace(step)
placement = roofline.place(trace, roofline.machine("RTX 3090"))
show(placement_table(placement, "layer"))
show(placement_table(placement, "operator"))

"""MACHINE: what a device can do. `roofline.machine("RTX 3090")` looks one up."""

from roofline.callable_module import make_callable

make_callable(__name__, "roofline.machine.catalog", "machine")

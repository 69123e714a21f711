"""`roofline env`: the same as `python -m roofline.env`."""

from roofline.env import main as command

__all__ = ["command"]

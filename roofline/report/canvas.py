"""Figures without pyplot, its global state or a display; and the files they are saved to."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from roofline.errors import BackendUnavailable, FileError
from roofline.machine.file import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".svg", ".png", ".pdf")


def new_figure(width_in: float, height_in: float) -> Figure:
    """An empty figure on the Agg canvas, which measures text without a display."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise BackendUnavailable(
            f"figures need matplotlib, which cannot be imported ({error}); `pip install matplotlib`. "
            "Tables, JSON and CSV work without it."
        ) from error
    figure = Figure(figsize=(width_in, height_in))
    FigureCanvasAgg(figure)
    return figure


def check_path(path: str | Path) -> Path:
    """`path`, if a figure can be saved there: `FileError` names an unknown suffix."""
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise FileError(f"cannot save a figure as '{path}': the name must end in {', '.join(SUFFIXES)}")
    return path


def save(figure: Figure, path: str | Path) -> Path:
    """Write the figure to `path`, whole or not at all; the same figure gives the same bytes every time."""
    import matplotlib

    path = check_path(path)
    kind = path.suffix.lower()[1:]
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    data = BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "roofline"}):
        figure.savefig(data, format=kind, dpi=150, metadata=metadata, bbox_inches="tight", pad_inches=0.2)
    return write_atomically(path, data.getvalue())

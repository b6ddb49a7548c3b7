"""The look of all figures: one palette, one frame, vector and bitmap."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["PALETTE", "figure", "save_figure"]

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Colours that colour-blind people can tell apart (Okabe and Ito)."""


def figure(width: float = 7.0, height: float = 4.2) -> tuple[Figure, Axes]:
    """Return a figure and its axes in the house style; no window, no global state touched."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    picture = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(picture)
    axes = picture.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    return picture, axes


def save_figure(picture: Figure, path: str | os.PathLike[str]) -> list[Path]:
    """Save as PNG and SVG under the same name; return both paths."""
    stem = Path(path).with_suffix("")
    stem.parent.mkdir(parents=True, exist_ok=True)
    written = []
    for suffix in (".png", ".svg"):
        target = stem.with_suffix(suffix)
        picture.savefig(target, dpi=160)
        written.append(target)
    return written

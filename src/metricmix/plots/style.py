"""The look of all figures: one palette, one frame, vector and bitmap."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from metricmix.atomic import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["PALETTE", "figure", "panels", "save_figure"]

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Colours that colour-blind people can tell apart (Okabe and Ito)."""


def figure(width: float = 7.0, height: float = 4.2) -> tuple[Figure, Axes]:
    """Return a figure and its axes in the house style; no window, no global state touched."""
    picture, axes = panels(1, 1, width, height)
    return picture, axes[0, 0]


def panels(
    rows: int, columns: int, width: float, height: float, **shared: Any
) -> tuple[Figure, NDArray[Any]]:
    """Return a figure with a (rows, columns) array of axes; `shared` is sharex, sharey."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    picture = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(picture)
    axes = picture.subplots(rows, columns, squeeze=False, **shared)
    for one in axes.ravel():
        one.spines[["top", "right"]].set_visible(False)
        one.grid(color="#dddddd", linewidth=0.6)
        one.set_axisbelow(True)
    return picture, axes


def save_figure(picture: Figure, path: str | os.PathLike[str]) -> list[Path]:
    """Save as PNG and SVG under the same name, each whole or not at all; return both paths.

    Equal figures give equal files.
    """
    from matplotlib import rc_context

    stem = Path(path).with_suffix("")
    stem.parent.mkdir(parents=True, exist_ok=True)
    written = []
    for suffix, undated in ((".png", None), (".svg", {"Date": None})):
        target = stem.with_suffix(suffix)
        with rc_context({"svg.hashsalt": "metricmix"}), replacing(target) as file:
            picture.savefig(file, format=suffix[1:], dpi=160, metadata=undated)
        written.append(target)
    return written

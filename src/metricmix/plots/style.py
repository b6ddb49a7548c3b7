"""The style of all figures: palette and axes; saved as PNG and SVG."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from metricmix.atomic import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["CLASS_COLOURS", "PALETTE", "SCALE", "figure", "panels", "save_figure"]

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Colours that are distinct for colour-blind readers too (Okabe and Ito)."""
CLASS_COLOURS = (
    *PALETTE,
    "#B2397C",
    "#A21C10",
    "#937CF1",
    "#89BB7E",
    "#7C1878",
    "#4137A6",
    "#195C2E",
)
"""Colours of up to 14 classes: the palette, then darker and lighter colours of its hues."""
SCALE = ("#0D0887", "#4C02A1", "#7E03A8", "#A92395", "#CC4778", "#E56B5D", "#F89540")
"""Colours from low to high, of increasing lightness; all of them dark enough on white (plasma)."""


def figure(width: float = 7.0, height: float = 4.2) -> tuple[Figure, Axes]:
    """Return a figure with one axes; opens no window and changes no global state of matplotlib."""
    picture, axes = panels(1, 1, width, height)
    return picture, axes[0, 0]


def panels(
    rows: int, columns: int, width: float, height: float, **options: Any
) -> tuple[Figure, NDArray[Any]]:
    """Return a figure and its (rows, columns) array of axes; `options` go to ``subplots``."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    picture = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(picture)
    axes = picture.subplots(rows, columns, squeeze=False, **options)
    for one in axes.ravel():
        one.spines[["top", "right"]].set_visible(False)
        one.grid(color="#dddddd", linewidth=0.6)
        one.set_axisbelow(True)
    return picture, axes


def save_figure(picture: Figure, path: str | os.PathLike[str]) -> list[Path]:
    """Save a figure as PNG and SVG under the same name, and return both paths.

    Each file is written completely or not at all. Equal figures give equal files.
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

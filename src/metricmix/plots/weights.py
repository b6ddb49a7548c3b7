"""Learned weights with their confidence intervals."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from metricmix.exceptions import InputError
from metricmix.plots.style import PALETTE, figure, save_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["plot_weights"]

CLEAR, UNCLEAR = PALETTE[0], "#8a8a8a"
NEEDED = ("name", "weight", "lower", "upper")


def plot_weights(table: pd.DataFrame, path: str | os.PathLike[str] | None = None) -> Figure:
    """Return a figure of the weights and their intervals, largest weight on top.

    Filled dots are weights whose interval excludes 0, empty dots those whose interval contains 0:
    they differ by shape as well as by colour.

    Parameters
    ----------
    table : DataFrame
        ``model.weights_table()``, with the columns name, weight, lower, upper.
    path : path, optional
        Where to save it, as PNG and SVG.

    Raises
    ------
    InputError
        If the table has no rows or lacks a column.
    """
    missing = [name for name in NEEDED if name not in getattr(table, "columns", ())]
    if missing or len(table) == 0:
        raise InputError(
            argument="table",
            expected=(
                "what weights_table() returns, a row per source with the columns "
                f"{', '.join(NEEDED)}"
            ),
            remedy=f"missing: {', '.join(missing) or 'rows'}",
        )
    rows = table.sort_values("weight", kind="stable").reset_index(drop=True)
    clear = ((rows["lower"] > 0) | (rows["upper"] < 0)).to_numpy()
    height = np.arange(len(rows))
    picture, axes = figure(height=1.5 + 0.32 * len(rows))
    axes.axvline(0.0, color="#555555", linewidth=1.0, zorder=1)
    kinds = (
        (clear, CLEAR, CLEAR, "interval leaves out 0"),
        (~clear, UNCLEAR, "white", "interval holds 0"),
    )
    for chosen, colour, face, label in kinds:
        if not chosen.any():
            continue
        some = rows[chosen]
        axes.hlines(height[chosen], some["lower"], some["upper"], color=colour, linewidth=2.2)
        axes.plot(
            *(some["weight"], height[chosen], "o"),
            color=colour,
            markerfacecolor=face,
            markeredgewidth=1.6,
            markersize=6.5,
            label=label,
        )
    axes.set_yticks(height, rows["name"].astype(str))
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("weight")
    picture.legend(loc="outside upper right", ncols=2, frameon=False, fontsize=9)
    if path is not None:
        save_figure(picture, path)
    return picture

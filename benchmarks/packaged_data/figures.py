"""The figure of docs/packaged_data.md."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path

import numpy as np

from benchmarks.packaged_data.data import LABELS
from benchmarks.packaged_data.ours import OURS
from benchmarks.packaged_data.page import SETS, Found
from benchmarks.packaged_data.run import METHODS
from metricmix.plots.style import PALETTE, panels, save_figure

HIGHLIGHT = PALETTE[1]
OTHERS = (*(colour for colour in PALETTE if colour != HIGHLIGHT), "#777777")
LEFT_OUT = ("boosting", "most frequent")
"""Far below the others."""


def draw_labels_curve(found: Found, path: Path) -> None:
    """Draw the mean accuracy by labels per class, a line per method and a panel per kind of data.

    Lines differ in colour and marker, and from the eighth on in dashes.
    """
    picture, axes = panels(1, len(SETS), 11.0, 4.8)
    shown = [method for method in METHODS if method not in LEFT_OUT]
    for one, (title, names) in zip(axes.ravel(), SETS, strict=True):
        styles = zip(cycle(OTHERS), cycle("sD^vPX*<"), strict=False)
        for k, method in enumerate(shown):
            own = method == OURS
            colour, marker = (HIGHLIGHT, "o") if own else next(styles)
            one.plot(
                LABELS,
                found.curve(names, method),
                color=colour,
                marker=marker,
                markersize=6 if own else 4.5,
                linewidth=2.6 if own else 1.2,
                linestyle="--" if k > len(OTHERS) else "-",
                zorder=3 if own else 2,
                label=method,
            )
        one.set_xscale("log")
        one.set_xticks(LABELS, list(map(str, LABELS)))
        one.set_xticks([], minor=True)
        one.set_xlabel("labels per class")
        one.set_title(f"data sets {title}", loc="left", fontsize=11)
    axes[0, 0].set_ylabel("mean accuracy, %")
    lines = axes[0, 0].get_lines()
    last = [float(np.nan_to_num(line.get_ydata()[-1])) for line in lines]
    picture.legend(
        handles=[lines[k] for k in np.argsort(last)[::-1]],  # in the order of their right ends
        loc="outside right center",
        frameon=False,
        fontsize=9,
    )
    save_figure(picture, path)

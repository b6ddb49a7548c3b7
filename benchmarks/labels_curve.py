"""A figure of accuracy against the number of labels: a line per method, a panel per list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from metricmix.plots.style import PALETTE, panels, save_figure

HIGHLIGHT = PALETTE[1]
OTHERS = (*(colour for colour in PALETTE if colour != HIGHLIGHT), "#777777")
MARKERS = "sD^vPX*<"
WITH_VALIDATION = " + 500"
"""End of the names of methods that get validation labels, too: dotted, in the colour of theirs."""


def draw_labels_curves(
    path: Path,
    labels: Sequence[int],
    parts: Mapping[str, Mapping[str, Sequence[float]]],
    own: str,
) -> None:
    """Draw accuracies in per cent by labels per class, of each method in each part.

    NaN where a method has none; methods that are not in all parts are left out. Lines differ in
    colour and marker, and from the eighth on in dashes.
    """
    shown = [name for name in next(iter(parts.values())) if all(name in p for p in parts.values())]
    bases = [*dict.fromkeys(name.removesuffix(WITH_VALIDATION) for name in shown if name != own)]
    picture, axes = panels(1, len(parts), 11.0, 4.8)
    for one, (title, found) in zip(axes.ravel(), parts.items(), strict=True):
        for name in shown:
            k = -1 if name == own else bases.index(name.removesuffix(WITH_VALIDATION))
            dashes = ":" if name.endswith(WITH_VALIDATION) else "--" if k >= len(OTHERS) else "-"
            one.plot(
                labels,
                found[name],
                color=HIGHLIGHT if name == own else OTHERS[k % len(OTHERS)],
                marker="o" if name == own else MARKERS[k % len(MARKERS)],
                markersize=6 if name == own else 4.5,
                linewidth=2.6 if name == own else 1.2,
                linestyle=dashes,
                zorder=3 if name == own else 2,
                label=name,
            )
        one.set_xscale("log")
        one.set_xticks(labels, list(map(str, labels)))
        one.set_xticks([], minor=True)
        one.set_xlabel("labels per class")
        one.set_title(title, loc="left", fontsize=11)
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

"""What one step costs against n."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from metricmix.experiments.results import Results
from metricmix.report import PALETTE, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_step_cost", "growth"]

LOOKS = {
    "weights of size 1": ("rows as they are settled", PALETTE[0], "o"),
    "ten times larger": ("the same, weights ten times larger", PALETTE[5], "v"),
    "formed": ("all lengths formed, then Dijkstra", PALETTE[1], "^"),
}


def draw_step_cost(results: Results) -> Figure:
    """Draw seconds per step, both axes logarithmic, with the growth of each."""
    picture, ax = figure(7.0, 4.6)
    for way, (label, colour, marker) in LOOKS.items():
        n, seconds = _times(results, way)
        ax.plot(
            *(n, seconds),
            color=colour,
            marker=marker,
            linewidth=1.5,
            label=f"{label}: n^{growth(results, way):.1f} at the end",
        )
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xticks(n, [str(int(size)) for size in n])
    ax.set_xlabel("items n")
    ax.set_ylabel("seconds per step, one thread")
    ax.legend(frameon=False, fontsize=9)
    return picture


def growth(results: Results, way: str) -> float:
    """Return the exponent of n over the two largest sizes."""
    n, seconds = _times(results, way)
    if len(n) < 2:
        return float("nan")
    return float(np.log(seconds[-1] / seconds[-2]) / np.log(n[-1] / n[-2]))


def _times(results: Results, way: str) -> tuple[np.ndarray, np.ndarray]:
    found = [
        (record["cell"]["n"], record["seconds"][way]) for record in results.records("step-cost")
    ]
    n, seconds = zip(*sorted(found), strict=True)
    return np.array(n, float), np.array(seconds)

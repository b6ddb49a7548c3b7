"""The paper's Figures 2 and 3: what words and principal components say of topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from metricmix.experiments.results import Results
from metricmix.report import PALETTE, figure, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_map", "draw_separation"]

MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def draw_separation(results: Results) -> Figure:
    """Draw word distance against component distance, a panel per number of components."""
    found = _found(results)
    counts = [name for name in found["distances"] if name != "words"]
    picture, axes = panels(2, 2, 8.2, 7.0, sharey=True)
    same = np.array(found["same"], bool)
    words = np.array(found["distances"]["words"])
    ratios = found["ratios"]
    for ax, n in zip(axes.ravel(), counts, strict=False):
        x = np.array(found["distances"][n])
        style: dict[str, Any] = {"linestyle": "", "rasterized": True, "alpha": 0.7}
        ax.plot(
            *(x[~same], words[~same], "x"),
            color=PALETTE[1],
            markersize=4,
            label="different",
            **style,
        )
        ax.plot(*(x[same], words[same], "o"), color=PALETTE[0], markersize=4, label="same", **style)
        ax.set_title(
            f"{n} components: r = {ratios[n]['mean']:.3f} (means), {ratios[n]['sum']:.3f} (sums)",
            loc="left",
            fontsize=10,
        )
        ax.set_xlabel(f"distance by {n} principal components")
    for ax in axes[:, 0]:
        ax.set_ylabel("distance by words")
    axes[0, 0].legend(frameon=False, fontsize=9, title="topics", loc="lower right")
    words_r = ratios["words"]
    picture.suptitle(
        f"words: r = {words_r['mean']:.3f} (means), {words_r['sum']:.3f} (sums); "
        "the smaller, the better topics are told apart",
        fontsize=10,
        x=0.01,
        ha="left",
    )
    return picture


def draw_map(results: Results) -> Figure:
    """Draw all papers by their first two principal components, topics by colour and shape."""
    found = _found(results)
    place, topics = np.array(found["map"]), np.array(found["topics"])
    picture, ax = figure(7.2, 5.6)
    for topic in np.unique(topics):
        ax.plot(
            *place[topics == topic].T,
            MARKERS[topic % len(MARKERS)],
            color=PALETTE[topic % len(PALETTE)],
            markersize=3.2,
            alpha=0.65,
            markeredgewidth=0,
            linestyle="",
            rasterized=True,
            label=f"topic {topic}",
        )
    ax.set_xlabel("first principal component")
    ax.set_ylabel("second principal component")
    ax.legend(frameon=False, fontsize=9, markerscale=2)
    ax.set_title(f"{len(place)} papers, {len(np.unique(topics))} topics", loc="left", fontsize=11)
    return picture


def _found(results: Results) -> dict[str, Any]:
    return dict(next(results.records("separation"))["values"])

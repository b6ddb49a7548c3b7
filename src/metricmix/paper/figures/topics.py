"""The paper's Figures 2 and 3: what words and principal components say of topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from metricmix.paper.intervals import mean_interval
from metricmix.paper.results import Results
from metricmix.plots import PALETTE, figure, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_feature_space", "draw_map", "draw_semi_supervised", "draw_separation"]


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


# -- the paper's Figures 5 and 6: accuracy against the number of labelled items -----------------

LITERAL = {"color": PALETTE[0], "marker": "o", "linestyle": "--"}
CONVERGED = {"color": PALETTE[5], "marker": "v"}
BALANCED = {"color": PALETTE[0], "marker": "o"}
UNIFORM = {"color": "#888888", "marker": "x", "linestyle": ":"}


def draw_feature_space(results: Results) -> Figure:
    """Draw the paper's three models on the left, what makes a difference on the right."""
    looks: list[dict[str, dict[str, Any]]] = [
        {
            "mixture, literal": LITERAL,
            "best, single": {"color": PALETTE[1], "marker": "^"},
            "best, simplex": {"color": PALETTE[4], "marker": "<"},
            "full": {"color": PALETTE[2], "marker": "s"},
        },
        {
            "mixture, converged": CONVERGED,
            "mixture, balanced": BALANCED,
            "uniform": UNIFORM,
            "32 graphs, balanced": {"color": PALETTE[3], "marker": "D"},
            "full": {"color": PALETTE[2], "marker": "s"},
        },
    ]
    picture, axes = panels(1, 2, 10.0, 5.0, sharey=True)
    for ax, look, title in zip(
        axes[0],
        looks,
        ("the paper's settings", "settings that converge, and more graphs"),
        strict=True,
    ):
        _draw(ax, results, "feature-space", look, {})
        ax.set_title(title, loc="left", fontsize=11)
        ax.set_xlabel("labelled images D")
    axes[0, 0].set_ylabel("1-NN accuracy")
    return picture


def draw_semi_supervised(results: Results) -> Figure:
    """Draw two ways of sampling: the paper's two sources above, six sources below."""
    single = {
        "graph": {"color": PALETTE[1], "marker": "^"},
        "feature": {"color": PALETTE[2], "marker": "s"},
    }
    looks: list[dict[str, dict[str, Any]]] = [
        {
            **single,
            "mixture, literal": LITERAL,
            "mixture, converged": CONVERGED,
            "mixture, balanced": BALANCED,
            "uniform": UNIFORM,
        },
        {
            "mixture, balanced": BALANCED,
            "more, balanced": {"color": PALETTE[3], "marker": "D"},
            "more, uniform": UNIFORM,
        },
    ]
    samplings = {
        "random": "papers drawn at random (literal)",
        "walk": "papers met on a random walk",
    }
    picture, axes = panels(2, 2, 10.0, 9.2, sharey=True)
    for row, look in enumerate(looks):
        for column, (sampling, title) in enumerate(samplings.items()):
            ax = axes[row, column]
            _draw(ax, results, "semi-supervised", look, {"sampling": sampling})
            ax.set_title(
                ("two sources, " if row == 0 else "six sources, ") + title, loc="left", fontsize=10
            )
            ax.set_xlabel("labelled papers D")
        axes[row, 0].set_ylabel("1-NN accuracy")
    return picture


def _draw(
    ax: Axes, results: Results, name: str, look: dict[str, dict[str, Any]], where: dict[str, str]
) -> None:
    """Draw a line per method, means with 95 % intervals."""
    sizes = results.sizes(name, **where)
    for k, (method, style) in enumerate(look.items()):
        found = [
            mean_interval(
                record["values"]["accuracy"][method]
                for record in results.records(name, D=D, **where)
            )
            for D in sizes
        ]
        gap = (sizes[1] - sizes[0]) if len(sizes) > 1 else 1
        at = [D + 0.04 * gap * (k - (len(look) - 1) / 2) for D in sizes]  # bars side by side
        means = [interval.mean for interval in found]
        # Accuracies lie in 0 .. 1, and a single run has no interval.
        low = [max(i.low, 0.0) if i.count > 1 else i.mean for i in found]
        high = [min(i.high, 1.0) if i.count > 1 else i.mean for i in found]
        reach = [np.subtract(means, low), np.subtract(high, means)]
        ax.errorbar(
            *(at, means),
            yerr=reach,
            label=method,
            linewidth=1.5,
            markersize=5,
            elinewidth=1.0,
            **style,
        )
    ax.legend(frameon=False, fontsize=9, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3)

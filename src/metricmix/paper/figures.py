"""The paper's Figures 1 to 6, and the cost of a step, each drawn from the results file alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import cycle
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from metricmix.paper.experiment1_complexity import LINE
from metricmix.paper.results import (
    Results,
    growth_exponent,
    mean_interval,
    solved_cells,
)
from metricmix.plots import PALETTE, figure, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["PICTURES", "STEP_STYLES", "Picture", "pictures_of"]


HEADING: dict[str, Any] = {"fontsize": 10, "x": 0.01, "ha": "left"}

# -- Figure 1: convergence -----------------------------------------------------------------------

ROWS = {"paper": "the paper's steps\n(η = 1, times D⁻²)", "mean": "mean over pairs\n(η = 1)"}


def draw_convergence(results: Results) -> Figure:
    """Draw objective against step: a column per size, a row per scaling, a line per start."""
    sizes = results.sizes("convergence")
    picture, axes = panels(len(ROWS), len(sizes), 2.6 * len(sizes), 5.2, sharex=True)
    for column, D in enumerate(sizes):
        records = list(results.records("convergence", D=D))
        for row, (scaling, label) in enumerate(ROWS.items()):
            ax = axes[row, column]
            for record, colour in zip(records, cycle(PALETTE), strict=False):
                found = record["values"]
                ax.plot(found["step"], found[scaling], color=colour, linewidth=1.4)
            optimum = min(record["values"]["optimum"] for record in records)
            if scaling == "mean":
                ax.axhline(optimum, color="#555555", linestyle="--", linewidth=1.2)
            if column == 0:
                ax.set_ylabel(f"{label}\nobjective")
            if row == 0:
                ax.set_title(f"D = {D} (minimum {optimum:.0f})", loc="left", fontsize=10)
            else:
                ax.set_xlabel("step")
    picture.suptitle("One colour per start; dashed: what the full gradient reaches", **HEADING)
    return picture


# -- Figures 2 and 3: separation of topics ------------------------------------------------------

MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def draw_separation(results: Results) -> Figure:
    """Draw word distance against component distance, a panel per number of components."""
    found = next(results.records("separation"))["values"]
    counts = [name for name in found["distances"] if name != "words"]
    picture, axes = panels(2, 2, 8.2, 7.0, sharey=True)
    same = np.array(found["same"], bool)
    words = np.array(found["distances"]["words"])
    ratios = found["ratios"]
    for ax, n in zip(axes.ravel(), counts, strict=False):
        x = np.array(found["distances"][n])
        style: dict[str, Any] = {"linestyle": "", "rasterized": True, "alpha": 0.7, "markersize": 4}
        for label, some, mark, colour in (
            ("different", ~same, "x", PALETTE[1]),
            ("same", same, "o", PALETTE[0]),
        ):
            ax.plot(x[some], words[some], mark, color=colour, label=label, **style)
        r = f"r = {ratios[n]['mean']:.3f} (means), {ratios[n]['sum']:.3f} (sums)"
        ax.set_title(f"{n} components: {r}", loc="left", fontsize=10)
        ax.set_xlabel(f"distance by {n} principal components")
    for ax in axes[:, 0]:
        ax.set_ylabel("distance by words")
    axes[0, 0].legend(frameon=False, fontsize=9, title="topics", loc="lower right")
    words_r = ratios["words"]
    picture.suptitle(
        f"words: r = {words_r['mean']:.3f} (means), {words_r['sum']:.3f} (sums); "
        "the smaller, the better topics are told apart",
        **HEADING,
    )
    return picture


def draw_map(results: Results) -> Figure:
    """Draw all papers by their first two principal components, topics by colour and shape."""
    found = next(results.records("separation"))["values"]
    place, topics = np.array(found["map"]), np.array(found["topics"])
    picture, ax = figure(7.2, 5.6)
    style: dict[str, Any] = {
        "markersize": 3.2,
        "markeredgewidth": 0,
        "linestyle": "",
        "alpha": 0.65,
    }
    for topic in np.unique(topics):
        colour, marker = PALETTE[topic % len(PALETTE)], MARKERS[topic % len(MARKERS)]
        style |= {"color": colour, "marker": marker, "label": f"topic {topic}"}
        ax.plot(*place[topics == topic].T, rasterized=True, **style)
    ax.set_xlabel("first principal component")
    ax.set_ylabel("second principal component")
    ax.legend(frameon=False, fontsize=9, markerscale=2)
    ax.set_title(f"{len(place)} papers, {len(np.unique(topics))} topics", loc="left", fontsize=11)
    return picture


# -- Figure 4: seconds against error ------------------------------------------------------------

METHOD_STYLES: dict[str, tuple[str, str]] = {
    "path": (PALETTE[0], "o"),
    "path, paper's steps": (PALETTE[5], "v"),
    "path, batches": (PALETTE[3], "D"),
    "full gradient": (PALETTE[2], "s"),
    "cutting plane": (PALETTE[4], "P"),
    "cvx": (PALETTE[1], "^"),
    "cvx, reduced": ("#8a4b08", "<"),
}


def draw_runtime(results: Results) -> Figure:
    """Draw seconds against error, as in the paper, and seconds against D.

    The larger a mark, the larger D; bars are standard deviations. "cvx + extra" includes the
    assembly of the constraints.
    """
    sizes_there = results.sizes("complexity")
    picture, axes = panels(1, 2, 11.5, 5.0)
    left, right = axes[0]
    for method, (colour, marker) in METHOD_STYLES.items():
        points: list[tuple[float, ...]] = []
        for size in sizes_there:
            if cells := solved_cells(results, method, D=size):
                errors = [cell["values"]["error"] for cell in cells]
                whole = float(np.mean([cell["seconds"]["total"] for cell in cells]))
                extra = float(np.mean([cell["seconds"].get("assembly", 0.0) for cell in cells]))
                points.append((size, np.mean(errors), np.std(errors), whole - extra, whole))
        if not points:
            continue
        D, error, spread, seconds, total = (
            np.array(column) for column in zip(*points, strict=True)
        )
        sizes = 12.0 * np.sqrt(D / 10.0)
        bars: dict[str, Any] = {"fmt": "none", "elinewidth": 0.8, "alpha": 0.7}
        left.errorbar(error, seconds, xerr=spread, ecolor=colour, **bars)
        mark: dict[str, Any] = {"s": sizes, "marker": marker}
        left.scatter(error, seconds, color=colour, label=method, linewidths=0, **mark)
        right.plot(D, seconds, color=colour, marker=marker, markersize=5, linewidth=1.3)
        if (total > 1.1 * seconds).any():
            left.scatter(error, total, color="black", label=f"{method} + extra", **mark)
            right.plot(D, total, color="black", marker=marker, markersize=4, linewidth=0.8)
    rand = [record["values"]["error"] for record in results.records("complexity", method="rand")]
    if rand:
        low, high = np.quantile(rand, [0.1, 0.9])
        left.axvspan(low, high, color="#dddddd", alpha=0.6, label="rand (80 %)")
    for ax in axes[0]:
        ax.set_yscale("log")
        ax.set_xscale("log")
        ax.set_ylabel("seconds")
    left.set_xlabel("mean square error of the metric put out")
    right.set_xlabel("images D")
    shown = [40, 60, 100, 200, 500, 1000, 2000, 5000]
    right.set_xticks(shown, [str(D) for D in shown])
    right.set_xlim(0.9 * min(sizes_there), 1.1 * max(sizes_there))
    right.minorticks_off()
    left.set_title(
        f"larger marks: larger D, {sizes_there[0]} … {sizes_there[-1]}", loc="left", fontsize=10
    )
    legend: dict[str, Any] = {"loc": "outside lower center", "ncols": 6, "frameon": False}
    picture.legend(*left.get_legend_handles_labels(), fontsize=9, **legend)
    return picture


# -- Figures 5 and 6: accuracy against the number of labelled items -----------------------------

DESCENTS: dict[str, dict[str, Any]] = {
    "mixture, literal": {"color": PALETTE[0], "marker": "o", "linestyle": "--"},
    "mixture, literal, equal start": {"color": PALETTE[3], "marker": "D", "linestyle": "--"},
    "mixture, converged": {"color": PALETTE[5], "marker": "v"},
    "mixture, converged, equal start": {"color": PALETTE[4], "marker": "P"},
}
LOOKS: dict[str, dict[str, Any]] = {
    "best, single": {"color": PALETTE[1], "marker": "^"},
    "best, simplex": {"color": "#8a4b08", "marker": "<"},
    "full": {"color": PALETTE[2], "marker": "s"},
    "mixture, balanced": {"color": PALETTE[0], "marker": "o"},
    "32 graphs, balanced": {"color": PALETTE[3], "marker": "D"},
    "more, balanced": {"color": PALETTE[3], "marker": "D"},
    "all, balanced": {"color": PALETTE[4], "marker": "P"},
    "uniform": {"color": "#888888", "marker": "x", "linestyle": ":"},
    "more, uniform": {"color": "#888888", "marker": "x", "linestyle": ":"},
    "graph": {"color": PALETTE[1], "marker": "^"},
    "feature": {"color": PALETTE[2], "marker": "s"},
    "spectral": {"color": PALETTE[1], "marker": "^"},
    "walks": {"color": PALETTE[2], "marker": "s"},
    **DESCENTS,
}


def draw_feature_space(results: Results) -> Figure:
    """Draw the paper's three models on the left, other settings on the right."""
    shown = {
        "the paper's objective": [*DESCENTS, "best, single", "best, simplex", "full"],
        "balanced pairs, and more graphs": [
            *("mixture, balanced", "uniform", "32 graphs, balanced", "full")
        ],
    }
    picture, axes = panels(1, 2, 10.0, 5.8, sharey=True)
    for ax, (title, methods) in zip(axes[0], shown.items(), strict=True):
        _draw_accuracies(ax, results, "feature-space", methods, title)
        ax.set_xlabel("labelled images D")
    axes[0, 0].set_ylabel("1-NN accuracy")
    return picture


def draw_semi_supervised(results: Results) -> Figure:
    """Draw a column per sampling: the paper's two sources above, others below."""
    shown = {
        "two sources": ["graph", "feature", *DESCENTS, "uniform"],
        "other sources": [
            *("mixture, balanced", "more, balanced", "more, uniform", "all, balanced"),
            *("spectral", "walks"),
        ],
    }
    samplings = {"random": "papers drawn at random (literal)", "walk": "papers of a random walk"}
    picture, axes = panels(2, 2, 10.0, 10.8, sharey=True)
    for row, (sources, methods) in zip(axes, shown.items(), strict=True):
        for ax, (sampling, title) in zip(row, samplings.items(), strict=True):
            where = {"sampling": sampling}
            _draw_accuracies(ax, results, "semi-supervised", methods, f"{sources}, {title}", where)
            ax.set_xlabel("labelled papers D")
        row[0].set_ylabel("1-NN accuracy")
    return picture


def _draw_accuracies(
    ax: Axes,
    results: Results,
    name: str,
    methods: Sequence[str],
    title: str,
    where: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Draw a line per method, means with 95 % intervals."""
    ax.set_title(title, loc="left", fontsize=10)
    sizes = results.sizes(name, **where)
    for k, method in enumerate(methods):
        found = [
            mean_interval(
                record["values"]["accuracy"][method]
                for record in results.records(name, D=D, **where)
            )
            for D in sizes
        ]
        gap = (sizes[1] - sizes[0]) if len(sizes) > 1 else 1
        at = [D + 0.04 * gap * (k - (len(methods) - 1) / 2) for D in sizes]  # bars side by side
        means = [interval.mean for interval in found]
        # Accuracies lie in 0 .. 1, and a single run has no interval.
        low = [max(i.low, 0.0) if i.count > 1 else i.mean for i in found]
        high = [min(i.high, 1.0) if i.count > 1 else i.mean for i in found]
        reach = [np.subtract(means, low), np.subtract(high, means)]
        style = {"linewidth": 1.5, "markersize": 5, "elinewidth": 1.0, **LOOKS[method]}
        ax.errorbar(at, means, yerr=reach, label=method, **style)
    ax.legend(frameon=False, fontsize=9, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)


# -- not in the paper: the cost of a step -------------------------------------------------------

STEP_STYLES = {
    "weights of size 1": ("rows as they are settled", PALETTE[0], "o"),
    "ten times larger": ("the same, weights ten times larger", PALETTE[5], "v"),
    LINE: (f"the same, {LINE}", PALETTE[4], "P"),
    "formed": ("all lengths formed, then Dijkstra", PALETTE[1], "^"),
}


def draw_step_cost(results: Results) -> Figure:
    """Draw seconds per step, both axes logarithmic, with the growth of its operations."""
    picture, ax = figure(7.0, 4.6)
    found = {int(r["cell"]["n"]): r["seconds"] for r in results.records("step-cost")}
    for way, (label, colour, marker) in STEP_STYLES.items():
        named = f"{label}: n^{growth_exponent(results, way):.1f} operations"
        seconds = [by_way[way] for by_way in found.values()]
        ax.plot(list(found), seconds, color=colour, marker=marker, linewidth=1.5, label=named)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xticks(list(found), [str(n) for n in found])
    ax.set_xlabel("items n")
    ax.set_ylabel("seconds per step, one thread")
    ax.legend(frameon=False, fontsize=9)
    return picture


# -- all figures --------------------------------------------------------------------------------


class Picture(NamedTuple):
    """A figure: its file name, the experiment it shows, the function that draws it, its title."""

    name: str
    experiment: str
    draw: Callable[[Results], Figure]
    title: str
    caption: str


PICTURES = (
    Picture(
        *("convergence", "convergence", draw_convergence, "Figure 1: convergence"),
        "Algorithm 1 from slightly different starts on the same data, with the paper's steps "
        "(above) and with the mean over pairs as objective (below).",
    ),
    Picture(
        *("separation", "separation", draw_separation, "Figure 2: separation of topics"),
        "Distances of random pairs of papers, by words and by n principal components.",
    ),
    Picture(
        *("map", "separation", draw_map, "Figure 3: a map of the papers"),
        "All papers by their first two principal components.",
    ),
    Picture(
        *("runtime", "complexity", draw_runtime),
        "Figure 4: Experiment 1, seconds against error",
        "Left as in the paper, with standard deviations; right: seconds against D. Where "
        "assembling the constraints takes time of its own, “+ extra” counts it too.",
    ),
    Picture(
        *("feature_space", "feature-space", draw_feature_space),
        "Figure 5: Experiment 2, graphs in place of images",
        "Accuracy of the nearest neighbour against the number of labelled images, with 95 % "
        "intervals.",
    ),
    Picture(
        *("semi_supervised", "semi-supervised", draw_semi_supervised),
        "Figure 6: Experiment 3, words and citations",
        "Accuracy of the nearest neighbour against the number of labelled papers, with 95 % "
        "intervals.",
    ),
    Picture(
        *("step_cost", "step-cost", draw_step_cost, "Not in the paper: what one step costs"),
        "Numbers read by a step of Algorithm 1, and its seconds, against n; R = 4 sources, on "
        "the line one.",
    ),
)


def pictures_of(results: Results) -> Iterator[Picture]:
    """Yield the figures that there are results for."""
    for picture in PICTURES:
        if results.has(picture.experiment):
            yield picture

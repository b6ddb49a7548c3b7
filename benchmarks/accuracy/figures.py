"""The figures of docs/accuracy.md."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.accuracy.data import CURVES, IMAGES, NETWORKS, generated_names
from benchmarks.accuracy.page import ORDER, REPEATED, TITLES, mean_accuracy
from benchmarks.accuracy.results import Results
from benchmarks.accuracy.run import METHODS, ON_CURVES, OURS
from metricmix.plots.style import PALETTE, panels, save_figure

HIGHLIGHT, OWN, OTHER = PALETTE[1], PALETTE[0], "#555555"
LABELS = {
    "links": "share of links between classes",
    "attributes": "share of items with the words of others",
}


def draw_accuracies(results: Results, path: Path) -> None:
    """Draw mean accuracies with standard errors, a panel per data set, the best method on top."""
    names = [*NETWORKS, *IMAGES]
    picture, axes = panels(2, 3, 11.0, 6.4)
    for one, data in zip(axes.ravel(), names, strict=False):
        means = {
            method: mean
            for method in ORDER
            if (mean := mean_accuracy(results, data, method, REPEATED[data])) is not None
        }
        ranked = sorted(means, key=lambda method: means[method].value)
        for y, method in enumerate(ranked):
            mean = means[method]
            own = METHODS[method].title.startswith("metricmix")
            colour = HIGHLIGHT if method == OURS else OWN if own else OTHER
            error = 0.0 if np.isnan(mean.error) else 100 * mean.error
            one.errorbar(
                100 * mean.value, y, xerr=error, fmt="o", color=colour, markersize=5, capsize=2.5
            )
        titles = [METHODS[method].title for method in ranked]
        one.set_yticks(range(len(ranked)), titles, fontsize=8)
        for label, method in zip(one.get_yticklabels(), ranked, strict=True):
            label.set_color(HIGHLIGHT if method == OURS else "#000000")
        count = max((mean.count for mean in means.values()), default=0)
        one.set_title(f"{TITLES[data]} ({count} splits)", loc="left", fontsize=10)
        one.set_xlabel("test accuracy, %", fontsize=8)
        one.tick_params(axis="x", labelsize=8)
        one.grid(axis="y", visible=False)
    for one in axes.ravel()[len(names) :]:
        one.set_visible(False)
    save_figure(picture, path)


def draw_curves(results: Results, path: Path) -> None:
    """Draw accuracy against how much links, and attributes, mislead."""
    picture, axes = panels(1, 2, 9.6, 3.8, sharey=True)
    styles = {OURS: (HIGHLIGHT, "o"), "logistic": (PALETTE[0], "s"), "spreading": (PALETTE[2], "^")}
    for one, curve in zip(axes.ravel(), CURVES, strict=True):
        for method in ON_CURVES:
            found = [
                (amount, mean)
                for data, amount in zip(generated_names(curve), CURVES[curve], strict=True)
                if (mean := mean_accuracy(results, data, method, "draw")) is not None
            ]
            if not found:
                continue
            colour, marker = styles.get(method, (OTHER, "D"))
            one.errorbar(
                [amount for amount, _ in found],
                [100 * mean.value for _, mean in found],
                yerr=[0.0 if np.isnan(mean.error) else 100 * mean.error for _, mean in found],
                color=colour,
                marker=marker,
                markersize=5,
                linewidth=2.2 if method == OURS else 1.2,
                capsize=2.5,
                zorder=3 if method == OURS else 2,
                label=METHODS[method].title,
            )
        one.set_xlabel(LABELS[curve])
        one.set_title(f"{curve} mislead", loc="left", fontsize=11)
    axes[0, 0].set_ylabel("test accuracy, %")
    if axes[0, 0].get_legend_handles_labels()[0]:
        axes[0, 0].legend(frameon=False, fontsize=9)
    save_figure(picture, path)

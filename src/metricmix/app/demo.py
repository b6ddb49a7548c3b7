"""The demo: one metric from six views of handwritten digits.

A view turns an image into a few numbers, such as the sums of its rows, and compares images by them.
No view is enough alone, two of them say little, and nobody says which. Ten images of each digit
have a label. The classifier with its default settings learns the weights of the views and labels
all other images. Equal weights and every view alone are given to the same classifier.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from metricmix.dissimilarity import DissimilarityStack, features
from metricmix.estimators.classifier import MetricMixtureClassifier
from metricmix.metric import MetricViolations, metric_violations
from metricmix.typing import Floats, Indices

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "CHOSEN",
    "EQUAL",
    "LEARNED",
    "Demo",
    "draw_demo",
    "mean_and_error",
    "run_demo",
    "views_of",
]

LEARNED, EQUAL, CHOSEN = "learned weights", "equal weights", "best view by the labels"


@dataclass(frozen=True)
class Demo:
    """The results of the demo.

    Attributes
    ----------
    accuracy : dict of method to (n_draws,) array
        Share of the unlabelled images with the right label: learned weights, equal weights, each
        view alone by its name, and the view that is best on the labels, when some are held out.
    weights : dict of view to (n_draws,) array
        The learned weights.
    violations : MetricViolations
        Of the learned metric of the first draw.
    chosen : str
        What the classifier chose in the first draw, and why.
    n_items, n_labelled : int
    """

    accuracy: dict[str, Floats]
    weights: dict[str, Floats]
    violations: MetricViolations
    chosen: str
    n_items: int
    n_labelled: int

    @property
    def views(self) -> list[str]:
        """The views, the most accurate one first."""
        return sorted(self.weights, key=lambda view: -float(self.accuracy[view].mean()))

    @property
    def n_draws(self) -> int:
        """How often images and labels were drawn."""
        return len(self.accuracy[LEARNED])

    def gain_over(self, method: str) -> tuple[float, float]:
        """Return how much more accurate learned weights are: mean and standard error, paired."""
        return mean_and_error(self.accuracy[LEARNED] - self.accuracy[method])


def mean_and_error(values: Floats) -> tuple[float, float]:
    """Return the mean and its standard error, which is NaN for a single value."""
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return float(values.mean()), float(error)


def views_of(images: Floats) -> dict[str, Floats]:
    """Return six views of images (n, 8, 8): tables with few columns, by name."""
    row, column = np.indices((8, 8))

    def sums(line: Indices) -> Floats:
        return np.stack([images[:, line == k].sum(axis=1) for k in np.unique(line)], axis=1)

    return {
        "rows": sums(row),
        "columns": sums(column),
        "falling diagonals": sums(column - row),
        "rising diagonals": sums(column + row),
        "amount of ink": images.sum(axis=(1, 2))[:, None],
        "roughness": np.abs(np.diff(images)).sum(axis=(1, 2))[:, None],
    }


def run_demo(
    *,
    n_items: int = 500,
    n_draws: int = 10,
    seed: int = 0,
    on_draw: Callable[[int], Any] = lambda draw: None,
) -> Demo:
    """Run the demo; `on_draw` is called with the number of finished draws.

    Examples
    --------
    >>> from metricmix.app.demo import run_demo
    >>> demo = run_demo(n_items=150, n_draws=1)
    >>> demo.n_labelled, demo.views[0]
    (100, 'rows')
    """
    from sklearn.datasets import load_digits

    images, digits = load_digits(return_X_y=True)
    accuracy: dict[str, list[float]] = {}
    weights: list[Floats] = []
    first: MetricMixtureClassifier | None = None
    per_class = 10  # labelled images of each digit
    for draw in range(n_draws):
        drawn = np.random.default_rng([seed, draw]).permutation(len(images))[:n_items]
        views, y = views_of(images[drawn].reshape(-1, 8, 8)), digits[drawn]
        stack = DissimilarityStack({view: features(table) for view, table in views.items()})
        known = np.full(n_items, -1)
        for digit in range(10):
            known[np.flatnonzero(y == digit)[:per_class]] = digit
        models = {LEARNED: MetricMixtureClassifier(stack)}
        models[EQUAL] = MetricMixtureClassifier(stack, objective=None)
        for view in views:
            models[view] = MetricMixtureClassifier(stack.select([view]), objective=None)
        for method, model in models.items():
            model.fit(np.arange(n_items), known)
            right = model.transduction_[known < 0] == y[known < 0]
            accuracy.setdefault(method, []).append(float(right.mean()))
        best = min(views, key=lambda view: float(models[view].selection_.loss.min()))
        accuracy.setdefault(CHOSEN, []).append(accuracy[best][draw])
        weights.append(models[LEARNED].weights_)
        first = first or models[LEARNED]
        on_draw(draw + 1)
    assert first is not None
    return Demo(
        {method: np.array(values) for method, values in accuracy.items()},
        dict(zip(first.stack_.names, np.transpose(weights), strict=True)),
        metric_violations(first.compute_metric()),
        str(first.selection_),
        n_items,
        int((known >= 0).sum()),
    )


ALONE, TOGETHER, MIXED = "#b0b0b0", "#E69F00", "#0072B2"
"""Colours: a view alone, equal weights, learned weights."""


def draw_demo(found: Demo, target: Path) -> Path:
    """Draw accuracies beside the learned weights, as PNG and SVG; return the path of the former.

    Bars are means over the draws, lines standard deviations.
    """
    from sklearn.datasets import load_digits

    from metricmix.plots import panels, save_figure

    colours = {LEARNED: MIXED, EQUAL: TOGETHER} | dict.fromkeys(found.views, ALONE)
    place = {name: -k - (1.0 if k > 1 else 0.0) for k, name in enumerate(colours)}
    picture, axes = panels(1, 2, 9.6, 4.0, width_ratios=(3, 2), sharey=True)
    left, right = axes[0]
    for name, colour in colours.items():
        values = 100 * found.accuracy[name]
        draw_bar(left, place[name], values, colour)
        end = values.mean() + values.std() + 1.5
        weight = "bold" if name == LEARNED else "normal"
        left.text(end, place[name], f"{values.mean():.0f} %", va="center", fontweight=weight)
    for view in found.views:
        draw_bar(right, place[view], found.weights[view], MIXED)
    captions = (
        (left, 1.0, "all views together"),
        (left, place[EQUAL] - 1.0, "one view alone"),
        (right, place[EQUAL] - 1.0, "how much each view counts, as learned"),
    )
    strip = right.inset_axes((0.0, 0.8, 1.0, 0.2))
    strip.imshow(np.hstack(load_digits().images[:10]), cmap="gray_r")
    strip.set_axis_off()
    for ax, at, text in captions:
        ax.text(0.0, at, text, va="center", fontsize=9, color="#555555")
    left.set_yticks(list(place.values()), list(place))
    left.set_xlim(0, 100)
    left.set_ylim(min(place.values()) - 0.6, 1.4)
    left.set_xlabel("unlabelled images with the right label, %")
    right.set_xlabel("learned weight")
    picture.suptitle(
        f"Handwritten digits, {found.n_labelled} of {found.n_items} labelled, "
        f"{found.n_draws} draws",
        x=0.01,
        ha="left",
        fontsize=11,
    )
    for ax in axes[0]:
        ax.grid(visible=False, axis="y")
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
    return save_figure(picture, target)[0]


def draw_bar(ax: Axes, at: float, values: Floats, colour: str) -> None:
    """Draw a bar of the mean, and the standard deviation as a line."""
    ax.barh(at, values.mean(), height=0.72, color=colour)
    ax.errorbar(values.mean(), at, xerr=values.std(), color="#333333", linewidth=1.2)

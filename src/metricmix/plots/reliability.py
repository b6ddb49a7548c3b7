"""Reliability diagrams: how well predicted probabilities are calibrated."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from metricmix.exceptions import InputError
from metricmix.learning.task import wilson_interval
from metricmix.plots.style import PALETTE, figure
from metricmix.typing import Floats, Indices
from metricmix.validation import as_float_array, check_integer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ReliabilityBins", "plot_reliability", "reliability_bins"]


def plot_reliability(
    y_true: ArrayLike, proba: ArrayLike, classes: ArrayLike, n_bins: int = 10
) -> Figure:
    r"""Return a reliability diagram: how often the predicted class is right, by its probability.

    Items are grouped into bins by the probability of the predicted class. Below the diagonal,
    predictions are overconfident. The title has the expected calibration error,

    .. math:: \mathrm{ECE} = \sum_b \frac{|b|}{M} \,
              \big| \mathrm{accuracy}(b) - \mathrm{confidence}(b) \big|

    and bars are 95 % intervals of the accuracies (Wilson's).

    Parameters
    ----------
    y_true : array of M labels
    proba : (M, C) array
        Class probabilities, as ``predict_proba`` gives them.
    classes : array of C labels
        Of the columns: ``model.classes_``.
    n_bins : int
        Bins of equal width between 1 / C, the smallest probability of a predicted class, and 1.

    Raises
    ------
    InputError
        If `proba` has another shape, or rows that are no probabilities.
    """
    bins = reliability_bins(y_true, proba, classes, n_bins)
    low, counts = float(bins.edges[0]), bins.counts[bins.counts > 0]
    error = float(counts @ np.abs(bins.accuracy - bins.confidence) / counts.sum())

    picture, axes = figure(width=5.0, height=5.4)
    places = picture.add_gridspec(2, 1, height_ratios=[3, 1])
    axes.set_subplotspec(places[0])
    bars = picture.add_subplot(places[1], sharex=axes)
    bars.spines[["top", "right"]].set_visible(False)
    bars.grid(color="#dddddd", linewidth=0.6, axis="y")
    bars.set_axisbelow(True)

    axes.plot(
        [low, 1.0], [low, 1.0], color="#555555", linestyle="--", linewidth=1.2, label="as promised"
    )
    span = wilson_interval(bins.accuracy, counts, 1.96)
    axes.vlines(bins.confidence, *span, color=PALETTE[0], linewidth=1.4, alpha=0.6)
    axes.plot(bins.confidence, bins.accuracy, "o-", color=PALETTE[0], linewidth=1.6, label="found")
    axes.legend(loc="lower right", frameon=False, fontsize=9)
    axes.set_ylabel("share that is right")
    axes.set_ylim(0.0, 1.03)
    axes.tick_params(labelbottom=False)
    axes.set_title(
        f"expected calibration error {error:.3f}, accuracy {bins.share_right:.3f}",
        loc="left",
        fontsize=11,
    )
    width = np.diff(bins.edges)
    drawn = bars.bar(bins.edges[:-1], bins.counts, 0.92 * width, align="edge", color=PALETTE[5])
    bars.bar_label(drawn, [str(c) if c else "" for c in bins.counts], fontsize=8, padding=1)
    bars.margins(y=0.25)
    bars.set_xlim(low - 0.02 * (1.0 - low), 1.0 + 0.02 * (1.0 - low))
    bars.set_xlabel("probability of the predicted class")
    bars.set_ylabel("items")
    return picture


class ReliabilityBins(NamedTuple):
    """Predictions by probability.

    Attributes
    ----------
    edges, counts : arrays of n_bins + 1 and n_bins values
    accuracy, confidence : arrays
        Share of correct predictions and mean probability of the bins that are not empty.
    share_right : float
        Accuracy over all items.
    """

    edges: Floats
    counts: Indices
    accuracy: Floats
    confidence: Floats
    share_right: float


def reliability_bins(
    y_true: ArrayLike, proba: ArrayLike, classes: ArrayLike, n_bins: int = 10
) -> ReliabilityBins:
    """Group predictions by the probability of the predicted class.

    Parameters are those of :func:`plot_reliability`.
    """
    labels, names = np.asarray(y_true), np.asarray(classes)
    p = as_float_array(proba, name="proba").astype(np.float64)
    if p.ndim != 2 or p.shape != (len(labels), len(names)) or p.size == 0:
        raise InputError(
            argument="proba",
            expected=(
                f"a row for each of the {len(labels)} labels and a column for each "
                f"of the {len(names)} classes"
            ),
            found=f"shape {p.shape}",
        )
    if not np.allclose(p.sum(axis=1), 1.0, atol=1e-6) or p.min() < 0:
        raise InputError(argument="proba", expected="probabilities, rows >= 0 that sum to 1")
    right, sure = names[p.argmax(axis=1)] == labels, p.max(axis=1)
    edges = np.linspace(1.0 / len(names), 1.0, check_integer(n_bins, name="n_bins", low=1) + 1)
    bins = np.clip(np.searchsorted(edges, sure, side="right") - 1, 0, n_bins - 1)
    counts = np.bincount(bins, minlength=n_bins)
    full = counts > 0
    accuracy = np.bincount(bins, right, minlength=n_bins)[full] / counts[full]
    confidence = np.bincount(bins, sure, minlength=n_bins)[full] / counts[full]
    return ReliabilityBins(edges, counts, accuracy, confidence, float(np.mean(right)))

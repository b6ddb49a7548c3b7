r"""What is measured of predictions: accuracies, and how good their probabilities are.

Items are grouped by the probability of the class that has the largest, into ten bins of equal width
between 1 / C and 1. Of bins b with n_b of the n items, of whose classes the share right_b is right,
and whose mean probability is sure_b,

.. math:: \mathrm{ECE} = \sum_b \frac{n_b}{n} \, |\mathrm{right}_b - \mathrm{sure}_b|.

The log loss is the mean of :math:`-\log \max(p, 0.001)`, p the probability of the true class.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.metrics import f1_score, recall_score

from metricmix.plots.reliability import reliability_bins

BINS, LEAST = 10, 0.001
"""Bins of the calibration error, and the smallest probability in the log loss."""


@dataclass(frozen=True, eq=False)
class Answer:
    """What a method predicts for all items, perhaps with probabilities (n, C) of sorted classes.

    `test` are the items it is measured on, if not all without a label.
    """

    labels: np.ndarray
    probabilities: np.ndarray | None = None
    classes: np.ndarray | None = None
    test: np.ndarray | None = None


def accuracy_of(answer: Answer, labels: np.ndarray, test: np.ndarray) -> dict[str, float]:
    """Return the accuracy alone."""
    test = test if answer.test is None else answer.test
    return {"accuracy": round(float((answer.labels == labels)[test].mean()), 5)}


def measures_of(answer: Answer, labels: np.ndarray, test: np.ndarray) -> dict[str, float]:
    """Return all measures, shares from 0 to 1; those of probabilities if there are any."""
    found = accuracy_of(answer, labels, test)
    test = test if answer.test is None else answer.test
    truth, predicted = labels[test], answer.labels[test]
    present = np.unique(truth)
    mean = {"labels": present, "average": "macro", "zero_division": 0}
    found["balanced"] = float(recall_score(truth, predicted, **mean))
    found["f1"] = float(f1_score(truth, predicted, **mean))
    if answer.probabilities is not None and answer.classes is not None:
        found |= calibration(answer.probabilities[test], answer.classes, truth)
    return {name: round(value, 5) for name, value in found.items()}


def calibration(
    probabilities: np.ndarray, classes: np.ndarray, truth: np.ndarray
) -> dict[str, float]:
    """Return calibration error, mean confidence minus accuracy, and log loss."""
    bins = reliability_bins(truth, probabilities, classes, BINS)
    shares = bins.counts[bins.counts > 0] / len(truth)
    of_truth = np.where(truth[:, None] == classes, probabilities, 0.0).sum(axis=1)
    return {
        "ece": float(shares @ np.abs(bins.accuracy - bins.confidence)),
        "gap": float(probabilities.max(axis=1).mean() - bins.share_right),
        "log_loss": float(-np.log(np.maximum(of_truth, LEAST)).mean()),
    }

r"""Labels or targets spread over a graph by PageRank."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from metricmix.dissimilarity.kept_rows import KeptRows
from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.predictors import (
    FEWER_FOLDS,
    N_FOLDS,
    Predicted,
    Predictor,
    Training,
)
from metricmix.dissimilarity.smoothing import pagerank_smoothed
from metricmix.typing import AnyArray, Floats, Indices

__all__ = ["LabelPropagation", "Spread"]

VALUES_AT_ONCE = 1 << 23
"""Values of PageRank between items and labels that are computed together: 64 MiB."""
PRECISION = 1e-6
"""To which PageRank is computed."""


@dataclass(frozen=True, eq=False)
class Spread:
    r"""Labels or targets to be spread to new nodes.

    Attributes
    ----------
    start : (n, k) array
        What is spread: of each labelled item 1 / the size of its class, in the column of its class;
        or 1 and :math:`y - \bar y`, of all others 0.
    mean, few : float
        :math:`\bar y` and :math:`\varepsilon` of :class:`LabelPropagation`, for targets.
    """

    start: Floats
    mean: float | None = None
    few: float = 0.0

    def predict(self, X: Floats) -> Floats:
        """Return the values of m nodes, from what of `start` reaches them, (m, k)."""
        if self.mean is not None:
            return np.asarray(self.mean + X[:, 1] / (np.maximum(X[:, 0], 0.0) + self.few))
        return shares(np.maximum(X, 0.0))


class LabelPropagation(Predictor):
    r"""Labels or targets spread over a graph by PageRank.

    .. math:: p_c(i) \propto \mathrm{mean}_{s \in c}\, P_{is}, \qquad
              f(i) = \bar y + \frac{\sum_s P_{is}\, (y_s - \bar y)}{\sum_s P_{is} + \varepsilon}

    P is the PageRank of the graph with a restart probability. Classes by their means, so that the
    numbers of labels do not count. Without its own label, a labelled item simply leaves the mean,
    with all labels of its group; where items times labels are more than 8 million, all labels of
    one of five folds do.

    For targets, :math:`\varepsilon` is a tenth of the mean of the sums: items that hardly any
    target reaches get the mean of all. For an item of known target, all targets of its fold leave
    the sums.

    Parameters
    ----------
    operator : (n, n) sparse array
        :math:`D^{-1/2} (A + I) D^{-1/2}`.
    restart : float
    n_folds : int
    """

    def __init__(self, operator: Any, restart: float = 0.1, n_folds: int = N_FOLDS) -> None:
        self.operator, self.restart, self.n = operator, restart, operator.shape[0]
        self.n_folds = n_folds
        self._columns = KeptRows(partial(columns_of_pagerank, operator, restart))
        self._between: Floats | None = None  # P between the items of a part

    def part(self, items: Indices, n_folds: int) -> LabelPropagation:
        """Return the predictor for some nodes of the graph."""
        small = copy(self)
        small.n, small._between = len(items), self.reached(items)[items]
        small.n_folds = min(n_folds, self.n_folds)
        return small

    def reached(self, items: Indices) -> Floats:
        """Return the columns of P that belong to some items, (n, L)."""
        if self._between is not None:
            return self._between[:, items]
        return self._columns(items).T

    def smoothed(self, start: AnyArray) -> Floats:
        """Return P times a table, to six digits."""
        return pagerank_smoothed(self.operator, start, self.restart, PRECISION)

    def predicted(self, training: Training, known: Known, choice: int | None) -> Predicted:
        """Return what is predicted of all nodes."""
        if not training.is_numeric:
            return Predicted(self.probabilities(training, known))
        _, mean, total, spread = self.sums(training)
        return Predicted(mean + spread / (total + few_of(total)))

    def fitted_model(self, training: Training, choice: int | None) -> Spread:
        """Return what new nodes need."""
        if training.is_numeric:
            own, mean, total, _ = self.sums(training)
            start = np.zeros((self.n, 2))
            start[training.items] = np.column_stack([own, own * (training.y - mean)])
            return Spread(start, mean, few_of(total))
        of_class = classes_of(training)
        start = np.zeros((self.n, training.n_classes))
        sizes = of_class.sum(axis=0)
        start[training.items] = of_class / np.where(sizes > 0, sizes, 1.0)
        return Spread(start)

    # -- targets -----------------------------------------------------------------------------------

    def sums(self, training: Training) -> tuple[Floats, float, Floats, Floats]:
        """Return weights, their mean target, and sums of P with and without targets, (n,) each."""
        items, y = training.items, training.y
        own = np.ones(len(y))
        if training.weights is not None:
            own = training.weights / training.weights.mean()
        mean = float(np.average(y, weights=own))
        reached = self.reached(items)
        folds = training.folds
        reached[items] = np.where(folds[:, None] == folds, 0.0, reached[items])
        return own, mean, reached @ own, reached @ (own * (y - mean))

    # -- classes -----------------------------------------------------------------------------------

    def probabilities(self, training: Training, known: Known) -> Floats:
        """Return the probabilities (n, C) of all items, labelled ones without their own label."""
        items, y = training.items, training.classes[training.y]
        of_class = classes_of(training)
        own = of_class[np.arange(len(y)), y]
        sizes = np.tile(of_class.sum(axis=0), (self.n, 1))
        if self._between is None and self.n * len(items) > VALUES_AT_ONCE:
            fewer = Training.of(known, None, FEWER_FOLDS)
            share = self.by_folds(fewer, of_class, sizes)
        else:
            reached = self.reached(items)
            if training.groups is None:
                reached[items, np.arange(len(items))] = 0.0
                sizes[items, y] -= own
            else:
                same = training.groups[:, None] == training.groups
                reached[items] = np.where(same, 0.0, reached[items])
                sizes[items] -= same @ of_class
            share = reached @ of_class
        none = sizes <= 1e-12 * own.sum()
        share /= np.where(none, 1.0, sizes)
        share[items[none[items, y]]] = 0.0  # nothing is known of its class without it
        return shares(share)

    def by_folds(self, training: Training, of_class: Floats, sizes: Floats) -> Floats:
        """Return the sums of P over each class, (n, C), for labelled items without their fold.

        Five columns of P a class instead of one a label, for graphs where these are too many.
        The labels of its fold also leave the `sizes` of an item.
        """
        share = np.zeros((self.n, of_class.shape[1]))
        of_fold = []
        for test in training.tests():
            items = training.items[test]
            start = np.zeros(share.shape, np.float32)
            start[items] = of_class[test]
            reached = np.maximum(self.smoothed(start), 0.0)
            share += reached
            sizes[items] -= of_class[test].sum(axis=0)
            of_fold.append((items, reached[items]))
        for items, own in of_fold:
            share[items] -= own
        return np.maximum(share, 0.0)


def columns_of_pagerank(operator: Any, restart: float, items: Indices) -> Floats:
    """Return the columns of P that belong to some items, in rows: (L, n)."""
    n = operator.shape[0]
    start = np.zeros((n, len(items)))
    start[items, np.arange(len(items))] = 1.0
    return np.maximum(pagerank_smoothed(operator, start, restart, PRECISION), 0.0).T


def classes_of(training: Training) -> Floats:
    """Return the weight of each labelled item in the column of its class, (L, C)."""
    own = np.zeros((len(training.y), training.n_classes))
    weights = 1.0 if training.weights is None else training.weights
    own[np.arange(len(own)), training.classes[training.y]] = weights
    return own


def shares(sums: Floats) -> Floats:
    """Return sums per class as probabilities; equal ones where no label reaches."""
    sums = sums + 1e-9
    return np.asarray(sums / sums.sum(axis=1, keepdims=True))


def few_of(total: Floats) -> float:
    """Return a tenth of the mean of the sums."""
    return 0.1 * max(float(total.mean()), 1e-12)

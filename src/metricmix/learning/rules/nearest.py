"""The rules "nearest" and "k-nearest": the items of known label or target that are nearest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from metricmix.learning.rules.rule import (
    CLASS_RULES,
    NUMBER_RULES,
    FittedRule,
    Rule,
    neighbour_weights,
    softmax,
    usable,
)
from metricmix.paths.neighbours import nearest_labelled, nearest_labels
from metricmix.paths.out_of_sample import NewItems
from metricmix.state import stored
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import check_choice, check_integer

__all__ = ["KNearest", "Nearest", "NearestMean"]

NEAREST_CLASSES = 16
"""Classes that the nearest rule distinguishes per item; those farther away have probability 0."""


@CLASS_RULES.register("nearest", words="class of the nearest labelled item")
@stored("Nearest")
@dataclass(frozen=True)
class Nearest(Rule):
    """Predict the class of the nearest labelled item."""

    name = "nearest"

    def search(self, fit: FittedRule) -> tuple[Floats, Indices]:
        """Return the nearest classes of every item: their distances and numbers."""
        k = min(len(np.unique(fit.y)), NEAREST_CLASSES)
        return nearest_labels(fit.lengths, fit.labelled, fit.y, k)

    def of_items(self, fit: FittedRule) -> Floats:
        """Return the class probabilities of all items."""
        return self.to_probabilities(*fit.distances, fit.n_classes)

    def of_new(self, fit: FittedRule, new: NewItems) -> Floats:
        """Return the class probabilities of new items."""
        nearest = new.nearest(fit.known.mask, fit.distances[0].shape[1], fit.distances)
        return self.to_probabilities(*nearest, fit.n_classes)

    def from_distances(
        self, d: Floats, y: AnyArray, within: Floats, n_classes: int, reach: Floats | None
    ) -> Floats:
        """Return the class probabilities of items from their distances to labelled items."""
        to_class = np.full((n_classes, len(d)), np.inf)
        np.minimum.at(to_class, y, d.T)
        classes = np.broadcast_to(np.arange(n_classes), (len(d), n_classes))
        return self.to_probabilities(to_class.T, classes, n_classes)

    def to_probabilities(self, distances: Floats, classes: Indices, n_classes: int) -> Floats:
        """Return exp(-d), each row divided by its sum, for `distances` (M, K) to some `classes`.

        The nearest class has the largest probability, also where rounding would make a tie.
        """
        d = np.full((len(distances), n_classes), np.inf)
        np.put_along_axis(d, classes, distances, axis=1)
        p = softmax(-d)
        rows, nearest = np.arange(len(d)), d.argmin(axis=1)
        tied = p.argmax(axis=1) != nearest
        p[rows[tied], nearest[tied]] = np.nextafter(p[tied].max(axis=1), 1.0)
        return p


@dataclass(frozen=True)
class Neighbours(Rule):
    """Base of the rules by the k nearest items of known label or target.

    Parameters
    ----------
    n_neighbors : int
        The number k; all such items, where there are fewer.
    weights : {"uniform", "distance"}
        Whether all count alike, or by 1 / distance; as in scikit-learn, only items at distance 0
        count where there are any.
    """

    n_neighbors: int = 5
    weights: str = "uniform"

    def __post_init__(self) -> None:
        check_integer(self.n_neighbors, name="n_neighbors", low=1)
        check_choice(self.weights, ("uniform", "distance"), name="weights")

    def answers(self, distances: Floats, y: AnyArray, n_classes: int) -> Floats:
        """Return the answers from neighbours at `distances` (M, k) with the values `y` (M, k)."""
        raise NotImplementedError

    def search(self, fit: FittedRule) -> tuple[Floats, Indices]:
        """Return the k nearest items of known value: their distances and numbers, (n, k) each."""
        k = min(self.n_neighbors, len(fit.labelled))
        return nearest_labelled(fit.lengths, None, fit.labelled, k)

    def of_items(self, fit: FittedRule) -> Floats:
        """Return the answers for all items."""
        distances, items = fit.distances
        return self.answers(distances, values_of(fit)[items], fit.n_classes)

    def of_new(self, fit: FittedRule, new: NewItems) -> Floats:
        """Return the answers for new items."""
        # Where every item has a label, the k nearest are found sooner than looked up.
        table = None if len(fit.labelled) == fit.known.n else fit.distances
        k = min(self.n_neighbors, len(fit.labelled))
        distances, items = new.nearest(fit.known.mask, k, table)
        return self.answers(distances, values_of(fit)[items], fit.n_classes)

    def from_distances(
        self, d: Floats, y: AnyArray, within: Floats, n_classes: int, reach: Floats | None
    ) -> Floats:
        """Return the answers for items from their distances to those of known value."""
        nearest = np.argsort(d, axis=1, kind="stable")[:, : min(self.n_neighbors, len(y))]
        near = np.take_along_axis(d, nearest, axis=1)
        return self.answers(near, usable(y)[nearest], n_classes)


@CLASS_RULES.register("k-nearest", words="votes of the k nearest labelled items")
@stored("KNearest")
@dataclass(frozen=True)
class KNearest(Neighbours):
    """Predict by the votes of the k nearest labelled items.

    Parameters
    ----------
    n_neighbors : int
        The number k; all labelled items, where there are fewer.
    weights : {"uniform", "distance"}
        Whether all votes are equal, or weighted by 1 / distance; as in
        :class:`~sklearn.neighbors.KNeighborsClassifier`, only items at distance 0 vote where there
        are any.

    Examples
    --------
    >>> import metricmix as mm
    >>> mm.MetricMixtureClassifier(rule=mm.estimators.KNearest(7, weights="distance"))
    MetricMixtureClassifier(rule=KNearest(n_neighbors=7, weights='distance'))
    """

    name = "k-nearest"

    def answers(self, distances: Floats, y: AnyArray, n_classes: int) -> Floats:
        """Return each class's share of the votes, (M, C).

        Of classes with equally many votes, that of the nearest item has the largest probability: a
        tie must not depend on what classes are called.
        """
        rows, shares = np.arange(len(y)), np.zeros((len(y), n_classes))
        votes = neighbour_weights(distances, self.weights)
        np.add.at(shares, (rows[:, None], y), votes)
        p = shares / shares.sum(axis=1, keepdims=True)
        most = p.max(axis=1)
        leading = p >= most[:, None] * (1.0 - 1e-12)
        nearest = y[rows, np.take_along_axis(leading, y, axis=1).argmax(axis=1)]
        tied = leading.sum(axis=1) > 1
        p[rows[tied], nearest[tied]] = np.nextafter(most[tied], 1.0)
        return np.asarray(p)


@NUMBER_RULES.register("k-nearest", words="mean target of the k nearest items", numeric=True)
@stored("NearestMean")
@dataclass(frozen=True)
class NearestMean(Neighbours):
    r"""Predict the mean target of the k nearest items of known target.

    .. math:: \hat y(x) = \sum_{s \in N_k(x)} v_s\, y_s \Big/ \sum_{s \in N_k(x)} v_s, \qquad
              v_s = 1 \text{ or } 1 / d(x, s)

    Parameters
    ----------
    n_neighbors : int
        The number k; all items of known target, where there are fewer.
    weights : {"uniform", "distance"}
        As in :class:`~sklearn.neighbors.KNeighborsRegressor`: only items at distance 0 count where
        there are any.

    Examples
    --------
    >>> import metricmix as mm
    >>> mm.MetricMixtureRegressor(rule=mm.estimators.NearestMean(7, weights="uniform"))
    MetricMixtureRegressor(rule=NearestMean(n_neighbors=7, weights='uniform'))
    """

    name = "k-nearest"
    is_numeric = True

    n_neighbors: int = 10
    weights: str = "distance"

    def answers(self, distances: Floats, y: AnyArray, n_classes: int) -> Floats:
        """Return the weighted means of the targets, (M,)."""
        weights = neighbour_weights(distances, self.weights)
        return np.asarray((weights * y).sum(axis=1) / weights.sum(axis=1))


def values_of(fit: FittedRule) -> AnyArray:
    """Return the class numbers or targets of all items, outliers clipped."""
    values = fit.known.values.copy()
    values[fit.labelled] = fit.y
    return np.asarray(values)

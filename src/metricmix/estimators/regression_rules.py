r"""Prediction rules for numeric targets: from the learned metric and known targets to numbers.

==================  ====================  ==========================================================
name                object                what is predicted for an item x
==================  ====================  ==========================================================
``"kernel-ridge"``  :class:`KernelRidge`  :math:`a + \sum_s c_s\, g_s(x)`, with the distances
                                          to items of known target, double-centred,
                                          :math:`g_s(x) = -\tfrac12 \big(d(x, s) - \bar d(x) -
                                          \bar d(s) + \bar d\big)`
``"k-nearest"``     :class:`NearestMean`  mean target of the k nearest items of known target
==================  ====================  ==========================================================

A rule object holds the settings of a rule and nothing else; :class:`FittedRegression` applies it to
a metric and its known targets. Far targets are moved in first
(:func:`~metricmix.dissimilarity.ridge.moved_in`), so that one wrong target does not reach all
items near it.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from metricmix.dissimilarity.ridge import moved_in, ridge_path
from metricmix.estimators.rules import (
    DistanceRule,
    check_reached,
    distances_to,
    neighbour_weights,
)
from metricmix.exceptions import InputError
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.paths.neighbours import nearest_labelled
from metricmix.paths.out_of_sample import NewItems
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import check_choice, check_integer, check_number

__all__ = [
    "REGRESSION_RULES",
    "FittedRegression",
    "KernelRidge",
    "NearestMean",
    "RegressionRule",
    "RidgeSmoother",
    "as_regression_rule",
]

NEGLIGIBLE = 1e-10
"""Eigenvalues up to this share of the largest are left out."""


class FittedRegression:
    """A rule applied to a metric and known targets; nothing is computed before it is needed.

    Parameters
    ----------
    rule : RegressionRule
    lengths : EdgeLengths
        The edge lengths of the metric.
    targets : (n,) array
        NaN where unknown.
    n_jobs : int, optional
        Threads.

    Attributes
    ----------
    labelled : (L,) array
        Items with a known target.
    y : (L,) array
        Their targets, outliers clipped.
    codes : (n,) array
        0 for these items, -1 for the others.
    """

    def __init__(
        self, rule: RegressionRule, lengths: EdgeLengths, targets: Floats, n_jobs: int | None = None
    ) -> None:
        self.rule, self.lengths, self.targets, self.n_jobs = rule, lengths, targets, n_jobs
        self.codes = np.where(np.isnan(targets), -1, 0)
        self.labelled = np.flatnonzero(self.codes >= 0)
        self.y = moved_in(targets[self.labelled])

    @cached_property
    def distances(self) -> tuple[Floats, Any]:
        """The distances that the rule needs, from its `search`; all of them finite."""
        found = self.rule.search(self)
        check_reached(found[0])
        return found

    @cached_property
    def of_items(self) -> Floats:
        """What is predicted for all items of the stack, (n,)."""
        return self.rule.item_values(self)

    def of_new(self, new: NewItems) -> Floats:
        """Return what is predicted for new items, (M,)."""
        return self.rule.new_values(self, new)


@dataclass(frozen=True)
class RegressionRule(DistanceRule):
    """Base of the rules for numbers: how a target follows from distances."""

    @abstractmethod
    def item_values(self, fit: FittedRegression) -> Floats:
        """Return what is predicted for all items of the stack, (n,)."""

    @abstractmethod
    def new_values(self, fit: FittedRegression, new: NewItems) -> Floats:
        """Return what is predicted for new items, (M,)."""

    @abstractmethod
    def from_distances(self, d: Floats, y: Floats, within: Floats) -> Floats:
        """Return what is predicted for items from their distances to those of known target.

        Parameters
        ----------
        d : (M, L) array
            Distances from M items to the L ones of known target.
        y : (L,) array
            The targets.
        within : (L, L) array
            Distances between these.
        """


@dataclass(frozen=True)
class NearestMean(RegressionRule):
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

    n_neighbors: int = 10
    weights: str = "distance"

    def __post_init__(self) -> None:
        check_integer(self.n_neighbors, name="n_neighbors", low=1)
        check_choice(self.weights, ("uniform", "distance"), name="weights")

    def search(self, fit: FittedRegression) -> tuple[Floats, Indices]:
        """Return the k nearest items of known target of every item: their distances and numbers."""
        k = min(self.n_neighbors, len(fit.labelled))
        return nearest_labelled(fit.lengths, None, fit.labelled, k)

    def item_values(self, fit: FittedRegression) -> Floats:
        """Return what is predicted for all items."""
        return self.mean(*fit.distances, self.everyone(fit))

    def new_values(self, fit: FittedRegression, new: NewItems) -> Floats:
        """Return what is predicted for new items."""
        # Where every target is known, the k nearest are found sooner than looked up.
        table = None if len(fit.labelled) == len(fit.codes) else fit.distances
        k = min(self.n_neighbors, len(fit.labelled))
        return self.mean(*new.nearest(fit.codes >= 0, k, table), self.everyone(fit))

    def from_distances(self, d: Floats, y: Floats, within: Floats) -> Floats:
        """Return what is predicted for items from their distances to those of known target."""
        nearest = np.argsort(d, axis=1, kind="stable")[:, : min(self.n_neighbors, len(y))]
        return self.mean(np.take_along_axis(d, nearest, axis=1), nearest, y)

    def everyone(self, fit: FittedRegression) -> Floats:
        """Return the targets of all items, NaN where unknown, outliers clipped."""
        y = np.full(len(fit.codes), np.nan)
        y[fit.labelled] = fit.y
        return y

    def mean(self, distances: Floats, items: Indices, y: Floats) -> Floats:
        """Return the mean of the targets of `items` (M, k), at `distances` (M, k)."""
        weights = neighbour_weights(distances, self.weights)
        return np.asarray((weights * y[items]).sum(axis=1) / weights.sum(axis=1))


@dataclass(frozen=True)
class KernelRidge(RegressionRule):
    r"""Predict by ridge regression in the feature space of the metric.

    .. math:: \min_{a, c} \; \lVert y - a - G c \rVert^2 + \lambda\, c^\top G c, \qquad
              G_{st} = -\tfrac12 \big( d(s, t) - \bar d(s) - \bar d(t) + \bar d \big)

    over the items s, t of known target, bars being means over them. For metrics of negative type,
    such as Euclidean distances, differences of numbers, angles and their mixtures with weights
    >= 0, G is positive semi-definite; else its negative eigenvalues are left out. G is divided by
    its mean diagonal.

    Parameters
    ----------
    penalty : float, optional
        :math:`\lambda`. Default: of 22 values from 0.0001 to 1000 the one with the smallest
        leave-one-out error (:func:`~metricmix.dissimilarity.ridge.ridge_path`), without refits.
    n_anchors : int
        Most items s that distances are compared to. Of more items of known target so many are
        drawn, and span the feature space (Nyström); all targets count. Distances to them are kept,
        n numbers each.
    """

    name = "kernel-ridge"

    penalty: float | None = None
    n_anchors: int = 2000

    def __post_init__(self) -> None:
        if self.penalty is not None:
            check_number(self.penalty, name="penalty", low=0.0, open_low=True)
        check_integer(self.n_anchors, name="n_anchors", low=2)

    def anchors(self, n_known: int) -> Indices:
        """Return which of the items of known target are anchors."""
        if n_known <= self.n_anchors:
            return np.arange(n_known)
        return np.sort(np.random.default_rng(0).choice(n_known, self.n_anchors, replace=False))

    def search(self, fit: FittedRegression) -> tuple[AnyArray, RidgeSmoother]:
        """Return the distances from every item to the anchors, (n, A), and the fitted model."""
        anchors = self.anchors(len(fit.labelled))
        d = distances_to(fit.lengths, fit.labelled[anchors], fit.n_jobs)
        own = d[fit.labelled].astype(np.float64, copy=False)
        return d, RidgeSmoother(own, own[anchors], fit.y, self.penalty)

    def item_values(self, fit: FittedRegression) -> Floats:
        """Return what is predicted for all items."""
        d, model = fit.distances
        assert isinstance(model, RidgeSmoother)
        return model.predict(d)

    def new_values(self, fit: FittedRegression, new: NewItems) -> Floats:
        """Return what is predicted for new items."""
        d, model = fit.distances
        assert isinstance(model, RidgeSmoother)
        return model.predict(new.distances(d))

    def from_distances(self, d: Floats, y: Floats, within: Floats) -> Floats:
        """Return what is predicted for items from their distances to those of known target."""
        anchors = self.anchors(len(y))
        own = within[:, anchors]
        return RidgeSmoother(own, own[anchors], y, self.penalty).predict(d[:, anchors])


class RidgeSmoother:
    """Kernel ridge regression on distances to anchors, fitted.

    Parameters
    ----------
    d : (L, A) array
        Distances from the items of known target to the anchors.
    within : (A, A) array
        Distances between the anchors.
    y : (L,) array
        The targets.
    penalty : float, optional
        Default: chosen by leave-one-out.

    Attributes
    ----------
    penalty : float
    leave_one_out : (L,) array
        What is predicted for each of these items without its own target.
    """

    def __init__(self, d: Floats, within: Floats, y: Floats, penalty: float | None = None) -> None:
        self.to_anchors, self.overall = within.mean(axis=0), float(within.mean())
        gram = self.centred(within)
        self.scale = float(np.trace(gram)) / len(gram) or 1.0
        values, vectors = np.linalg.eigh((gram + gram.T) / (2.0 * self.scale))
        kept = values > NEGLIGIBLE * max(float(values[-1]), 1e-300)
        # Features of an item are its kernel values with the anchors times this.
        basis = vectors[:, kept] / np.sqrt(values[kept])
        features = self.centred(d) / self.scale @ basis
        fit = ridge_path(features, y, penalty)
        self.penalty, self.leave_one_out = fit.penalty, fit.held_out
        self.intercept, self.coefficients = fit.intercept, basis @ fit.coefficients

    def centred(self, d: AnyArray) -> Floats:
        """Return the kernel values of items with the anchors, from their distances."""
        return np.asarray(
            -0.5 * (d - d.mean(axis=1, keepdims=True) - self.to_anchors + self.overall)
        )

    def predict(self, d: AnyArray) -> Floats:
        """Return what is predicted for items at distances `d` (M, A) from the anchors."""
        return np.asarray(self.intercept + self.centred(d) / self.scale @ self.coefficients)


REGRESSION_RULES: dict[str, type[RegressionRule]] = {
    rule.name: rule for rule in (KernelRidge, NearestMean)
}


def as_regression_rule(rule: str | RegressionRule, *, name: str = "rule") -> RegressionRule:
    """Return a rule by its name, with default settings; a rule object as it is.

    >>> as_regression_rule("k-nearest")
    NearestMean(n_neighbors=10, weights='distance')
    """
    if isinstance(rule, RegressionRule):
        return rule
    if not isinstance(rule, str) or rule not in REGRESSION_RULES:
        known = ", ".join(map(repr, REGRESSION_RULES))
        raise InputError(
            argument=name,
            expected=f"'auto', {known}, or a rule such as NearestMean(5)",
            found=f"{rule!r}",
        )
    return REGRESSION_RULES[rule]()

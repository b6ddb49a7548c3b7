"""The rule "kernel-ridge": ridge regression in the feature space of the metric."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from metricmix.dissimilarity.kernel_ridge import ridge_path
from metricmix.learning.rules.rule import NUMBER_RULES, FittedRule, Rule, distances_to, usable
from metricmix.paths.out_of_sample import NewItems
from metricmix.state import stored
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import check_integer, check_number

__all__ = ["KernelRidge", "RidgeSmoother"]


@NUMBER_RULES.register(
    "kernel-ridge",
    words="ridge regression in the feature space of the metric",
    default=True,
    numeric=True,
)
@stored("KernelRidge")
@dataclass(frozen=True)
class KernelRidge(Rule):
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
        leave-one-out error, found without refits
        (:func:`~metricmix.dissimilarity.kernel_ridge.ridge_path`).
    n_anchors : int
        Most items s that distances are compared to. Of more items of known target so many are
        drawn, and span the feature space (Nyström); all targets count. Distances to them are kept,
        n numbers each.
    """

    name = "kernel-ridge"
    is_numeric = True

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

    def search(self, fit: FittedRule) -> tuple[AnyArray, RidgeSmoother]:
        """Return the distances from every item to the anchors, (n, A), and the fitted model."""
        anchors = self.anchors(len(fit.labelled))
        d = distances_to(fit.lengths, fit.labelled[anchors], fit.n_jobs)
        own = d[fit.labelled].astype(np.float64, copy=False)
        return d, RidgeSmoother(own, own[anchors], fit.y, self.penalty)

    def of_items(self, fit: FittedRule) -> Floats:
        """Return what is predicted for all items."""
        d, model = fit.distances
        assert isinstance(model, RidgeSmoother)
        return model.predict(d)

    def of_new(self, fit: FittedRule, new: NewItems) -> Floats:
        """Return what is predicted for new items."""
        d, model = fit.distances
        assert isinstance(model, RidgeSmoother)
        return model.predict(new.distances(d))

    def from_distances(
        self, d: Floats, y: AnyArray, within: Floats, n_classes: int, reach: Floats | None
    ) -> Floats:
        """Return what is predicted for items from their distances to those of known target."""
        anchors = self.anchors(len(y))
        own = within[:, anchors]
        return RidgeSmoother(own, own[anchors], usable(y), self.penalty).predict(d[:, anchors])


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
    """

    def __init__(self, d: Floats, within: Floats, y: Floats, penalty: float | None = None) -> None:
        self.to_anchors, self.overall = within.mean(axis=0), float(within.mean())
        gram = self.centred(within)
        self.scale = float(np.trace(gram)) / len(gram) or 1.0
        values, vectors = np.linalg.eigh((gram + gram.T) / (2.0 * self.scale))
        kept = values > 1e-10 * max(float(values[-1]), 1e-300)
        # Features of an item are its kernel values with the anchors times this.
        basis = vectors[:, kept] / np.sqrt(values[kept])
        features = self.centred(d) / self.scale @ basis
        fit = ridge_path(features, y, penalty)
        self.penalty = fit.penalty
        self.intercept, self.coefficients = fit.intercept, basis @ fit.coefficients

    def centred(self, d: AnyArray) -> Floats:
        """Return the kernel values of items with the anchors, from their distances."""
        return np.asarray(
            -0.5 * (d - d.mean(axis=1, keepdims=True) - self.to_anchors + self.overall)
        )

    def predict(self, d: AnyArray) -> Floats:
        """Return what is predicted for items at distances `d` (M, A) from the anchors."""
        return np.asarray(self.intercept + self.centred(d) / self.scale @ self.coefficients)

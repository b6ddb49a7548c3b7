"""The rule "spreading": labels spread over the neighbour graph of the metric."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from metricmix.exceptions import InputError
from metricmix.learning.rules.nearest import Nearest
from metricmix.learning.rules.rule import CLASS_RULES, FittedRule, Rule
from metricmix.paths.neighbours import kneighbors
from metricmix.paths.out_of_sample import NewItems
from metricmix.state import stored
from metricmix.typing import Floats, Indices
from metricmix.validation import check_integer, check_number

__all__ = ["Spreading"]


@CLASS_RULES.register("spreading", words="labels spread over the neighbour graph")
@stored("Spreading")
@dataclass(frozen=True)
class Spreading(Rule):
    r"""Spread labels over the k-nearest-neighbour graph of the metric.

    Neighbours at distance d have the similarity :math:`e^{-(d / \sigma)^2}`, with :math:`\sigma`
    the median distance to the k-th neighbour; :class:`sklearn.semi_supervised.LabelSpreading` does
    the rest. Items without a path to a label in that graph get the class of the nearest labelled
    item.

    Parameters
    ----------
    n_neighbors : int
        Neighbours of each item; at most n - 1.
    alpha : float in ]0, 1[
        How much an item takes from its neighbours.
    """

    name = "spreading"

    n_neighbors: int = 5
    alpha: float = 0.8

    def __post_init__(self) -> None:
        check_integer(self.n_neighbors, name="n_neighbors", low=1)
        if not 0.0 < check_number(self.alpha, name="alpha") < 1.0:
            raise InputError(
                argument="alpha", expected="a number > 0 and < 1", found=f"{self.alpha!r}"
            )

    def search(self, fit: FittedRule) -> tuple[Floats, Indices]:
        """Return the k nearest items of every item: their distances and numbers."""
        k = min(self.n_neighbors, fit.known.n - 1)
        return kneighbors(fit.lengths, None, k, n_jobs=fit.n_jobs)

    def of_items(self, fit: FittedRule) -> Floats:
        """Return the class probabilities of all items."""
        from scipy.sparse import csr_matrix
        from sklearn.semi_supervised import LabelSpreading

        distances, items = fit.distances
        n, k = items.shape
        similarity = self.similarities(fit, distances).ravel()
        graph = csr_matrix((similarity, items.ravel(), np.arange(0, n * k + 1, k)), (n, n))
        graph = graph.maximum(graph.T)
        model = LabelSpreading(kernel=lambda _X, _Y: graph, alpha=self.alpha, max_iter=10_000)
        model.fit(np.arange(n)[:, None], fit.known.values)
        p = np.zeros((n, fit.n_classes))
        p[:, model.classes_] = model.label_distributions_
        unreached = ~(p.sum(axis=1) > 0)
        if unreached.any():
            nearest = FittedRule(Nearest(), fit.lengths, fit.known, fit.n_jobs)
            p[unreached] = nearest.unweighted[unreached]
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    def of_new(self, fit: FittedRule, new: NewItems) -> Floats:
        """Return the class probabilities of new items: the weighted mean over their neighbours."""
        everyone = np.ones(fit.known.n, dtype=bool)
        distances, items = new.nearest(everyone, fit.distances[1].shape[1])
        # Relative to the nearest neighbour: an item far from all of them would have similarity 0.
        similarity = self.similarities(fit, distances - distances[:, :1])
        p = np.einsum("mk,mkc->mc", similarity, fit.unweighted[items])
        known = new.same >= 0
        p[known] = fit.unweighted[new.same[known]]
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    def similarities(self, fit: FittedRule, distances: Floats) -> Floats:
        """Return the similarities of items at these distances, at least 1e-12."""
        sigma = float(np.median(fit.distances[0][:, -1])) or 1.0
        return np.asarray(np.maximum(np.exp(-np.square(distances / sigma)), 1e-12))

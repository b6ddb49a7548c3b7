r"""Prediction rules: from the learned metric and the labelled items to class probabilities.

================  ================================================================================
``"nearest"``     the class of the nearest labelled item (the paper);
                  :math:`p_c \propto e^{-d_c}` with :math:`d_c` the distance to class c
``"k-nearest"``   votes of the k nearest labelled items, equal or by :math:`1 / d`
``"class-mean"``  :math:`p_c \propto e^{-s_c}` with the distance to the mean of a class
                  :math:`s_c(x) = \mathrm{mean}_{i \in c}\, d(x, i)
                  - \tfrac12 \mathrm{mean}_{i, j \in c}\, d(i, j)`
``"spreading"``   labels spread over the graph of nearest neighbours in the metric
================  ================================================================================

Each rule answers for all items of the stack at once, and for new items joined to them. Nearest
labels come from one search that starts at all labelled items together, class means from one
shortest-path tree per labelled item: never one search per unlabelled item.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from metricmix.exceptions import InputError
from metricmix.mixture.edge_lengths import EdgeLengths, lengths_of
from metricmix.objectives.class_means import class_mean_scores, half_means
from metricmix.paths.dijkstra import dijkstra
from metricmix.paths.neighbours import kneighbors, nearest_labelled, nearest_labels
from metricmix.paths.out_of_sample import NewItems
from metricmix.paths.trees import distances_from
from metricmix.typing import Floats, Indices
from metricmix.validation import check_choice, check_integer, check_number

__all__ = [
    "RULES",
    "ClassMean",
    "KNearest",
    "Nearest",
    "Rule",
    "Spreading",
    "by_distance_to_class",
    "check_rule",
    "judge",
    "make_rule",
    "softmax",
    "votes",
]


NEAREST_CLASSES = 16
"""Classes that the nearest rule tells apart for an item; those farther away have probability 0."""
BANDWIDTH = 1.0
"""Width of the spreading kernel, in median distances to the last of the k neighbours."""


class Rule(ABC):
    """A prediction rule over a metric, for C classes.

    Parameters
    ----------
    lengths : EdgeLengths
        What the metric is made of.
    codes : (n,) array
        Class numbers 0 .. C - 1; -1 for unlabelled items.
    n_classes : int
    """

    name: ClassVar[str]

    def __init__(
        self, lengths: EdgeLengths, codes: Indices, n_classes: int, *, n_jobs: int | None = None
    ) -> None:
        self.lengths, self.codes, self.n_classes = lengths, codes, n_classes
        self.labelled = np.flatnonzero(codes >= 0)
        self.n_jobs = n_jobs

    @cached_property
    @abstractmethod
    def members(self) -> Floats:
        """Class probabilities of all items of the stack, (n, C)."""

    @abstractmethod
    def of(self, new: NewItems) -> Floats:
        """Return the class probabilities of new items, (M, C)."""


class Nearest(Rule):
    """The class of the nearest labelled item."""

    name = "nearest"

    @cached_property
    def table(self) -> tuple[Floats, Indices]:
        """The nearest classes of every item: their distances and numbers."""
        codes = self.codes[self.labelled]
        k = min(len(np.unique(codes)), NEAREST_CLASSES)
        return nearest_labels(self.lengths, self.labelled, codes, k)

    @cached_property
    def members(self) -> Floats:
        """Class probabilities of all items."""
        return self._probabilities(*self.table)

    def of(self, new: NewItems) -> Floats:
        """Return the class probabilities of new items."""
        distances, classes = new.nearest(self.codes >= 0, self.table[0].shape[1], self.table)
        return self._probabilities(distances, classes)

    def _probabilities(self, distances: Floats, classes: Indices) -> Floats:
        d = np.full((len(distances), self.n_classes), np.inf)
        np.put_along_axis(d, classes, distances, axis=1)
        return by_distance_to_class(d)


class KNearest(Rule):
    """Votes of the k nearest labelled items (of all of them, where there are fewer)."""

    name = "k-nearest"

    def __init__(self, *args: Any, k: int, by_distance: bool, **options: Any) -> None:
        super().__init__(*args, **options)
        self.k = min(k, len(self.labelled))
        self.by_distance = by_distance

    @cached_property
    def table(self) -> tuple[Floats, Indices]:
        """The k nearest labelled items of every item: their distances and numbers."""
        return nearest_labelled(self.lengths, None, self.labelled, self.k)

    @cached_property
    def members(self) -> Floats:
        """Class probabilities of all items."""
        return votes(*self.table, self.codes, self.n_classes, self.by_distance)

    def of(self, new: NewItems) -> Floats:
        """Return the class probabilities of new items."""
        # Where every item has a label, the k nearest are found sooner than looked up.
        table = None if len(self.labelled) == len(self.codes) else self.table
        nearest = new.nearest(self.codes >= 0, self.k, table)
        return votes(*nearest, self.codes, self.n_classes, self.by_distance)


class ClassMean(Rule):
    """The class whose mean is nearest, the mean being taken in the metric."""

    name = "class-mean"

    @cached_property
    def to_labelled(self) -> Floats:
        """Distances from every item to the labelled ones, (n, L)."""
        lengths = self.lengths
        if not lengths.directed:
            return np.ascontiguousarray(
                distances_from(lengths, self.labelled, n_jobs=self.n_jobs).T
            )
        formed = lengths.formed(n_jobs=self.n_jobs)
        if formed.plain and formed.block is not None:  # distances to are distances from, reversed
            reverse = lengths_of(formed.block[0].T, directed=True)
            return distances_from(reverse, self.labelled, n_jobs=self.n_jobs).T.copy()
        roots = self.labelled[:, None]
        trees = [dijkstra(formed, root, reverse=True).distances for root in roots]
        return np.stack(trees, axis=1)

    @cached_property
    def within(self) -> Floats:
        """Half of the mean distance within each class, (C,)."""
        codes = self.codes[self.labelled]
        return half_means(self.to_labelled[self.labelled], codes, self.n_classes)

    @cached_property
    def members(self) -> Floats:
        """Class probabilities of all items."""
        return softmax(-self.scores(self.to_labelled))

    def of(self, new: NewItems) -> Floats:
        """Return the class probabilities of new items."""
        return softmax(-self.scores(new.distances(self.to_labelled)))

    def scores(self, d: Floats) -> Floats:
        """Return the scores (M, C) of items at distances `d` (M, L) from the labelled ones."""
        return class_mean_scores(d, self.codes[self.labelled], self.n_classes, self.within)


class Spreading(Rule):
    r"""Labels spread over the k-nearest-neighbour graph of the metric.

    Neighbours at distance d are tied by :math:`e^{-(d / \sigma)^2}`, with :math:`\sigma` the median
    distance to the k-th neighbour; :class:`sklearn.semi_supervised.LabelSpreading` does the rest.
    Items from which no label can be reached over the graph take the class of the nearest one.
    """

    name = "spreading"

    def __init__(self, *args: Any, k: int, alpha: float, **options: Any) -> None:
        super().__init__(*args, **options)
        self.k = min(k, len(self.codes) - 1)
        self.alpha = alpha

    @cached_property
    def neighbours(self) -> tuple[Floats, Indices]:
        """The k nearest items of every item: their distances and numbers."""
        return kneighbors(self.lengths, None, self.k, n_jobs=self.n_jobs)

    @cached_property
    def sigma(self) -> float:
        """Width of the kernel."""
        return BANDWIDTH * float(np.median(self.neighbours[0][:, -1])) or 1.0

    @cached_property
    def members(self) -> Floats:
        """Class probabilities of all items."""
        from scipy.sparse import csr_matrix
        from sklearn.semi_supervised import LabelSpreading

        distances, items = self.neighbours
        n = len(items)
        ties = self._ties(distances).ravel()
        graph = csr_matrix((ties, items.ravel(), np.arange(0, n * self.k + 1, self.k)), (n, n))
        graph = graph.maximum(graph.T)
        model = LabelSpreading(kernel=lambda _X, _Y: graph, alpha=self.alpha, max_iter=10_000)
        model.fit(np.arange(n)[:, None], self.codes)
        p = np.zeros((n, self.n_classes))
        p[:, model.classes_] = model.label_distributions_
        lost = ~(p.sum(axis=1) > 0)
        if lost.any():
            nearest = Nearest(self.lengths, self.codes, self.n_classes, n_jobs=self.n_jobs)
            p[lost] = nearest.members[lost]
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    def of(self, new: NewItems) -> Floats:
        """Return the class probabilities of new items: those of their neighbours, averaged."""
        everyone = np.ones(len(self.codes), dtype=bool)
        distances, items = new.nearest(everyone, self.k)
        ties = self._ties(distances - distances[:, :1])  # far from all: the nearest count most
        p = np.einsum("mk,mkc->mc", ties, self.members[items])
        known = new.same >= 0
        p[known] = self.members[new.same[known]]
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    def _ties(self, distances: Floats) -> Floats:
        return np.asarray(np.maximum(np.exp(-np.square(distances / self.sigma)), 1e-12))


RULES = ("class-mean", "k-nearest", "nearest", "spreading")
VOTES = ("uniform", "distance")


def check_rule(name: str, n_neighbors: int, vote: str, alpha: float) -> None:
    """Raise InputError unless there is such a rule."""
    check_choice(name, RULES, name="rule")
    check_integer(n_neighbors, name="n_neighbors", low=1)
    check_choice(vote, VOTES, name="vote")
    if not 0.0 < check_number(alpha, name="alpha") < 1.0:
        raise InputError(argument="alpha", expected="a number > 0 and < 1", found=f"{alpha!r}")


def make_rule(
    name: str,
    lengths: EdgeLengths,
    codes: Indices,
    n_classes: int,
    *,
    n_neighbors: int,
    vote: str,
    alpha: float,
    n_jobs: int | None = None,
) -> Rule:
    """Return the rule called `name`; it computes nothing before it is asked."""
    check_rule(name, n_neighbors, vote, alpha)
    given = (lengths, codes, n_classes)
    if name == "nearest":
        return Nearest(*given, n_jobs=n_jobs)
    if name == "class-mean":
        return ClassMean(*given, n_jobs=n_jobs)
    if name == "k-nearest":
        return KNearest(*given, k=n_neighbors, by_distance=vote == "distance", n_jobs=n_jobs)
    return Spreading(*given, k=n_neighbors, alpha=alpha, n_jobs=n_jobs)


# -- from distances to class probabilities ------------------------------------------------------


def judge(
    rule: str,
    d: Floats,
    codes: Indices,
    n_classes: int,
    *,
    k: int,
    by_distance: bool,
    within: Floats,
) -> Floats:
    """Return what a rule makes of distances `d` (M, L) to labelled items of classes `codes` (L,).

    For all rules but "spreading"; `within` (L, L) are the distances between the labelled items. So
    rules are compared on the same shortest paths.
    """
    if rule == "class-mean":
        scores = class_mean_scores(d, codes, n_classes, half_means(within, codes, n_classes))
        return softmax(-scores)
    if rule == "nearest":
        to_class = np.full((n_classes, len(d)), np.inf)
        np.minimum.at(to_class, codes, d.T)
        return by_distance_to_class(to_class.T)
    k = min(k, len(codes))
    nearest = np.argsort(d, axis=1, kind="stable")[:, :k]
    return votes(np.take_along_axis(d, nearest, axis=1), nearest, codes, n_classes, by_distance)


def by_distance_to_class(d: Floats) -> Floats:
    """Return exp(-d), each row divided by its sum; the nearest class has the largest share.

    Where distances are so small that rounding would make shares equal, it has a hair more.
    """
    p = softmax(-d)
    rows, nearest = np.arange(len(d)), d.argmin(axis=1)
    tied = p.argmax(axis=1) != nearest
    p[rows[tied], nearest[tied]] = np.nextafter(p[tied].max(axis=1), 1.0)
    return p


def votes(
    distances: Floats, items: Indices, codes: Indices, n_classes: int, by_distance: bool
) -> Floats:
    """Return the share of the votes of `items` (M, k), at `distances`, that each class has."""
    weights = np.ones_like(distances)
    if by_distance:  # as in scikit-learn: at distance 0, only such items have a vote
        zero = distances <= 0.0
        weights = np.where(zero, 1.0, 1.0 / np.where(zero, 1.0, distances))
        weights = np.where(zero.any(axis=1, keepdims=True), zero, weights)
    shares = np.zeros((len(items), n_classes))
    np.add.at(shares, (np.arange(len(items))[:, None], codes[items]), weights)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def softmax(scores: Floats) -> Floats:
    """Return exp(scores), each row divided by its sum."""
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(p / p.sum(axis=1, keepdims=True))

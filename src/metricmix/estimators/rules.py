r"""Prediction rules: from the learned metric and the labelled items to class probabilities.

================  ==================  ============================================================
name              object              class probabilities of an item x
================  ==================  ============================================================
``"class-mean"``  :class:`ClassMean`  :math:`p_c \propto e^{-s_c}`, with the distance to the mean of
                                      a class :math:`s_c(x) = \mathrm{mean}_{i \in c}\, d(x, i)
                                      - \tfrac12 \mathrm{mean}_{i, j \in c}\, d(i, j)`
``"logistic"``    :class:`Logistic`   multinomial logistic regression on the distances to the
                                      labelled items, double-centred
``"nearest"``     :class:`Nearest`    the class of the nearest labelled item (the paper);
                                      :math:`p_c \propto e^{-d_c}`, :math:`d_c` the distance to
                                      class c
``"k-nearest"``   :class:`KNearest`   votes of the k nearest labelled items
``"spreading"``   :class:`Spreading`  labels spread over the neighbour graph of the metric
================  ==================  ============================================================

A rule object holds the settings of a rule and nothing else. :class:`FittedRule` applies it to a
metric and its labelled items: to all items of the stack at once, and to new items joined to them.
Nearest labels come from one search that starts at all labelled items together, class means from one
shortest-path tree per labelled item: never one search per unlabelled item.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from metricmix.exceptions import InputError
from metricmix.mixture.edge_lengths import EdgeLengths, lengths_of
from metricmix.objectives.class_means import (
    class_mean_scores,
    class_offsets,
    half_means,
    held_out_scores,
    label_shares,
    with_single_labels,
)
from metricmix.paths.all_pairs import closure_pays
from metricmix.paths.dijkstra import dijkstra
from metricmix.paths.neighbours import kneighbors, nearest_labelled, nearest_labels
from metricmix.paths.out_of_sample import NewItems
from metricmix.paths.sparse_rows import distances_in_blocks
from metricmix.paths.trees import distances_from
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import check_choice, check_integer, check_number

__all__ = [
    "RULES",
    "ClassMean",
    "DistanceRule",
    "FittedRule",
    "KNearest",
    "Logistic",
    "Nearest",
    "Rule",
    "Spreading",
    "as_rule",
    "distances_to",
    "neighbour_weights",
]

CERTAIN, GUESSED = 80, 0.3
"""Unlabelled items of each class that join the labelled ones in self-training; their weight."""
ROUNDS_OF_PRIORS = 100
SINGLE_BEYOND = 1 << 26
"""Distances to labelled items, over sparse edges, beyond which they are kept as float32."""
ROWS_AT_ONCE = 1 << 16
"""Items whose distances are made float64 together."""
NEAREST_CLASSES = 16
"""Classes that the nearest rule distinguishes per item; those farther away have probability 0."""


class FittedRule:
    """A rule applied to a metric and its labelled items; nothing is computed before it is needed.

    Parameters
    ----------
    rule : Rule
    lengths : EdgeLengths
        The edge lengths of the metric.
    codes : (n,) array
        Class numbers 0 .. C - 1; -1 for unlabelled items.
    n_classes : int
    n_jobs : int, optional
        Threads.
    """

    def __init__(
        self,
        rule: Rule,
        lengths: EdgeLengths,
        codes: Indices,
        n_classes: int,
        n_jobs: int | None = None,
    ) -> None:
        self.rule, self.lengths, self.codes, self.n_classes = rule, lengths, codes, n_classes
        self.labelled = np.flatnonzero(codes >= 0)
        self.n_jobs = n_jobs
        self.factors: Floats | None = None  # what class priors multiply probabilities by

    @cached_property
    def distances(self) -> tuple[Floats, Any]:
        """The distances that the rule needs, from :meth:`Rule.search`; all of them finite."""
        found = self.rule.search(self)
        check_reached(found[0])
        return found

    @cached_property
    def probabilities(self) -> Floats:
        """Class probabilities of all items of the stack, (n, C)."""
        return self.rule.item_probabilities(self)

    def new_probabilities(self, new: NewItems) -> Floats:
        """Return the class probabilities of new items, (M, C)."""
        return self.rule.new_probabilities(self, new)

    @property
    def of_items(self) -> Floats:
        """What the rule says of all items of the stack: their class probabilities."""
        return self.probabilities

    def of_new(self, new: NewItems) -> Floats:
        """Return what the rule says of new items: their class probabilities."""
        return self.new_probabilities(new)


@dataclass(frozen=True)
class DistanceRule(ABC):
    """Base of all prediction rules, for classes and for numbers.

    A rule is immutable and has no state; what it computes for a fit is kept by a
    :class:`FittedRule`.
    """

    name: ClassVar[str]
    """What the parameter ``rule`` of an estimator calls this rule with its default settings."""

    @abstractmethod
    def search(self, fit: Any) -> tuple[Floats, Any]:
        """Return the distances that the other methods need, and what they belong to."""


@dataclass(frozen=True)
class Rule(DistanceRule):
    """Base of the rules for classes: how class probabilities follow from distances."""

    @abstractmethod
    def item_probabilities(self, fit: FittedRule) -> Floats:
        """Return the class probabilities of all items of the stack, (n, C)."""

    @abstractmethod
    def new_probabilities(self, fit: FittedRule, new: NewItems) -> Floats:
        """Return the class probabilities of new items, (M, C)."""

    def from_distances(
        self,
        d: Floats,
        codes: Indices,
        n_classes: int,
        within: Floats,
        reach: Floats | None = None,
    ) -> Floats:
        """Return the class probabilities (M, C) of items from their distances to labelled items.

        This lets rules be compared on the same shortest paths. Not for :class:`Spreading`, which
        needs the distances to unlabelled items too.

        Parameters
        ----------
        d : (M, L) array
            Distances from M items to the labelled ones.
        codes : (L,) array
            Classes of the labelled items.
        n_classes : int
        within : (L, L) array
            Distances between the labelled items.
        reach : (L,) array, optional
            Mean distances of all items to the labelled ones; default: those of the M items.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class ClassMean(Rule):
    r"""Predict the class whose mean, taken in the metric, is nearest.

    .. math:: s_c(x) = \mathrm{mean}_{i \in c}\, d(x, i) - h_c, \qquad
              h_c = \tfrac12 \mathrm{mean}_{i, j \in c}\, d(i, j) + b_c, \qquad
              p_c \propto \pi_c\, e^{-s_c}

    The distances of all items to the L labelled ones are kept, n L numbers: over sparse edges in
    single precision beyond 2²⁶ of them, to about six digits.

    Parameters
    ----------
    offsets : bool, keyword only
        Whether the offsets :math:`b_c` are fitted to the labelled items, each held out in turn
        (:func:`metricmix.objectives.class_means.class_offsets`); they make up for classes that are
        more scattered than others; for classes of a single label, whose scatter is unknown, see
        :func:`metricmix.objectives.class_means.with_single_labels`. Else 0. Classifiers with
        ``rule="auto"`` fit them.
    priors : None, "labels", "estimated" or sequence of C numbers, keyword only
        The shares :math:`\pi_c` of the classes, in the order of `classes_`. None: equal here; those
        of the labels in :class:`Logistic`. "labels": those of the labels and ten more labels of
        every class, as far as the scores do not decide
        (:func:`metricmix.objectives.class_means.label_shares`); they are a part of :math:`h_c`, and
        those of classifiers with ``rule="auto"``. "estimated": the shares that the probabilities of
        the unlabelled items themselves add up to, by expectation maximisation [1]_.

    References
    ----------
    .. [1] M. Saerens, P. Latinne, C. Decaestecker: Adjusting the outputs of a classifier to new a
       priori probabilities, Neural Computation 14, 2002.
    """

    name = "class-mean"

    offsets: bool = field(default=False, kw_only=True)
    priors: tuple[float, ...] | str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.priors is None or self.priors in ("labels", "estimated"):
            return
        given = () if isinstance(self.priors, str) else self.priors
        shares = tuple(float(share) for share in given)
        if len(shares) < 2 or not all(0.0 < share < np.inf for share in shares):
            raise InputError(
                argument="priors",
                expected="None, 'labels', 'estimated' or a positive share for each class",
                found=f"{self.priors!r}",
            )
        object.__setattr__(self, "priors", shares)

    def search(self, fit: FittedRule) -> tuple[AnyArray, Floats]:
        """Return the distances from every item to the labelled ones, (n, L), and h_c, (C,).

        Over sparse edges in single precision where these are more than 2²⁶ numbers.
        """
        labelled = fit.labelled
        to_labelled = distances_to(fit.lengths, labelled, fit.n_jobs)
        reach = to_labelled.mean(axis=0, dtype=np.float64)
        half = self.halves(to_labelled[labelled], fit.codes[labelled], fit.n_classes, reach)
        return to_labelled, half

    def halves(self, within: Floats, codes: Indices, n_classes: int, reach: Floats) -> Floats:
        """Return h_c, (C,), from the distances between the labelled items, (L, L).

        `reach` are the mean distances of all items to the labelled ones, (L,).
        """
        half = half_means(within, codes, n_classes)
        if not self.shifts_classes:
            return half
        held_out = held_out_scores(within, codes, n_classes)
        if self.offsets:
            offsets = class_offsets(held_out, codes)
            half = with_single_labels(half + offsets, codes, reach)
            held_out = held_out - offsets
        if self.priors == "labels":
            half = half + label_shares(held_out, codes)
        return half

    @property
    def shifts_classes(self) -> bool:
        """Whether h_c is more than half of the mean distance within a class."""
        return self.offsets or self.priors == "labels"

    def item_probabilities(self, fit: FittedRule) -> Floats:
        """Return the class probabilities of all items."""
        p = self.predict(fit, fit.distances[0])
        fit.factors = self.prior_factors(p[fit.codes < 0], fit.codes[fit.labelled])
        return reweighted(p, fit.factors)

    def new_probabilities(self, fit: FittedRule, new: NewItems) -> Floats:
        """Return the class probabilities of new items."""
        if self.priors == "estimated":
            _ = fit.probabilities  # the shares are those of the unlabelled items of the fit
        else:
            fit.factors = self.prior_factors(np.empty((0, fit.n_classes)), fit.codes[fit.labelled])
        return reweighted(self.predict(fit, new.distances(fit.distances[0])), fit.factors)

    def from_distances(
        self,
        d: Floats,
        codes: Indices,
        n_classes: int,
        within: Floats,
        reach: Floats | None = None,
    ) -> Floats:
        """Return the class probabilities of items from their distances to labelled items."""
        half = self.halves(within, codes, n_classes, d.mean(axis=0) if reach is None else reach)
        p = softmax(-class_mean_scores(d, codes, n_classes, half))
        return reweighted(p, self.prior_factors(p, codes))

    def predict(self, fit: FittedRule, d: Floats) -> Floats:
        """Return the probabilities (M, C), priors aside, of items at distances `d` (M, L)."""
        return softmax(-self.scores(fit, d))

    def scores(self, fit: FittedRule, d: Floats) -> Floats:
        """Return the scores (M, C) of items at distances `d` (M, L) from the labelled ones."""
        about = (fit.codes[fit.labelled], fit.n_classes, fit.distances[1])
        if d.dtype == np.float64:
            return class_mean_scores(d, *about)
        parts = (d[start : start + ROWS_AT_ONCE] for start in range(0, len(d), ROWS_AT_ONCE))
        return np.concatenate([class_mean_scores(part, *about) for part in parts])

    def prior_factors(self, p: Floats, codes: Indices) -> Floats | None:
        """Return the factors on probabilities, (C,), that account for the priors; or None.

        `p` are the probabilities of the unlabelled items, `codes` the labels.
        """
        if self.priors is None or self.priors == "labels":  # these are in h_c
            return None
        C = p.shape[1]
        implied = self.implied_priors(codes, C)
        if not isinstance(self.priors, str):
            if len(self.priors) != C:
                raise InputError(
                    argument="priors", expected=f"{C} shares, one per class", found=len(self.priors)
                )
            return np.asarray(np.array(self.priors) / implied)
        shares = np.maximum(implied, 1e-12)
        for _ in range(ROUNDS_OF_PRIORS if len(p) else 0):
            last = shares
            shares = reweighted(p, shares / implied).mean(axis=0)
            if np.abs(shares - last).max() < 1e-6:
                break
        return np.asarray(np.maximum(shares, 1e-12) / implied)

    def implied_priors(self, codes: Indices, n_classes: int) -> Floats:
        """Return the prior class shares that the rule implies."""
        return np.full(n_classes, 1.0 / n_classes)


@dataclass(frozen=True)
class Logistic(ClassMean):
    r"""Predict by a multinomial logistic regression on the double-centred distances.

    .. math:: g_s(x) = -\tfrac12 \big( d(x, s) - \bar d(x) - \bar d(s) + \bar d \big), \qquad
              p_c \propto e^{w_c \cdot g(x) + b_c}

    over the labelled items s, bars being means over them. Were d a squared Euclidean distance, g
    would be the products with the labelled items. Unlike the class mean it follows classes that are
    wide or have several parts.

    Parameters
    ----------
    C : float
        Inverse strength of the penalty; g is scaled to unit mean square length.
    self_training : int
        Rounds in which the unlabelled items that the model is most certain of (80 of each class, at
        most a quarter of all) join the labelled ones, at weight 0.3 each.
    priors
        As in :class:`ClassMean`.
    """

    name = "logistic"

    C: float = 1.0
    self_training: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.offsets:
            raise InputError("logistic regression fits its own", argument="offsets")
        check_number(self.C, name="C", low=0.0, open_low=True)
        check_integer(self.self_training, name="self_training", low=0)

    def predict(self, fit: FittedRule, d: Floats) -> Floats:
        """Return the probabilities (M, C), priors aside, of items at distances `d` (M, L)."""
        everyone = fit.distances[0]
        within = everyone[fit.labelled].astype(np.float64, copy=False)
        others = everyone[fit.codes < 0] if self.self_training else within[:0]
        return self.probabilities(d, fit.codes[fit.labelled], fit.n_classes, within, others)

    def from_distances(
        self,
        d: Floats,
        codes: Indices,
        n_classes: int,
        within: Floats,
        reach: Floats | None = None,
    ) -> Floats:
        """Return the class probabilities of items from their distances to labelled items."""
        p = self.probabilities(d, codes, n_classes, within, d)
        return reweighted(p, self.prior_factors(p, codes))

    def probabilities(
        self, d: Floats, codes: Indices, n_classes: int, within: Floats, others: Floats
    ) -> Floats:
        """Return the probabilities (M, C), priors aside; `others` (U, L) are unlabelled items."""
        from sklearn.linear_model import LogisticRegression

        to_items, overall = within.mean(axis=0), float(within.mean())

        def centred(d: Floats) -> Floats:
            return np.asarray(-0.5 * (d - d.mean(axis=1, keepdims=True) - to_items + overall))

        g = centred(within)
        scale = float(np.sqrt(np.square(g).sum(axis=1).mean())) or 1.0
        p = np.zeros((len(d), n_classes))
        known = np.unique(codes)
        if len(known) < 2:
            p[:, known] = 1.0
            return p
        model = LogisticRegression(C=self.C, max_iter=1000, tol=1e-4)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(g / scale, codes)
            more = centred(others) / scale if self.self_training else others
            for _ in range(self.self_training if len(others) else 0):
                guess = model.predict_proba(more)
                taken, label = most_certain(guess, min(CERTAIN, max(1, len(others) // 4)))
                rows = np.concatenate([g / scale, more[taken]])
                weights = np.concatenate([np.ones(len(codes)), np.full(len(taken), GUESSED)])
                model.fit(rows, np.concatenate([codes, model.classes_[label]]), weights)
        step = max(1, len(d) if d.dtype == np.float64 else ROWS_AT_ONCE)
        for start in range(0, len(d), step):
            some = slice(start, start + step)
            p[some, model.classes_] = model.predict_proba(centred(d[some]) / scale)
        return p

    def implied_priors(self, codes: Indices, n_classes: int) -> Floats:
        """Return the shares of the labels."""
        return np.asarray(np.maximum(np.bincount(codes, minlength=n_classes), 1e-12) / len(codes))


@dataclass(frozen=True)
class Nearest(Rule):
    """Predict the class of the nearest labelled item."""

    name = "nearest"

    def search(self, fit: FittedRule) -> tuple[Floats, Indices]:
        """Return the nearest classes of every item: their distances and numbers."""
        codes = fit.codes[fit.labelled]
        k = min(len(np.unique(codes)), NEAREST_CLASSES)
        return nearest_labels(fit.lengths, fit.labelled, codes, k)

    def item_probabilities(self, fit: FittedRule) -> Floats:
        """Return the class probabilities of all items."""
        return self.to_probabilities(*fit.distances, fit.n_classes)

    def new_probabilities(self, fit: FittedRule, new: NewItems) -> Floats:
        """Return the class probabilities of new items."""
        nearest = new.nearest(fit.codes >= 0, fit.distances[0].shape[1], fit.distances)
        return self.to_probabilities(*nearest, fit.n_classes)

    def from_distances(
        self,
        d: Floats,
        codes: Indices,
        n_classes: int,
        within: Floats,
        reach: Floats | None = None,
    ) -> Floats:
        """Return the class probabilities of items from their distances to labelled items."""
        to_class = np.full((n_classes, len(d)), np.inf)
        np.minimum.at(to_class, codes, d.T)
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
class KNearest(Rule):
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

    n_neighbors: int = 5
    weights: str = "uniform"

    def __post_init__(self) -> None:
        check_integer(self.n_neighbors, name="n_neighbors", low=1)
        check_choice(self.weights, ("uniform", "distance"), name="weights")

    def search(self, fit: FittedRule) -> tuple[Floats, Indices]:
        """Return the k nearest labelled items of every item: their distances and numbers."""
        k = min(self.n_neighbors, len(fit.labelled))
        return nearest_labelled(fit.lengths, None, fit.labelled, k)

    def item_probabilities(self, fit: FittedRule) -> Floats:
        """Return the class probabilities of all items."""
        return self.votes(*fit.distances, fit.codes, fit.n_classes)

    def new_probabilities(self, fit: FittedRule, new: NewItems) -> Floats:
        """Return the class probabilities of new items."""
        # Where every item has a label, the k nearest are found sooner than looked up.
        table = None if len(fit.labelled) == len(fit.codes) else fit.distances
        k = min(self.n_neighbors, len(fit.labelled))
        nearest = new.nearest(fit.codes >= 0, k, table)
        return self.votes(*nearest, fit.codes, fit.n_classes)

    def from_distances(
        self,
        d: Floats,
        codes: Indices,
        n_classes: int,
        within: Floats,
        reach: Floats | None = None,
    ) -> Floats:
        """Return the class probabilities of items from their distances to labelled items."""
        k = min(self.n_neighbors, len(codes))
        nearest = np.argsort(d, axis=1, kind="stable")[:, :k]
        return self.votes(np.take_along_axis(d, nearest, axis=1), nearest, codes, n_classes)

    def votes(self, distances: Floats, items: Indices, codes: Indices, n_classes: int) -> Floats:
        """Return each class's share of the votes of `items` (M, k), at `distances` (M, k)."""
        weights = neighbour_weights(distances, self.weights)
        shares = np.zeros((len(items), n_classes))
        np.add.at(shares, (np.arange(len(items))[:, None], codes[items]), weights)
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))


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
        k = min(self.n_neighbors, len(fit.codes) - 1)
        return kneighbors(fit.lengths, None, k, n_jobs=fit.n_jobs)

    def item_probabilities(self, fit: FittedRule) -> Floats:
        """Return the class probabilities of all items."""
        from scipy.sparse import csr_matrix
        from sklearn.semi_supervised import LabelSpreading

        distances, items = fit.distances
        n, k = items.shape
        similarity = self.similarities(fit, distances).ravel()
        graph = csr_matrix((similarity, items.ravel(), np.arange(0, n * k + 1, k)), (n, n))
        graph = graph.maximum(graph.T)
        model = LabelSpreading(kernel=lambda _X, _Y: graph, alpha=self.alpha, max_iter=10_000)
        model.fit(np.arange(n)[:, None], fit.codes)
        p = np.zeros((n, fit.n_classes))
        p[:, model.classes_] = model.label_distributions_
        unreached = ~(p.sum(axis=1) > 0)
        if unreached.any():
            nearest = FittedRule(Nearest(), fit.lengths, fit.codes, fit.n_classes, fit.n_jobs)
            p[unreached] = nearest.probabilities[unreached]
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    def new_probabilities(self, fit: FittedRule, new: NewItems) -> Floats:
        """Return the class probabilities of new items: the weighted mean over their neighbours."""
        everyone = np.ones(len(fit.codes), dtype=bool)
        distances, items = new.nearest(everyone, fit.distances[1].shape[1])
        # Relative to the nearest neighbour: an item far from all of them would have similarity 0.
        similarity = self.similarities(fit, distances - distances[:, :1])
        p = np.einsum("mk,mkc->mc", similarity, fit.probabilities[items])
        known = new.same >= 0
        p[known] = fit.probabilities[new.same[known]]
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    def similarities(self, fit: FittedRule, distances: Floats) -> Floats:
        """Return the similarities of items at these distances, at least 1e-12."""
        sigma = float(np.median(fit.distances[0][:, -1])) or 1.0
        return np.asarray(np.maximum(np.exp(-np.square(distances / sigma)), 1e-12))


RULES: dict[str, type[Rule]] = {
    rule.name: rule for rule in (ClassMean, KNearest, Logistic, Nearest, Spreading)
}


def as_rule(rule: str | Rule, *, name: str = "rule") -> Rule:
    """Return a rule by its name, with default settings; a rule object as it is.

    `name` is what an :class:`~metricmix.exceptions.InputError` calls anything else.

    >>> as_rule("k-nearest")
    KNearest(n_neighbors=5, weights='uniform')
    """
    if isinstance(rule, Rule):
        return rule
    if not isinstance(rule, str) or rule not in RULES:
        raise InputError(
            argument=name,
            expected=f"one of {', '.join(map(repr, RULES))}, or a rule such as KNearest(5)",
            found=f"{rule!r}",
        )
    return RULES[rule]()


def distances_to(lengths: EdgeLengths, items: Indices, n_jobs: int | None = None) -> AnyArray:
    """Return the distances from every item of a stack to some of them, (n, L); all finite.

    Over sparse edges in single precision where these are more than 2²⁶ numbers.
    """
    formed = lengths.formed(n_jobs=n_jobs) if lengths.directed else lengths
    found: AnyArray
    if lengths.edges is not None and not closure_pays(lengths, len(items)):
        single = lengths.n * len(items) > SINGLE_BEYOND
        found = np.empty((lengths.n, len(items)), "f4" if single else "f8")
        for some, rows in distances_in_blocks(
            lengths, items, reverse=lengths.directed, n_jobs=n_jobs
        ):
            found[:, some] = rows.T
    elif not lengths.directed:
        found = distances_from(lengths, items, n_jobs=n_jobs).T
    elif formed.plain and formed.block is not None:  # distances to: distances from, reversed
        reverse = lengths_of(formed.block[0].T, directed=True)
        found = distances_from(reverse, items, n_jobs=n_jobs).T
    else:
        trees = [dijkstra(formed, root, reverse=True).distances for root in items[:, None]]
        found = np.stack(trees, axis=1)
    found = np.ascontiguousarray(found)
    check_reached(found)
    return found


def neighbour_weights(distances: Floats, weights: str) -> Floats:
    """Return how much neighbours at these distances (M, k) count: all alike, or by 1 / distance.

    Only items at distance 0 count where there are any.
    """
    if weights == "uniform":
        return np.ones_like(distances)
    zero = distances <= 0.0
    by_distance = np.where(zero, 1.0, 1.0 / np.where(zero, 1.0, distances))
    return np.where(zero.any(axis=1, keepdims=True), zero, by_distance)


def check_reached(d: AnyArray) -> None:
    """Raise if a distance that a rule needs is infinite: over sparse edges there may be no path."""
    if np.isinf(d.max(initial=0.0)):
        item = int(np.isinf(d).any(axis=1).argmax())
        raise InputError(
            argument="stack",
            expected="edges that join all items",
            found=f"no path from item number {item} to others that the rule needs",
            remedy="add bridging edges, as bridge= of EdgeStack.from_matrices does",
        )


def softmax(scores: Floats) -> Floats:
    """Return exp(scores), each row divided by its sum."""
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def reweighted(p: Floats, factors: Floats | None) -> Floats:
    """Return probabilities times a factor for each class, each row divided by its sum."""
    if factors is None:
        return p
    weighted = p * factors
    return np.asarray(weighted / np.maximum(weighted.sum(axis=1, keepdims=True), 1e-300))


def most_certain(p: Floats, k: int) -> tuple[Indices, Indices]:
    """Return up to k items of each class with the highest probabilities, and their classes."""
    label, sure = p.argmax(axis=1), p.max(axis=1)
    taken = []
    for c in range(p.shape[1]):
        own = np.flatnonzero(label == c)
        taken.append(own[np.argsort(-sure[own], kind="stable")[:k]])
    items = np.concatenate(taken)
    return items, label[items]

"""The classifier: learn the metric, then label items by a rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted, column_or_1d

from metricmix.estimators.base import MixtureEstimator, all_or_nothing, make_objective
from metricmix.estimators.inputs import FeatureInput, Input
from metricmix.estimators.labels import encode, is_unlabelled
from metricmix.estimators.rules import Rule, check_rule, make_rule
from metricmix.exceptions import InputError
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.objectives.base import Objective
from metricmix.typing import Floats
from metricmix.validation import check_choice

if TYPE_CHECKING:
    from metricmix.estimators.comparison import Comparison
    from metricmix.estimators.explanation import Explanation

__all__ = ["MetricMixtureClassifier"]

NEW_ITEMS = ("attached", "augmented")


class MetricMixtureClassifier(ClassifierMixin, MixtureEstimator):
    r"""Classify items by one metric learned from many dissimilarities.

    Unlabelled items (-1; among texts "" or "-1") take part in the metric and get a label too:
    `transduction_`.

    Parameters
    ----------
    sources, objective, rho, shrink_to, beta, constraint, scaling, projection
        As in :class:`MetricMixture`.
    rule : {"class-mean", "nearest", "k-nearest", "spreading"}
        How a label follows from distances; see :mod:`metricmix.estimators.rules`.
    n_neighbors : int
        For the last two rules; at most as many as there are.
    vote : {"uniform", "distance"}
        Whether nearer neighbours count more, by 1 / distance (``rule="k-nearest"``).
    alpha : float in ]0, 1[
        How much an item takes from its neighbours (``rule="spreading"``).
    new_items : {"attached", "augmented"}
        How items that were not in the fit are labelled. "attached": joined to the items of the fit,
        which stay as they are. "augmented", as in the paper, for feature tables: all sources are
        computed anew with the item added, one item at a time. Both give the same distances from a
        new item where sources compare two items only; they differ for sources that look at all
        items, such as ``knn_path_length``.
    method, max_iter, solver_options, random_state, n_jobs, verbose
        As in :class:`MetricMixture`.

    Attributes
    ----------
    classes_ : array
    transduction_ : (n,) array
        The label of every item of `stack_`: its own, or that of the rule.
    mixture_, weights_, result_, n_iter_, stack_
        As in :class:`MetricMixture`.

    Examples
    --------
    Thirty labels, and two ways to compare digits; the 1767 others are unlabelled:

    >>> import numpy as np, metricmix as mm
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> known = np.where(np.arange(len(y)) < 30, y, -1)
    >>> paths = mm.dissimilarity.knn_path_length(k=8)
    >>> model = mm.MetricMixtureClassifier(sources=["cosine", paths]).fit(X, known)
    >>> model.stack_.names
    ('cosine', 'knn_path_length')
    >>> bool(np.mean(model.transduction_ == y) > 0.85)
    True
    """

    def __init__(
        self,
        sources: Any = "precomputed",
        *,
        objective: str | Objective | Any = "class-means",
        rule: str = "class-mean",
        n_neighbors: int = 5,
        vote: str = "uniform",
        alpha: float = 0.8,
        new_items: str = "attached",
        rho: float | None = None,
        shrink_to: str = "equal",
        beta: float = 1.0,
        constraint: str | None = None,
        scaling: str | ArrayLike | None = "mean",
        projection: bool = False,
        method: str = "full",
        max_iter: int | None = None,
        solver_options: Mapping[str, Any] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.sources = sources
        self.objective = objective
        self.rule = rule
        self.n_neighbors = n_neighbors
        self.vote = vote
        self.alpha = alpha
        self.new_items = new_items
        self.rho = rho
        self.shrink_to = shrink_to
        self.beta = beta
        self.constraint = constraint
        self.scaling = scaling
        self.projection = projection
        self.method = method
        self.max_iter = max_iter
        self.solver_options = solver_options
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> MetricMixtureClassifier:
        """Learn the weights, and label the unlabelled items.

        Parameters
        ----------
        X : as `sources` says
        y : array of n labels
            -1 (among texts: "" or "-1") marks items without a label.
        """
        check_choice(self.new_items, NEW_ITEMS, name="new_items")
        check_rule(self.rule, self.n_neighbors, self.vote, self.alpha)
        with all_or_nothing(self):
            opened = self._open(X, y)
            return self._fit_opened(opened, *encode(self, y))

    def _fit_opened(
        self, opened: Input, classes: NDArray[Any], given: NDArray[np.int64]
    ) -> MetricMixtureClassifier:
        """Fit to items that have been opened, `given` being the class numbers of X."""
        self.classes_ = classes
        self._codes = np.full(opened.stack.n_items, -1)
        self._codes[opened.samples] = given
        self._learn(opened, make_objective(self, self._codes, self.classes_))
        self._rule = self._make_rule(self._lengths(), self._codes)
        labels = self._codes.copy()
        open_items = labels < 0
        if open_items.any():
            labels[open_items] = self._rule.members[open_items].argmax(axis=1)
        self.transduction_ = self.classes_[labels]
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return the class probabilities of the items X, (M, C), in the order of `classes_`."""
        check_is_fitted(self)
        members = self._input.members(X)
        if members is not None:
            return self._rule.members[members]
        if self.new_items == "augmented":
            return self._augmented(X)
        blocks = self._input.blocks(self, X)
        return np.concatenate([self._rule.of(self._join_rows(rows)) for rows in blocks])

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the labels of the items X."""
        check_is_fitted(self)
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    def explain(self, i: Any = None, *, X: Any = None, k: int = 3) -> Explanation:
        """Return why item `i` of the stack, or one new row X, has its label.

        See :func:`metricmix.estimators.explanation.explain`.
        """
        from metricmix.estimators.explanation import explain

        return explain(self, i, X=X, k=k)

    def compare(
        self,
        *,
        n_splits: int = 5,
        n_repeats: int = 1,
        random_state: Any = 0,
        on_fold: Callable[[int, int], None] | None = None,
    ) -> Comparison:
        """Return what learning is worth on held-out labels, beside equal weights and each source.

        See :func:`metricmix.estimators.comparison.compare`.
        """
        from metricmix.estimators.comparison import compare

        dealing: Any = {"n_splits": n_splits, "n_repeats": n_repeats, "random_state": random_state}
        return compare(self, **dealing, on_fold=on_fold)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of the items X that get their label y; unlabelled ones do not count."""
        found, labels = self.predict(X), column_or_1d(y)
        known = ~is_unlabelled(labels)
        if not known.any():
            raise InputError(
                argument="y", expected="labelled items to score, found every item unlabelled"
            )
        weights = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(accuracy_score(labels[known], found[known], sample_weight=weights))

    def _make_rule(self, lengths: EdgeLengths, codes: NDArray[np.int64]) -> Rule:
        return make_rule(
            self.rule,
            lengths,
            codes,
            len(self.classes_),
            n_neighbors=self.n_neighbors,
            vote=self.vote,
            alpha=self.alpha,
            n_jobs=self.n_jobs,
        )

    def _augmented(self, X: Any) -> Floats:
        if not isinstance(self._input, FeatureInput):
            raise InputError(
                (
                    "'augmented' computes the sources anew, which takes a feature table "
                    "and sources=[...]"
                ),
                argument="new_items",
                remedy="use 'attached' for precomputed dissimilarities",
            )
        codes = np.append(self._codes, -1)
        rows = []
        for stack in self._input.augmented(self, X):
            rule = self._make_rule(EdgeLengths(stack, self.mixture_), codes)
            rows.append(rule.members[-1])
        return np.array(rows)

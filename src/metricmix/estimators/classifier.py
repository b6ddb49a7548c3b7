"""The classifier: learn the metric, then label items by a rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted, column_or_1d

from metricmix.estimators.base import MixtureLearner, discard_previous_fit, make_objective
from metricmix.estimators.inputs import FeatureInput, Input, encode_labels
from metricmix.estimators.rules import FittedRule, Rule, as_rule
from metricmix.estimators.selection import Candidate, Selection, select
from metricmix.exceptions import InputError
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.paths.all_pairs import path_metric
from metricmix.solvers.problem import CONSTRAINTS
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import as_labels, check_choice, is_unlabelled, plain_labels

if TYPE_CHECKING:
    from metricmix.estimators.comparison import Comparison
    from metricmix.estimators.explanation import Explanation

__all__ = ["MetricMixtureClassifier"]

NEW_ITEMS = ("attached", "augmented")
LEARNED = ("result_", "mixture_", "n_iter_", "moved_share_")


@dataclass(eq=False, repr=False, kw_only=True)
class MetricMixtureClassifier(ClassifierMixin, MixtureLearner):
    r"""Classify items by one metric learned from many dissimilarities.

    Unlabelled items (-1, NaN, None or pandas' NA; among texts also "" or "-1") take part in the
    metric and get a label too: `transduction_`.

    Parameters
    ----------
    {parameters}
    {ridge}
    rule : {"auto", "class-mean", "nearest", "k-nearest", "logistic", "spreading"} or rule
        How labels follow from distances: the name of a rule, or a rule object with its settings,
        such as ``KNearest(n_neighbors=7)``; see :mod:`metricmix.estimators.rules`. "auto": see
        `selection_`.
    new_items : {"attached", "augmented"}
        How items that were not in the fit are labelled. "attached": joined to the items of the fit,
        which stay as they are. "augmented", as in the paper, for feature tables: all sources are
        computed anew with the item added, one item at a time. Both give the same distances from a
        new item where sources compare two items only; they differ for sources that look at all
        items, such as ``knn_path_length``.

    Attributes
    ----------
    classes_ : array
    transduction_ : (n,) array
        The label of every item of `stack_`: its own, or that of the rule.
    selection_ : Selection
        What was chosen where parameters leave it open, what it was compared with on held-out
        labels, and why; see :mod:`metricmix.estimators.selection`. With the default parameters:
        weights >= 0, rho = 0.00001 and class means, unless other weights (signed ones, equal ones,
        a single source), another rho or another rule are clearly better. With fewer than five
        labels a class weights stay equal.
    rule_ : Rule
        The rule that was chosen.
    {attributes}

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

    _constraints: ClassVar[tuple[str, ...]] = ("auto", *CONSTRAINTS)

    constraint: str | None = "auto"
    rule: str | Rule = "auto"
    new_items: str = "attached"

    transduction_: AnyArray = field(init=False)
    selection_: Selection = field(init=False)
    rule_: Rule = field(init=False)
    _codes: Indices = field(init=False)
    _rule: FittedRule = field(init=False)

    def fit(self, X: Any, y: Any) -> MetricMixtureClassifier:
        """Learn the weights, and label the unlabelled items.

        Parameters
        ----------
        X : as `sources` says
        y : array of n labels
            -1, NaN, None or pandas' NA (among texts also "" or "-1") marks items without a label.
        """
        check_choice(self.new_items, NEW_ITEMS, name="new_items")
        if self.rule != "auto":
            as_rule(self.rule)
        with discard_previous_fit(self):
            opened = self._open(X, y)
            self._fit_input(opened, *encode_labels(y, type(self).__name__))
        return self

    def _fit_input(
        self,
        opened: Input,
        classes: AnyArray,
        given: Indices,
        loaded: Mapping[str, Any] | None = None,
    ) -> None:
        """Fit to items that were read before, `given` being the class numbers of X.

        `loaded` is what the fit of a stored model left: "result", "moved_share", "selection", and
        "labels", the class numbers of all items.
        """
        self.classes_ = classes
        self._codes = np.full(opened.stack.n_items, -1)
        self._codes[opened.samples] = given
        opened.stack = opened.stack.relabelled(self._codes, len(classes))
        if loaded is not None:
            self._settle(loaded["selection"])
            own = not isinstance(self.objective, str)  # and was not stored
            settled = self._settled(self.selection_.best)
            objective = None if own else make_objective(settled, self._codes, classes)
            self._learn(opened, objective, loaded["result"], loaded["moved_share"])
            labels = loaded["labels"]
        else:
            self._settle(select(self, opened.stack, self._codes, len(classes)))
            settled = self._settled(self.selection_.best)
            settled._learn(opened, make_objective(settled, self._codes, classes))
            for name in ("_input", "_objective", "stack_", *LEARNED):
                setattr(self, name, getattr(settled, name))
        self._rule = self._fitted_rule(self._lengths(), self._codes)
        if loaded is None:
            labels, unlabelled = self._codes.copy(), self._codes < 0
            if unlabelled.any():
                labels[unlabelled] = self._rule.probabilities[unlabelled].argmax(axis=1)
        self.transduction_ = classes[labels]

    def _settle(self, selection: Selection) -> None:
        """Record what was chosen."""
        self.selection_, self.rule_ = selection, selection.best.rule

    def _as_fitted(self) -> Self:
        """Return a copy whose parameters say what the fit chose, for refits on other labels."""
        return MixtureLearner._as_fitted(self._settled(self.selection_.best))

    def _settled(self, candidate: Candidate) -> Self:
        """Return a copy with the settings of a candidate as its parameters."""
        settled = copy(self)
        settled.rule, settled.rho = candidate.rule, candidate.rho
        settled.constraint = candidate.constraint
        if candidate.weights != "learned":
            settled.objective = None
            settled.constraint = "nonnegative" if self.constraint == "auto" else self.constraint
            settled._single = None if candidate.weights == "equal" else candidate.weights
        return settled

    def _fitted_rule(self, lengths: EdgeLengths, codes: Indices) -> FittedRule:
        return FittedRule(self.rule_, lengths, codes, len(self.classes_), self.n_jobs)

    def predict_proba(self, X: Any) -> Floats:
        """Return the class probabilities of the items X, (M, C), in the order of `classes_`."""
        check_is_fitted(self)
        members = self._input.members(X)
        if members is not None:
            return self._rule.probabilities[members]
        if self.new_items == "augmented":
            return np.array([rule.probabilities[-1] for rule in self._augmented_rules(X)])
        blocks = (self._join_rows(rows) for rows in self._new_rows(X))
        return np.concatenate([self._rule.new_probabilities(new) for new in blocks])

    def _augmented_rules(self, X: Any) -> Iterator[FittedRule]:
        """Yield, for each new item, the rule of the fit with that item added as the last one."""
        if not isinstance(self._input, FeatureInput):
            raise InputError(
                "'augmented' computes the sources anew, which takes a feature table and "
                "sources=[...]",
                argument="new_items",
                remedy="use 'attached' for precomputed dissimilarities",
            )
        codes = np.append(self._codes, -1)
        table = self._check_table(X, self._input.recipes, reset=False)
        for stack in self._input.augmented(table):
            yield self._fitted_rule(EdgeLengths(stack, self.mixture_), codes)

    def predict(self, X: Any) -> AnyArray:
        """Return the labels of the items X."""
        check_is_fitted(self)
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    def compute_metric(self) -> Floats:
        """Return the metric between all items of `stack_`, (n, n).

        One all-pairs computation, O(n³), unless the mixture is a metric already: then O(n² R).
        """
        check_is_fitted(self)
        return np.asarray(path_metric(self.stack_, self.mixture_, n_jobs=self.n_jobs))

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
        found, labels = self.predict(X), column_or_1d(as_labels(y))
        known = ~is_unlabelled(labels)
        if not known.any():
            raise InputError(
                argument="y", expected="labelled items to score, found every item unlabelled"
            )
        weights = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(
            accuracy_score(plain_labels(labels[known]), found[known], sample_weight=weights)
        )

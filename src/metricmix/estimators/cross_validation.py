"""Cross-validation when labels are few: held-out predictions, and choosing settings in a grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.model_selection import check_cv
from sklearn.utils.validation import check_is_fitted

from metricmix.estimators.base import (
    NEW_ITEMS,
    MixtureEstimator,
    check_refittable,
    discard_previous_fit,
    make_objective,
)
from metricmix.estimators.classifier import MetricMixtureClassifier
from metricmix.estimators.inputs import Input, encode_labels
from metricmix.estimators.rules import KNearest, Rule, Spreading, as_rule
from metricmix.estimators.selection import FoldPredictor, LabelledKFold
from metricmix.exceptions import InputError
from metricmix.kernels.blocks import map_tasks
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.solvers.result import Status
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import check_choice

if TYPE_CHECKING:
    from metricmix.estimators.comparison import Comparison
    from metricmix.estimators.explanation import Explanation

__all__ = ["FEWEST_LABELS", "TUNED", "MetricMixtureClassifierCV", "held_out_probabilities"]

LEAVE_ONE_OUT_UP_TO = 400
"""Labelled items up to which each is held out alone; beyond, and for spreading, in folds."""
FOLDS = 20
TUNED = "rule and rho were chosen on all labels, these included"
FEWEST_LABELS = 3
"""Labelled items there must be: one to hold out, and two to learn from."""


def held_out_probabilities(
    model: MetricMixtureClassifier, metric: AnyArray | None = None
) -> Floats:
    """Return the class probabilities (n, C) of all items, labelled ones without their own label.

    An item's own label supports itself, so what the rule says of a labelled item means little. Here
    each label is held out, alone (up to 400 labels) or with others (in 20 folds). The weights are
    those learned from all labels.

    Parameters
    ----------
    model : fitted MetricMixtureClassifier
    metric : (n, n) array, optional
        The metric between all items, if it is known already.
    """
    p: Floats = model._rule.probabilities.copy()
    labelled = np.flatnonzero(model._codes >= 0)
    codes, L, rule = model._codes[labelled], len(labelled), model.rule_
    if L < FEWEST_LABELS:
        return p
    predictor = FoldPredictor(model._lengths(), labelled, len(model.classes_), model.n_jobs, metric)
    if L <= LEAVE_ONE_OUT_UP_TO and not isinstance(rule, Spreading):
        parts = list(np.arange(L)[:, None])
    else:
        splitter = LabelledKFold(min(FOLDS, L), random_state=0)
        parts = [test for _, test in splitter.split(None, codes)]
    for part in parts:
        known = codes.copy()
        known[part] = -1
        p[labelled[part]] = predictor.probabilities(rule, part, known)
    return p


@dataclass(eq=False, repr=False, kw_only=True)
class MetricMixtureClassifierCV(ClassifierMixin, MixtureEstimator):
    """A :class:`MetricMixtureClassifier` that chooses its settings by cross-validation.

    Labelled items are held out in turn, and stay in the metric as unlabelled ones. The stack is
    made once. For each `beta` weights are learned along `rhos`, from the largest on, each from
    those of the one before; the rules are compared on the same shortest paths. So a grid costs
    little more than its (rho, beta) pairs.

    Parameters
    ----------
    {parameters}
    rhos, betas, rules : sequences
        What to choose from. Rules are names or rule objects, such as ``KNearest(10)``.
    new_items
        As in :class:`MetricMixtureClassifier`.
    cv : int or splitter
        A number means :class:`LabelledKFold` with that many folds (at most as many as there are
        labelled items), repeated twice.

    Attributes
    ----------
    best_params_, best_score_
        The setting with the highest accuracy on held-out items; among equal ones that with the
        highest probabilities (smallest log loss).
    best_estimator_ : MetricMixtureClassifier
        With that setting, fitted to all labels.
    cv_results_ : dict of arrays
        As in :class:`~sklearn.model_selection.GridSearchCV`: "params", "mean_test_score",
        "std_test_score", "split<k>_test_score", "rank_test_score", and "mean_log_loss".
    classes_, transduction_, mixture_, weights_, result_, n_iter_, stack_
        Those of the best estimator.

    Examples
    --------
    >>> import metricmix as mm
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = mm.MetricMixtureClassifierCV(["euclidean", "angular"], random_state=0).fit(X, y)
    >>> sorted(model.best_params_)
    ['beta', 'rho', 'rule']
    >>> bool(model.best_score_ > 0.95)
    True
    """

    _geodesics: ClassVar[tuple[str | None, ...]] = (None, "auto")

    rhos: Sequence[float] = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
    betas: Sequence[float] = (1.0,)
    rules: Sequence[str | Rule] = ("class-mean", "nearest", KNearest(5), KNearest(10))
    new_items: str = "attached"
    cv: Any = 5

    best_estimator_: MetricMixtureClassifier = field(init=False)
    best_index_: int = field(init=False)
    best_params_: dict[str, Any] = field(init=False)
    best_score_: float = field(init=False)
    cv_results_: dict[str, Any] = field(init=False)
    transduction_: AnyArray = field(init=False)

    def fit(self, X: Any, y: Any) -> MetricMixtureClassifierCV:
        """Choose the settings, and fit the best of them to all labels."""
        check_choice(self.new_items, NEW_ITEMS, name="new_items")
        check_refittable(self.objective)
        with discard_previous_fit(self):
            opened = self._open(X, y)
            self.classes_, given = encode_labels(y, type(self).__name__)
            settings = self._settings()
            if self.cv is None or isinstance(self.cv, (int, np.integer)):
                folds = min(5 if self.cv is None else int(self.cv), int((given >= 0).sum()))
                splitter = LabelledKFold(folds, n_repeats=2, random_state=self.random_state)
            else:
                splitter = check_cv(self.cv)
            shared = FoldInputs(self, opened, given, settings)
            scores = list(map_tasks(scores_of, shared, splitter.split(X, given)))
            self.cv_results_ = rank_settings(settings, *np.array(scores).swapaxes(0, 1))
            self.best_index_ = int(np.argmin(self.cv_results_["rank_test_score"]))
            self.best_params_ = settings[self.best_index_]
            self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
            best = self._classifier(**self.best_params_)
            best._fit_input(opened, self.classes_, given)
            self._set_best(best)
        return self

    def _settings(self) -> list[dict[str, Any]]:
        """Return the settings to compare; those that share a metric are adjacent."""
        rules = [self.rules] if isinstance(self.rules, (str, Rule)) else list(self.rules)
        rhos, betas = np.ravel(self.rhos).tolist(), np.ravel(self.betas).tolist()
        if not (rules and betas and rhos):
            raise InputError("rhos, betas, rules: expected at least one value each")
        for rule in rules:
            as_rule(rule, name="rules")
        return [
            {"beta": beta, "rho": rho, "rule": rule}
            for beta, rho, rule in product(betas, sorted(rhos, reverse=True), rules)
        ]

    def _classifier(self, **setting: Any) -> MetricMixtureClassifier:
        shared = MetricMixtureClassifier().get_params().keys() & self.get_params(deep=False).keys()
        given = {name: getattr(self, name) for name in shared if name not in setting}
        return MetricMixtureClassifier(**given, **setting)

    def _set_best(self, best: MetricMixtureClassifier) -> None:
        """Set the best classifier, and what it has learned."""
        self.best_estimator_ = best
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(best, name, getattr(self, name))
        for name in ("mixture_", "result_", "stack_", "n_iter_", "transduction_"):
            setattr(self, name, getattr(best, name))

    def predict_proba(self, X: Any) -> Floats:
        """Return the class probabilities of the items X."""
        check_is_fitted(self)
        return self.best_estimator_.predict_proba(X)

    def predict(self, X: Any) -> AnyArray:
        """Return the labels of the items X."""
        check_is_fitted(self)
        return self.best_estimator_.predict(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy on the items X with labels y; unlabelled items are ignored."""
        check_is_fitted(self)
        return self.best_estimator_.score(X, y, sample_weight)

    def explain(self, i: Any = None, *, X: Any = None, k: int = 3) -> Explanation:
        """Return why item `i` of the stack, or one new row X, has its label."""
        check_is_fitted(self)
        return self.best_estimator_.explain(i, X=X, k=k)

    def compare(self, **options: Any) -> Comparison:
        """Compare learned weights with simpler methods on held-out labels.

        Arguments as in :meth:`MetricMixtureClassifier.compare`. The settings were chosen on all
        labels, those that are held out here included, and `how` says so.
        """
        check_is_fitted(self)
        found = self.best_estimator_.compare(**options)
        return replace(found, how=f"{found.how}; {TUNED}")


class FoldInputs(NamedTuple):
    """What all folds of a search need."""

    search: MetricMixtureClassifierCV
    opened: Input
    given: Indices
    settings: list[dict[str, Any]]


def scores_of(shared: FoldInputs, fold: tuple[Indices, Indices]) -> tuple[Floats, Floats]:
    """Return accuracies and log losses of all settings in a fold."""
    return fold_scores(shared.search, shared.opened, shared.given, fold, shared.settings)


def fold_scores(
    search: MetricMixtureClassifierCV,
    opened: Input,
    given: Indices,
    fold: tuple[Indices, Indices],
    settings: list[dict[str, Any]],
) -> tuple[Floats, Floats]:
    """Return the accuracy (S,) and the log loss (S,) of all settings on the test items of a fold.

    Weights are learned once per (beta, rho), each from those of the larger rho before.
    """
    train, test = fold
    test = test[given[test] >= 0]
    if len(test) == 0:
        raise InputError(
            argument="cv", expected="labelled items in every test set, found none in one"
        )
    codes = np.full(opened.stack.n_items, -1)
    codes[opened.samples[train]] = given[train]
    stack = opened.stack.relabelled(codes, len(search.classes_))
    items = np.concatenate([opened.samples[test], np.flatnonzero(codes >= 0)])
    own_start = "start" in (search.solver_options or {})
    answers, learned, weights = [], (None, None), None
    for setting in settings:
        if learned != (setting["beta"], setting["rho"]):
            warm = learned[0] == setting["beta"] and not own_start
            options = {"start": weights} if warm else {}
            learned = (setting["beta"], setting["rho"])
            trial = search._classifier(**setting)
            try:
                objective = make_objective(trial, codes, search.classes_)
                used, _ = trial._with_edges(objective, stack)
                result, _ = trial._solve_as_used(objective, used, refit=True, **options)
            except InputError as error:
                raise InputError(
                    "a training set cannot be used", argument="cv", remedy=error
                ) from None
            if result.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            assert result.mixture is not None
            weights = result.weights
            lengths = EdgeLengths(used, result.mixture)
            metric = FoldPredictor(lengths, items, len(search.classes_), search.n_jobs)
        rule = as_rule(setting["rule"])
        answers.append(metric.probabilities(rule, np.arange(len(test)), codes[items]))
    p, right = np.array(answers), given[test]
    chance = np.take_along_axis(p, right[None, :, None], axis=2)[:, :, 0]
    loss = -np.log(np.maximum(chance, 1e-15)).mean(axis=1)
    return (p.argmax(axis=2) == right).mean(axis=1), loss


def rank_settings(settings: list[dict[str, Any]], accuracy: Floats, loss: Floats) -> dict[str, Any]:
    """Return results as GridSearchCV does: arrays with an entry per setting.

    `accuracy` and `loss` are (folds, S). The best setting has the highest mean accuracy; among
    equal ones, the smallest log loss.
    """
    mean, log_loss = accuracy.mean(axis=0), loss.mean(axis=0)
    order = np.lexsort((log_loss, -mean.round(12)))
    rank = np.empty(len(settings), dtype=np.int64)
    rank[order] = np.arange(1, len(settings) + 1)
    return {
        "params": settings,
        **{f"param_{name}": np.array([s[name] for s in settings]) for name in settings[0]},
        **{f"split{k}_test_score": scores for k, scores in enumerate(accuracy)},
        "mean_test_score": mean,
        "std_test_score": accuracy.std(axis=0),
        "mean_log_loss": log_loss,
        "rank_test_score": rank,
    }

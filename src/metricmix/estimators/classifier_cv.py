"""Choosing settings when labels are few."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.model_selection import check_cv
from sklearn.utils.validation import check_is_fitted

from metricmix.estimators.base import (
    ONE_RUN,
    MixtureEstimator,
    all_or_nothing,
    make_objective,
    refuse_fixed_labels,
)
from metricmix.estimators.classifier import NEW_ITEMS, MetricMixtureClassifier
from metricmix.estimators.held_out import HeldOut
from metricmix.estimators.inputs import Input
from metricmix.estimators.labels import LabelledKFold, encode
from metricmix.estimators.rules import RULES, check_rule
from metricmix.exceptions import InputError
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.objectives.base import Objective
from metricmix.solvers.result import Status
from metricmix.typing import Floats, Indices
from metricmix.validation import check_choice

if TYPE_CHECKING:
    from metricmix.estimators.explanation import Explanation

__all__ = ["MetricMixtureClassifierCV"]


class MetricMixtureClassifierCV(ClassifierMixin, MixtureEstimator):
    """A :class:`MetricMixtureClassifier` that chooses its settings by cross-validation.

    Labelled items are held out in turn, and stay in the metric as unlabelled ones. The stack is
    made once. For each `beta` weights are learned along `rhos`, from the largest on, each from
    those of the one before; the rules and numbers of neighbours are judged on the same shortest
    paths. So a grid costs little more than its (rho, beta) pairs.

    Parameters
    ----------
    sources, objective, shrink_to, constraint, scaling, projection
        As in :class:`MetricMixture`.
    rhos, betas, rules, n_neighbors : sequences
        What to choose from; `n_neighbors` concerns the rules that have it.
    vote, alpha, new_items
        As in :class:`MetricMixtureClassifier`.
    cv : int or splitter
        A number means :class:`LabelledKFold` with that many folds (at most as many as there are
        labelled items), dealt twice.
    method, max_iter, solver_options, random_state, n_jobs, verbose
        As in :class:`MetricMixture`.

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
    >>> model = mm.MetricMixtureClassifierCV(["euclidean", "cosine"], random_state=0).fit(X, y)
    >>> sorted(model.best_params_)
    ['beta', 'n_neighbors', 'rho', 'rule']
    >>> bool(model.best_score_ > 0.95)
    True
    """

    def __init__(
        self,
        sources: Any = "precomputed",
        *,
        objective: str | Objective | Any = "class-means",
        rhos: Sequence[float] = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1),
        betas: Sequence[float] = (1.0,),
        rules: Sequence[str] = ("class-mean", "nearest", "k-nearest"),
        n_neighbors: Sequence[int] = (5, 10),
        vote: str = "uniform",
        alpha: float = 0.8,
        new_items: str = "attached",
        cv: Any = 5,
        shrink_to: str = "equal",
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
        self.rhos = rhos
        self.betas = betas
        self.rules = rules
        self.n_neighbors = n_neighbors
        self.vote = vote
        self.alpha = alpha
        self.new_items = new_items
        self.cv = cv
        self.shrink_to = shrink_to
        self.constraint = constraint
        self.scaling = scaling
        self.projection = projection
        self.method = method
        self.max_iter = max_iter
        self.solver_options = solver_options
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> MetricMixtureClassifierCV:
        """Choose the settings, and fit the best of them to all labels."""
        check_choice(self.new_items, NEW_ITEMS, name="new_items")
        refuse_fixed_labels(self.objective)
        with all_or_nothing(self):
            self._fit(X, y)
        return self

    def _fit(self, X: Any, y: Any) -> None:
        opened = self._open(X, y)
        self.classes_, given = encode(self, y)
        settings = self._settings()
        accuracy, loss = [], []
        for train, test in self._splitter(given).split(X, given):
            held = np.full(len(given), -1)
            held[train] = given[train]
            test = test[given[test] >= 0]
            if len(test) == 0:
                raise InputError(
                    argument="cv", expected="labelled items in every test set, found none in one"
                )
            try:
                p = self._held_out(opened, held, test, settings)
            except InputError as error:
                raise InputError(
                    "one of the training sets will not do", argument="cv", remedy=error
                ) from None
            right = given[test]
            accuracy.append((p.argmax(axis=2) == right).mean(axis=1))
            chance = np.take_along_axis(p, right[None, :, None], axis=2)[:, :, 0]
            loss.append(-np.log(np.maximum(chance, 1e-15)).mean(axis=1))
        self.cv_results_ = _summary(settings, np.array(accuracy), np.array(loss))
        best = int(np.argmin(self.cv_results_["rank_test_score"]))
        self.best_index_ = best
        self.best_params_ = settings[best]
        self.best_score_ = float(self.cv_results_["mean_test_score"][best])
        estimator = self._estimator(**self.best_params_)
        self.best_estimator_ = estimator._fit_opened(opened, self.classes_, given)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(estimator, name, getattr(self, name))
        self.mixture_, self.result_ = estimator.mixture_, estimator.result_
        self.stack_, self.n_iter_ = estimator.stack_, estimator.n_iter_
        self.transduction_ = estimator.transduction_

    def predict_proba(self, X: Any) -> Floats:
        """Return the class probabilities of the items X."""
        check_is_fitted(self)
        return self.best_estimator_.predict_proba(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the labels of the items X."""
        check_is_fitted(self)
        return self.best_estimator_.predict(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of the items X that get their label y; unlabelled ones do not count."""
        check_is_fitted(self)
        return self.best_estimator_.score(X, y, sample_weight)

    def explain(self, i: Any = None, *, X: Any = None, k: int = 3) -> Explanation:
        """Return why item `i` of the stack, or one new row X, has its label."""
        check_is_fitted(self)
        return self.best_estimator_.explain(i, X=X, k=k)

    def _settings(self) -> list[dict[str, Any]]:
        """Return the settings to compare; those that share a metric stand together."""
        rules, betas = _several(self.rules), _several(self.betas)
        for rule in rules:
            check_choice(rule, RULES, name="rules")
        rhos, neighbours = _several(self.rhos), _several(self.n_neighbors)
        if not (rules and betas and rhos and neighbours):
            raise InputError("rhos, betas, rules, n_neighbors: expected one value each at least")
        chosen = []
        for beta, rho, rule in product(betas, sorted(rhos, reverse=True), rules):
            ks = neighbours if rule in ("k-nearest", "spreading") else neighbours[:1]
            for k in ks:
                check_rule(rule, k, self.vote, self.alpha)
                chosen.append({"beta": beta, "rho": rho, "rule": rule, "n_neighbors": k})
        return chosen

    def _splitter(self, given: Indices) -> Any:
        if self.cv is None or isinstance(self.cv, (int, np.integer)):
            folds = min(5 if self.cv is None else int(self.cv), int((given >= 0).sum()))
            return LabelledKFold(folds, n_repeats=2, random_state=self.random_state)
        return check_cv(self.cv)

    def _estimator(self, **setting: Any) -> MetricMixtureClassifier:
        shared = set(MetricMixtureClassifier().get_params()) & set(self.get_params())
        given = {name: getattr(self, name) for name in shared if name not in setting}
        return MetricMixtureClassifier(**given, **setting)

    def _without_run(self) -> dict[str, Any]:
        """Return the options of the solver for trials: no checkpoint, no callback."""
        options = self.solver_options or {}
        return {"solver_options": {k: v for k, v in options.items() if k not in ONE_RUN}}

    def _held_out(
        self, opened: Input, held: Indices, test: Indices, settings: list[dict[str, Any]]
    ) -> Floats:
        """Return the class probabilities of held-out items under all settings, (S, M, C)."""
        stack = opened.stack
        codes = np.full(stack.n_items, -1)
        codes[opened.samples] = held
        among = np.concatenate([opened.samples[test], np.flatnonzero(codes >= 0)])
        asked, known = np.arange(len(test)), codes[among]
        C = len(self.classes_)
        answers, key, start = [], None, None
        for setting in settings:
            if key != (setting["beta"], setting["rho"]):
                start = None if key is None or key[0] != setting["beta"] else start
                key = (setting["beta"], setting["rho"])
                trial = self._estimator(**setting, **self._without_run())
                trial._learn(opened, make_objective(trial, codes, self.classes_), start=start)
                if trial.result_.status is Status.INTERRUPTED:
                    raise KeyboardInterrupt
                start = trial.mixture_.weights
                options: Any = {"vote": self.vote, "alpha": self.alpha, "n_jobs": self.n_jobs}
                metric = HeldOut(EdgeLengths(stack, trial.mixture_), among, C, **options)
            k = setting["n_neighbors"]
            answers.append(metric.probabilities(setting["rule"], k, asked, known))
        return np.array(answers)


def _several(values: Any) -> list[Any]:
    """Return what to choose from as a list; one value alone is no choice."""
    return [values] if isinstance(values, str) or np.isscalar(values) else list(values)


def _summary(settings: list[dict[str, Any]], accuracy: Floats, loss: Floats) -> dict[str, Any]:
    """Return results as GridSearchCV does: arrays with an entry per setting."""
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

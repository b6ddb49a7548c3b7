"""Cross-validation where only some items have a label, and a classifier that chooses by it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.model_selection import BaseCrossValidator, check_cv
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from metricmix.dissimilarity.known import Known, deal
from metricmix.estimators.classifier import MetricMixtureClassifier
from metricmix.estimators.inputs import Input
from metricmix.estimators.mixture_estimator import (
    MixtureEstimator,
    discard_previous_fit,
    known_items,
)
from metricmix.estimators.predictor import NEW_ITEMS
from metricmix.estimators.stored_fit import CHANGED
from metricmix.exceptions import InputError
from metricmix.kernels.blocks import map_tasks
from metricmix.labels import as_labels, group_numbers, is_unlabelled, plain_labels
from metricmix.learning.candidates import Candidate
from metricmix.learning.learned import Options
from metricmix.learning.refits import FoldMetric, RefitPlan, refit
from metricmix.learning.rules import KNearest, Rule, as_rule
from metricmix.learning.selection import fit
from metricmix.learning.task import Classes
from metricmix.state import LoadOptions, require, saved, stored
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import check_choice, check_integer

if TYPE_CHECKING:
    from metricmix.learning.explanation import Explanation
    from metricmix.learning.verdict import Comparison

__all__ = ["TUNED", "LabelledKFold", "MetricMixtureClassifierCV"]


@stored("LabelledKFold")
class LabelledKFold(BaseCrossValidator):
    """Cross-validation that splits the labelled items only, and keeps the others in training.

    Each class is spread evenly over the folds, at random, as far as groups of items, which stay
    together, allow; an item that is unlabelled (-1, NaN,
    None or pandas' NA; among texts "" or "-1") is in every training set and in no test set.

    Parameters
    ----------
    n_splits : int
    n_repeats : int
        Number of repetitions, each with new folds.
    random_state : int, RandomState or None

    Examples
    --------
    >>> from metricmix.estimators import LabelledKFold
    >>> for train, test in LabelledKFold(2, random_state=0).split(None, [0, 0, 1, 1, -1]):
    ...     print(len(train), len(test))
    3 2
    3 2
    """

    def __init__(self, n_splits: int = 5, *, n_repeats: int = 1, random_state: Any = None) -> None:
        self.n_splits = check_integer(n_splits, name="n_splits", low=2)
        self.n_repeats = check_integer(n_repeats, name="n_repeats", low=1)
        self.random_state = random_state

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Indices, Indices]]:
        """Yield the training and test items of each fold; only y and `groups` are used."""
        if y is None:
            raise InputError(
                argument="y",
                expected="labels, of which only the known ones are split",
                found="None",
            )
        labels = as_labels(y)
        known = np.flatnonzero(~is_unlabelled(labels))
        if len(known) < self.n_splits:
            raise InputError(
                argument="n_splits",
                expected=f"at most {len(known)}, the number of labelled items",
                found=self.n_splits,
            )
        _, codes = np.unique(plain_labels(labels[known]), return_inverse=True)
        own = None if groups is None else group_numbers(groups, len(labels))[known]
        if own is not None and len(np.unique(own)) < self.n_splits:
            raise InputError(
                argument="n_splits",
                expected=f"at most {len(np.unique(own))}, the number of groups of labelled items",
                found=self.n_splits,
            )
        for seed in self.seeds():
            fold = deal(codes, self.n_splits, known.astype(np.uint64), seed, groups=own)
            for number in range(self.n_splits):
                test = known[fold == number]
                yield np.setdiff1d(np.arange(len(labels)), test), test

    def seeds(self) -> list[int]:
        """Return a seed for the folds of each repetition."""
        given = self.random_state
        if isinstance(given, np.random.Generator):
            return [int(seed) for seed in given.integers(2**31, size=self.n_repeats)]
        drawn = check_random_state(given).randint(2**31 - 1, size=self.n_repeats)
        return [int(seed) for seed in drawn]

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds, repeats included."""
        return int(self.n_splits * self.n_repeats)


TUNED = "rule and rho were chosen on all labels, these included"


@saved("MetricMixtureClassifierCV")
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
    new_items, class_weight
        As in :class:`MetricMixtureClassifier`. Settings are chosen by the plain accuracy, whatever
        the weights.
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

    _may_choose: ClassVar[bool] = True
    fitted_parts: ClassVar[Mapping[str, Any]] = {
        "best_estimator_": MetricMixtureClassifier,
        "best_index_": int,
        "cv_results_": dict,
    }

    constraint: str | None = "nonnegative"
    rhos: Sequence[float] = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
    betas: Sequence[float] = (1.0,)
    rules: Sequence[str | Rule] = ("class-mean", "nearest", KNearest(5), KNearest(10))
    new_items: str = "attached"
    class_weight: Any = None
    cv: Any = 5

    best_estimator_: MetricMixtureClassifier = field(init=False)
    best_index_: int = field(init=False)
    best_params_: dict[str, Any] = field(init=False)
    best_score_: float = field(init=False)
    cv_results_: dict[str, Any] = field(init=False)
    transduction_: AnyArray = field(init=False)

    def fit(self, X: Any, y: Any, *, groups: Any = None) -> MetricMixtureClassifierCV:
        """Choose the settings, and fit the best of them to all labels.

        `groups` are as in :meth:`MetricMixtureClassifier.fit`; a splitter that is given as `cv`
        gets them.
        """
        check_choice(self.new_items, NEW_ITEMS, name="new_items")
        options = self.learning_options()
        options.check_refittable()
        with discard_previous_fit(self):
            opened = self._open(X, y, options)
            task, values = Classes.encode(y, type(self).__name__)
            known = known_items(opened, task, values, self.class_weight, groups)
            settings = self._settings()
            folds = self._folds(X, values, known, opened, groups)
            shared = opened, task, options, settings
            scores = list(map_tasks(scores_of_fold, shared, folds))
            self.cv_results_ = rank_settings(settings, *np.array(scores).swapaxes(0, 1))
            self.best_index_ = int(np.argmin(self.cv_results_["rank_test_score"]))
            self.best_params_ = settings[self.best_index_]
            self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
            best = self._classifier(**self.best_params_)
            best.adopt(opened, fit(opened.stack, task, known, best.learning_options()))
            self.adopt_best(best)
        return self

    def _folds(
        self, X: Any, values: Indices, known: Known, opened: Input, groups: Any
    ) -> Iterator[tuple[Known, Known]]:
        """Yield what may be seen in each fold, and what is held out."""
        if self.cv is None or isinstance(self.cv, (int, np.integer)):
            n_splits = min(5 if self.cv is None else int(self.cv), len(known.items))
            splitter = LabelledKFold(n_splits, n_repeats=2, random_state=self.random_state)
            for seed in splitter.seeds():
                dealt = known.folds(n_splits, seed)
                for number in range(int(dealt.max()) + 1):
                    test = known.items[dealt == number]
                    yield known.without(test), known.only(test)
            return
        for train, test in check_cv(self.cv).split(X, values, groups):
            yield known.only(opened.samples[train]), known.only(opened.samples[test])

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

    def adopt_best(self, best: MetricMixtureClassifier) -> None:
        """Set the best classifier, and what it has learned."""
        self.best_estimator_ = best
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(best, name, getattr(self, name))
        for name in ("learned_", "classes_", "transduction_"):
            setattr(self, name, getattr(best, name))

    def check_unchanged(self) -> None:
        """Raise if `sources` have changed since the fit."""
        same = self.sources is self.best_estimator_.sources
        require(same, CHANGED.format("sources"))

    def fitted_state(self, *, keep: bool) -> dict[str, Any]:
        """Return what the search has found; the best classifier is a model of its own."""
        return {name: getattr(self, name) for name in self.fitted_parts}

    def restore_fit(self, fitted: dict[str, Any], options: LoadOptions) -> None:
        """Take what the search has found."""
        best, index, results = (fitted[name] for name in self.fitted_parts)
        settings = results["params"]
        columns = [column for name, column in results.items() if name != "params"]
        sound = all(np.shape(column) == (len(settings),) for column in columns)
        sound = sound and index >= 0 and isinstance(settings[index], dict)
        require(sound, "expected the results of a search, and which of them is the best")
        self.cv_results_, self.best_index_, self.best_params_ = results, index, settings[index]
        self.best_score_ = float(results["mean_test_score"][index])
        self.sources = best.sources
        if hasattr(best, "n_features_in_"):
            self.n_features_in_ = best.n_features_in_
        self.adopt_best(best)

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


def scores_of_fold(
    shared: tuple[Input, Classes, Options, list[dict[str, Any]]], fold: tuple[Known, Known]
) -> tuple[Floats, Floats]:
    """Return the accuracy (S,) and the log loss (S,) of all settings on what a fold holds out.

    Weights are learned once per (beta, rho), each from those of the larger rho before.
    """
    (opened, task, options, settings), (known, held_out) = shared, fold
    test = held_out.items
    if len(test) == 0:
        raise InputError(
            argument="cv", expected="labelled items in every test set, found none in one"
        )
    stack = opened.stack.relabelled(known)
    items = np.concatenate([test, known.items])
    near, first = known.take(items), np.arange(len(test))
    own_start = "start" in (options.solver_options or {})
    constraint = {"auto": "nonnegative", "none": None}.get(
        str(options.constraint), options.constraint
    )
    answers, way, weights = [], (None, None), None
    for setting in settings:
        if way != (setting["beta"], setting["rho"]):
            warm = way[0] == setting["beta"] and not own_start
            way = (setting["beta"], setting["rho"])
            candidate = Candidate(
                "learned" if options.objective is not None else "equal",
                constraint,
                setting["rho"],
                as_rule(setting["rule"]),
                geodesic=options.neighbours,
            )
            plan = RefitPlan(
                known=known,
                options=options.replace(beta=setting["beta"]).as_candidate(candidate),
                start=weights if warm else None,
                stack=stack,
            )
            try:
                learned = refit(stack, task, plan)
            except InputError as error:
                raise error.replace(argument="cv") from None
            weights = learned.mixture.weights
            metric = FoldMetric(learned.lengths, items, options.n_jobs)
        answers.append(metric.answers(as_rule(setting["rule"]), first, near))
    p, right = np.array(answers), held_out.y
    chance = np.take_along_axis(p, right[None, :, None], axis=2)[:, :, 0]
    losses = -np.log(np.maximum(chance, 1e-15))
    loss = np.average(losses, axis=1, weights=known.loss_weights(right))
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

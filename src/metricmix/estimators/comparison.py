r"""What learning is worth: the mixture beside simpler choices, on labels that none of them saw.

Labelled items are held out in turn, by :class:`~metricmix.estimators.LabelledKFold`. They stay in
the metric as unlabelled ones, which is how the model treats items without a label. The weights are
learned anew on the labels that are left, from where learning always starts: the weights of the
fitted model know the labels that are held out. Beside it stand

- equal weights;
- each source alone, with the whole weight: what a model of this one source has before it learns;
- the best single source, chosen on the training labels: those are divided again, and the source
  that is right most often there answers for the items that are held out (among equal ones the one
  with the smaller log loss). The best source *seen afterwards* is a choice by the held-out labels,
  and the more sources there are the better it looks;
- the most frequent class of all labels, as a floor. (Chosen on training labels it would do worse
  than chance where classes have equal sizes: the one that is held out is the rarest there.)
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import copy, deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from metricmix.estimators.base import ONE_RUN, make_objective, refuse_fixed_labels, seed_of
from metricmix.estimators.classifier import MetricMixtureClassifier
from metricmix.estimators.held_out import HeldOut
from metricmix.estimators.labels import LabelledKFold
from metricmix.exceptions import ConvergenceWarning, InputError, warn_caller
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.mixture.linear import Mixture
from metricmix.solvers.result import SolveResult, Status
from metricmix.typing import Floats, Indices
from metricmix.validation import check_choice, check_integer

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["KINDS", "Comparison", "Method", "compare"]


Fold = tuple[Indices, Indices]
"""Places of the training items and of those held out, among the labelled ones."""
FEWEST = 3
"""Labelled items there must be: one to hold out, and two to learn from."""


def compare(
    model: MetricMixtureClassifier,
    *,
    n_splits: int = 5,
    n_repeats: int = 1,
    random_state: Any = 0,
    on_fold: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Return how a fitted model's way of learning does on held-out labels, beside simpler ones.

    :mod:`metricmix.estimators.comparison` says what is compared. The sources stay those of the fit,
    made without labels, and so do all parameters; if these were chosen by the same labels, that
    choice is not tested.

    Parameters
    ----------
    model : fitted MetricMixtureClassifier
    n_splits : int
        Folds, at most as many as there are labelled items.
    n_repeats : int
        How often to deal the folds anew.
    random_state : int, RandomState, Generator or None
        For the folds. Learning has that of the model.
    on_fold : callable, optional
        Called with (done, total) after each metric: one per source, one for equal weights, and one
        per fold.

    Returns
    -------
    Comparison

    Raises
    ------
    InputError
        If there are fewer than three labelled items, or the objective was made for fixed labels.

    Notes
    -----
    Shortest paths are searched once for each source, once for equal weights, and once for each
    fold's own weights. Ctrl-C raises KeyboardInterrupt.

    Where the training labels of a fold have no class with two items, or are all of one class,
    nothing can be learned, and weights stay equal; `how` then says so.

    Examples
    --------
    >>> import numpy as np, metricmix as mm
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> known = np.where(np.arange(150) % 5 == 0, y, -1)
    >>> model = mm.MetricMixtureClassifier({"size": "euclidean", "shape": "cosine"}).fit(X, known)
    >>> print(compare(model))
    learned mixture      1.000 ± 0.000
    equal weights        1.000 ± 0.000
    best single source   0.967 ± 0.033
    size                 1.000 ± 0.000
    shape                0.967 ± 0.033
    most frequent class  0.333 ± 0.000
    (5 folds over 30 labelled items; held-out items stay in the metric, unlabelled)
    """
    if not isinstance(model, MetricMixtureClassifier):
        raise InputError(
            argument="model",
            expected="a MetricMixtureClassifier",
            found=type(model).__name__,
            remedy="of a search pass best_estimator_, whose settings are then not tested",
        )
    check_is_fitted(model)
    refuse_fixed_labels(model.objective)
    n_splits = check_integer(n_splits, name="n_splits", low=2)
    labelled = np.flatnonzero(model._codes >= 0)
    if len(labelled) < FEWEST:
        raise InputError(
            argument="model",
            expected=(
                f"{FEWEST} labelled items at least, to hold one out and learn from "
                f"the others, found {len(labelled)}"
            ),
        )
    n_splits = min(n_splits, len(labelled))
    splitter = LabelledKFold(n_splits, n_repeats=n_repeats, random_state=seed_of(random_state))
    return _Trials(model, labelled, splitter, on_fold).run()


class _Trials:
    """The folds of a comparison, and what each method makes of them."""

    def __init__(
        self,
        model: MetricMixtureClassifier,
        labelled: Indices,
        splitter: LabelledKFold,
        on_fold: Callable[[int, int], None] | None,
    ) -> None:
        self.model, self.stack, self.labelled = model, model.stack_, labelled
        self.codes = model._codes[labelled]
        self.n_classes = len(model.classes_)
        self.splitter = splitter
        self.folds: list[Fold] = list(splitter.split(None, self.codes))
        self.inner = [self._divided(train) for train, _ in self.folds]
        self.on_fold, self.done = on_fold, 0
        self.not_learned = self.not_converged = 0

    def run(self) -> Comparison:
        """Ask all of them."""
        R, classes = self.stack.n_sources, self.model.classes_
        equal = self._metric(self.model._equal_weights(self.stack))
        found = {"equal": self._answers([equal] * len(self.folds))}
        self._count()
        singles, scores = [], []
        for r in range(R):
            metric = self._metric(self.model._total_weight() * np.eye(R)[r])
            singles.append(self._answers([metric] * len(self.folds)))
            scores.append([self._score(metric, inner) for inner in self.inner])
            self._count()
        best = [of_fold.index(min(of_fold)) for of_fold in zip(*scores, strict=True)]
        found["best-single"] = [singles[r][f] for f, r in enumerate(best)]
        found["most-frequent"] = [
            np.full(len(test), np.bincount(self.codes).argmax()) for _, test in self.folds
        ]
        found["learned"], weights = self._learned()
        methods = [self._method(KINDS[kind], kind, answers) for kind, answers in found.items()]
        names = self.stack.names
        methods += [self._method(names[r], "single", singles[r]) for r in range(R)]
        order = ("learned", "equal", "best-single", "single", "most-frequent")
        methods.sort(key=lambda method: order.index(method.kind))
        confusion = np.zeros((self.n_classes, self.n_classes), dtype=np.int64)
        for (_, test), answer in zip(self.folds, found["learned"], strict=True):
            np.add.at(confusion, (self.codes[test], answer), 1)
        return Comparison(
            methods=tuple(methods),
            how=self._how(),
            classes=classes,
            confusion=confusion,
            items=self.stack.items[self.labelled],
            labels=classes[self.codes],
            chosen={names[r]: best.count(r) for r in range(R)},
            weights=np.array(weights),
            n_splits=self.splitter.n_splits,
            n_repeats=self.splitter.n_repeats,
        )

    # -- metrics and what they say ---------------------------------------------------------------

    def _metric(self, weights: Floats) -> HeldOut:
        model, stack = self.model, self.stack
        mixture = Mixture(weights, stack.names, beta=model.beta, scaling=stack.scales)
        options: Any = {"vote": model.vote, "alpha": model.alpha, "n_jobs": model.n_jobs}
        return HeldOut(EdgeLengths(stack, mixture), self.labelled, self.n_classes, **options)

    def _probabilities(self, metric: HeldOut, fold: Fold) -> Floats:
        train, test = fold
        known = np.full(len(self.codes), -1)
        known[train] = self.codes[train]
        return metric.probabilities(self.model.rule, self.model.n_neighbors, test, known)

    def _answers(self, metrics: list[HeldOut]) -> list[Indices]:
        """Return the class numbers of the items held out in each fold, by its metric."""
        return [
            self._probabilities(metric, fold).argmax(axis=1)
            for metric, fold in zip(metrics, self.folds, strict=True)
        ]

    # -- the best single source ------------------------------------------------------------------

    def _divided(self, train: Indices) -> list[Fold]:
        """Return the training items divided again; nothing else is looked at."""
        again = LabelledKFold(
            min(self.splitter.n_splits, len(train)), random_state=self.splitter.random_state
        )
        return [(train[a], train[b]) for a, b in again.split(None, self.codes[train])]

    def _score(self, metric: HeldOut, folds: list[Fold]) -> tuple[float, float]:
        """Return how often a metric errs on the inner folds, and its log loss."""
        p = np.concatenate([self._probabilities(metric, fold) for fold in folds])
        right = np.concatenate([self.codes[test] for _, test in folds])
        chance = np.maximum(p[np.arange(len(p)), right], 1e-15)
        return float((p.argmax(axis=1) != right).mean()), float(-np.log(chance).mean().round(12))

    # -- the learned mixture ---------------------------------------------------------------------

    def _learned(self) -> tuple[list[Indices], list[Floats]]:
        """Return the answers of the weights learned on each fold, and these."""
        answers, weights = [], []
        for fold in self.folds:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # one for all of them, below
                result = self._learn(fold[0])
            if result.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            self.not_converged += not result.status.is_success
            assert result.weights is not None
            weights.append(result.weights)
            metric = self._metric(result.weights)
            answers.append(self._probabilities(metric, fold).argmax(axis=1))
            self._count()
        if self.not_converged:
            warn_caller(
                f"in {self.not_converged} of {len(self.folds)} folds learning stopped before it "
                "converged; raise max_iter",
                ConvergenceWarning,
            )
        return answers, weights

    def _learn(self, train: Indices) -> SolveResult:
        """Learn the weights from the labels of the training items, as the model does from all."""
        trial = copy(self.model)
        trial.random_state = deepcopy(self.model.random_state)
        trial.verbose = False
        options = {k: v for k, v in (self.model.solver_options or {}).items() if k not in ONE_RUN}
        sizes = np.bincount(self.codes[train])
        if isinstance(trial.objective, str) and (sizes.max() < 2 or (sizes > 0).sum() < 2):
            self.not_learned += 1
            return trial._solve(None, self.stack)
        known = np.full(self.stack.n_items, -1)
        known[self.labelled[train]] = self.codes[train]
        try:
            objective = make_objective(trial, known, self.model.classes_)
        except InputError as error:
            raise InputError(
                "one of the training sets will not do", argument="model", remedy=error
            ) from None
        return trial._solve(objective, self.stack, **options)

    # -- what came out ---------------------------------------------------------------------------

    def _count(self) -> None:
        self.done += 1
        if self.on_fold is not None:
            self.on_fold(self.done, self.stack.n_sources + 1 + len(self.folds))

    def _method(self, name: str, kind: str, answers: list[Indices]) -> Method:
        splits, L = self.splitter.n_splits, len(self.codes)
        right = [
            (answer == self.codes[test]).mean()
            for (_, test), answer in zip(self.folds, answers, strict=True)
        ]
        predicted = np.empty((self.splitter.n_repeats, L), dtype=np.int64)
        for f, ((_, test), answer) in enumerate(zip(self.folds, answers, strict=True)):
            predicted[f // splits, test] = answer
        return Method(
            name,
            kind,
            np.array(right),
            float((predicted == self.codes).mean()),
            float(np.std(right, ddof=1) / np.sqrt(splits)),
            self.model.classes_[predicted],
        )

    def _how(self) -> str:
        splits, repeats = self.splitter.n_splits, self.splitter.n_repeats
        dealt = f", dealt {repeats} times," if repeats > 1 else ""
        alone = int((np.bincount(self.codes) == 1).sum())
        parts = [
            f"{splits} folds{dealt} over {len(self.codes)} labelled items",
            "held-out items stay in the metric, unlabelled",
        ]
        if alone:
            classes = "1 class has" if alone == 1 else f"{alone} classes have"
            parts.append(f"{classes} a single labelled item, which nobody gets right")
        if self.not_learned:
            parts.append(
                f"in {self.not_learned} of {len(self.folds)} folds there were too few labels to "
                "learn from, and weights stayed equal"
            )
        return "; ".join(parts)


# -- what a comparison found: methods side by side, on labels that none of them saw -------------

KINDS = {
    "learned": "learned mixture",
    "equal": "equal weights",
    "best-single": "best single source",
    "most-frequent": "most frequent class",
}
"""What is compared besides the sources, and its name."""


@dataclass(frozen=True, eq=False)
class Method:
    """How well one way to label items does on items that it did not see the labels of.

    Attributes
    ----------
    name : str
        Of a source: that of the stack.
    kind : {"learned", "equal", "best-single", "single", "most-frequent"}
    accuracy : (F,) array
        Share of the held-out items that got their label, by fold; all folds of a repeat together.
    mean : float
        The same over all held-out items, so that larger folds count more.
    standard_error : float
        Standard deviation of `accuracy` over folds (F - 1 in its denominator), divided by the
        square root of the number of splits: repeats are not more data. Training sets overlap, so it
        is a guide, and no test.
    predictions : (n_repeats, L) array
        The label of each labelled item while it was held out.
    """

    name: str
    kind: str
    accuracy: Floats
    mean: float
    standard_error: float
    predictions: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Learned weights beside simpler choices, on labels that were held out.

    Attributes
    ----------
    methods : tuple of Method
        The learned mixture, equal weights, the best single source, each source, the most frequent
        class.
    how : str
        One sentence that says how it was done.
    classes : (C,) array
    confusion : (C, C) array of int
        How often held-out items of class a (row) got class b (column) from the learned mixture,
        repeats counted each.
    items, labels : (L,) arrays
        The ids and the labels of the labelled items, in the order of the stack.
    chosen : dict of str to int
        In how many folds each source was the best single one on the training labels.
    weights : (F, R) array
        What was learned in each fold.
    n_splits, n_repeats : int
        As used: not more splits than labelled items.
    """

    methods: tuple[Method, ...]
    how: str
    classes: NDArray[Any]
    confusion: Indices
    items: NDArray[Any]
    labels: NDArray[Any]
    chosen: dict[str, int]
    weights: Floats
    n_splits: int
    n_repeats: int

    def __getitem__(self, kind: str) -> Method:
        """Return the method of a kind of which there is one."""
        check_choice(kind, tuple(KINDS), name="kind")
        return next(method for method in self.methods if method.kind == kind)

    @property
    def sources(self) -> tuple[Method, ...]:
        """The single sources, in the order of the stack."""
        return tuple(method for method in self.methods if method.kind == "single")

    def to_frame(self) -> pd.DataFrame:
        """Return a table with a row per method: name, kind, mean, standard_error."""
        import pandas as pd

        columns = ("name", "kind", "mean", "standard_error")
        return pd.DataFrame({c: [getattr(m, c) for m in self.methods] for c in columns})

    def __str__(self) -> str:
        width = max(len(method.name) for method in self.methods)
        lines = [f"{m.name:<{width}}  {m.mean:.3f} ± {m.standard_error:.3f}" for m in self.methods]
        return "\n".join([*lines, f"({self.how})"])

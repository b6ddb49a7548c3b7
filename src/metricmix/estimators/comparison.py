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
- classifiers that learn no metric, on the attributes of the items and on the links between them
  (:mod:`metricmix.estimators.baselines`): the nearest neighbour, logistic regression, support
  vectors, label propagation. Where there are no attributes, or sources that were not computed from
  them: the nearest and the five nearest neighbours by the best single source;
- the most frequent class of all labels, as a floor. (Chosen on training labels it would do worse
  than chance where classes have equal sizes: the one that is held out is the rarest there.)

Two methods are compared on the same folds: one *is better* if the mean difference of their
accuracies is more than one standard error of that difference, over folds or over items, else they
*tie*. (Over folds alone, a difference in one fold only would never be more than its error.)
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from copy import copy, deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from metricmix.dissimilarity.encoded_table import ItemData, encode_table
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.estimators.base import (
    check_refittable,
    has_settled,
    make_objective,
    seed_of,
    total_weight,
)
from metricmix.estimators.baselines import baselines_of, item_data
from metricmix.estimators.chosen_sources import select_sources
from metricmix.estimators.classifier import MetricMixtureClassifier
from metricmix.estimators.cross_validation import FEWEST_LABELS
from metricmix.estimators.inputs import FeatureInput
from metricmix.estimators.rules import KNearest, Nearest, Rule
from metricmix.estimators.selection import FEW_LABELS, FOLDS, FoldPredictor, LabelledKFold
from metricmix.exceptions import (
    ConvergenceWarning,
    InputError,
    ProjectionWarning,
    warn_caller,
)
from metricmix.kernels.blocks import map_tasks
from metricmix.kernels.threads import small_products
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.mixture.linear import Mixture
from metricmix.solvers.result import SolveResult, Status
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import check_choice, check_integer

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["KINDS", "Comparison", "Method", "PairedDifference", "compare"]


FEW_IN_ALL = 20
"""Labels up to which each is held out by itself, if they are few a class as well."""
Fold = tuple[Indices, Indices]
"""Positions of the training items and of those held out, among the labelled ones."""
KINDS = {
    "learned": "learned metric",
    "equal": "equal weights",
    "best-single": "best single source",
    "source-1-nn": "1-NN on the best source",
    "source-5-nn": "5-NN on the best source",
    "1-nn": "1-NN on the table",
    "logistic": "logistic regression on the table",
    "svc": "support vectors on the table",
    "propagation": "label propagation over the links",
    "most-frequent": "most frequent class",
}
"""What may be compared besides the sources, and its name. Without links, label propagation is over
near rows of the table; of several graphs, over the one that was best by the training labels of most
folds."""
ORDER = (*list(KINDS)[:-1], "single", "most-frequent")
ADVICE = {
    "equal": "learn less: a larger rho",
    "best-single": "leave out the other sources",
    "source-1-nn": "try the rule 'nearest'",
    "source-5-nn": "try the rule 'k-nearest'",
    "1-nn": "try the rule 'nearest'",
    "most-frequent": "the sources say little about these labels; check both",
    "propagation": "try the rule 'spreading', or take the propagated labels",
}
"""What to do where a simpler method is better."""
OTHER_ADVICE = "predict with it, and use the metric for what needs distances"
TIE_ADVICE = {
    "equal": ("equal weights are simpler", "label more items if the weights matter"),
    "best-single": ("one source is simpler", "if only labels matter, leave out the others"),
}
OTHER_TIE_ADVICE = (
    "{name} is simpler",
    "predict with it if only labels matter, and use the metric for what needs distances",
)
"""Where a method does as well: that it is simpler, and what to do if it is not behind at all."""


def compare(
    model: MetricMixtureClassifier,
    *,
    features: Any = None,
    graph: Any = None,
    n_splits: int | None = None,
    n_repeats: int = 1,
    random_state: Any = 0,
    on_fold: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Compare the learning of a fitted model with simpler methods on held-out labels.

    :mod:`metricmix.estimators.comparison` says what is compared. The sources stay those of the fit,
    but for supervised ones, which each fold computes from its own labels. All parameters stay, too,
    and what the fit chose (`selection_`); that choice is not tested, but for the sources that few
    labels choose: each fold chooses them by its own labels.

    Parameters
    ----------
    model : fitted MetricMixtureClassifier
    features : array, scipy sparse or DataFrame (n, d), optional
        The attributes of the items of `stack_`, for classifiers that learn no metric: numbers,
        categories, texts (:mod:`metricmix.dissimilarity.encoded_table`). Default: what the model
        was fitted to, or what :func:`~metricmix.sources_for` made the stack of.
    graph : optional
        The links between them, as :func:`~metricmix.dissimilarity.as_graph` takes them.
    n_splits : int, optional
        Folds, at most as many as there are labelled items. Default: 5; of at most 20 labels that
        are fewer than five a class, each is held out by itself.
    n_repeats : int
        Number of repetitions, each with new folds.
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
        If there are fewer than three labelled items, the objective was made for fixed labels, or
        `features` has not a row per item.

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
    >>> found = compare(model)
    >>> found["learned"].mean, found["logistic"].mean, round(found["most-frequent"].mean, 3)
    (1.0, 1.0, 0.333)
    >>> found.verdict.status, found.verdict.rival.name
    ('tie', 'equal weights')
    >>> print(found.how)
    5 folds over 30 labelled items; held-out items stay in the metric, unlabelled
    """
    if not isinstance(model, MetricMixtureClassifier):
        raise InputError(
            argument="model",
            expected="a MetricMixtureClassifier",
            found=type(model).__name__,
            remedy="of a search pass best_estimator_, whose settings are then not tested",
        )
    check_is_fitted(model)
    check_refittable(model.objective)
    labelled = np.flatnonzero(model._codes >= 0)
    if n_splits is None:
        few = np.bincount(model._codes[labelled]).mean() < FEW_LABELS
        n_splits = max(2, len(labelled)) if few and len(labelled) <= FEW_IN_ALL else FOLDS
    n_splits = check_integer(n_splits, name="n_splits", low=2)
    if len(labelled) < FEWEST_LABELS:
        raise InputError(
            argument="model",
            expected=(
                f"at least {FEWEST_LABELS} labelled items, to hold one out and learn from "
                f"the others, found {len(labelled)}"
            ),
        )
    n_splits = min(n_splits, len(labelled))
    splitter = LabelledKFold(n_splits, n_repeats=n_repeats, random_state=seed_of(random_state))
    stack = model.stack_
    if isinstance(model._input, FeatureInput):
        stack = stack.with_item_data(ItemData(encode_table(model._input.X)))
    data = item_data(stack, features, graph)
    with small_products(len(labelled)):
        return Trials(model, labelled, splitter, data, on_fold).run()


class Trials:
    """The folds of a comparison, and the predictions of each method on them."""

    def __init__(
        self,
        model: MetricMixtureClassifier,
        labelled: Indices,
        splitter: LabelledKFold,
        data: ItemData,
        on_fold: Callable[[int, int], None] | None,
    ) -> None:
        self.model, self.given = model._settled(model.selection_.best), model
        self.stack, self.labelled = model._input.stack, labelled
        self.codes, self.splitter = model._codes[labelled], splitter
        self.by_source = data.table is None or not data.complete
        self.baselines, self.remarks = baselines_of(data, labelled, len(model.classes_))
        self.folds: list[Fold] = list(splitter.split(None, self.codes))
        self.on_fold = on_fold or (lambda done, total: None)
        # Supervised sources are computed from the training labels of each fold.
        self.stacks = [
            self.stack.relabelled(self.known(train), len(model.classes_)) for train, _ in self.folds
        ]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "on_fold": None}  # folds are reported where they were started

    def known(self, train: Indices) -> Indices:
        """Return the class numbers of all items of the stack, -1 but for those of `train`."""
        known = np.full(self.stack.n_items, -1)
        known[self.labelled[train]] = self.codes[train]
        return known

    def run(self) -> Comparison:
        """Compare all methods."""
        R, names, classes = self.stack.n_sources, self.stack.names, self.model.classes_
        total = R + 1 + len(self.folds)
        equal = np.full(R, total_weight(self.model.constraint) / R)
        found = {"equal": self.predictions(self.metrics(equal))}
        self.on_fold(1, total)
        # The training items of each fold are split again, to choose the best single source.
        inner: list[list[Fold]] = []
        for train, _ in self.folds:
            again = LabelledKFold(
                min(self.splitter.n_splits, len(train)), random_state=self.splitter.random_state
            )
            split = again.split(None, self.codes[train])
            inner.append([(train[a], train[b]) for a, b in split])
        singles, losses = [], []
        near: dict[str, list[list[Indices]]] = {"source-1-nn": [], "source-5-nn": []}
        for r in range(R):
            metrics = self.metrics(total_weight(self.model.constraint) * np.eye(R)[r])
            singles.append(self.predictions(metrics))
            if self.by_source:
                near["source-1-nn"].append(self.predictions(metrics, Nearest()))
                near["source-5-nn"].append(self.predictions(metrics, KNearest()))
            pairs = zip(metrics, inner, strict=True)
            losses.append([self.losses(metric, folds) for metric, folds in pairs])
            self.on_fold(r + 2, total)
        best = [of_fold.index(min(of_fold)) for of_fold in zip(*losses, strict=True)]
        found["best-single"] = [singles[r][f] for f, r in enumerate(best)]
        for kind, by_source in near.items():
            if by_source:
                found[kind] = [by_source[r][f] for f, r in enumerate(best)]
        titles = dict(KINDS)
        for baseline in self.baselines:
            found[baseline.kind] = [
                baseline.predict(train, self.codes[train], test) for train, test in self.folds
            ]
            chosen = "" if baseline.choice is None else f" {baseline.choice()}"
            titles[baseline.kind] = baseline.name + chosen
        most_frequent = np.bincount(self.codes).argmax()
        found["most-frequent"] = [np.full(len(test), most_frequent) for _, test in self.folds]
        found["learned"], results = [], []
        learned = map_tasks(Trials.of_fold, self, range(len(self.folds)))
        for f, (result, answer) in enumerate(learned):
            results.append(result)
            found["learned"].append(answer)
            self.on_fold(R + 2 + f, total)
        not_converged = sum(not has_settled(result) for result in results)
        if not_converged:
            warn_caller(
                f"in {not_converged} of {len(self.folds)} folds learning stopped before it "
                "converged; raise max_iter",
                ConvergenceWarning,
            )
        methods = [self.method(titles[kind], kind, answers) for kind, answers in found.items()]
        methods += [self.method(names[r], "single", singles[r]) for r in range(R)]
        methods.sort(key=lambda method: ORDER.index(method.kind))
        confusion = np.zeros((len(classes), len(classes)), dtype=np.int64)
        for (_, test), answer in zip(self.folds, found["learned"], strict=True):
            np.add.at(confusion, (self.codes[test], answer), 1)
        not_learned = sum(result.objective_kind == "none" for result in results)
        return Comparison(
            methods=tuple(methods),
            how=self.how(not_learned if isinstance(self.model.objective, str) else 0),
            classes=classes,
            confusion=confusion,
            items=self.stack.items[self.labelled],
            labels=classes[self.codes],
            chosen={names[r]: best.count(r) for r in range(R)},
            weights=np.array([result.weights for result in results]),
            n_splits=self.splitter.n_splits,
            n_repeats=self.splitter.n_repeats,
            nothing_learned=not_learned == len(results) and self.model._single is None,
        )

    def metrics(self, weights: Floats) -> list[FoldPredictor]:
        """Return the metric of some weights in each fold: the same, unless some are supervised."""
        if self.stack.supervised:
            return [self.metric(weights, stack) for stack in self.stacks]
        return [self.metric(weights, self.stack)] * len(self.folds)

    def metric(self, weights: Mixture | Floats | None, stack: DissimilarityStack) -> FoldPredictor:
        """Return the metric of a mixture, or of some weights."""
        assert weights is not None
        model = self.model
        if not isinstance(weights, Mixture):
            weights = Mixture(weights, stack.names, beta=model.beta, scaling=stack.scales)
        lengths = EdgeLengths(model._along(stack, weights), weights)
        return FoldPredictor(lengths, self.labelled, len(model.classes_), model.n_jobs)

    def probabilities(self, metric: FoldPredictor, fold: Fold, rule: Rule | None = None) -> Floats:
        """Return the class probabilities of the items held out in a fold, by the model's rule."""
        train, test = fold
        known = np.full(len(self.codes), -1)
        known[train] = self.codes[train]
        return metric.probabilities(rule or self.model.rule_, test, known)

    def predictions(self, metrics: list[FoldPredictor], rule: Rule | None = None) -> list[Indices]:
        """Return the class numbers of the items held out in each fold."""
        pairs = zip(metrics, self.folds, strict=True)
        return [self.predict(metric, fold, rule) for metric, fold in pairs]

    def predict(self, metric: FoldPredictor, fold: Fold, rule: Rule | None = None) -> Indices:
        """Return the class numbers of the items held out in a fold."""
        return np.asarray(self.probabilities(metric, fold, rule).argmax(axis=1))

    def losses(self, metric: FoldPredictor, folds: list[Fold]) -> tuple[float, float]:
        """Return the error rate of a metric on some folds, and its log loss."""
        p = np.concatenate([self.probabilities(metric, fold) for fold in folds])
        right = np.concatenate([self.codes[test] for _, test in folds])
        chance = np.maximum(p[np.arange(len(p)), right], 1e-15)
        return float((p.argmax(axis=1) != right).mean()), float(-np.log(chance).mean().round(12))

    def of_fold(self, f: int) -> tuple[SolveResult, Indices]:
        """Learn without the labels held out in fold number `f`, and predict these."""
        fold = self.folds[f]
        result, used = self.learn(fold[0], self.stacks[f])
        return result, self.predict(self.metric(result.mixture, used), fold)

    def learn(
        self, train: Indices, stack: DissimilarityStack
    ) -> tuple[SolveResult, DissimilarityStack]:
        """Learn the weights from the labels of the training items, as the model does from all.

        Returned with the stack that they are used on, of a geodesic metric that on its edges.
        Sources are chosen anew where labels are few. Weights stay equal where labels are too few
        for a named objective.
        """
        trial = copy(self.model)
        trial.random_state = deepcopy(self.model.random_state)
        known, n_classes = self.known(train), len(self.model.classes_)
        sources = select_sources(self.given._as_linear(), stack, known, n_classes)
        trial._centred_on = None if sources is None else sources.best.sources
        sizes = np.bincount(self.codes[train])
        if isinstance(trial.objective, str) and (sizes.max() < 2 or (sizes > 0).sum() < 2):
            return trial._solve(None, stack), stack
        try:
            objective = make_objective(trial, known, self.model.classes_)
        except InputError as error:
            raise InputError(
                "a training set cannot be used", argument="model", remedy=error
            ) from None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # one for all folds, in run
            warnings.simplefilter("ignore", ProjectionWarning)  # the fit has said so
            used, _ = trial._with_edges(objective, stack)
            result, _ = trial._solve_as_used(objective, used, refit=True, verbose=False)
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return result, used

    def method(self, name: str, kind: str, answers: list[Indices]) -> Method:
        """Return how good the predictions of a method are."""
        splits, L = self.splitter.n_splits, len(self.codes)
        right = [
            (answer == self.codes[test]).mean()
            for (_, test), answer in zip(self.folds, answers, strict=True)
        ]
        predicted = np.empty((self.splitter.n_repeats, L), dtype=np.int64)
        for f, ((_, test), answer) in enumerate(zip(self.folds, answers, strict=True)):
            predicted[f // splits, test] = answer
        mean = float((predicted == self.codes).mean())
        over_folds = float(np.std(right, ddof=1) / np.sqrt(splits))
        over_items = math.sqrt(mean * (1.0 - mean) / L)
        error = max(over_folds, over_items)
        return Method(name, kind, np.array(right), mean, error, self.model.classes_[predicted])

    def how(self, not_learned: int) -> str:
        """Return how the comparison was made, in a sentence."""
        splits, repeats = self.splitter.n_splits, self.splitter.n_repeats
        dealt = f", dealt {repeats} times," if repeats > 1 else ""
        alone = int((np.bincount(self.codes) == 1).sum())
        parts = [
            f"{splits} folds{dealt} over {len(self.codes)} labelled items",
            "held-out items stay in the metric, unlabelled",
        ]
        if alone:
            classes = "1 class has" if alone == 1 else f"{alone} classes have"
            most = 100 * (1 - alone / len(self.codes))
            parts.append(
                f"{classes} a single labelled item, which no method can get right, so that "
                f"{most:.1f} % is the most that is possible"
            )
        if not_learned:
            parts.append(
                f"in {not_learned} of {len(self.folds)} folds there were too few labels to "
                "learn from, and weights stayed equal"
            )
        return "; ".join(parts + self.remarks)


@dataclass(frozen=True, eq=False)
class Method:
    """The accuracy of one method on held-out labels.

    Attributes
    ----------
    name : str
        Of a source: that of the stack.
    kind : str
        "learned", "equal", "best-single", "source-1-nn", "source-5-nn", "1-nn", "logistic", "svc",
        "propagation", "single" (a source) or "most-frequent".
    accuracy : (F,) array
        Share of the held-out items that got their label, by fold; all folds of a repeat together.
    mean : float
        The same over all held-out items, so that larger folds count more.
    standard_error : float
        Standard deviation of `accuracy` over folds (F - 1 in its denominator), divided by the
        square root of the number of splits: repeats are not more data. A few folds may agree by
        chance, so it is at least that of L independent items, ``sqrt(mean (1 - mean) / L)``.
        Training sets overlap, so it is a guide, and no test.
    predictions : (n_repeats, L) array
        The label of each labelled item while it was held out.
    """

    name: str
    kind: str
    accuracy: Floats
    mean: float
    standard_error: float
    predictions: AnyArray


@dataclass(frozen=True, eq=False)
class Comparison:
    """Learned weights compared with simpler methods on held-out labels.

    Attributes
    ----------
    methods : tuple of Method
        The learned metric, equal weights, the best single source, classifiers that learn no
        metric, each source, the most frequent class.
    how : str
        One sentence that says how it was done.
    classes : (C,) array
    confusion : (C, C) array of int
        How often held-out items of class a (row) got class b (column) from the learned metric,
        repeats counted each.
    items, labels : (L,) arrays
        The ids and the labels of the labelled items, in the order of the stack.
    chosen : dict of str to int
        In how many folds each source was the best single one on the training labels.
    weights : (F, R) array
        What was learned in each fold.
    n_splits, n_repeats : int
        As used: not more splits than labelled items.
    nothing_learned : bool
        Whether weights were equal in all folds, for want of labels.
    """

    methods: tuple[Method, ...]
    how: str
    classes: AnyArray
    confusion: Indices
    items: AnyArray
    labels: AnyArray
    chosen: dict[str, int]
    weights: Floats
    n_splits: int
    n_repeats: int
    nothing_learned: bool = False

    def __getitem__(self, kind: str) -> Method:
        """Return the method of a kind of which there is one."""
        present = [method.kind for method in self.methods if method.kind != "single"]
        check_choice(kind, tuple(present), name="kind")
        return next(method for method in self.methods if method.kind == kind)

    @property
    def sources(self) -> tuple[Method, ...]:
        """The single sources, in the order of the stack."""
        return tuple(method for method in self.methods if method.kind == "single")

    @property
    def best_source(self) -> str:
        """The source that was best by the training labels of most folds; "" if that is unknown."""
        return max(self.chosen, key=lambda name: self.chosen[name], default="")

    @property
    def verdict(self) -> PairedDifference:
        """The learned metric compared with the best other method."""
        rivals = [method for method in self.methods if method.kind not in ("learned", "single")]
        if self.nothing_learned:  # equal weights are what is compared
            rivals = [method for method in rivals if method.kind != "equal"]
        if len(self.sources) == 1:  # which these are then, too
            rivals = [method for method in rivals if method.kind not in ("equal", "best-single")]
        against = [self.difference(method) for method in rivals]
        better = [one for one in against if one.status == "behind"]
        equal = [one for one in against if one.status == "tie"]
        return max(better or equal or against, key=lambda one: one.rival.mean)

    def difference(self, rival: Method | str) -> PairedDifference:
        """Return the difference to another method, paired over the folds."""
        if isinstance(rival, str):
            rival = self[rival]
        learned = self["learned"]
        gains = learned.accuracy - rival.accuracy
        error = float(np.std(gains, ddof=1) / np.sqrt(self.n_splits))
        of_items = [(method.predictions == self.labels).mean(axis=0) for method in (learned, rival)]
        apart = np.subtract(*of_items)
        counts = np.unique(self.labels, return_counts=True)[1]
        return PairedDifference(
            learned,
            rival,
            learned.mean - rival.mean,
            error,
            self.n_splits,
            float(np.sqrt(np.square(apart).sum()) / len(apart)) if len(apart) else np.inf,
            mine="equal weights" if self.nothing_learned else "the learned metric",
            source=self.best_source,
            possible=float(1.0 - (counts == 1).sum() / max(1, counts.sum())),
            frequent=next((one.mean for one in self.methods if one.kind == "most-frequent"), 0.0),
        )

    def to_frame(self) -> pd.DataFrame:
        """Return a table with a row per method: name, kind, mean, standard_error."""
        import pandas as pd

        columns = ("name", "kind", "mean", "standard_error")
        return pd.DataFrame({c: [getattr(m, c) for m in self.methods] for c in columns})

    def __str__(self) -> str:
        width = max(len(method.name) for method in self.methods)
        lines = [f"{m.name:<{width}}  {m.mean:.3f} ± {m.standard_error:.3f}" for m in self.methods]
        return "\n".join([str(self.verdict), *lines, f"({self.how})"])


@dataclass(frozen=True, eq=False)
class PairedDifference:
    """The learned metric compared with another method on the same folds.

    Attributes
    ----------
    learned, rival : Method
    gain : float
        Difference of their accuracies, positive if the learned metric is right more often.
    standard_error : float
        Of the differences by fold.
    n_splits : int
    item_error : float
        The standard error by item: the root of the number of items that one of the two gets right
        and the other does not, divided by the number of items.
    mine : str
        What the metric is: "equal weights" where there were too few labels to learn from.
    source : str
        The best single source.
    possible : float
        The highest accuracy that is possible: no method gets the only label of a class right.
    frequent : float
        The accuracy of always predicting the most frequent class.
    """

    learned: Method
    rival: Method
    gain: float
    standard_error: float
    n_splits: int
    item_error: float = np.inf
    mine: str = "the learned metric"
    source: str = ""
    possible: float = 1.0
    frequent: float = 0.0

    @property
    def error(self) -> float:
        """The larger one of the two standard errors: a few folds may agree by chance."""
        known = np.isfinite(self.item_error)
        return max(self.standard_error, self.item_error) if known else self.standard_error

    @property
    def status(self) -> str:
        """One of "ahead", "tie" and "behind".

        Ahead by more than two standard errors, behind by more than one, over folds or over items:
        what may be a loss is said sooner than what may be a gain.
        """
        if self.gain > 2.0 * self.error + 1e-9:  # rounding
            return "ahead"
        error = min(self.standard_error, self.item_error)
        return "behind" if self.gain < -error - 1e-9 else "tie"

    def to_record(self) -> dict[str, Any]:
        """Return the verdict for JSON."""
        return {
            "status": self.status,
            "best_other": self.rival.name,
            "gain": self.gain,
            "standard_error": self.error,
            "sentence": str(self),
        }

    def __str__(self) -> str:
        """One sentence, with what to do where the other method is better, or as good."""
        mine, other = f"{100 * self.learned.mean:.1f} %", f"{100 * self.rival.mean:.1f} %"
        apart = (
            f"{100 * abs(self.gain):.1f} ± {100 * self.error:.1f} points over {self.n_splits} folds"
        )
        name, status = self.rival.name, self.status
        labels = "held-out labels"
        if self.possible < 1.0:
            labels += f", of which {100 * self.possible:.1f} % can be right at most,"
        if self.rival.kind in ("best-single", "most-frequent"):
            name = f"the {name}"
        if self.rival.kind == "best-single" and self.source:
            name += f" ({self.source!r} in most folds)"
        if status == "behind":
            advice, words = ADVICE.get(self.rival.kind, OTHER_ADVICE), "simpler is better here"
            if self.gain > -2.0 * self.error:
                words = "simpler may be better"
                if self.rival.kind != "most-frequent":
                    advice = f"label more items to be sure, or {advice}"
            return (
                f"{words}: accuracy on {labels} is {other} with {name}, "
                f"{mine} with {self.mine} ({apart}){self.beside_guessing}; {advice}"
            )
        words, advice = f"{self.mine} is best", ""
        if self.mine == "equal weights":
            words = "equal weights are best"
        if status == "tie":
            words = "no clear difference"
            way = "higher" if self.gain > 1e-9 else "lower" if self.gain < -1e-9 else ""
            apart = apart.replace("points", f"points {way}".strip(), 1)
            simpler, do = TIE_ADVICE.get(self.rival.kind, OTHER_TIE_ADVICE)
            do = "label more items to be sure of the gain" if way == "higher" else do
            advice = f"{simpler.format(name=self.rival.name)}: {do}"
            if self.rival.kind == "most-frequent":
                advice = ADVICE[self.rival.kind]
        return (
            f"{words}: accuracy on {labels} is {mine} with {self.mine}, {other} with {name} "
            f"({apart}){self.beside_guessing}" + f"; {advice}" * bool(advice)
        )

    @property
    def beside_guessing(self) -> str:
        """A warning where the metric is hardly better than the most frequent class; else empty."""
        above = self.learned.mean - self.frequent
        if self.rival.kind == "most-frequent" or above > self.learned.standard_error:
            return ""
        return (
            f"; it is not clearly better than always predicting the most frequent class, "
            f"{100 * self.frequent:.1f} %"
        )

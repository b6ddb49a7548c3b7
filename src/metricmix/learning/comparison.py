r"""What learning is worth: the metric beside simpler choices, on labels that none of them saw.

Items of known label or target are held out in turn. They stay in the metric as unlabelled ones,
which is how the model treats items without a label (:mod:`metricmix.fitting.as_new` removes them
from the data instead, for the accuracy on new items). Supervised sources and weights are computed
anew from what is left: the weights of the fitted model know what is held out. Beside it stand

- equal weights;
- each source alone, with the whole weight: what a model of this one source has before it learns;
- the best single source, chosen on the training items: those are divided again, and the source that
  is best there answers for the items that are held out. The best source *seen afterwards* is a
  choice by the held-out items, and the more sources there are the better it looks;
- models that learn no metric, on the attributes of the items and on the links between them
  (:mod:`metricmix.learning.baselines`). For classes without attributes, or with sources that were
  not computed from them: the nearest and the five nearest neighbours by the best single source;
- the most frequent class of all labels or the mean target, as a floor. (Chosen on training labels,
  the former would do worse than chance where classes have equal sizes: the one that is held out is
  the rarest there.)

Two methods are compared on the same folds, :class:`~metricmix.learning.verdict.PairedDifference`:
one *is better* if the mean difference of their scores is more than one standard error of that
difference, over folds or over items, else they *tie*. (Over folds alone, a difference in one fold
only would never be more than its error.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.sources import ItemData
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.exceptions import ConvergenceWarning, InputError, warn_caller
from metricmix.items.in_memory import order_of
from metricmix.labels import check_groups, group_numbers
from metricmix.learning.baselines import Baseline, baselines_of, item_data
from metricmix.learning.held_out import (
    default_splits,
    fold_answers,
    fold_seeds,
    later_items,
    plan_without,
)
from metricmix.learning.learn import along
from metricmix.learning.learned import Learned, Options, total_weight
from metricmix.learning.refits import FoldMetric, RefitPlan, refits
from metricmix.learning.rules import Rule
from metricmix.learning.task import independent_errors
from metricmix.learning.verdict import Comparison, Method
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.mixture.linear import Mixture
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import check_integer

__all__ = ["Comparing", "Fold", "compare", "training_folds", "weights_of"]

NAMES = {
    "learned": "learned metric",
    "equal": "equal weights",
    "best-single": "best single source",
    "source-1-nn": "1-NN on the best source",
    "source-5-nn": "5-NN on the best source",
}
"""What is compared besides the baselines and the sources."""


class Fold(NamedTuple):
    """Items that are held out together.

    Attributes
    ----------
    repeat : int
    test : (M,) array
        Their positions among the items of known value.
    known : Known
        What may be seen of all items of the stack; where these have an order, of earlier ones only.
    near : Known
        The same of the items of known value alone.
    stack : DissimilarityStack
        The sources, computed from what may be seen.
    """

    repeat: int
    test: Indices
    known: Known
    near: Known
    stack: DissimilarityStack


def compare(
    learned: Learned,
    *,
    features: Any = None,
    graph: Any = None,
    groups: Any = None,
    order: Any = None,
    made_from: ItemData | None = None,
    n_splits: int | None = None,
    n_repeats: int = 1,
    random_state: Any = 0,
    on_fold: Callable[[int, int], None] | None = None,
    comparing: Callable[..., Comparing] | None = None,
) -> Comparison:
    """Compare the learning of a fitted model with simpler methods on held-out labels or targets.

    :mod:`metricmix.learning.comparison` says what is compared. The sources stay those of the fit,
    but for supervised ones, which each fold computes from its own labels. All parameters stay, too,
    and what the fit chose (`selection_`); that choice is not tested, but for the sources that few
    labels choose: each fold chooses them by its own labels.

    Parameters
    ----------
    learned : Learned
    features : array, scipy sparse or DataFrame (n, d), optional
        The attributes of the items of `stack_`, for models that learn no metric: numbers,
        categories, texts (:mod:`metricmix.items.columns`). Default: what the model
        was fitted to, or what :func:`~metricmix.sources_for` made the stack of.
    graph : optional
        The links between them, as :func:`~metricmix.dissimilarity.as_graph` takes them.
    groups : array of n, optional
        The group of each item of `stack_`: items of a group are held out together, also by the
        models of supervised sources; one whose group is missing is held out by itself. Default:
        those of the fit.
    order : array of n, optional
        Numbers or dates. The labels are then divided by it into one block more than there are
        folds, equal values together, and each block but the first is tested on the labels before
        it. Later labels are unknown to the fold; items without a label stay in the metric, also
        later ones. What the fit chose, and supervised sources within a training set, are
        cross-validated without regard to the order.
    made_from : ItemData, optional
        What the sources were computed from, if they do not say so.
    n_splits : int, optional
        Folds, at most as many as there are labelled items, or half as many as known targets.
        Default: 5; of at most 20 labels that are fewer than five a class, each is held out by
        itself.
    n_repeats : int
        Number of repetitions, each with new folds.
    random_state : int, RandomState, Generator or None
        For the folds. Learning has that of the model.
    on_fold : callable, optional
        Called with (done, total) after each metric: one per source, one for equal weights, and one
        per fold.
    comparing : callable, optional
        What makes the folds, and says what methods predict; default: :class:`Comparing`.

    Returns
    -------
    Comparison

    Raises
    ------
    InputError
        If there are fewer than three labelled items or five known targets, the objective was made
        for fixed labels, `features` has not a row per item, labelled items are all of one group, or
        `order` lacks a value of one of them or has fewer than three.

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
    >>> found = model.compare()
    >>> found["learned"].mean > 0.9, round(found["most-frequent"].mean, 3)
    (True, 0.333)
    >>> found.verdict.status
    'tie'
    >>> print(found.how)
    5 folds over 30 labelled items; held-out items stay in the metric, unlabelled
    """
    task, known = learned.task, learned.labels
    learned.options.check_refittable()
    n_repeats = check_integer(n_repeats, name="n_repeats", low=1)
    L = len(known.items)
    if n_splits is None:
        n_splits = max(2, default_splits(task, known))
    n_splits = min(check_integer(n_splits, name="n_splits", low=2), max(2, L))
    if task.fewest > L:
        raise InputError(
            argument="model",
            expected=f"at least {task.fewest} known {task.noun}, to hold some out and learn from "
            f"the others, found {L}",
        )
    if groups is not None:
        known = replace(known, groups=group_numbers(groups, known.n))
        learned = replace(learned, known=known)
    if known.groups is not None:
        check_groups(known.groups, known.mask)
    if order is not None:
        order = order_of(order, known.n)[known.items]
        if n_repeats > 1:
            raise InputError(argument="n_repeats", expected="1 with an order", found=n_repeats)
    seeds = fold_seeds(random_state, n_repeats)
    data = item_data(learned.whole, features, graph, made_from)
    by_source = data.table is None or not data.complete
    on_fold = on_fold or (lambda *_: None)
    made = (comparing or Comparing)(learned, n_splits, seeds, by_source, on_fold, order)
    return made.run(*made.baselines(data))


class Comparing:
    """The folds of a comparison, and what each method predicts on them."""

    held_out = "held-out items stay in the metric, unlabelled"

    def __init__(
        self,
        learned: Learned,
        n_splits: int,
        seeds: list[int],
        by_source: bool,
        on_fold: Callable[[int, int], None],
        order: Floats | None = None,
    ) -> None:
        self.learned, self.task, self.options = learned, learned.task, learned.options
        self.stack, self.known, self.items = learned.whole, learned.labels, learned.labels.items
        self.y, self.seeds, self.on_fold = self.known.y, seeds, on_fold
        self.source_rules = self.task.source_rules if by_source else {}
        self.names: tuple[str, ...] = self.stack.names
        self.is_ordered = order is not None
        self.folds = [self.fold(*dealt) for dealt in self.dealt(n_splits, order)]
        self.n_splits = len(self.folds) // len(seeds)
        self.tested: Indices = np.unique(np.concatenate([fold.test for fold in self.folds]))

    def fold(self, repeat: int, train: Indices, test: Indices) -> Fold:
        """Return a fold, its supervised sources computed from the training labels."""
        known = self.known.only(self.items[train])
        return Fold(repeat, test, known, known.take(self.items), self.stack.relabelled(known))

    def baselines(self, data: ItemData) -> tuple[list[Baseline], list[str]]:
        """Return the models that learn no metric, and remarks on them."""
        return baselines_of(data, self.task, self.known)

    def dealt(self, n_splits: int, order: Floats | None) -> Iterator[tuple[int, Indices, Indices]]:
        """Yield repeat, training items and held-out ones of each fold."""
        if order is not None:
            for train, test in later_items(order, n_splits, self.known.item_groups):
                yield 0, train, test
            return
        for repeat, seed in enumerate(self.seeds):
            folds = self.known.folds(n_splits, seed)
            for number in range(int(folds.max()) + 1):
                yield repeat, np.flatnonzero(folds != number), np.flatnonzero(folds == number)

    @property
    def possible(self) -> float:
        """The share of held-out items whose class has a label in their training set."""
        if self.task.is_numeric:
            return 1.0
        right = [np.isin(self.y[fold.test], fold.near.y) for fold in self.folds]
        return float(np.concatenate(right).mean())

    def run(self, baselines: list[Baseline], remarks: list[str]) -> Comparison:
        """Compare all methods."""
        task, names, R = self.task, self.names, len(self.names)
        total = R + 1 + len(self.folds)
        found = {"equal": self.predicted(self.metrics(None))}
        self.on_fold(1, total)
        inner = [self.inner_folds(fold) for fold in self.folds]
        singles, losses = [], []
        near: dict[str, list[list[AnyArray]]] = {kind: [] for kind in self.source_rules}
        for r in range(R):
            metrics = self.metrics(names[r])
            singles.append(self.predicted(metrics))
            for kind, rule in self.source_rules.items():
                near[kind].append(self.predicted(metrics, rule))
            pairs = zip(metrics, inner, strict=True)
            losses.append([self.training_loss(metric, folds) for metric, folds in pairs])
            self.on_fold(r + 2, total)
        best = [of_fold.index(min(of_fold)) for of_fold in zip(*losses, strict=True)]
        found["best-single"] = [singles[r][f] for f, r in enumerate(best)]
        for kind, by_source in near.items():
            found[kind] = [by_source[r][f] for f, r in enumerate(best)]
        titles = dict(NAMES)
        for baseline in baselines:
            found[baseline.kind] = [
                baseline.predict(fold.near.items, fold.near.y, fold.test) for fold in self.folds
            ]
            chosen = "" if baseline.choice is None else f" {baseline.choice()}"
            titles[baseline.kind] = baseline.name + chosen
        answers, results = self.learn_again(lambda f: self.on_fold(R + 2 + f, total))
        found["learned"] = [
            task.predictions(answers[fold.repeat][fold.test]) for fold in self.folds
        ]
        order = ["learned", *found]
        methods = [self.method(titles[k], k, found[k]) for k in dict.fromkeys(order)]
        floor = [method for method in methods if baselines and method.kind == baselines[-1].kind]
        methods = [method for method in methods if method not in floor]
        methods += [self.method(names[r], "single", singles[r]) for r in range(R)]
        groups = self.known.item_groups
        not_learned = sum(result.objective_kind == "none" for result in results)
        if not isinstance(self.options.objective, str):
            not_learned = 0
        return Comparison(
            methods=(*methods, *floor),
            how="; ".join([*self.how(not_learned), *remarks]),
            task=task,
            answers=answers[:, self.tested],
            items=self.stack.items[self.items[self.tested]],
            labels=task.decode(self.y[self.tested]),
            chosen={names[r]: best.count(r) for r in range(R)},
            weights=np.array([result.weights for result in results]),
            n_splits=self.n_splits,
            n_repeats=len(self.seeds),
            nothing_learned=not_learned == len(self.folds),
            possible=self.possible,
            groups=None if groups is None else groups[self.tested],
        )

    # -- one method --------------------------------------------------------------------------------

    def learn_again(self, on_fold: Callable[[int], None]) -> tuple[Floats, list[Any]]:
        """Learn without what each fold holds out; the answers, by repeat, and the results."""
        answers = np.stack([self.task.blank(self.known) for _ in self.seeds])
        plans = [
            replace(plan_without(self.learned, fold.test), known=fold.known, stack=fold.stack)
            for fold in self.folds
        ]
        results = []
        learned = refits(self.stack, self.task, plans, partial(answers_and_result, self.items))
        for f, (fold, (of_fold, result)) in enumerate(zip(self.folds, learned, strict=True)):
            unseen = np.flatnonzero(~fold.near.mask)
            answers[fold.repeat][fold.test] = of_fold[np.isin(unseen, fold.test)]
            results.append(result)
            on_fold(f)
        not_converged = sum(not result.has_settled for result in results)
        if not_converged:
            warn_caller(
                f"in {not_converged} of {len(self.folds)} folds learning stopped before it "
                "converged; raise max_iter",
                ConvergenceWarning,
            )
        return answers, results

    def metrics(self, source: str | None) -> list[Any]:
        """Return the metric of a source alone in each fold; None: equal weights of all.

        It is the same in all folds, unless sources are learned.
        """
        weights = weights_of(self.stack, source, self.options)
        if self.stack.supervised:
            return [self.metric(weights, fold.stack) for fold in self.folds]
        return [self.metric(weights, self.stack)] * len(self.folds)

    def metric(self, weights: Floats, stack: DissimilarityStack) -> FoldMetric:
        """Return the metric of some weights."""
        mixture = Mixture(weights, stack.names, beta=self.options.beta, scaling=stack.scales)
        lengths = EdgeLengths(along(stack, mixture, self.options), mixture)
        return FoldMetric(lengths, self.items, self.options.n_jobs)

    def predicted(self, metrics: list[Any], rule: Rule | None = None) -> list[AnyArray]:
        """Return what is predicted for the items held out in each fold."""
        chosen = rule or self.options.rule
        return [
            self.task.predictions(metric.answers(chosen, fold.test, fold.near))
            for metric, fold in zip(metrics, self.folds, strict=True)
        ]

    def inner_folds(self, fold: Fold) -> list[tuple[Indices, Known]]:
        """Divide the training items of a fold again: what is held out, and what is then known."""
        return training_folds(fold.near, self.n_splits, fold.repeat)

    def training_loss(self, metric: Any, folds: list[tuple[Indices, Known]]) -> tuple[float, ...]:
        """Return the loss of a metric on folds of the training items."""
        found = [metric.answers(self.options.rule, test, known) for test, known in folds]
        right = np.concatenate([self.y[test] for test, _ in folds])
        return self.task.training_loss(np.concatenate(found), right)

    def method(self, name: str, kind: str, of_folds: list[AnyArray]) -> Method:
        """Return how good the predictions of a method are."""
        y, L, repeats = self.y[self.tested], len(self.tested), len(self.seeds)
        predicted = np.empty((repeats, L), dtype=y.dtype)
        places = [(fold.repeat, np.searchsorted(self.tested, fold.test)) for fold in self.folds]
        for place, values in zip(places, of_folds, strict=True):
            predicted[place] = values
        errors = self.task.errors(predicted, y)
        scores = np.array([1.0 - errors[place].mean() for place in places])
        over_folds = float(np.std(scores, ddof=1) / np.sqrt(self.n_splits))
        groups = self.known.item_groups
        n_groups = None if groups is None else len(np.unique(groups[self.tested]))
        over_items = float(errors.std() / np.sqrt(n_groups or L))
        error, mean = max(over_folds, over_items), 1.0 - float(errors.mean())
        low, high = self.task.interval(errors, independent_errors(L, n_groups))
        balanced, macro = self.task.measures_of(predicted, y)
        off = np.abs(predicted - y).mean() if self.task.is_numeric else np.nan
        decoded = self.task.decode(predicted)
        return Method(
            name,
            kind,
            scores,
            mean,
            error,
            decoded,
            errors,
            float(off),
            low=low,
            high=high,
            balanced_accuracy=balanced,
            macro_f1=macro,
        )

    def how(self, not_learned: int) -> list[str]:
        """Return how the comparison was made."""
        repeats, L = len(self.seeds), len(self.y)
        dealt = f", dealt {repeats} times," if repeats > 1 else ""
        what = "known targets" if self.task.is_numeric else "labelled items"
        parts = [
            f"{self.n_splits} folds{dealt} over {L} {what}",
            self.held_out,
        ]
        if self.is_ordered:
            parts.insert(1, f"{len(self.tested)} tested on later items than those learned from")
        groups = self.known.item_groups
        if groups is not None:
            together = f"items of a group are held out together ({self.known.n_groups} groups)"
            parts.insert(1, together)
        alone = int((self.known.sizes == 1).sum()) if not self.task.is_numeric else 0
        if self.possible < 1.0 and (self.is_ordered or groups is not None):
            parts.append(
                "the class of some held-out items has no label in their training set, so that "
                f"{100 * self.possible:.1f} % is the most that is possible"
            )
        elif alone:
            classes = "1 class has" if alone == 1 else f"{alone} classes have"
            parts.append(
                f"{classes} a single labelled item, which no method can get right, so that "
                f"{100 * (1 - alone / L):.1f} % is the most that is possible"
            )
        if self.known.class_weights is not None:
            parts.append("class weights count for metrics, not for models that learn none")
        if not_learned:
            parts.append(
                f"in {not_learned} of {len(self.folds)} folds there were too few labels to "
                "learn from, and weights stayed equal"
            )
        return parts


def weights_of(stack: DissimilarityStack, source: str | None, options: Options) -> Floats:
    """Return the weights with which a source of a stack is alone; None: all are equal."""
    chosen = np.array([source in (None, name) for name in stack.names])
    return np.asarray(chosen * (total_weight(options.constraint) / chosen.sum()))


def training_folds(near: Known, n_splits: int, seed: int) -> list[tuple[Indices, Known]]:
    """Divide training items: what is held out, and what is then known of `near`."""
    if near.n_groups < 2:  # a single group is left
        near = replace(near, groups=None)
    dealt = near.folds(min(n_splits, len(near.items)), seed)
    tests = [near.items[dealt == k] for k in range(int(dealt.max()) + 1)]
    return [(test, near.without(test)) for test in tests]


def answers_and_result(items: Indices, learned: Learned, plan: RefitPlan) -> tuple[Floats, Any]:
    """Return the answers for those of `items` that are held out, and the result of the solver."""
    return fold_answers(items, learned, plan)[0], learned.result

"""Learning again on other labels of the same items: folds, resamples, candidates, comparisons.

There is one way to do so, :func:`refit`. A :class:`RefitPlan` says what may be seen, and with which
settings; supervised sources are computed from what may be seen, and so are the weights. A
:class:`FoldMetric` answers for the items that are held out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from metricmix.cached import cached_property
from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.exceptions import (
    ConvergenceWarning,
    InputError,
    ProjectionWarning,
    without_warnings,
)
from metricmix.kernels.blocks import map_tasks
from metricmix.kernels.process_settings import small_products
from metricmix.learning.examples import Examples
from metricmix.learning.learn import learn
from metricmix.learning.learned import Learned, Options
from metricmix.learning.rules import FittedRule, Rule, Spreading
from metricmix.learning.rules.rule import reweighted
from metricmix.learning.task import Task
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.paths.trees import distances_from
from metricmix.solvers.result import Status
from metricmix.typing import AnyArray, Floats, Indices

__all__ = ["FoldMetric", "RefitPlan", "refit", "refits"]


@dataclass(frozen=True, eq=False, kw_only=True)
class RefitPlan:
    """What a refit may see, and its settings.

    Attributes
    ----------
    known : Known
        The labels or targets that it learns from.
    options : Options
        Nothing in them is left open.
    item_weights : (n,) array, optional
        How much each label counts, in supervised sources and in the objective.
    start, seed : optional
        Of the solver; default: those of `options`.
    keep_choice : bool
        Whether supervised sources keep the classifier that they chose from all labels.
    centre : function of a stack and what is known, optional
        Returns the sources whose equal weights are the centre of the ridge, chosen anew.
    stack : DissimilarityStack, optional
        The sources, if they have been computed from `known` already.
    """

    known: Known
    options: Options
    item_weights: Floats | None = None
    start: Any = None
    seed: Any = None
    keep_choice: bool = False
    centre: Callable[[DissimilarityStack, Known], tuple[str, ...] | None] | None = None
    stack: DissimilarityStack | None = None


def refit(stack: DissimilarityStack, task: Task, plan: RefitPlan) -> Learned:
    """Learn again; weights stay equal where labels are too few for a named objective.

    Neither the lack of convergence nor a projection that moves many distances is warned of: the fit
    itself has done so, and callers count the former.
    """
    options = plan.options.replace(random_state=deepcopy(plan.options.random_state))
    known = plan.known
    if plan.stack is not None:
        stack = plan.stack
    else:
        stack = stack.relabelled(known, weights=plan.item_weights, keep_choice=plan.keep_choice)
    if isinstance(options.objective, str) and not task.is_learnable(known):
        options = options.replace(objective=None)
    elif plan.centre is not None and options.objective is not None:
        options = options.replace(centre=plan.centre(stack, known))
    solver = {"start": plan.start, "random_state": plan.seed}
    given = {name: value for name, value in solver.items() if value is not None}
    quiet = without_warnings(ConvergenceWarning, ProjectionWarning)
    with quiet, small_products(len(known.items)):
        try:
            learned = learn(
                stack, task, known, options, item_weights=plan.item_weights, refit=True, **given
            )
        except InputError as error:
            if error.argument and hasattr(options, error.argument):
                raise  # a parameter is wrong, whatever the training set
            raise InputError(
                "a training set cannot be used", argument="model", remedy=error
            ) from None
    if learned.result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return learned


def refits(
    stack: DissimilarityStack,
    task: Task,
    plans: Iterable[RefitPlan],
    then: Callable[[Learned, RefitPlan], Any],
) -> Iterator[Any]:
    """Yield ``then(learned, plan)`` for each plan, in order; on the workers of a cluster if any.

    `then` is a function of a module, or a method, so that it can be sent to them.
    """
    return map_tasks(refit_and, (stack, task, then), plans)


def refit_and(shared: tuple[Any, ...], plan: RefitPlan) -> Any:
    """Learn again, and return what is asked for of it; `shared` is what all refits need."""
    stack, task, then = shared
    return then(refit(stack, task, plan), plan)


class FoldMetric:
    """A metric between items of known value, in which some of these are held out.

    Shortest paths and neighbours do not depend on what is held out. They are searched once, when
    first needed.

    Parameters
    ----------
    lengths : EdgeLengths
        The edge lengths of the metric; held-out items stay in it.
    items : (A,) array
        The items of the stack that are in some training or test set.
    n_jobs : int, optional
        Threads.
    """

    def __init__(self, lengths: EdgeLengths, items: Indices, n_jobs: int | None = None) -> None:
        self.lengths, self.items, self.n_jobs = lengths, items, n_jobs
        self.neighbours: dict[int, tuple[Floats, Indices]] = {}
        self.examples: dict[int, tuple[Examples | None, Floats]] = {}

    @property
    def distances(self) -> Floats:
        """Distances between the items, (A, A), from row to column."""
        return self.searched[0]

    @cached_property
    def searched(self) -> tuple[Floats, Floats]:
        """The same, and the mean distances between each of the items and all others, (A,)."""
        items = self.items
        if self.lengths.is_metric and len(items) == self.lengths.n:
            whole = self.lengths.matrix(n_jobs=self.n_jobs)
            between = np.asarray(whole[np.ix_(items, items)], dtype=np.float64)
            return between, whole.mean(axis=0, dtype=np.float64)[items]
        rows = distances_from(self.lengths, items, n_jobs=self.n_jobs)
        return rows[:, items], rows.mean(axis=1)

    def to_examples(self, test: Indices, known: Known) -> tuple[Floats, Floats] | None:
        """Return the distances to the examples of the known items, from held-out ones and between.

        None where the metric has no examples.
        """
        C, train = known.n_classes, known.items
        if C not in self.examples:
            found = Examples.of(self.lengths, C)
            mixed = np.empty(0) if found is None else found.mixed(self.items, self.items)
            self.examples[C] = found, mixed
        found, mixed = self.examples[C]
        if found is None:
            return None
        to_classes = found.to_classes[self.items[test]][:, known.y]
        d = found.linked(mixed[test[:, None], train] + to_classes)
        return d, found.linked(mixed[train[:, None], train])

    def answers(self, rule: Rule, test: Indices, known: Known) -> Floats:
        """Return the answers for held-out items by a rule: probabilities (M, C) or numbers (M,).

        Class weights of what is known count, as in :class:`~metricmix.learning.rules.FittedRule`.

        Parameters
        ----------
        rule : Rule
        test : (M,) array
            Positions of the held-out items in `items`.
        known : Known
            What is known of `items`; nothing of those held out.

        Notes
        -----
        Over sparse edges in several parts, an item is judged by the known items that it reaches.
        Where it reaches none, the answer says nothing: equal probabilities, or the median target.
        """
        return reweighted(self.unweighted(rule, test, known), known.class_weights)

    def unweighted(self, rule: Rule, test: Indices, known: Known) -> Floats:
        """Return the answers of a rule, class weights aside."""
        if isinstance(rule, Spreading):
            values: AnyArray = np.full(self.lengths.n, -1)
            values[self.items] = known.values
            fit = FittedRule(rule, self.lengths, Known(values, known.n_classes), self.n_jobs)
            k = rule.n_neighbors
            fit.distances = self.neighbours[k] = self.neighbours.get(k) or fit.distances
            return np.asarray(fit.unweighted[self.items[test]])
        train, of_examples = known.items, rule.of_examples()
        if of_examples is not None and (found := self.to_examples(test, known)) is not None:
            d, between = found
            return of_examples.from_distances(d, known.y, between, known.n_classes, d.mean(axis=0))
        d, within = (self.distances[rows[:, None], train] for rows in (test, train))
        reached = np.isfinite(d).any(axis=1)
        answers = no_answers(known, len(test))
        if reached.any():
            reach = self.searched[1][train]
            answers[reached] = rule.from_distances(
                d[reached], known.y, within, known.n_classes, reach
            )
        return answers


def no_answers(known: Known, m: int) -> Floats:
    """Return answers for m items that say nothing: equal probabilities, or the median target."""
    if known.is_numeric:
        return np.full(m, float(np.median(known.y)))
    return np.full((m, known.n_classes), 1.0 / known.n_classes)

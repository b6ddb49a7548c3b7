"""What is said about items of known label or target, by refits that have not seen it.

What the rule says of a labelled item means little: its label supports itself, trains the models
that place its neighbours, and is among those that the weights were learned from. So labelled items
are held out in folds, and supervised sources, weights and rule are fitted again to the labels that
are left. On labels that mean nothing the answers are then right as often as chance.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from metricmix.dissimilarity.known import Known
from metricmix.learning.learned import Learned
from metricmix.learning.options import seed_of
from metricmix.learning.refits import FoldMetric, RefitPlan, refit, refits
from metricmix.learning.selection import chosen_centre
from metricmix.learning.task import Task
from metricmix.learning.trials import FOLDS
from metricmix.typing import Floats, Indices
from metricmix.validation import check_random_state

__all__ = [
    "HeldOut",
    "default_splits",
    "fold_seeds",
    "held_out_of",
    "plan_without",
    "without_item",
]


class HeldOut(NamedTuple):
    """Answers for the L items of known value, each without its own.

    Attributes
    ----------
    items : (L,) array
    answers : (L, C) or (L,) array
    distances : (L, L) array
        Row k has the distances from item k to all of them in the metric of a refit without its
        value.
    """

    items: Indices
    answers: Floats
    distances: Floats

    def among_all(self, learned: Learned) -> Floats:
        """Return the answers for all items: those of the rule for items of unknown value."""
        answers = learned.answers.copy()
        answers[self.items] = self.answers
        return answers


def held_out_of(learned: Learned, seed: int = 0) -> HeldOut:
    """Return what refits without an item's label say of each labelled item.

    In five folds; of at most 20 labels that are fewer than five a class, each by itself. Where
    there are too few to hold one out, the answers say nothing, and distances are those of the fit.
    Other folds for other seeds.
    """
    task, known = learned.task, learned.known
    assert known is not None
    items = known.items
    answers = task.blank(known)
    distances = np.empty((len(items), len(items)))
    if len(items) < task.fewest:
        return HeldOut(items, answers, FoldMetric(learned.lengths, items).distances)
    if not learned.can_refit:  # only the rule does without the values
        metric = FoldMetric(learned.lengths, items, learned.options.n_jobs)
        for test in np.arange(len(items))[:, None]:
            own = known.take(items).without(test)
            answers[test] = metric.answers(learned.options.rule, test, own)
        return HeldOut(items, answers, metric.distances)
    folds = known.folds(default_splits(task, known), seed)
    tests = [np.flatnonzero(folds == fold) for fold in range(int(folds.max()) + 1)]
    plans = [plan_without(learned, items[test]) for test in tests]
    found = refits(learned.whole, task, plans, partial(fold_answers, items))
    for test, (of_fold, rows) in zip(tests, found, strict=True):
        answers[test], distances[test] = of_fold, rows
    return HeldOut(items, answers, distances)


def fold_seeds(random_state: Any, n_repeats: int = 1) -> list[int]:
    """Return the seed of the folds of each repetition."""
    rng, _ = check_random_state(seed_of(random_state))
    return [int(seed) for seed in rng.integers(2**31, size=n_repeats)]


def default_splits(task: Task, known: Known) -> int:
    """Return the number of folds: each item by itself, where there are few in all and a class."""
    n_known = len(known.items)
    return n_known if n_known <= 20 and task.is_few(known) else FOLDS


def plan_without(learned: Learned, items: Indices) -> RefitPlan:
    """Return the plan of a refit without the values of some items."""
    assert learned.known is not None
    given = learned.given
    centre = None if given is None else partial(chosen_centre, learned.task, given.linear)
    return RefitPlan(known=learned.known.without(items), options=learned.options, centre=centre)


def fold_answers(items: Indices, learned: Learned, plan: RefitPlan) -> tuple[Floats, Floats]:
    """Return the answers for those of `items` that are held out, and their distances to all."""
    known = plan.known.take(items)
    test = np.flatnonzero(~known.mask)
    metric = FoldMetric(learned.lengths, items, learned.options.n_jobs)
    return metric.answers(learned.options.rule, test, known), metric.distances[test]


def without_item(learned: Learned, item: int) -> Learned:
    """Return what is learned without the value of an item; the same if it has none.

    An objective that was made for given labels, and sources of a loaded model that cannot be
    computed again, stay as they are: then only the rule does without the value.
    """
    known = learned.known
    if known is None or not known.mask[item] or len(known.items) < learned.task.fewest:
        return learned
    if not learned.can_refit:
        return replace(learned, known=known.without(item))
    return refit(learned.whole, learned.task, plan_without(learned, np.array([item])))

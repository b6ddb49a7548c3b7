"""What is said about items of known label or target, by refits that have not seen it.

What the rule says of a labelled item means little: its label supports itself, trains the models
that place its neighbours, and is among those that the weights were learned from. So labelled items
are held out in folds, and supervised sources, weights and rule are fitted again to the labels that
are left. On labels that mean nothing the answers are then right as often as chance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from metricmix.dissimilarity.known import Known
from metricmix.exceptions import InputError
from metricmix.learning.learned import Learned, id_of, seed_of
from metricmix.learning.refits import FoldMetric, RefitPlan, refit, refits
from metricmix.learning.selection import chosen_centre
from metricmix.learning.task import Task
from metricmix.learning.trials import FOLDS
from metricmix.typing import Floats, Indices
from metricmix.validation import check_random_state

__all__ = [
    "HeldOut",
    "Misfit",
    "TypicalItem",
    "default_splits",
    "fold_seeds",
    "held_out_of",
    "later_items",
    "misfits",
    "plan_without",
    "typical_items",
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

    In five folds; of at most 20 labels that are fewer than five a class, each by itself; items of a
    group always together. Where there are too few to hold one out, the answers say nothing, and
    distances are those of the fit. Other folds for other seeds.
    """
    task, known = learned.task, learned.labels
    items = known.items
    answers = task.blank(known)
    distances = np.empty((len(items), len(items)))
    if len(items) < task.fewest:
        return HeldOut(items, answers, FoldMetric(learned.lengths, items).distances)
    if not learned.can_refit:  # only the rule does without the values
        metric = FoldMetric(learned.lengths, items, learned.options.n_jobs)
        of_group = known.of_group
        for group in range(known.n_groups):
            test = np.flatnonzero(of_group == group)
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


def later_items(
    order: Floats, n_splits: int, groups: Indices | None = None
) -> Iterator[tuple[Indices, Indices]]:
    """Yield what is learned from and what is tested, later items: positions of ordered labels.

    The labels are divided by their order into one block more than there are folds, equal values
    together. Each block but the first is tested on the labels before it, without those of its own
    groups.

    Raises
    ------
    InputError
        If there are fewer than two such folds, or a value is missing.

    Examples
    --------
    >>> for train, test in later_items(np.array([3.0, 1.0, 2.0, 2.0, 4.0]), 2):
    ...     print(train, test)
    [1 2 3] [0]
    [0 1 2 3] [4]
    """
    if np.isnan(order).any():
        raise InputError(
            argument="order",
            expected="a number or date for every labelled item",
            found=f"none for {int(np.isnan(order).sum())} of {len(order)}",
            remedy="fill it in, or remove the label",
        )
    values, ranks = np.unique(order, return_inverse=True)
    block = np.searchsorted(np.sort(order), order) * (n_splits + 1) // len(order)
    if len(np.unique(block)) < 3:
        block = ranks * (n_splits + 1) // len(values)
    folds = []
    for number in np.unique(block)[1:]:
        test, train = block == number, block < number
        if groups is not None:
            train &= ~np.isin(groups, groups[test])
        if train.any():
            folds.append((np.flatnonzero(train), np.flatnonzero(test)))
    if len(folds) < 2:
        few = 3  # values that give two later parts
        if len(values) < few:
            raise InputError(
                argument="order",
                expected="at least three different values among the labelled items: each but the "
                "first is tested on the labels before it",
                found=len(values),
            )
        other = "" if groups is None else " of other groups"
        raise InputError(
            argument="order",
            expected=f"two later parts of the labelled items, with labels{other} before each",
            found=f"{len(values)} different values",
        )
    yield from folds


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
    given = learned.given
    centre = None if given is None else partial(chosen_centre, learned.task, given.linear)
    return RefitPlan(known=learned.labels.without(items), options=learned.options, centre=centre)


def fold_answers(items: Indices, learned: Learned, plan: RefitPlan) -> tuple[Floats, Floats]:
    """Return the answers for those of `items` that are held out, and their distances to all."""
    known = plan.known.take(items)
    test = np.flatnonzero(~known.mask)
    metric = FoldMetric(learned.lengths, items, learned.options.n_jobs)
    return metric.answers(learned.options.rule, test, known), metric.distances[test]


def without_item(learned: Learned, item: int) -> Learned:
    """Return what is learned without the values of an item's group; the same if it has none.

    An objective that was made for given labels, and sources of a loaded model that cannot be
    computed again, stay as they are: then only the rule does without the value.
    """
    known = learned.known
    if known is None or not known.mask[item] or len(known.items) < learned.task.fewest:
        return learned
    if not learned.can_refit:
        return replace(learned, known=known.without(known.mates(item)))
    return refit(learned.whole, learned.task, plan_without(learned, known.mates(item)))


# -- labels that look wrong, and items that are typical --------------------------------------------


@dataclass(frozen=True)
class TypicalItem:
    """The medoid of a class: of its labelled items that with the smallest mean distance to them.

    Attributes
    ----------
    label : class
    item : id
    distance : float
        Mean distance to the other labelled items of the class; 0 if there are none.
    size : int
        Labelled items of the class.
    """

    label: Any
    item: Any
    distance: float
    size: int


@dataclass(frozen=True)
class Misfit:
    """A given label that the rule would not give, had it not been given.

    Attributes
    ----------
    item : id
    label : class
        As given.
    probability : float
        What the rule gives to it without the label.
    other : class
        The class that it prefers, with `other_probability`.
    other_probability : float
    nearest : tuple of (id, class, float)
        The nearest labelled items, their labels and distances.
    """

    item: Any
    label: Any
    probability: float
    other: Any
    other_probability: float
    nearest: tuple[tuple[Any, Any, float], ...]

    def __str__(self) -> str:
        near = ", ".join(f"{item} ({label!r}) at {d:.3g}" for item, label, d in self.nearest)
        return (
            f"{self.item}: given {self.label!r} ({self.probability:.2f}), rather {self.other!r} "
            f"({self.other_probability:.2f}); nearest labelled: {near}"
        )


def typical_items(learned: Learned) -> list[TypicalItem]:
    r"""Return the medoid of each class, the item with the smallest mean distance to its class.

    .. math:: \arg\min_{i \in c} \; \frac{1}{|c| - 1} \sum_{j \in c} d_{-i}(i, j)

    over the labelled items of class c, with the metric :math:`d_{-i}` of a refit without the label
    of item i. Of equal ones, the first. Over sparse edges in several parts, those come first that
    reach most of their class, and the mean is over the items that they reach.

    Examples
    --------
    >>> import numpy as np, metricmix as mm
    >>> place = np.array([0.0, 1.0, 2.5, 6.0, 7.0, 9.0])
    >>> stack = mm.DissimilarityStack({"line": abs(place[:, None] - place)})
    >>> model = mm.MetricMixtureClassifier().fit(stack, ["low"] * 3 + ["high"] * 3)
    >>> [(typical.label, typical.item) for typical in model.typical_items()]
    [('high', 4), ('low', 1)]
    """
    items, _, d = learned.held_out
    found = []
    for c, label in enumerate(learned.task.class_labels):
        own = np.flatnonzero(learned.labels.y == c)
        between = d[np.ix_(own, own)]
        reached = np.isfinite(between).sum(axis=1)
        sums = np.where(np.isfinite(between), between, 0.0).sum(axis=1)
        best = int(np.where(reached == reached.max(), sums, np.inf).argmin())
        mean = float(sums[best] / max(1, reached[best] - 1))
        item = id_of(learned.stack, int(items[own[best]]))
        found.append(TypicalItem(label, item, mean, len(own)))
    return found


def misfits(learned: Learned) -> list[Misfit]:
    r"""Return the given labels that look wrong, the most suspicious first.

    Each label is held out, and sources, weights and rule are fitted again without it
    (:mod:`metricmix.learning.held_out`). An item is a misfit if the rule then prefers another
    class, and they are ranked by :math:`\log (p_{other} / p_{given})`. The only item, or group,
    with a label is not judged: without it, nothing is known of its class.
    """
    (items, p, distances), codes = learned.held_out, learned.labels.y
    classes, rows, d = learned.task.class_labels, np.arange(len(items)), distances.copy()
    given, best = p[rows, codes], p.argmax(axis=1)
    odds = np.log(np.maximum(p[rows, best], 1e-300)) - np.log(np.maximum(given, 1e-300))
    np.fill_diagonal(d, np.inf)
    single = ~learned.labels.has_others
    found = []
    n_nearest = 3  # labelled items that are evidence against a label
    for t in np.argsort(-odds, kind="stable").tolist():
        if best[t] == codes[t] or single[t]:
            continue
        near = np.argsort(d[t], kind="stable")[: min(n_nearest, int(np.isfinite(d[t]).sum()))]
        nearest = tuple(
            (id_of(learned.stack, int(items[j])), classes[codes[j]], float(d[t, j])) for j in near
        )
        item = id_of(learned.stack, int(items[t]))
        about = (classes[codes[t]], float(given[t]), classes[best[t]], float(p[t, best[t]]))
        found.append(Misfit(item, *about, nearest))
    return found

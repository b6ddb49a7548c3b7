"""What a metric says of items whose labels are held back."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from metricmix.estimators.labels import LabelledKFold
from metricmix.estimators.rules import Spreading, judge
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.paths.trees import distances_from
from metricmix.typing import Floats, Indices

if TYPE_CHECKING:
    from metricmix.estimators.classifier import MetricMixtureClassifier

__all__ = ["HeldOut", "blind_members"]


ALONE_UP_TO = 400
"""Labelled items up to which each is held back alone; beyond, and for spreading, in folds."""
FOLDS = 20
FEWEST = 3


class HeldOut:
    """One metric that is asked for many divisions of the same items into known and asked ones.

    Shortest paths and neighbours do not depend on which labels are known. They are searched once,
    at the first question that needs them.

    Parameters
    ----------
    lengths : EdgeLengths
        What the metric is made of; held-out items stay in it.
    among : (A,) array
        The items of the stack that are known or asked at some time.
    n_classes : int
    vote, alpha
        As in :class:`~metricmix.estimators.MetricMixtureClassifier`.
    """

    def __init__(
        self,
        lengths: EdgeLengths,
        among: Indices,
        n_classes: int,
        *,
        vote: str,
        alpha: float,
        n_jobs: int | None = None,
    ) -> None:
        self.lengths, self.among, self.n_classes = lengths, among, n_classes
        self.by_distance, self.alpha, self.n_jobs = vote == "distance", alpha, n_jobs
        self._neighbours: dict[int, tuple[Floats, Indices]] = {}

    @cached_property
    def distances(self) -> Floats:
        """Distances between the items `among`, (A, A), from row to column."""
        return distances_from(self.lengths, self.among, n_jobs=self.n_jobs)[:, self.among]

    def probabilities(self, rule: str, k: int, asked: Indices, codes: Indices) -> Floats:
        """Return the class probabilities (M, C) of some items by a rule with k neighbours.

        `asked` (M,) are places in `among`, and `codes` (A,) the class numbers of all of `among`,
        -1 where the label is held back.
        """
        if rule == "spreading":
            return self._spread(k, codes)[self.among[asked]]
        known = np.flatnonzero(codes >= 0)
        near, within = (self.distances[np.ix_(rows, known)] for rows in (asked, known))
        options: Any = {"k": k, "by_distance": self.by_distance, "within": within}
        return judge(rule, near, codes[known], self.n_classes, **options)

    def _spread(self, k: int, codes: Indices) -> Floats:
        """Return the class probabilities of all items of the stack by the rule "spreading"."""
        everyone = np.full(self.lengths.n, -1)
        everyone[self.among] = codes
        given = (self.lengths, everyone, self.n_classes)
        rule = Spreading(*given, k=k, alpha=self.alpha, n_jobs=self.n_jobs)
        if k in self._neighbours:
            rule.neighbours = self._neighbours[k]
        self._neighbours[k] = rule.neighbours
        return rule.members


def blind_members(model: MetricMixtureClassifier, metric: NDArray[Any] | None = None) -> Floats:
    """Return class probabilities (n, C) of all items, those labelled judged without their label.

    An item's own label speaks for itself, so what the rule makes of a labelled item tells little;
    here each is held back, alone (up to 400 labels) or with others (in 20 folds). The weights are
    those learned from all labels. `metric` is the whole metric, where it is at hand.
    """
    members: Floats = model._rule.members.copy()
    labelled = np.flatnonzero(model._codes >= 0)
    codes, L = model._codes[labelled], len(labelled)
    if L < FEWEST:
        return members
    options: Any = {"vote": model.vote, "alpha": model.alpha, "n_jobs": model.n_jobs}
    held = HeldOut(model._lengths(), labelled, len(model.classes_), **options)
    if metric is not None:
        held.distances = np.asarray(metric[np.ix_(labelled, labelled)], dtype=np.float64)
    if L <= ALONE_UP_TO and model.rule != "spreading":
        parts = list(np.arange(L)[:, None])
    else:
        splitter = LabelledKFold(min(FOLDS, L), random_state=0)
        parts = [test for _, test in splitter.split(None, codes)]
    for part in parts:
        known = codes.copy()
        known[part] = -1
        members[labelled[part]] = held.probabilities(model.rule, model.n_neighbors, part, known)
    return members

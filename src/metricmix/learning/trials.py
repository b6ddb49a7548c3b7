"""The trials of candidates: each on every fold of the items of known value.

What candidates share is computed once per fold: the supervised sources, the matrices between items,
and the metric of candidates that differ in the rule alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from metricmix.cached import cached_property
from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.learning.candidates import Candidate
from metricmix.learning.learn import MOVED_AT_MOST, along, moved_share
from metricmix.learning.learned import Learned, Options
from metricmix.learning.refits import FoldMetric, RefitPlan, refit
from metricmix.learning.regions import Gate, find_gate
from metricmix.learning.task import Task
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.typing import Floats

__all__ = ["FOLDS", "Trials"]


FOLDS = 5
SEARCHED_UP_TO, COMPUTED_UP_TO = 2000, 500
"""Items up to which candidates that need shortest paths through all of them are compared: with
matrices in memory, and with sources computed on demand."""
LOCAL_UP_TO = 1 << 25
"""Local weights times pairs of labelled items, up to which local weights are compared."""

Sources = tuple[DissimilarityStack, DissimilarityStack]
"""A stack, and its part of the items of known value."""


class Trials:
    """The candidates on each fold of the items of known value.

    Attributes
    ----------
    known : Known
        What is known of these items alone.
    skipped : list of str
        Which candidates were left out, and why.
    """

    def __init__(
        self, stack: DissimilarityStack, task: Task, known: Known, options: Options
    ) -> None:
        self.stack, self.task, self.everyone = stack, task, known
        self.items, self.known = known.items, known.take(known.items)
        # A generator of the caller is for the fit itself.
        self.options = options.replace(random_state=0, verbose=False)
        whole = self.in_memory(stack)
        self.sources = whole, whole.part(self.items)
        self.skipped: list[str] = []

    def run(self, candidates: Sequence[Candidate]) -> list[Floats]:
        """Return the answers of each candidate for the held-out items."""
        answers = [self.task.blank(self.known) for _ in candidates]
        metrics: dict[Any, FoldMetric] = {}
        folds = self.known.folds(FOLDS)
        for fold in range(int(folds.max()) + 1):
            test = np.flatnonzero(folds == fold)
            known = self.known.without(test)
            if not (self.task.is_numeric or (known.sizes > 0).sum() >= 2):
                continue
            sources = self.of_fold(known)
            kept = {} if self.stack.supervised else metrics
            metrics = {way: kept[way] for way in kept if way[0] != "learned"}
            for candidate, found in zip(candidates, answers, strict=True):
                if candidate.way not in metrics:
                    metrics[candidate.way] = self.metric(candidate, sources, known)
                found[test] = metrics[candidate.way].answers(candidate.rule, test, known)
        return answers

    def of_fold(self, known: Known) -> Sources:
        """Return the stack, and its part of labelled items, as computed from what is known."""
        if not self.stack.supervised:
            return self.sources
        stack = self.stack.relabelled(self.of_all(known), keep_choice=True)
        whole, part = self.sources
        if whole is not self.stack:
            whole = self.in_memory(stack, (self.stack, whole))
            return whole, whole.part(self.items)
        return stack, stack.part(self.items, same_as=(whole, part))

    def in_memory(self, stack: DissimilarityStack, same_as: Sources | None = None) -> Any:
        """Return a stack with its matrices in memory, if paths through all items are searched.

        `same_as` is as for :meth:`DissimilarityStack.part
        <metricmix.DissimilarityStack.part>`.
        """
        if stack.block is not None or stack.edges is not None or not self.is_searchable:
            return stack
        whole = stack.part(np.arange(stack.n_items), same_as)
        return whole if stack.links is None else whole.with_links(stack.links)

    def of_all(self, known: Known) -> Known:
        """Return what is known of the labelled items as that of all items of the stack."""
        return self.everyone.without(self.items[~known.mask])

    def metric(self, candidate: Candidate, sources: Sources, known: Known) -> FoldMetric:
        """Return the metric of a candidate, its weights learned from what is known if at all."""
        learned = self.learn(candidate, sources, known)
        direct, options = self.is_direct(candidate), self.options.as_candidate(candidate)
        whole, items = sources[0], self.items
        if direct:
            whole, items = sources[1], np.arange(len(self.items))
        lengths = EdgeLengths(along(whole, learned.mixture, options), learned.mixture)
        return FoldMetric(lengths, items, options.n_jobs)

    def learn(self, candidate: Candidate, sources: Sources, known: Known) -> Learned:
        """Learn the weights of a candidate, from the pairs of labelled items if these are enough.

        Local weights need the memberships of all items, learning through paths all items. Weights
        are learned on edge lengths, unless the options say otherwise, even if the projection moves
        many of them in a fold. That costs accuracy: they are judged no better than they are.
        """
        options = self.options.as_candidate(candidate)
        through_paths = options.projection is True
        options = options.replace(geodesic=None, projection=through_paths)
        if through_paths or (candidate.local and not self.is_direct(candidate)):
            plan = RefitPlan(known=self.of_all(known), options=options, stack=sources[0])
            return refit(self.stack, self.task, plan)
        if candidate.local == "given":
            options = options.replace(local=np.asarray(options.local)[self.items])
        plan = RefitPlan(known=known, options=options, stack=sources[1])
        return refit(self.stack, self.task, plan)

    # -- which candidates --------------------------------------------------------------------------

    def affordable(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return the candidates that can be compared soon; `skipped` then names the others."""
        kept, left = [], {}
        for candidate in candidates:
            why = None if candidate.way == candidates[0].way else self.why_not(candidate)
            if why is None:
                kept.append(candidate)
            elif why:
                left[candidate.name] = why
        for why in dict.fromkeys(left.values()):
            names = [name for name in left if left[name] == why]
            self.skipped.append(f"not compared: {', '.join(names)}, which would need {why}")
        return kept

    @cached_property
    def gate(self) -> Gate:
        """What regions of local weights would be learned from."""
        return find_gate(self.sources[1], self.known)

    @property
    def is_searchable(self) -> bool:
        """Whether items are few enough to search paths through all of them."""
        limit = COMPUTED_UP_TO if self.stack.block is None else SEARCHED_UP_TO
        return self.stack.n_items <= limit

    def why_not(self, candidate: Candidate) -> str | None:
        """Return what a candidate would need; None if nothing, "" if `skipped` says it all."""
        if candidate.local == "regions" and not self.gate.is_worth_trying:
            return (
                "sources that separate the classes better in a part of the items than the best does"
            )
        n_weights = self.stack.n_sources * (1 + self.task.n_classes)
        if candidate.local and n_weights * len(self.items) ** 2 > LOCAL_UP_TO:
            return "one number per local weight and pair of labelled items"
        if self.is_direct(candidate):
            return None
        if not self.is_searchable:
            return "shortest paths through all items"
        if self.options.constraint != "auto" or not (candidate.is_signed or candidate.local):
            return None
        learned = self.learn(candidate, self.sources, self.known)
        share = moved_share(self.sources[0], learned.result, self.items, self.options.n_jobs)
        i, j = np.triu_indices(len(self.items), 1)
        some = np.random.default_rng(0).permutation(len(i))[:1000]
        lengths = EdgeLengths(self.sources[0], learned.mixture)
        w = lengths.pairs(self.items[i[some]], self.items[j[some]])
        collapsed = learned.nearly_zero(w).mean()
        if collapsed > 0.1:
            self.skipped.append(
                f"not compared: {candidate.name}, which makes {collapsed:.0%} of the distances "
                "between labelled items nearly zero"
            )
            return ""
        if share <= MOVED_AT_MOST:
            return None
        how = f"local={candidate.local!r}" if candidate.local else "constraint=None"
        return (
            f"learning through paths (the projection would change {share:.0%} of the "
            f"distances), {how}"
        )

    def is_direct(self, candidate: Candidate) -> bool:
        """Return whether the edge lengths of a candidate are a metric: no path is needed."""
        through_paths = candidate.is_signed or candidate.geodesic is not None
        return not through_paths and all(
            known is not None and known.triangle_inequality for known in self.stack.facts
        )

    def equal_losses(self, first: Candidate, names: tuple[str, ...] | None) -> tuple[Floats, float]:
        """Return the log loss and the accuracy of equal weights of some sources.

        Of each item with another one in its class, outside of its group, by folds of these.
        """
        equal = replace(first, weights="equal", constraint=None, rho=None, sources=names)
        metric = self.metric(equal, self.sources, self.known)
        judged = self.known.has_others
        folds = self.known.only(judged).folds(min(20, int(judged.sum())))
        answers, places = self.task.blank(self.known), np.flatnonzero(judged)
        for fold in range(int(folds.max()) + 1):
            test = places[folds == fold]
            answers[test] = metric.answers(equal.rule, test, self.known.without(test))
        p, right = answers[judged], self.known.y[judged]
        losses = self.task.losses(p, right, self.known.loss_weights(right))
        return losses, float((p.argmax(axis=1) == right).mean())

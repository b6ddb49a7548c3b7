"""Candidates on the folds of the items of known value: what selection compares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.kernels.mixing import link_in_place
from metricmix.learning.candidates import Candidate
from metricmix.learning.learn import MOVED_AT_MOST, along, moved_share
from metricmix.learning.learned import Learned
from metricmix.learning.options import Options
from metricmix.learning.refits import FoldMetric, RefitPlan, refit
from metricmix.learning.task import Task
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.typing import AnyArray, Floats

__all__ = ["FOLDS", "SourceTrials", "Trials", "nearly_zero"]

FOLDS = 5
SEARCHED_UP_TO, COMPUTED_UP_TO = 2000, 500
"""Items up to which candidates that need shortest paths through all of them are compared: with
matrices in memory, and with sources computed on demand."""


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
        self.part = stack.part(self.items)
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
            stack, part = self.of_fold(known)
            kept = {} if self.stack.supervised else metrics
            metrics = {way: kept[way] for way in kept if way[0] != "learned"}
            for candidate, found in zip(candidates, answers, strict=True):
                if candidate.way not in metrics:
                    metrics[candidate.way] = self.metric(candidate, stack, part, known)
                found[test] = metrics[candidate.way].answers(candidate.rule, test, known)
        return answers

    def of_fold(self, known: Known) -> tuple[DissimilarityStack, DissimilarityStack]:
        """Return the stack, and its part of labelled items, as computed from what is known."""
        if not self.stack.supervised:
            return self.stack, self.part
        stack = self.stack.relabelled(self.of_all(known), keep_choice=True)
        return stack, stack.part(self.items, same_as=(self.stack, self.part))

    def of_all(self, known: Known) -> Known:
        """Return what is known of the labelled items as that of all items of the stack."""
        return self.everyone.without(self.items[~known.mask])

    def metric(
        self,
        candidate: Candidate,
        stack: DissimilarityStack,
        part: DissimilarityStack,
        known: Known,
    ) -> FoldMetric:
        """Return the metric of a candidate, its weights learned from what is known if at all."""
        learned = self.learn(candidate, stack, part, known)
        direct, options = self.is_direct(candidate), self.options.as_candidate(candidate)
        whole, items = (part, np.arange(len(self.items))) if direct else (stack, self.items)
        lengths = EdgeLengths(along(whole, learned.mixture, options), learned.mixture)
        return FoldMetric(lengths, items, options.n_jobs)

    def learn(
        self,
        candidate: Candidate,
        stack: DissimilarityStack,
        part: DissimilarityStack,
        known: Known,
    ) -> Learned:
        """Learn the weights of a candidate, from the pairs of labelled items if these are enough.

        Local weights need the memberships of all items, learning through paths all items. Weights
        are learned on edge lengths, unless the options say otherwise, even if the projection moves
        many of them in a fold. That costs accuracy: they are judged no better than they are.
        """
        options = self.options.as_candidate(candidate)
        through_paths = options.projection is True
        options = options.replace(geodesic=None, projection=through_paths)
        if candidate.local or through_paths:
            plan = RefitPlan(known=self.of_all(known), options=options, stack=stack)
        else:
            plan = RefitPlan(known=known, options=options, stack=part)
        return refit(self.stack, self.task, plan)

    # -- which candidates --------------------------------------------------------------------------

    def affordable(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return the candidates that can be compared soon; `skipped` then names the others."""
        first, kept, left = candidates[0], [], {}
        for candidate in candidates:
            if candidate.way == first.way or self.is_direct(candidate):
                kept.append(candidate)
            elif not self.is_searchable:
                left[candidate.name] = "shortest paths through all items"
            elif self.is_large(candidate):
                left[candidate.name] = "one number per local weight and pair of labelled items"
            elif self.options.constraint == "auto" and (candidate.is_signed or candidate.local):
                why = self.why_not(candidate)
                if why is None:
                    kept.append(candidate)
                elif why:
                    left[candidate.name] = why
            else:
                kept.append(candidate)
        for why in dict.fromkeys(left.values()):
            names = [name for name in left if left[name] == why]
            self.skipped.append(f"not compared: {', '.join(names)}, which would need {why}")
        return kept

    @property
    def is_searchable(self) -> bool:
        """Whether items are few enough to search paths through all of them."""
        limit = COMPUTED_UP_TO if self.stack.block is None else SEARCHED_UP_TO
        return self.stack.n_items <= limit

    def why_not(self, candidate: Candidate) -> str | None:
        """Return what a candidate would need; None if nothing, "" if `skipped` says it all."""
        learned = self.learn(candidate, self.stack, self.part, self.known)
        share = moved_share(self.stack, learned.result, self.items, self.options.n_jobs)
        collapsed = self.collapsed_share(learned)
        if collapsed > 0.1:
            self.skipped.append(
                f"not compared: {candidate.name}, which makes {collapsed:.0%} of the distances "
                "between labelled items nearly zero"
            )
            return ""
        if share <= MOVED_AT_MOST:
            return None
        how = "local='classes'" if candidate.local else "constraint=None"
        return (
            f"learning through paths (the projection would change {share:.0%} of the "
            f"distances), {how}"
        )

    def collapsed_share(self, learned: Learned) -> float:
        """Return the share of edges between labelled items whose length is nearly zero."""
        lengths = EdgeLengths(self.stack, learned.mixture)
        i, j = np.triu_indices(len(self.items), 1)
        some = np.random.default_rng(0).permutation(len(i))[:1000]
        w = lengths.pairs(self.items[i[some]], self.items[j[some]])
        return float(nearly_zero(lengths, w).mean())

    def is_direct(self, candidate: Candidate) -> bool:
        """Return whether the edge lengths of a candidate are a metric: no path is needed."""
        through_paths = candidate.is_signed or candidate.local or candidate.geodesic is not None
        return not through_paths and all(
            known is not None and known.triangle_inequality for known in self.stack.facts
        )

    def is_large(self, candidate: Candidate) -> bool:
        """Return whether local weights would take much longer to learn than common ones."""
        n_weights = self.stack.n_sources * self.task.n_classes
        return candidate.local and n_weights * len(self.items) ** 2 > 1 << 25


class SourceTrials(Trials):
    """Equal weights of some sources, on labels that are held out."""

    def losses(self, first: Candidate, names: tuple[str, ...] | None) -> tuple[Floats, float]:
        """Return the log loss of each item with another one in its class, and the accuracy."""
        equal = replace(first, weights="equal", constraint=None, rho=None, sources=names)
        metric = self.metric(equal, self.stack, self.part, self.known)
        judged = self.known.sizes[self.known.y] > 1
        folds = self.known.only(judged).folds(min(20, int(judged.sum())))
        answers, places = self.task.blank(self.known), np.flatnonzero(judged)
        for fold in range(int(folds.max()) + 1):
            test = places[folds == fold]
            answers[test] = metric.answers(equal.rule, test, self.known.without(test))
        p, right = answers[judged], self.known.y[judged]
        return self.task.losses(p, right), float((p.argmax(axis=1) == right).mean())


def nearly_zero(lengths: EdgeLengths, w: Floats) -> AnyArray:
    r"""Return which lengths or distances are below a hundredth of the length between equal items.

    That is :math:`\log 2 / \beta`, and with weights >= 0 none is below. Without a link, it is 0:
    then those below a millionth of the mean count.
    """
    of_equal = np.zeros(1)
    link_in_place(of_equal, lengths.beta, lengths.link)
    least = of_equal[0] * 0.01 if of_equal[0] > 0 else 1e-6 * float(np.mean(w))
    return np.asarray(w <= least)

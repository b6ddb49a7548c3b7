r"""Model selection: weights, ridge and rule, on held-out labels or targets.

Items of known value are held out in turn, and stay in the metric; supervised sources are computed
anew from what is left. Every candidate, a way to weigh the sources and a rule, gives answers for
the held-out items, and candidates are compared by their losses, item by item. Class probabilities
get a temperature first, one number per candidate, :math:`p_c \propto p_c^{1/T}`, so that a rule
that is right but too sure of itself is not taken for a bad one.

The first candidate, non-negative weights with a ridge that fades as labels grow and the default
rule, is kept unless another one is better by more than three standard errors of the paired
difference: with few labels, the best of many candidates is mostly the luckiest. For the geodesic
metric, which is compared only if ``geodesic="auto"`` asks for it, two are enough. With fewer than
five labels per class only the sources are chosen: :func:`select_sources`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.learning.candidates import (
    Candidate,
    Selection,
    candidates_of,
    is_left_to_few,
    unselected,
)
from metricmix.learning.learn import MOVED_AT_MOST, along, learn, moved_share
from metricmix.learning.learned import Learned, Options
from metricmix.learning.refits import FoldMetric, RefitPlan, refit
from metricmix.learning.rules import Spreading
from metricmix.learning.task import Task
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.objectives.base import Objective
from metricmix.typing import Floats

__all__ = ["FOLDS", "Trials", "chosen_centre", "fit", "select", "select_sources"]


FOLDS = 5
SEARCHED_UP_TO, COMPUTED_UP_TO = 2000, 500
"""Items up to which candidates that need shortest paths through all of them are compared: with
matrices in memory, and with sources computed on demand."""
LOCAL_UP_TO = 1 << 25
"""Local weights times pairs of labelled items, up to which local weights are compared."""
CLEAR, CLEAR_IF_ASKED = 3.0, 2.0
"""Standard errors by which another candidate must be better than the default one; and the geodesic
metric with ``geodesic="auto"``, a single candidate that was asked for."""


def fit(stack: DissimilarityStack, task: Task, known: Known, options: Options) -> Learned:
    """Compute the supervised sources, choose what the options leave open, and learn.

    A network chooses its rule by the linear mixture that it starts from.
    """
    stack = stack.relabelled(known)
    linear = options.linear
    selection = select_sources(stack, task, known, linear)
    if selection is None:
        selection = select(stack, task, known, linear)
    learned = learn(stack, task, known, options.as_candidate(selection.best))
    return replace(learned, selection=selection, given=options)


def select(stack: DissimilarityStack, task: Task, known: Known, options: Options) -> Selection:
    """Return the choice of weights, ridge and rule; `options` hold for everything else.

    Notes
    -----
    Where sources are metrics, weights >= 0 need the distances between the labelled items only: in
    each fold the supervised sources, L² R numbers, and the weights once per ridge. Everything else
    needs shortest paths through all items, and is compared up to 2000 items (500 where sources are
    computed on demand).
    """
    candidates = candidates_of(options, task, stack.names, known)
    first = candidates[0]
    reason = why_not_compared(candidates, stack, task, known, options)
    if reason:
        return unselected(first, task, reason)
    max_labels = 1000  # items of known value that candidates are compared on
    if len(known.items) > max_labels:
        known = known.some(max_labels)
    trials = Trials(stack, task, known, options)
    compared = trials.affordable(candidates)
    answers = trials.run(compared)
    losses = np.array([task.losses(of_one, known.y) for of_one in answers])
    errors = np.array([task.errors(task.predictions(of_one), known.y) for of_one in answers])
    if task.is_numeric:
        errors = losses
    gains = losses[0] - losses
    gain, error = gains.mean(axis=1), gains.std(axis=1, ddof=1) / np.sqrt(len(known.items))
    score = 1.0 - errors.mean(axis=1)
    asked = [options.geodesic == "auto" and one.geodesic is not None for one in compared]
    clear = gain > np.where(asked, CLEAR_IF_ASKED, CLEAR) * error
    clear &= score >= score[0]
    chosen = int(np.where(clear, gain, -np.inf).argmax()) if clear.any() else 0
    reason = f"none of {len(compared) - 1} others was clearly better on held-out {task.noun}"
    if chosen:
        measure, better = task.better
        reason = (
            f"its {measure} on held-out {task.noun} is {better} by {gain[chosen]:.3f} ± "
            f"{error[chosen]:.3f} than with {first}"
        )
    skipped, loss = tuple(trials.skipped), losses.mean(axis=1)
    about = (loss, score, gain, error, chosen, reason, skipped, task.measures)
    return Selection(tuple(compared), *about)


def why_not_compared(
    candidates: Sequence[Candidate],
    stack: DissimilarityStack,
    task: Task,
    known: Known,
    options: Options,
) -> str:
    """Return why the first candidate is taken as it is; "" if others are compared."""
    if len(candidates) == 1:
        few = is_left_to_few(options, task, known)
        return task.why_few(known) if few else "as the parameters say"
    if stack.edges is not None:
        return (
            "nothing was compared over sparse edges, where every candidate needs searches from all "
            "labelled items in every fold"
        )
    if len(known.items) < (2 if task.is_numeric else 1) * FOLDS:
        return f"{len(known.items)} {task.noun} are too few to hold some out"
    if isinstance(options.objective, Objective):
        return f"the objective was made for given {task.noun}, none of which can be held out"
    return ""


# -- few labels ------------------------------------------------------------------------------------


def select_sources(
    stack: DissimilarityStack, task: Task, known: Known, options: Options
) -> Selection | None:
    r"""Return the choice of sources that few labels are learned from; None if it is not open.

    With fewer than five labels per class, the ridge keeps weights near its centre. Equal weights
    are a bad centre where one source says everything and the others nothing: of R sources, the good
    one has the share 1 / R of every distance. So the centre is chosen:

    1. Labelled items whose class has another one are held out, each by itself up to 20 of them,
       else in 20 folds. They stay in the metric as unlabelled items. Supervised sources stay as
       they are: their values between labelled items are predictions without the items' own labels.
    2. Sources are ranked by the log loss of the default rule in the metric of each source alone.
    3. Equal weights of the k best sources, k = 1 .. R - 1, are compared with equal weights of all,
       item by item. The temperature of the probabilities is fitted first, as in :func:`select`.
    4. Of those that are better by more than one standard error of the paired difference, and not
       right less often, the centre is that of the fewest sources whose log loss is within two
       standard errors of the smallest. If there is none, all sources are.

    One standard error is a low bar, and three are needed where labels are more: there, learned
    weights adapt to poor sources by themselves, and here they cannot.

    The choice is not open for numbers, with five labels per class or more, where weights, ridge or
    objective are stated, with a single source or fewer than four labels in classes of two or more,
    over sparse edges, and for local weights.

    Notes
    -----
    At most 2 R - 1 metrics, and 20 times the rule in each. Where sources are metrics, distances
    between labelled items are enough; else paths through all items are searched, up to 2000 items
    (500 where sources are computed on demand).

    Examples
    --------
    A source that tells the classes among three that do not; eight labels:

    >>> import numpy as np, metricmix as mm
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(60) % 2
    >>> columns = {f"noise {k}": rng.normal(size=60) for k in range(3)}
    >>> columns["good"] = y + 0.1 * rng.normal(size=60)
    >>> stack = mm.DissimilarityStack(
    ...     {name: mm.dissimilarity.features(column[:, None]) for name, column in columns.items()}
    ... )
    >>> known = np.where(np.arange(60) < 8, y, -1)
    >>> model = mm.MetricMixtureClassifier(stack).fit(np.arange(60), known)
    >>> model.selection_.best.sources
    ('good',)
    """
    is_open = options.shrink_to == "equal" and not options.is_local and not task.is_numeric
    if not is_open or not is_left_to_few(options, task, known) or stack.n_sources == 1:
        return None
    judged = np.flatnonzero(known.sizes[known.y] > 1)
    if len(judged) < 4 or stack.edges is not None:
        return None
    first = candidates_of(options, task, stack.names, known)[0]
    if first.weights != "learned" or isinstance(first.rule, Spreading):
        return None
    trials = Trials(stack, task, known, options)
    so_few = f"{len(known.items)} labels for {task.n_classes} classes are too few to compare"
    if not (trials.is_direct(first) or trials.is_searchable):
        why = "not compared: fewer sources, which takes shortest paths through all items"
        return unselected(first, task, task.why_few(known), (why,))
    alone = [trials.equal_losses(first, (name,))[0].mean() for name in stack.names]
    ranked = [stack.names[r] for r in np.argsort(alone, kind="stable")]
    # In the order of the stack, so that a choice reads as its sources are listed.
    subsets = [tuple(s for s in stack.names if s in ranked[:k]) for k in range(1, len(ranked))]
    found = [trials.equal_losses(first, names) for names in (None, *subsets)]
    losses = np.array([of_one for of_one, _ in found])
    accuracy = np.array([right for _, right in found])
    gains, root = losses[0] - losses, np.sqrt(len(judged))
    gain, error = gains.mean(axis=1), gains.std(axis=1, ddof=1) / root
    same = 1e-3  # difference of log losses below which fewer sources are taken for as good
    clear = (gain > np.maximum(error, same)) & (accuracy >= accuracy[0])
    chosen, n = 0, f"{len(judged)} held-out labels"
    reason = f"fewer sources are not clearly better on {n}; {so_few} more"
    if clear.any():
        best = np.where(clear, gain, -np.inf).argmax()
        behind = losses - losses[best]
        # Standard errors within which fewer sources are as good as the best choice: where a single
        # item makes the difference, that is one standard error.
        errors_within = 2.0
        within = np.maximum(errors_within * behind.std(axis=1, ddof=1) / root, same)
        chosen = int(np.flatnonzero(clear & (behind.mean(axis=1) <= within))[0])
        reason = (
            f"the log loss of these sources on {n} is smaller by {gain[chosen]:.3f} ± "
            f"{error[chosen]:.3f} than that of all {stack.n_sources}; {so_few} more"
        )
    candidates = (first, *(replace(first, sources=names) for names in subsets))
    return Selection(candidates, losses.mean(axis=1), accuracy, gain, error, chosen, reason)


def chosen_centre(
    task: Task, options: Options, stack: DissimilarityStack, known: Known
) -> tuple[str, ...] | None:
    """Return the sources that few labels choose as the centre of the ridge; None for all."""
    selection = select_sources(stack, task, known, options)
    return None if selection is None else selection.best.sources


# -- candidates on folds ---------------------------------------------------------------------------


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
        self.sources = stack, stack.part(self.items)
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
        return stack, stack.part(self.items, same_as=self.sources)

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
        plan = RefitPlan(known=known, options=options, stack=sources[1])
        if candidate.local or through_paths:
            plan = RefitPlan(known=self.of_all(known), options=options, stack=sources[0])
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

    @property
    def is_searchable(self) -> bool:
        """Whether items are few enough to search paths through all of them."""
        limit = COMPUTED_UP_TO if self.stack.block is None else SEARCHED_UP_TO
        return self.stack.n_items <= limit

    def why_not(self, candidate: Candidate) -> str | None:
        """Return what a candidate would need; None if nothing, "" if `skipped` says it all."""
        if self.is_direct(candidate):
            return None
        if not self.is_searchable:
            return "shortest paths through all items"
        n_weights = self.stack.n_sources * self.task.n_classes
        if candidate.local and n_weights * len(self.items) ** 2 > LOCAL_UP_TO:
            return "one number per local weight and pair of labelled items"
        if self.options.constraint != "auto" or not (candidate.is_signed or candidate.local):
            return None
        learned = self.learn(candidate, self.sources, self.known)
        share = moved_share(self.stack, learned.result, self.items, self.options.n_jobs)
        i, j = np.triu_indices(len(self.items), 1)
        some = np.random.default_rng(0).permutation(len(i))[:1000]
        lengths = EdgeLengths(self.stack, learned.mixture)
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
        how = "local='classes'" if candidate.local else "constraint=None"
        return (
            f"learning through paths (the projection would change {share:.0%} of the "
            f"distances), {how}"
        )

    def is_direct(self, candidate: Candidate) -> bool:
        """Return whether the edge lengths of a candidate are a metric: no path is needed."""
        through_paths = candidate.is_signed or candidate.local or candidate.geodesic is not None
        return not through_paths and all(
            known is not None and known.triangle_inequality for known in self.stack.facts
        )

    def equal_losses(self, first: Candidate, names: tuple[str, ...] | None) -> tuple[Floats, float]:
        """Return the log loss and the accuracy of equal weights of some sources.

        Of each item with another one in its class, by folds of these.
        """
        equal = replace(first, weights="equal", constraint=None, rho=None, sources=names)
        metric = self.metric(equal, self.sources, self.known)
        judged = self.known.sizes[self.known.y] > 1
        folds = self.known.only(judged).folds(min(20, int(judged.sum())))
        answers, places = self.task.blank(self.known), np.flatnonzero(judged)
        for fold in range(int(folds.max()) + 1):
            test = places[folds == fold]
            answers[test] = metric.answers(equal.rule, test, self.known.without(test))
        p, right = answers[judged], self.known.y[judged]
        return self.task.losses(p, right), float((p.argmax(axis=1) == right).mean())

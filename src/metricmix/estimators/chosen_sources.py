r"""Which sources few labels are learned from: all of them, or those that predict held-out labels.

With fewer than five labels per class, the ridge keeps weights near its centre. Equal weights are a
bad centre where one source says everything and the others nothing: of R sources, the good one has
the share 1 / R of every distance. So the centre is chosen:

1. Labelled items whose class has another one are held out, each by itself up to 20 of them, else in
   20 folds. They stay in the metric as unlabelled items. Supervised sources stay as they are: their
   values between labelled items are predictions without the items' own labels.
2. Sources are ranked by the log loss of the default rule in the metric of each source alone.
3. Equal weights of the k best sources, k = 1 .. R - 1, are compared with equal weights of all, item
   by item. The temperature of the probabilities is fitted first, as in
   :mod:`metricmix.estimators.selection`.
4. Of those that are better by more than one standard error of the paired difference, and not right
   less often, the centre is that of the fewest sources whose log loss is within two standard errors
   of the smallest. If there is none, all sources are.

One standard error is a low bar, and three are needed where labels are more: there, learned weights
adapt to poor sources by themselves, and here they cannot.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.estimators.rules import Rule, Spreading
from metricmix.estimators.selection import (
    COMPUTED_UP_TO,
    FEW_LABELS,
    SEARCHED_UP_TO,
    Candidate,
    CandidateTrials,
    LabelledKFold,
    Selection,
    candidates_of,
    leaves_nothing_open,
    tempered_losses,
)
from metricmix.typing import Floats, Indices

if TYPE_CHECKING:
    from metricmix.estimators.classifier import MetricMixtureClassifier

__all__ = ["select_sources"]

CLEAR = 1.0
"""Standard errors by which fewer sources must be better than all."""
FEWEST = 4
"""Labelled items, of classes with two or more, from which on sources are compared."""
FOLDS = 20
WITHIN = 2.0
"""Standard errors within which fewer sources are as good as the best choice: where a single item
makes the difference, that is one standard error."""
SAME = 1e-3
"""Difference of log losses below which fewer sources are taken for as good."""


def select_sources(
    model: MetricMixtureClassifier, stack: DissimilarityStack, codes: Indices, n_classes: int
) -> Selection | None:
    """Return the choice of sources for a classifier, or None where it has nothing to choose.

    That is with five labels per class or more, where weights, ridge or objective are stated, with a
    single source or fewer than four labels in classes of two or more, over sparse edges, and for
    local weights.

    Parameters
    ----------
    model : MetricMixtureClassifier
        Its parameters hold for everything that is not chosen.
    stack : DissimilarityStack
    codes : (n,) array
        Class numbers; -1 for unlabelled items.
    n_classes : int

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
    labelled = np.flatnonzero(codes >= 0)
    y = codes[labelled]
    sizes = np.bincount(y)
    judged = np.flatnonzero(sizes[y] > 1)
    few = leaves_nothing_open(model, sizes) and len(judged) >= FEWEST
    open_to_choice = few and model.shrink_to == "equal" and not model._is_local
    if not open_to_choice or stack.n_sources == 1 or stack.edges is not None:
        return None
    first = candidates_of(model, stack.names, sizes)[0]
    if first.weights != "learned" or isinstance(first.rule, Spreading):
        return None
    trials = SourceTrials(model, stack, codes, labelled, n_classes, judged)
    so_few = f"{len(y)} labels for {n_classes} classes are too few to compare"
    if not trials.is_affordable(first):
        unknown = np.array([np.nan])
        why = "not compared: fewer sources, which takes shortest paths through all items"
        reason = f"{so_few} others (fewer than {FEW_LABELS} a class)"
        return Selection((first,), unknown, unknown, unknown, unknown, 0, reason, (why,))
    alone = [trials.losses(first, (name,))[0].mean() for name in stack.names]
    ranked = [stack.names[r] for r in np.argsort(alone, kind="stable")]
    # In the order of the stack, so that a choice reads as its sources are listed.
    subsets = [tuple(s for s in stack.names if s in ranked[:k]) for k in range(1, len(ranked))]
    found = [trials.losses(first, names) for names in (None, *subsets)]
    losses = np.array([of_one for of_one, _ in found])
    accuracy = np.array([right for _, right in found])
    gains = losses[0] - losses
    gain, error = gains.mean(axis=1), gains.std(axis=1, ddof=1) / np.sqrt(len(judged))
    clear = (gain > np.maximum(CLEAR * error, SAME)) & (accuracy >= accuracy[0])
    chosen, n = 0, f"{len(judged)} held-out labels"
    reason = f"fewer sources are not clearly better on {n}; {so_few} more"
    if clear.any():
        best = np.where(clear, gain, -np.inf).argmax()
        behind = losses - losses[best]
        spread = behind.std(axis=1, ddof=1) / np.sqrt(len(judged))
        within = np.maximum(WITHIN * spread, SAME)
        chosen = int(np.flatnonzero(clear & (behind.mean(axis=1) <= within))[0])
        reason = (
            f"the log loss of these sources on {n} is smaller by {gain[chosen]:.3f} ± "
            f"{error[chosen]:.3f} than that of all {stack.n_sources}; {so_few} more"
        )
    candidates = (first, *(replace(first, sources=names) for names in subsets))
    means = losses.mean(axis=1)
    return Selection(candidates, means, accuracy, gain, error, chosen, reason)


class SourceTrials(CandidateTrials):
    """Equal weights of some sources, on labels that are held out."""

    def __init__(
        self,
        model: MetricMixtureClassifier,
        stack: DissimilarityStack,
        codes: Indices,
        labelled: Indices,
        n_classes: int,
        judged: Indices,
    ) -> None:
        super().__init__(model, stack, codes, labelled, n_classes)
        self.judged = judged
        dealt = LabelledKFold(min(FOLDS, len(judged)), random_state=0)
        self.folds = [judged[test] for _, test in dealt.split(None, self.y[judged])]

    def is_affordable(self, candidate: Candidate) -> bool:
        """Return whether no paths are needed, or items are few enough to search them."""
        limit = COMPUTED_UP_TO if self.stack.block is None else SEARCHED_UP_TO
        return self.is_direct(candidate) or self.stack.n_items <= limit

    def losses(self, first: Candidate, names: tuple[str, ...] | None) -> tuple[Floats, float]:
        """Return the log loss of each judged item, and the share that is right."""
        equal = replace(first, weights="equal", constraint=None, rho=None, sources=names)
        metric = self.predictor(equal, self.stack, self.part, self.y)
        p = np.empty((len(self.y), self.n_classes))
        assert isinstance(equal.rule, Rule)
        for test in self.folds:
            known = self.y.copy()
            known[test] = -1
            p[test] = metric.probabilities(equal.rule, test, known)
        p, right = p[self.judged], self.y[self.judged]
        return tempered_losses(p, right), float((p.argmax(axis=1) == right).mean())

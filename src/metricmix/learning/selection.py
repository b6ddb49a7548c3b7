r"""Model selection: weights, ridge and rule, on held-out labels or targets.

Items of known value are held out in turn, those of a group together, and stay in the metric;
supervised sources are computed anew from what is left. Every candidate, a way to weigh the sources
and a rule, gives answers for the held-out items, and candidates are compared by their losses, item
by item; errors of items of a group may depend on each other. Class probabilities get a temperature
first, one number per candidate, :math:`p_c \propto p_c^{1/T}`, so that a rule that is right but too
sure of itself is not taken for a bad one. Class weights multiply the losses.

The first candidate, non-negative weights with a ridge that fades as labels grow and the default
rule, is kept unless another one is better by more than three standard errors of the paired
difference: with few labels, the best of many candidates is mostly the luckiest. For the geodesic
metric, which is compared only if ``geodesic="auto"`` asks for it, two are enough. With fewer than
five labels per class only the sources are chosen: :func:`select_sources`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

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
from metricmix.learning.learn import learn
from metricmix.learning.learned import Learned, Options
from metricmix.learning.rules import Spreading
from metricmix.learning.task import Task
from metricmix.learning.trials import FOLDS, Trials
from metricmix.objectives.base import Objective
from metricmix.typing import Floats, Indices

__all__ = ["chosen_centre", "fit", "select", "select_sources"]


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
    own = known.loss_weights(known.y)
    losses = np.array([task.losses(of_one, known.y, own) for of_one in answers])
    errors = np.array([task.errors(task.predictions(of_one), known.y) for of_one in answers])
    if task.is_numeric:
        errors = losses
    gains = losses[0] - losses
    gain, error = gains.mean(axis=1), mean_errors(gains, known.item_groups)
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


def mean_errors(values: Floats, groups: Indices | None = None) -> Floats:
    r"""Return the standard errors of the means of rows (K, L), whose columns may have groups.

    .. math:: \frac1L \sqrt{\frac{G}{G - 1} \sum_g \Big( \sum_{i \in g} (x_i - \bar x) \Big)^2}

    >>> mean_errors(np.array([[0.0, 1.0, 0.0, 1.0]])).round(3)
    array([0.289])
    >>> mean_errors(np.array([[0.0, 1.0, 0.0, 1.0]]), np.array([0, 1, 0, 1])).round(3)
    array([0.5])
    """
    L = values.shape[1]
    if groups is None:
        return np.asarray(values.std(axis=1, ddof=1) / np.sqrt(L))
    _, of_group = np.unique(groups, return_inverse=True)
    apart, G = values - values.mean(axis=1, keepdims=True), int(of_group.max()) + 1
    sums = np.stack([np.bincount(of_group, row) for row in apart])
    return np.asarray(np.sqrt(np.square(sums).sum(axis=1) * G / (G - 1)) / L)


# -- few labels ------------------------------------------------------------------------------------


def select_sources(
    stack: DissimilarityStack, task: Task, known: Known, options: Options
) -> Selection | None:
    r"""Return the choice of sources that few labels are learned from; None if it is not open.

    With fewer than five labels per class, the ridge keeps weights near its centre. Equal weights
    are a bad centre where one source says everything and the others nothing: of R sources, the good
    one has the share 1 / R of every distance. So the centre is chosen:

    1. Labelled items whose class has another one are held out, each by itself up to 20 of them,
       else in 20 folds; items of a group together. They stay in the metric as unlabelled items.
       Supervised sources stay as they are: their values between labelled items are predictions
       without the items' own labels.
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
    A source that separates the classes among three that do not; eight labels:

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
    judged = np.flatnonzero(known.has_others)
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
    groups = None if known.item_groups is None else known.item_groups[judged]
    gains = losses[0] - losses
    gain, error = gains.mean(axis=1), mean_errors(gains, groups)
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
        within = np.maximum(errors_within * mean_errors(behind, groups), same)
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

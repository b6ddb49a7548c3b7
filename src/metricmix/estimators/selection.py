r"""What the classifier chooses by itself: weights, ridge and rule, by labels that were held out.

Labelled items are held out in turn, and stay in the metric as unlabelled ones; supervised sources
are computed anew from the labels that are left. Every candidate, a way to weigh the sources and a
rule, gives the held-out items class probabilities. Their temperature is fitted first, one number
per candidate, :math:`p \propto p^{1/T}`, so that a rule that is right but too sure of itself is not
taken for a bad one. Then candidates are compared by log loss, item by item.

The first candidate, non-negative weights with a small ridge towards equal ones and class means, is
kept unless another one is better by more than `CLEAR` standard errors of the paired difference:
with few labels, the best of many candidates is mostly the luckiest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import minimize_scalar

from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.estimators.cross_validation import LabelledKFold
from metricmix.estimators.rules import Rule
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.mixture.linear import Mixture
from metricmix.paths.trees import distances_from
from metricmix.typing import Floats, Indices

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Candidate", "Selection", "select"]

FEW_LABELS = 5
"""Labels per class, on average, below which nothing is chosen, and weights stay equal."""
CLEAR = 3.0
"""Standard errors by which another candidate must be better than the default one."""
FOLDS = 5
ITEMS_AT_MOST = 1000
"""Labelled items that are looked at; of more, a random sample of each class."""
SMALLEST = 1e-12
"""Probability below which a log loss grows no further."""


@dataclass(frozen=True)
class Candidate:
    """A way to weigh the sources, and a rule.

    Attributes
    ----------
    weights : str
        ``"nonnegative"``, ``"signed"``, ``"equal"``, or the name of a single source.
    rho : float or None
        Weight of the ridge; None where nothing is learned.
    rule : Rule
    """

    weights: str
    rho: float | None
    rule: Rule

    def __str__(self) -> str:
        ridge = "" if self.rho is None else f", rho={self.rho:g}"
        return f"{self.weights}{ridge}, {self.rule.name}"


@dataclass(frozen=True, eq=False)
class Selection:
    """What was compared, and what was chosen.

    Attributes
    ----------
    candidates : tuple of Candidate
        The default one first.
    log_loss : (S,) array
        Mean over the held-out items, with the temperature fitted.
    accuracy : (S,) array
    gain : (S,) array
        How much smaller the log loss is than that of the default candidate; NaN if not compared.
    standard_error : (S,) array
        Of `gain`, over the held-out items.
    chosen : int
    reason : str
        Why, in a sentence.
    skipped : tuple of str
        What was not compared, and why.
    """

    candidates: tuple[Candidate, ...]
    log_loss: Floats
    accuracy: Floats
    gain: Floats
    standard_error: Floats
    chosen: int
    reason: str
    skipped: tuple[str, ...] = ()

    @property
    def best(self) -> Candidate:
        """The candidate that was chosen."""
        return self.candidates[self.chosen]

    def to_frame(self) -> pd.DataFrame:
        """Return the table of candidates, the best first."""
        import pandas as pd

        table = pd.DataFrame(
            {
                "weights": [candidate.weights for candidate in self.candidates],
                "rho": [candidate.rho for candidate in self.candidates],
                "rule": [candidate.rule.name for candidate in self.candidates],
                "log_loss": self.log_loss,
                "accuracy": self.accuracy,
                "gain": self.gain,
                "standard_error": self.standard_error,
                "chosen": np.arange(len(self.candidates)) == self.chosen,
            }
        )
        return table.sort_values("log_loss", kind="stable", ignore_index=True)

    def __str__(self) -> str:
        return f"{self.best}: {self.reason}"


def select(
    model: Any,
    stack: DissimilarityStack,
    codes: Indices,
    rhos: Sequence[float],
    rules: Sequence[Rule],
) -> Selection:
    """Return the choice of weights, ridge and rule for a classifier.

    Parameters
    ----------
    model : MetricMixtureClassifier
        Whose parameters hold for everything that is not chosen.
    stack : DissimilarityStack
    codes : (n,) array
        Class numbers; -1 for unlabelled items.
    rhos : sequence of float
        Ridges to choose from, the default one first.
    rules : sequence of Rule
        Rules to choose from, the default one first.

    Notes
    -----
    For each fold: the supervised sources, the distances between labelled items (L² R), and the
    weights once per ridge. No path is searched where the sources are metrics.
    """
    n_classes = int(codes.max()) + 1
    default = Candidate("nonnegative", rhos[0], rules[0])
    labelled = np.flatnonzero(codes >= 0)
    sizes = np.bincount(codes[labelled], minlength=n_classes)
    if sizes.min() < 2 or sizes.mean() < FEW_LABELS:
        fallback = Candidate("equal", None, rules[0])
        nothing = np.array([np.nan])
        few = (
            f"{len(labelled)} labels of {n_classes} classes are too few to learn from "
            f"(fewer than {FEW_LABELS} a class, or a class with one), so weights stay equal"
        )
        return Selection((fallback,), nothing, nothing, nothing, nothing, 0, few)
    ways: list[tuple[str, float | None]] = [("nonnegative", rho) for rho in rhos]
    ways += [("equal", None), *((name, None) for name in stack.names if stack.n_sources > 1)]
    learned = [Candidate(*way, rule) for way in ways[: len(rhos)] for rule in rules]
    candidates = learned + [Candidate(*way, rules[0]) for way in ways[len(rhos) :]]
    candidates.sort(key=lambda candidate: candidate != default)
    p = held_out(model, stack, codes, labelled, candidates)
    right = codes[labelled]
    with np.errstate(divide="ignore"):
        logs = np.log(np.maximum(p, SMALLEST))
    losses = np.array([losses_at_best_temperature(log, right) for log in logs])
    gains = losses[0] - losses
    gain, error = gains.mean(axis=1), gains.std(axis=1, ddof=1) / np.sqrt(len(right))
    accuracy = (p.argmax(axis=2) == right).mean(axis=1)
    clear = (gain > CLEAR * error) & (accuracy >= accuracy[0])
    if not clear.any():
        reason = f"none of the {len(candidates) - 1} others was clearly better on held-out labels"
        return Selection(tuple(candidates), losses.mean(axis=1), accuracy, gain, error, 0, reason)
    chosen = int(np.where(clear, gain, -np.inf).argmax())
    reason = (
        f"its log loss on held-out labels is smaller by {gain[chosen]:.3f} ± {error[chosen]:.3f} "
        f"than that of {default}"
    )
    return Selection(tuple(candidates), losses.mean(axis=1), accuracy, gain, error, chosen, reason)


def held_out(
    model: Any,
    stack: DissimilarityStack,
    codes: Indices,
    labelled: Indices,
    candidates: Sequence[Candidate],
) -> Floats:
    """Return the class probabilities (S, L, C) that each candidate gives to held-out labels."""
    n_classes = int(codes.max()) + 1
    y = codes[labelled]
    p = np.full((len(candidates), len(labelled), n_classes), 1.0 / n_classes)
    splitter = LabelledKFold(min(FOLDS, len(labelled)), random_state=0)
    for _, test in splitter.split(None, y):
        train = np.setdiff1d(np.arange(len(labelled)), test)
        if len(np.unique(y[train])) < 2:
            continue
        known = np.full(len(codes), -1)
        known[labelled[train]] = y[train]
        of_fold = stack.relabelled(known, n_classes, keep_choice=True)
        metrics: dict[tuple[str, float | None], Floats] = {}
        for s, candidate in enumerate(candidates):
            way = candidate.weights, candidate.rho
            if way not in metrics:
                weights = weights_of(model, of_fold, known, candidate)
                mixture = Mixture(weights, of_fold.names, beta=model.beta, scaling=of_fold.scales)
                lengths = EdgeLengths(of_fold, mixture)
                metrics[way] = distances_between(lengths, labelled, model.n_jobs)
            d = metrics[way]
            p[s, test] = candidate.rule.from_distances(
                d[np.ix_(test, train)], y[train], n_classes, d[np.ix_(train, train)]
            )
    return p


def distances_between(lengths: EdgeLengths, items: Indices, n_jobs: int | None) -> Floats:
    """Return the distances between some items, (L, L): by pairs where no path is needed."""
    if not lengths.is_metric:
        return distances_from(lengths, items, n_jobs=n_jobs)[:, items]
    L = len(items)
    d = lengths.pairs(np.repeat(items, L), np.tile(items, L)).reshape(L, L)
    return np.asarray(np.minimum(d, d.T))


def weights_of(
    model: Any, stack: DissimilarityStack, codes: Indices, candidate: Candidate
) -> Floats:
    """Return the weights of a candidate, learned from the labels `codes` if at all."""
    equal: Floats = model._equal_weights(stack)
    if candidate.weights == "equal":
        return equal
    if candidate.weights in stack.names:
        alone = np.array(stack.names) == candidate.weights
        return np.where(alone, equal.sum(), 0.0)
    from metricmix.estimators.base import make_objective

    trial = model._settled(candidate)
    classes = np.arange(int(codes.max()) + 1)
    result = trial._solve(make_objective(trial, codes, classes), stack, refit=True, verbose=False)
    return np.asarray(result.weights)


def losses_at_best_temperature(logs: Floats, right: Indices) -> Floats:
    """Return the log loss of each item, (L,), at the temperature with the smallest mean."""

    def losses(sharpness: float) -> Floats:
        scaled = sharpness * (logs - logs.max(axis=1, keepdims=True))
        total = np.log(np.exp(scaled).sum(axis=1))
        return np.asarray(total - scaled[np.arange(len(right)), right])

    found = minimize_scalar(
        lambda log_sharpness: losses(np.exp(log_sharpness)).mean(), bounds=(-4, 4), method="bounded"
    )
    return losses(float(np.exp(found.x)))

r"""Model selection of the classifier: weights, ridge and rule, on held-out labels.

Labelled items are held out in turn, and stay in the metric as unlabelled ones; supervised sources
are computed anew from the labels that are left. Every candidate, a way to weigh the sources and a
rule, gives the held-out items class probabilities. Their temperature is fitted first, one number
per candidate, :math:`p_c \propto p_c^{1/T}`, so that a rule that is right but too sure of itself is
not taken for a bad one. Then candidates are compared by log loss, item by item.

The first candidate, non-negative weights with a ridge that fades as labels grow and class means
with offsets, is kept unless another one is better by more than three standard errors of the paired
difference: with few labels, the best of many candidates is mostly the luckiest. For the geodesic
metric, which is compared only if ``geodesic="auto"`` asks for it, two are enough. With fewer than
five labels per class only the sources are chosen, by :mod:`metricmix.estimators.chosen_sources`.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import minimize_scalar
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state

from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.estimators.base import MOVED_AT_MOST, class_means_ridge, nearly_zero
from metricmix.estimators.rules import (
    ClassMean,
    DistanceRule,
    FittedRule,
    KNearest,
    Logistic,
    Rule,
    Spreading,
    as_rule,
)
from metricmix.exceptions import ConvergenceWarning, InputError
from metricmix.kernels.threads import small_products
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.paths.trees import distances_from
from metricmix.solvers.result import SolveResult, Status
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import as_labels, check_integer, is_unlabelled, plain_labels

if TYPE_CHECKING:
    import pandas as pd

    from metricmix.estimators.classifier import MetricMixtureClassifier

__all__ = [
    "Candidate",
    "CandidateTrials",
    "Choice",
    "FoldPredictor",
    "LabelledKFold",
    "Selection",
    "along_edges",
    "candidates_of",
    "select",
]

MORE_RHO = 1e-3
"""The other ridge to choose from, or ten times the default one if that is more."""
CANDIDATE_RULES: tuple[Rule, ...] = (
    ClassMean(offsets=True, priors="labels"),
    Logistic(),
    KNearest(),
)
"""Rules to choose from, the default one first."""
FEW_LABELS = 5
"""Labels per class, on average, below which only sources are compared."""
LISTED = 4
"""Sources that the name of a candidate lists."""
CLEAR, CLEAR_IF_ASKED = 3.0, 2.0
"""Standard errors by which another candidate must be better than the default one; and the geodesic
metric with ``geodesic="auto"``, a single candidate that was asked for."""
FOLDS = 5
LABELS_AT_MOST = 1000
"""Labelled items that candidates are compared on; of more, as many of each class in turn."""
SEARCHED_UP_TO, COMPUTED_UP_TO = 2000, 500
"""Items up to which candidates that need shortest paths through all of them are compared: with
matrices in memory, and with sources computed on demand."""
GEODESIC = 10
"""Nearest items of each item, where a geodesic metric is compared."""
COLLAPSED_AT_MOST, PAIRS_AT_MOST = 0.1, 1000
"""Share of labelled pairs, of so many, that a candidate may bring to nearly zero distance."""
LOCAL_UP_TO = 1 << 25
"""Local weights times pairs of labelled items up to which these are compared."""
SMALLEST = 1e-12
"""Probability below which a log loss grows no further."""


@dataclass(frozen=True)
class Candidate:
    """A way to weigh the sources, and a rule.

    Attributes
    ----------
    weights : str
        ``"learned"`` with the constraint, ``"equal"``, or the name of a single source.
    constraint : str or None
        Of learned weights: None for any sign.
    rho : float or None
        Weight of the ridge; None where nothing is learned, or the objective has its own.
    rule : rule object
    local : bool
        Whether each class or region has learned weights of its own.
    geodesic : int or None
        Nearest items of each item that paths lead along; None for all pairs.
    sources : tuple of str or None
        Sources whose equal weights are the centre of the ridge; None for all.
    """

    weights: str
    constraint: str | None
    rho: float | None
    rule: DistanceRule
    local: bool = False
    geodesic: int | None = None
    sources: tuple[str, ...] | None = None

    @property
    def way(self) -> tuple[Any, ...]:
        """All but the rule: candidates with the same have the same metric."""
        edges = self.local, self.geodesic
        return self.weights, self.constraint, self.rho, *edges, self.sources

    @property
    def is_signed(self) -> bool:
        """Whether weights may be negative."""
        return self.weights == "learned" and self.constraint is None

    @property
    def name(self) -> str:
        """The weights in words, and the edges where these are not all pairs."""
        words = {"nonnegative": "weights >= 0", "simplex": "weights >= 0 of sum 1"}
        name = "equal weights"
        if self.weights == "learned":
            name = "local " * self.local + words.get(self.constraint or "", "signed weights")
            if self.sources is not None:
                name += f" near {self.centre}"
        elif self.weights != "equal":
            name = f"{self.weights} alone"
        elif self.sources is not None:
            name = self.centre
        return name if self.geodesic is None else f"{name} along {self.geodesic} nearest items"

    @property
    def centre(self) -> str:
        """The weights that the ridge draws to, in words."""
        if self.sources is None:
            return "equal weights"
        if len(self.sources) == 1:
            return f"{self.sources[0]} alone"
        if len(self.sources) > LISTED:
            return f"equal weights of {len(self.sources)} sources"
        return f"equal weights of {', '.join(self.sources[:-1])} and {self.sources[-1]}"

    def __str__(self) -> str:
        ridge = "" if self.rho is None else f", rho {self.rho:.2g}"
        return f"{self.name}{ridge}, rule {self.rule.name}"


class Choice(ABC):
    """Base of what was compared and chosen: candidates, the default one first."""

    candidates: tuple[Candidate, ...]
    chosen: int
    reason: str
    skipped: tuple[str, ...]

    @abstractmethod
    def to_record(self) -> list[dict[str, Any]]:
        """Return a dictionary per candidate, the best first."""

    @property
    def best(self) -> Candidate:
        """The candidate that was chosen."""
        return self.candidates[self.chosen]

    def to_frame(self) -> pd.DataFrame:
        """Return a table with a row per candidate, the best first."""
        import pandas as pd

        return pd.DataFrame(self.to_record())

    def __str__(self) -> str:
        return "\n".join([f"{self.best}: {self.reason}", *(f"({why})" for why in self.skipped)])


@dataclass(frozen=True, eq=False)
class Selection(Choice):
    """What was compared, and what was chosen.

    Attributes
    ----------
    candidates : tuple of Candidate
        The default one first.
    log_loss, accuracy : (S,) arrays
        Means over the held-out items, the log loss with its temperature fitted; NaN if there was
        nothing to compare.
    gain : (S,) array
        How much smaller the log loss is than that of the first candidate.
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

    def to_record(self) -> list[dict[str, Any]]:
        """Return a dictionary per candidate, the smallest log loss first."""
        return [
            {
                "weights": self.candidates[s].name,
                "rho": self.candidates[s].rho,
                "rule": self.candidates[s].rule.name,
                "log_loss": float(self.log_loss[s]),
                "accuracy": float(self.accuracy[s]),
                "gain": float(self.gain[s]),
                "standard_error": float(self.standard_error[s]),
                "chosen": bool(s == self.chosen),
            }
            for s in np.argsort(self.log_loss, kind="stable")
        ]


def candidates_of(
    model: MetricMixtureClassifier, names: Sequence[str], sizes: Indices
) -> list[Candidate]:
    """Return what a classifier may choose from, the default first: what its parameters leave open.

    `names` are those of the sources, `sizes` the number of labels of each class. A constraint of
    "auto" leaves the weights open, a rho of None the ridge of class means, and a rule of "auto" the
    rule. Equal weights and single sources are compared with the default rule only. An objective of
    your own is taken as it is. With fewer than five labels per class the default is the only one,
    unless a constraint or rho is stated; where no class has two labels, it has equal weights. Local
    weights are compared unless `local` says which to use. A `geodesic` of "auto" adds one
    candidate, the first with paths along the ten nearest items.
    """
    found = candidates_over(model, names, sizes)
    return along_edges(model, found, few=leaves_nothing_open(model, sizes))


def leaves_nothing_open(model: MetricMixtureClassifier, sizes: Indices) -> bool:
    """Return whether labels are too few to compare what the parameters leave open."""
    named = isinstance(model.objective, str) and model.constraint == "auto" and model.rho is None
    return bool(named and sizes.mean() < FEW_LABELS)


def along_edges(model: Any, found: list[Candidate], few: bool) -> list[Candidate]:
    """Return candidates with the edges that the parameter `geodesic` states, or leaves open.

    With `few` labels or targets, "auto" means all pairs.
    """
    if model.geodesic == "auto":
        return found if few else [*found, replace(found[0], geodesic=GEODESIC)]
    return [replace(candidate, geodesic=model.geodesic) for candidate in found]


def candidates_over(
    model: MetricMixtureClassifier, names: Sequence[str], sizes: Indices
) -> list[Candidate]:
    """Return the same candidates for one set of edges."""
    rules = CANDIDATE_RULES if model.rule == "auto" else (as_rule(model.rule),)
    if model.objective is None:
        return [Candidate("equal", None, None, rule) for rule in rules]
    constraint = {"auto": "nonnegative", "none": None}.get(str(model.constraint), model.constraint)
    if not isinstance(model.objective, str):
        return [Candidate("learned", constraint, None, rules[0], model._is_local)]
    few = leaves_nothing_open(model, sizes)
    if few and sizes.max() < 2:
        return [Candidate("equal", None, None, rules[0])]
    rhos: tuple[float | None, ...] = (model.rho,)
    if model.rho is None and model.objective == "class-means":
        usual = class_means_ridge(sizes[sizes > 0])
        rhos = (usual, max(MORE_RHO, 10.0 * usual))
    local = model._is_local
    if few:
        return [Candidate("learned", constraint, rhos[0], rules[0], local)]
    found = [Candidate("learned", constraint, rho, rule, local) for rho in rhos for rule in rules]
    if model.constraint == "auto" and not local:
        if model.local is not None:
            found.append(Candidate("learned", constraint, rhos[0], rules[0], True))
        found.append(Candidate("learned", None, rhos[-1], rules[0]))
        found.append(Candidate("equal", None, None, rules[0]))
        found += [Candidate(name, None, None, rules[0]) for name in names if len(names) > 1]
    return found


def select(
    model: MetricMixtureClassifier, stack: DissimilarityStack, codes: Indices, n_classes: int
) -> Selection:
    """Return the choice of weights, ridge and rule for a classifier.

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
    Where sources are metrics, weights >= 0 need the distances between the labelled items only: in
    each fold the supervised sources, L² R numbers, and the weights once per ridge. Everything else
    needs shortest paths through all items, and is compared up to 2000 items (500 where sources are
    computed on demand).
    """
    labelled = np.flatnonzero(codes >= 0)
    candidates = candidates_of(model, stack.names, np.bincount(codes[labelled]))
    first = candidates[0]
    on_edges = stack.edges is not None
    if len(candidates) == 1 or len(labelled) < FOLDS or on_edges:
        reason = "as the parameters say"
        if len(candidates) > 1 and on_edges:
            reason = (
                "nothing was compared over sparse edges, where every candidate needs searches "
                "from all labelled items in every fold"
            )
        elif len(candidates) > 1:
            reason = f"{len(labelled)} labels are too few to hold some out"
        elif first.weights == "equal" and model.objective is not None:
            reason = f"{len(labelled)} labels for {n_classes} classes are too few to learn from"
        elif leaves_nothing_open(model, np.bincount(codes[labelled])):
            reason = (
                f"{len(labelled)} labels for {n_classes} classes are too few to compare others "
                f"(fewer than {FEW_LABELS} per class)"
            )
        unknown = np.array([np.nan])
        return Selection((first,), unknown, unknown, unknown, unknown, 0, reason)
    if len(labelled) > LABELS_AT_MOST:
        labelled = some_of_each_class(labelled, codes[labelled], LABELS_AT_MOST)
    trials = CandidateTrials(model, stack, codes, labelled, n_classes)
    with warnings.catch_warnings(), small_products(len(labelled)):
        warnings.simplefilter("ignore", ConvergenceWarning)  # the fit itself will say so
        compared, p = trials.run(candidates)
    right = codes[labelled]
    losses = np.array([tempered_losses(of_candidate, right) for of_candidate in p])
    gains = losses[0] - losses
    gain, error = gains.mean(axis=1), gains.std(axis=1, ddof=1) / np.sqrt(len(right))
    accuracy = (p.argmax(axis=2) == right).mean(axis=1)
    asked = [model.geodesic == "auto" and one.geodesic is not None for one in compared]
    clear = gain > np.where(asked, CLEAR_IF_ASKED, CLEAR) * error
    clear &= accuracy >= accuracy[0]
    chosen = int(np.where(clear, gain, -np.inf).argmax()) if clear.any() else 0
    reason = f"none of {len(compared) - 1} others was clearly better on held-out labels"
    if chosen:
        reason = (
            f"its log loss on held-out labels is smaller by {gain[chosen]:.3f} ± "
            f"{error[chosen]:.3f} than with {first}"
        )
    return Selection(
        tuple(compared),
        losses.mean(axis=1),
        accuracy,
        gain,
        error,
        chosen,
        reason,
        tuple(trials.skipped),
    )


class CandidateTrials:
    """The candidates on each fold of the labelled items.

    Attributes
    ----------
    skipped : list of str
        Which candidates were left out, and why.
    """

    def __init__(
        self,
        model: Any,
        stack: DissimilarityStack,
        codes: AnyArray,
        labelled: Indices,
        n_classes: int,
    ) -> None:
        self.model, self.stack, self.n_classes = copy(model), stack, n_classes
        self.model.random_state = 0  # a generator of the caller is for the fit itself
        self.labelled, self.y = labelled, codes[labelled]
        self.part = stack.part(labelled)
        self.skipped: list[str] = []

    def run(self, candidates: Sequence[Candidate]) -> tuple[list[Candidate], Floats]:
        """Return the candidates that were compared, and their probabilities (S, L, C)."""
        compared = self.affordable(candidates)
        L = len(self.y)
        p = np.full((len(compared), L, self.n_classes), 1.0 / self.n_classes)
        predictors: dict[Any, FoldPredictor] = {}
        for _, test in LabelledKFold(min(FOLDS, L), random_state=0).split(None, self.y):
            known = self.y.copy()
            known[test] = -1
            if len(np.unique(known[known >= 0])) < 2:
                continue
            stack, part = self.of_fold(known)
            fixed = {} if self.stack.supervised else predictors
            predictors = {way: fixed[way] for way in fixed if way[0] != "learned"}
            for s, candidate in enumerate(compared):
                if candidate.way not in predictors:
                    predictors[candidate.way] = self.predictor(candidate, stack, part, known)
                assert isinstance(candidate.rule, Rule)
                p[s, test] = predictors[candidate.way].probabilities(candidate.rule, test, known)
        return compared, p

    def affordable(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return the candidates that can be compared soon; `skipped` then names the others."""
        dense = self.stack.block is not None
        searchable = self.stack.n_items <= (SEARCHED_UP_TO if dense else COMPUTED_UP_TO)
        first, kept, left = candidates[0], [], {}
        for candidate in candidates:
            if candidate.way == first.way or self.is_direct(candidate):
                kept.append(candidate)
            elif not searchable:
                left[candidate.name] = "shortest paths through all items"
            elif self.is_large(candidate):
                left[candidate.name] = "one number per local weight and pair of labelled items"
            elif self.model.constraint == "auto" and (candidate.is_signed or candidate.local):
                trial = self.model._settled(candidate)
                result = self.solve(candidate, trial, self.stack, self.part, self.y)
                share = trial._moved_share(self.stack, result, self.labelled)
                collapsed = self.collapsed_share(result)
                if share <= MOVED_AT_MOST and collapsed <= COLLAPSED_AT_MOST:
                    kept.append(candidate)
                    continue
                if collapsed > COLLAPSED_AT_MOST:
                    name = candidate.name
                    self.skipped.append(
                        f"not compared: {name}, which makes {collapsed:.0%} of the distances "
                        "between labelled items nearly zero"
                    )
                    continue
                how = "local='classes'" if candidate.local else "constraint=None"
                left[candidate.name] = (
                    f"learning through paths (the projection would change {share:.0%} of the "
                    f"distances), {how}"
                )
            else:
                kept.append(candidate)
        for why in dict.fromkeys(left.values()):
            names = [name for name in left if left[name] == why]
            self.skipped.append(f"not compared: {', '.join(names)}, which would need {why}")
        return kept

    def collapsed_share(self, result: SolveResult) -> float:
        """Return the share of edges between labelled items whose length is nearly zero."""
        assert result.mixture is not None
        lengths = EdgeLengths(self.stack, result.mixture)
        i, j = np.triu_indices(len(self.labelled), 1)
        some = np.random.default_rng(0).permutation(len(i))[:PAIRS_AT_MOST]
        w = lengths.pairs(self.labelled[i[some]], self.labelled[j[some]])
        return float(nearly_zero(lengths, w).mean())

    def is_direct(self, candidate: Candidate) -> bool:
        """Return whether the edge lengths of a candidate are a metric: no path is needed."""
        through_paths = candidate.is_signed or candidate.local or candidate.geodesic is not None
        return not through_paths and all(
            known is not None and known.triangle_inequality for known in self.stack.facts
        )

    def is_large(self, candidate: Candidate) -> bool:
        """Return whether local weights would take much longer to learn than common ones."""
        n_weights = self.stack.n_sources * self.n_classes
        return candidate.local and n_weights * len(self.y) ** 2 > LOCAL_UP_TO

    def of_fold(self, known: AnyArray) -> tuple[DissimilarityStack, DissimilarityStack]:
        """Return the stack, and its part of labelled items, as computed from the known labels."""
        if not self.stack.supervised:
            return self.stack, self.part
        stack = self.stack.relabelled(self.of_all(known), self.n_classes, keep_choice=True)
        return stack, stack.part(self.labelled, same_as=(self.stack, self.part))

    def predictor(
        self,
        candidate: Candidate,
        stack: DissimilarityStack,
        part: DissimilarityStack,
        known: AnyArray,
    ) -> FoldPredictor:
        """Return the metric of a candidate, its weights learned from the known labels if at all.

        Weights are learned on edge lengths, unless the model is told otherwise, even if the
        projection moves many of them in a fold. That costs accuracy: they are judged no better than
        they are.
        """
        model, direct = self.model._settled(candidate), self.is_direct(candidate)
        result = self.solve(candidate, model, stack, part, known)
        assert result.mixture is not None
        whole, items = (part, np.arange(len(known))) if direct else (stack, self.labelled)
        lengths = EdgeLengths(model._along(whole, result.mixture), result.mixture)
        return FoldPredictor(lengths, items, self.n_classes, model.n_jobs)

    def solve(
        self,
        candidate: Candidate,
        model: Any,
        stack: DissimilarityStack,
        part: DissimilarityStack,
        known: AnyArray,
    ) -> SolveResult:
        """Learn the weights of a candidate, from the pairs of labelled items if these are enough.

        Local weights need the memberships of all items, learning through paths all items.
        """
        whole = candidate.local or model.projection is True
        codes, trained = (self.of_all(known), stack) if whole else (known, part)
        objective = model._make_objective(codes)
        result: SolveResult = model._solve(objective, trained, refit=True, verbose=False)
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return result

    def of_all(self, known: AnyArray) -> AnyArray:
        """Return what is known of the labelled items as that of all items of the stack."""
        codes = np.full(self.stack.n_items, self.model._unknown)
        codes[self.labelled] = known
        return codes


def some_of_each_class(labelled: Indices, codes: Indices, n: int) -> Indices:
    """Return n of the labelled items, drawn at random, the classes in turn."""
    shuffled = np.random.default_rng(0).permutation(len(labelled))
    rank = np.empty(len(labelled), dtype=np.int64)
    for c in np.unique(codes):
        own = shuffled[codes[shuffled] == c]
        rank[own] = np.arange(len(own))
    return np.sort(labelled[np.argsort(rank, kind="stable")[:n]])


def tempered_losses(p: Floats, right: Indices) -> Floats:
    """Return the log loss of each item, (L,), at the temperature with the smallest mean.

    >>> tempered_losses(np.array([[0.6, 0.4], [0.4, 0.6]]), np.array([0, 1])).round(3)
    array([0., 0.])
    """
    logs = np.log(np.maximum(p, SMALLEST))
    logs -= logs.max(axis=1, keepdims=True)

    def losses(log_sharpness: float) -> Floats:
        scaled = np.exp(log_sharpness) * logs
        total = np.log(np.exp(scaled).sum(axis=1))
        return np.asarray(total - scaled[np.arange(len(right)), right])

    found = minimize_scalar(lambda t: losses(t).mean(), bounds=(-4.0, 4.0), method="bounded")
    return losses(float(found.x))


class LabelledKFold(BaseCrossValidator):
    """Cross-validation that splits the labelled items only, and keeps the others in training.

    Each class is spread evenly over the folds, at random; an item that is unlabelled (-1, NaN,
    None or pandas' NA; among texts "" or "-1") is in every training set and in no test set.

    Parameters
    ----------
    n_splits : int
    n_repeats : int
        Number of repetitions, each with new folds.
    random_state : int, RandomState or None

    Examples
    --------
    >>> from metricmix.estimators import LabelledKFold
    >>> for train, test in LabelledKFold(2, random_state=0).split(None, [0, 0, 1, 1, -1]):
    ...     print(train, test)
    [0 3 4] [1 2]
    [1 2 4] [0 3]
    """

    def __init__(self, n_splits: int = 5, *, n_repeats: int = 1, random_state: Any = None) -> None:
        self.n_splits = check_integer(n_splits, name="n_splits", low=2)
        self.n_repeats = check_integer(n_repeats, name="n_repeats", low=1)
        self.random_state = random_state

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Indices, Indices]]:
        """Yield the training and test items of each fold; only y is used."""
        if y is None:
            raise InputError(
                argument="y",
                expected="labels, of which only the known ones are split",
                found="None",
            )
        labels = as_labels(y)
        known = np.flatnonzero(~is_unlabelled(labels))
        if len(known) < self.n_splits:
            raise InputError(
                argument="n_splits",
                expected=f"at most {len(known)}, the number of labelled items",
                found=self.n_splits,
            )
        given = self.random_state
        rng = given if isinstance(given, np.random.Generator) else check_random_state(given)
        _, codes = np.unique(plain_labels(labels[known]), return_inverse=True)
        for _ in range(self.n_repeats):
            # Shuffle, sort by class, and assign folds in turn: each class is spread evenly.
            shuffled = rng.permutation(len(known))
            row = shuffled[np.argsort(codes[shuffled], kind="stable")]
            fold = np.empty(len(known), dtype=np.int64)
            fold[row] = np.arange(len(known)) % self.n_splits
            for number in range(self.n_splits):
                test = known[fold == number]
                yield np.setdiff1d(np.arange(len(labels)), test), test

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds, repeats included."""
        return int(self.n_splits * self.n_repeats)


class FoldPredictor:
    """Predict held-out items in one metric, for many splits of the same labelled items.

    Shortest paths and neighbours do not depend on which labels are held out. They are searched
    once, when first needed.

    Parameters
    ----------
    lengths : EdgeLengths
        The edge lengths of the metric; held-out items stay in it.
    items : (A,) array
        The items of the stack that are in some training or test set.
    n_classes : int
    n_jobs : int, optional
        Threads.
    metric : (n, n) array, optional
        The metric between all items of the stack, if it is known already.
    """

    def __init__(
        self,
        lengths: EdgeLengths,
        items: Indices,
        n_classes: int,
        n_jobs: int | None = None,
        metric: Floats | None = None,
    ) -> None:
        self.lengths, self.items, self.n_classes = lengths, items, n_classes
        self.n_jobs, self.metric = n_jobs, metric
        self._neighbours: dict[int, tuple[Floats, Indices]] = {}

    @cached_property
    def distances(self) -> Floats:
        """Distances between the items, (A, A), from row to column."""
        return self._searched[0]

    @cached_property
    def _searched(self) -> tuple[Floats, Floats]:
        """The same, and the mean distances between each of the items and all others, (A,)."""
        whole, items = self.metric, self.items
        if whole is None and self.lengths.is_metric and len(items) == self.lengths.n:
            whole = self.lengths.matrix(n_jobs=self.n_jobs)
        if whole is not None:
            between = np.asarray(whole[np.ix_(items, items)], dtype=np.float64)
            return between, whole.mean(axis=0, dtype=np.float64)[items]
        rows = distances_from(self.lengths, self.items, n_jobs=self.n_jobs)
        return rows[:, self.items], rows.mean(axis=1)

    def probabilities(self, rule: Rule, test: Indices, codes: Indices) -> Floats:
        """Return the class probabilities (M, C) of held-out items by a rule.

        Parameters
        ----------
        rule : Rule
        test : (M,) array
            Positions of the held-out items in `items`.
        codes : (A,) array
            Class numbers of `items`, -1 where the label is held out.
        """
        if isinstance(rule, Spreading):
            everyone = np.full(self.lengths.n, -1)
            everyone[self.items] = codes
            fit = FittedRule(rule, self.lengths, everyone, self.n_classes, self.n_jobs)
            k = rule.n_neighbors
            fit.distances = self._neighbours[k] = self._neighbours.get(k) or fit.distances
            return fit.probabilities[self.items[test]]
        known = np.flatnonzero(codes >= 0)
        d, within = (self.distances[np.ix_(rows, known)] for rows in (test, known))
        reach = self._searched[1][known]
        return rule.from_distances(d, codes[known], self.n_classes, within, reach)

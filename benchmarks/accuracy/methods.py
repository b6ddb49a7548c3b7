"""What is compared: ways to weigh the sources, and rules to label items by the metric.

A *candidate* is a mixture with a rule; a *method* is a set of candidates, of which the one with the
highest accuracy on the validation items is taken (the first of equals). Distances are those of the
metric, shortest paths included, unless it says otherwise.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy.data import Network
from metricmix import ConvergenceWarning, DissimilarityStack, Mixture, minimize, objectives
from metricmix.dissimilarity.sources import Source
from metricmix.estimators.base import START
from metricmix.estimators.rules import Spreading, judge
from metricmix.mixture.lengths import EdgeLengths
from metricmix.paths import shortest_paths
from metricmix.paths.trees import distances_from

Floats = NDArray[np.float64]
Split = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
RHOS = (1e-5, 1e-4, 1e-3)
NEIGHBOURS = (5, 10, 15)
LARGE = 8000
"""Items from which rows are computed as they are needed."""

METHODS = {
    "mixture": "class means, weights of any sign",
    "unprojected": "the same, judged on edge lengths, without shortest paths",
    "path-trained": "the same, weights trained through the shortest paths",
    "non-negative": "the same, weights >= 0",
    "equal": "equal weights, nothing learned",
    "single": "the best single source",
    "neighbourhood": "stochastic neighbours as the loss",
    "contrast": "the paper's linear loss, balanced",
    "1-NN": "nearest labelled item, in the metric of class means",
    "k-NN": "k nearest labelled items",
    "spreading": "labels spread over the 10-nearest-neighbour graph",
}


@dataclass(frozen=True)
class Outcome:
    """A candidate's accuracy on validation and test items, and what it was."""

    validation: float
    test: float
    setting: str
    mixture: Mixture | None = None
    weighting: str = ""


class Remembered(Source):
    """A computed source that keeps the rows it has been asked for."""

    def __init__(self, source: Source) -> None:
        self.source, self.n, self.name = source, source.n, source.name
        self.kept: dict[int, NDArray[np.float32]] = {}

    def rows(self, indices: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return rows, computing those that are not known yet."""
        missing = np.array([i for i in indices.tolist() if i not in self.kept], dtype=np.int64)
        for start in range(0, len(missing), 128):
            some = missing[start : start + 128]
            rows = self.source.rows(some).astype(np.float32)
            self.kept.update(zip(some.tolist(), rows, strict=True))
        return np.array([self.kept[i] for i in indices.tolist()])


def remembered(stack: DissimilarityStack) -> DissimilarityStack:
    """Return a stack that keeps rows; stacks in memory stay as they are."""
    if stack.block is not None:
        return stack
    sources = [Remembered(source) for source in stack._sources]
    return DissimilarityStack(sources, stack.names, scaling=stack.scales, validate=False)


def evaluate(
    stacks: dict[str, DissimilarityStack], network: Network, split: Split
) -> dict[str, Outcome]:
    """Return what each method makes of a split."""
    found: dict[str, list[Outcome]] = defaultdict(list)
    for weighting, stack in stacks.items():
        for method, outcome in _candidates(Trial(network, stack, split, weighting)):
            found[method].append(outcome)
    best = {name: max(all_, key=lambda o: o.validation) for name, all_ in found.items()}
    chosen = best["mixture"]
    if chosen.mixture is not None:
        trial = Trial(network, stacks[chosen.weighting], split, chosen.weighting)
        rho = float(chosen.setting.split("rho ")[1])
        mixture = trial.learned(objectives.ClassMeans, rho, start=chosen.mixture)
        best["path-trained"] = trial.judged(mixture, f"rho {rho:g}")
    return {name: best[name] for name in METHODS if name in best}


def _candidates(trial: Trial) -> Iterator[tuple[str, Outcome]]:
    for rho in RHOS:
        setting = f"rho {rho:g}"
        mixture = trial.learned(objectives.ClassMeans, rho)
        d = trial.distances(mixture)
        yield "mixture", trial.outcome(d, "class-mean", setting, mixture)
        yield "unprojected", trial.outcome(trial.edges(mixture), "class-mean", setting)
        yield "1-NN", trial.outcome(d, "nearest", setting)
        for k in NEIGHBOURS:
            yield "k-NN", trial.outcome(d, "k-nearest", f"{setting}, k {k}", k=k)
        if trial.network.n <= LARGE:
            yield "spreading", trial.spread(mixture, setting)
        mixture = trial.learned(objectives.ClassMeans, rho, constraint="nonnegative")
        yield "non-negative", trial.judged(mixture, setting)
        yield "neighbourhood", trial.judged(trial.learned(objectives.Neighbourhood, rho), setting)
    for rho in (1e-3, 1e-2, 1e-1):  # the linear loss needs more of a ridge
        contrast = trial.learned(objectives.LabelContrast, rho, balanced=True)
        yield "contrast", trial.judged(contrast, f"rho {rho:g}")
    yield "equal", trial.judged(trial.mixture(np.full(trial.R, START / trial.R)), "")
    for r, name in enumerate(trial.stack.names):
        yield "single", trial.judged(trial.mixture(START * np.eye(trial.R)[r]), name)


@dataclass(frozen=True)
class Trial:
    """One split of a network, with one way to weigh its words."""

    network: Network
    stack: DissimilarityStack
    split: Split
    weighting: str

    @property
    def R(self) -> int:  # noqa: N802
        """Number of sources."""
        return self.stack.n_sources

    def mixture(self, weights: Floats) -> Mixture:
        """Return given weights as a mixture."""
        return Mixture(weights, self.stack.names, scaling=self.stack.scales)

    def learned(
        self,
        loss: Any,
        rho: float,
        *,
        constraint: str | None = None,
        start: Mixture | None = None,
        **options: Any,
    ) -> Mixture:
        """Return weights learned from the labels of the training items.

        On edge lengths; from a `start` on, through the shortest paths, in at most 30 steps.
        """
        known = np.full(self.network.n, -1)
        train = self.split[0]
        known[train] = self.network.labels[train]
        equal = np.full(self.R, START / self.R)
        through: dict[str, Any] = {"max_iter": 30, "tol": 1e-4} if start is not None else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # 30 steps may not be enough
            result = minimize(
                loss(known, rho, **options),
                self.stack,
                "full",
                start=equal if start is None else start,
                centre=equal,
                constraint=constraint,
                projection=start is not None,
                **through,
            )
        assert result.mixture is not None
        return result.mixture

    def distances(self, mixture: Mixture) -> Floats:
        """Return the metric from training, validation and test items to the training items."""
        train = self.split[0]
        asked = np.concatenate(self.split)
        lengths = EdgeLengths(self.stack, mixture)
        if self.stack.block is not None:
            return distances_from(lengths, train)[:, asked].T
        i, j = np.repeat(asked, len(train)), np.tile(train, len(asked))
        paths = shortest_paths(self.stack, mixture, i, j)
        return paths.lengths.reshape(len(asked), len(train))

    def edges(self, mixture: Mixture) -> Floats:
        """Return the edge lengths between the same items."""
        rows = EdgeLengths(self.stack, mixture).rows(self.split[0])
        return rows[:, np.concatenate(self.split)].T

    def judged(self, mixture: Mixture, setting: str) -> Outcome:
        """Return the accuracy of class means in the metric of a mixture."""
        return self.outcome(self.distances(mixture), "class-mean", setting, mixture)

    def outcome(
        self, d: Floats, rule: str, setting: str, mixture: Mixture | None = None, k: int = 1
    ) -> Outcome:
        """Return the accuracy of a rule on distances `d`."""
        train = self.split[0]
        codes, within = self.network.labels[train], d[: len(train)]
        p = judge(rule, d, codes, self.network.n_classes, k=k, by_distance=False, within=within)
        return self._scored(p[len(train) :], setting, mixture)

    def spread(self, mixture: Mixture, setting: str) -> Outcome:
        """Return the accuracy of label spreading."""
        codes = np.full(self.network.n, -1)
        codes[self.split[0]] = self.network.labels[self.split[0]]
        lengths = EdgeLengths(self.stack, mixture).formed()
        rule = Spreading(lengths, codes, self.network.n_classes, k=10, alpha=0.8)
        return self._scored(rule.members[np.concatenate(self.split[1:])], setting, None)

    def _scored(self, p: Floats, setting: str, mixture: Mixture | None) -> Outcome:
        asked = np.concatenate(self.split[1:])
        right = p.argmax(axis=1) == self.network.labels[asked]
        n_validation = len(self.split[1])
        label = f"{self.weighting} {setting}".strip()
        validation, test = right[:n_validation].mean(), right[n_validation:].mean()
        return Outcome(float(validation), float(test), label, mixture, self.weighting)

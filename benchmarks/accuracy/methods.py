"""What is compared: ways to weigh the sources, and rules to label items by the metric.

A *candidate* is a mixture with a rule; a *method* is a set of candidates, of which the one with the
highest accuracy on the validation items is taken (the first of equals). Distances are those of the
metric, shortest paths included, unless it says otherwise.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy.data import Network
from metricmix import ConvergenceWarning, DissimilarityStack, Mixture, minimize, objectives, solvers
from metricmix.estimators.base import START
from metricmix.estimators.rules import FittedRule, KNearest, Spreading, as_rule
from metricmix.mixture.edge_lengths import EdgeLengths
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

    @property
    def rho(self) -> float:
        """The ridge, which is the last word of the setting."""
        return float(self.setting.split("rho ")[1])


def evaluate(trial: Trial, *, everything: bool) -> dict[str, Outcome]:
    """Return what each method makes of a split: its candidate with the best validation.

    Unless `everything`, all are judged on edge lengths, without paths, but the mixture that is best
    by these.
    """
    found: dict[str, list[Outcome]] = defaultdict(list)
    judged = trial.judged if everything else trial.judged_on_edges
    mixtures = {rho: trial.learned(objectives.ClassMeans, rho) for rho in RHOS}
    for rho, mixture in mixtures.items():
        found["unprojected"].append(trial.judged_on_edges(mixture, f"rho {rho:g}"))
    chosen_rho = best(found["unprojected"]).rho
    for rho, mixture in mixtures.items():
        setting = f"rho {rho:g}"
        positive = trial.learned(objectives.ClassMeans, rho, constraint="nonnegative")
        found["non-negative"].append(judged(positive, setting))
        found["neighbourhood"].append(judged(trial.learned(objectives.Neighbourhood, rho), setting))
        if not everything and rho != chosen_rho:
            continue
        d = trial.distances(mixture)
        found["mixture"].append(trial.outcome(d, "class-mean", setting, mixture))
        found["1-NN"].append(trial.outcome(d, "nearest", setting))
        found["k-NN"] += [
            trial.outcome(d, "k-nearest", f"{setting}, k {k}", k=k) for k in NEIGHBOURS
        ]
        if trial.network.n <= LARGE:
            found["spreading"].append(trial.spread(mixture, setting))
    for rho in (1e-3, 1e-2, 1e-1):  # the linear loss needs more of a ridge
        contrast = trial.learned(objectives.LabelContrast, rho, balanced=True)
        found["contrast"].append(judged(contrast, f"rho {rho:g}"))
    found["equal"].append(judged(trial.mixture(np.full(trial.R, START / trial.R)), ""))
    for r, name in enumerate(trial.stack.names):
        found["single"].append(judged(trial.mixture(START * np.eye(trial.R)[r]), name))
    if everything:
        chosen = best(found["mixture"])
        mixture = trial.learned(objectives.ClassMeans, chosen.rho, start=chosen.mixture)
        found["path-trained"].append(trial.judged(mixture, f"rho {chosen.rho:g}"))
    return {name: best(found[name]) for name in METHODS if name in found}


def best(outcomes: list[Outcome]) -> Outcome:
    """Return the first of those with the highest accuracy on validation items."""
    return max(outcomes, key=lambda outcome: outcome.validation)


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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # 30 steps may not be enough
            result = minimize(
                loss(known, rho, **options).centred(equal),
                self.stack,
                solvers.LBFGS() if start is None else solvers.LBFGS(tol=1e-4),
                start=equal if start is None else start,
                constraint=constraint,
                projection=start is not None,
                max_iter=None if start is None else 30,
            )
        assert result.mixture is not None
        return result.mixture

    def distances(self, mixture: Mixture) -> Floats:
        """Return the metric from training, validation and test items to the training items."""
        d = distances_from(EdgeLengths(self.stack, mixture), self.split[0])
        return d[:, np.concatenate(self.split)].T

    def judged(self, mixture: Mixture, setting: str) -> Outcome:
        """Return the accuracy of class means in the metric of a mixture."""
        return self.outcome(self.distances(mixture), "class-mean", setting, mixture)

    def judged_on_edges(self, mixture: Mixture, setting: str) -> Outcome:
        """Return the same without shortest paths."""
        edges = EdgeLengths(self.stack, mixture).rows(self.split[0])
        return self.outcome(edges[:, np.concatenate(self.split)].T, "class-mean", setting, mixture)

    def outcome(
        self, d: Floats, rule: str, setting: str, mixture: Mixture | None = None, k: int = 1
    ) -> Outcome:
        """Return the accuracy of a rule on distances `d`."""
        train = self.split[0]
        codes, within = self.network.labels[train], d[: len(train)]
        chosen = KNearest(k) if rule == "k-nearest" else as_rule(rule)
        p = chosen.from_distances(d, codes, self.network.n_classes, within)
        return self._scored(p[len(train) :], setting, mixture)

    def spread(self, mixture: Mixture, setting: str) -> Outcome:
        """Return the accuracy of label spreading."""
        codes = np.full(self.network.n, -1)
        codes[self.split[0]] = self.network.labels[self.split[0]]
        lengths = EdgeLengths(self.stack, mixture).formed()
        rule = FittedRule(Spreading(10), lengths, codes, self.network.n_classes)
        return self._scored(rule.probabilities[np.concatenate(self.split[1:])], setting, None)

    def _scored(self, p: Floats, setting: str, mixture: Mixture | None) -> Outcome:
        asked = np.concatenate(self.split[1:])
        right = p.argmax(axis=1) == self.network.labels[asked]
        n_validation = len(self.split[1])
        label = f"{self.weighting} {setting}".strip()
        validation, test = right[:n_validation].mean(), right[n_validation:].mean()
        return Outcome(float(validation), float(test), label, mixture, self.weighting)

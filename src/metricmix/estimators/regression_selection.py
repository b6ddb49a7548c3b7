r"""Model selection of the regressor: weights, ridge and rule, on held-out targets.

As :mod:`metricmix.estimators.selection` does for classes: items of known target are held out in
turn, and stay in the metric; supervised sources are computed anew from the targets that are left.
Candidates are compared by squared error, item by item, far targets moved in. The first one,
non-negative weights with a small ridge towards equal ones and kernel ridge regression, is kept
unless another one is better by more than three standard errors of the paired difference.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from metricmix.dissimilarity.regressors import deal_targets
from metricmix.dissimilarity.ridge import moved_in
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.estimators.regression_rules import (
    KernelRidge,
    NearestMean,
    RegressionRule,
    as_regression_rule,
)
from metricmix.estimators.selection import (
    CLEAR,
    FOLDS,
    LABELS_AT_MOST,
    Candidate,
    CandidateTrials,
    Choice,
    FoldPredictor,
    along_edges,
)
from metricmix.exceptions import ConvergenceWarning
from metricmix.typing import Floats, Indices

if TYPE_CHECKING:
    from metricmix.estimators.regressor import MetricMixtureRegressor

__all__ = ["TargetSelection", "held_out_values", "select_for_target", "target_ridge"]

CANDIDATE_RULES: tuple[RegressionRule, ...] = (KernelRidge(), NearestMean())
"""Rules to choose from, the default one first."""
FEW_TARGETS = 20
"""Known targets below which nothing is chosen, and weights stay equal."""
RIDGE, SMALLEST_RHO, LARGEST_RHO = 0.2, 1e-4, 1e-2
"""The default weight of the ridge: see :func:`target_ridge`."""


def target_ridge(n_known: int) -> float:
    r"""Return the default weight of the ridge, for the number of known targets.

    .. math:: \rho = 0.2 / L, \quad \text{at least } 10^{-4} \text{ and at most } 10^{-2}

    >>> [f"{target_ridge(m):.1e}" for m in (10, 100, 1000, 10000)]
    ['1.0e-02', '2.0e-03', '2.0e-04', '1.0e-04']
    """
    return float(np.clip(RIDGE / max(1, n_known), SMALLEST_RHO, LARGEST_RHO))


@dataclass(frozen=True, eq=False)
class TargetSelection(Choice):
    """What was compared for a numeric target, and what was chosen.

    Attributes
    ----------
    candidates : tuple of Candidate
        The default one first.
    squared_error, r2 : (S,) arrays
        Over the held-out items, far targets moved in; NaN if there was nothing to compare.
    gain : (S,) array
        How much smaller the mean squared error is than that of the first candidate, as a share of
        the variance of the targets: the gain in R².
    standard_error : (S,) array
        Of `gain`, over the held-out items.
    chosen : int
    reason : str
        Why, in a sentence.
    skipped : tuple of str
        What was not compared, and why.
    """

    candidates: tuple[Candidate, ...]
    squared_error: Floats
    r2: Floats
    gain: Floats
    standard_error: Floats
    chosen: int
    reason: str
    skipped: tuple[str, ...] = ()

    def to_record(self) -> list[dict[str, Any]]:
        """Return a dictionary per candidate, the smallest error first."""
        return [
            {
                "weights": self.candidates[s].name,
                "rho": self.candidates[s].rho,
                "rule": self.candidates[s].rule.name,
                "r2": float(self.r2[s]),
                "gain": float(self.gain[s]),
                "standard_error": float(self.standard_error[s]),
                "chosen": bool(s == self.chosen),
            }
            for s in np.argsort(self.squared_error, kind="stable")
        ]


def candidates_for(
    model: MetricMixtureRegressor, names: Sequence[str], n_known: int
) -> list[Candidate]:
    """Return what a regressor may choose from, the default first: what its parameters leave open.

    A constraint of "auto" leaves the weights open, a rho of None the ridge, and a rule of "auto"
    the rule. Equal weights and single sources are compared with the default rule only.
    """
    rules = CANDIDATE_RULES if model.rule == "auto" else (as_regression_rule(model.rule),)
    if model.objective is None:
        return [Candidate("equal", None, None, rule) for rule in rules]
    constraint = {"auto": "nonnegative", "none": None}.get(str(model.constraint), model.constraint)
    if not isinstance(model.objective, str):
        return [Candidate("learned", constraint, None, rule) for rule in rules]
    if model.constraint == "auto" and model.rho is None and n_known < FEW_TARGETS:
        return [Candidate("equal", None, None, rules[0])]
    rhos: tuple[float, ...] = (model.rho,) if model.rho is not None else ()
    if model.rho is None:
        usual = target_ridge(n_known)
        rhos = (usual, 10.0 * usual)
    found = [Candidate("learned", constraint, rho, rule) for rho in rhos for rule in rules]
    if model.constraint == "auto":
        found.append(Candidate("learned", None, rhos[-1], rules[0]))
        found.append(Candidate("equal", None, None, rules[0]))
        found += [Candidate(name, None, None, rules[0]) for name in names if len(names) > 1]
    return found


def select_for_target(
    model: MetricMixtureRegressor, stack: DissimilarityStack, targets: Floats
) -> TargetSelection:
    """Return the choice of weights, ridge and rule for a regressor.

    Parameters
    ----------
    model : MetricMixtureRegressor
        Its parameters hold for everything that is not chosen.
    stack : DissimilarityStack
    targets : (n,) array
        NaN where unknown.
    """
    known = np.flatnonzero(~np.isnan(targets))
    candidates = candidates_for(model, stack.names, len(known))
    first = candidates[0]
    few = first.weights == "equal" and model.objective is not None
    candidates = along_edges(model, candidates, few)
    first = candidates[0]
    reason = ""
    if len(candidates) == 1:
        reason = "as the parameters say"
        if few:
            reason = (
                f"{len(known)} targets are too few to learn from (fewer than {FEW_TARGETS}), and "
                "weights stay equal"
            )
    elif stack.edges is not None:
        reason = (
            "nothing was compared over sparse edges, where every candidate needs searches from "
            "all items of known target in every fold"
        )
    elif len(known) < 2 * FOLDS:
        reason = f"{len(known)} targets are too few to hold some out"
    elif isinstance(model.objective, str) or model.objective is None or callable(model.objective):
        pass
    else:
        reason = "the objective was made for given targets, none of which can be held out"
    if reason:
        unknown = np.array([np.nan])
        return TargetSelection((first,), unknown, unknown, unknown, unknown, 0, reason)
    if len(known) > LABELS_AT_MOST:
        known = np.sort(np.random.default_rng(0).choice(known, LABELS_AT_MOST, replace=False))
    trials = TargetTrials(model, stack, targets, known, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the fit itself will say so
        compared, predicted = trials.run_targets(candidates)
    y = moved_in(targets[known])
    errors = np.square(predicted - y)
    variance = float(y.var()) or 1.0
    gains = (errors[0] - errors) / variance
    gain, error = gains.mean(axis=1), gains.std(axis=1, ddof=1) / np.sqrt(len(y))
    clear = gain > CLEAR * error
    chosen = int(np.where(clear, gain, -np.inf).argmax()) if clear.any() else 0
    reason = f"none of {len(compared) - 1} others was clearly better on held-out targets"
    if chosen:
        reason = (
            f"its R² on held-out targets is larger by {gain[chosen]:.3f} ± {error[chosen]:.3f} "
            f"than with {first}"
        )
    mean = errors.mean(axis=1)
    r2, skipped = 1.0 - mean / variance, tuple(trials.skipped)
    return TargetSelection(tuple(compared), mean, r2, gain, error, chosen, reason, skipped)


class TargetTrials(CandidateTrials):
    """The candidates on each fold of the items of known target."""

    def run_targets(self, candidates: Sequence[Candidate]) -> tuple[list[Candidate], Floats]:
        """Return the candidates that were compared, and what they predict, (S, L)."""
        compared = self.affordable(candidates)
        L = len(self.y)
        predicted = np.full((len(compared), L), float(np.median(self.y)))
        predictors: dict[Any, FoldPredictor] = {}
        folds = deal_targets(self.y, FOLDS)
        for fold in range(int(folds.max()) + 1):
            test = np.flatnonzero(folds == fold)
            known = self.y.copy()
            known[test] = np.nan
            stack, part = self.of_fold(known)
            fixed = {} if self.stack.supervised else predictors
            predictors = {way: fixed[way] for way in fixed if way[0] != "learned"}
            for s, candidate in enumerate(compared):
                if candidate.way not in predictors:
                    predictors[candidate.way] = self.predictor(candidate, stack, part, known)
                metric = predictors[candidate.way]
                assert isinstance(candidate.rule, RegressionRule)
                predicted[s, test] = held_out_values(metric, candidate.rule, test, known)
        return compared, predicted


def held_out_values(
    metric: FoldPredictor, rule: RegressionRule, test: Indices, known: Floats
) -> Floats:
    """Return what a rule predicts for held-out items, (M,).

    Parameters
    ----------
    metric : FoldPredictor
    rule : RegressionRule
    test : (M,) array
        Positions of the held-out items among those of the metric.
    known : (A,) array
        Their targets, NaN where held out.
    """
    train = np.flatnonzero(~np.isnan(known))
    d, within = (metric.distances[np.ix_(rows, train)] for rows in (test, train))
    return rule.from_distances(d, moved_in(known[train]), within)

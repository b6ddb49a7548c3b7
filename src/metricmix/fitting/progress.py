"""How long the steps of a fit take, estimated before and reported meanwhile."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from metricmix.dissimilarity.kernel_logistic import regularisation_path
from metricmix.dissimilarity.plan import Plan
from metricmix.dissimilarity.predictors import FEWER_FOLDS, N_FOLDS
from metricmix.fitting.options import FitRequest
from metricmix.fitting.storage import ValueStorage, choose_storage
from metricmix.learning.bootstrap import REFIT_FOLDS
from metricmix.learning.task import Classes
from metricmix.learning.trials import FOLDS

__all__ = ["OnProgress", "StepProgress", "expected_fits", "expected_seconds", "storage_of"]

OnProgress = Callable[[str, float], None]
"""Called with the name of a step, and the fraction of all work that is done."""
SECONDS = {"linear": 0.003, "forest": 0.08, "resampled forest": 0.001, "spread": 4e-4}
"""Of one fit of each kind of model: a logistic or ridge regression in one fold with one penalty, a
forest, a forest of a resample, and labels spread over a graph. Measured on a small machine."""
PER_LABEL = {"linear": 1.5e-5, "forest": 2e-4, "resampled forest": 6e-5, "spread": 1e-6}
"""What each label adds."""
EVALUATIONS, PER_EVALUATION = 130, (1.2e-4, 1.2e-8, 2e-9)
"""Of the objective until weights are learned; seconds for each, for a pair of labels, and for a
pair and source."""


def storage_of(plan: Plan, settings: FitRequest, *, measure: bool = False) -> ValueStorage:
    """Return how the values of the sources are to be held, and what that would cost."""
    starting = 2.0  # seconds to start, import packages and read the files
    whole = starting + sum(expected_seconds(plan, settings).values())
    return choose_storage(plan, settings, whole, measure=measure)


def expected_seconds(
    plan: Plan, settings: FitRequest, storage: ValueStorage | None = None
) -> dict[str, float]:
    """Return an estimate of how long each step takes, to an order of magnitude, on two cores.

    Without `storage`, of full matrices.
    """
    if storage is not None and storage.kind != "matrices":
        steps = {"sources": 2, "learning": 4, "intervals": 1, "accuracy": 3, "nearest": 1}
        steps |= {"stretch": 1} if storage.kind == "edges" else {}
        steps |= {"page": 2} if settings.report else {}
        total = sum(steps.values()) + 1
        return {name: share / total * storage.cost.seconds for name, share in steps.items()}
    n, R = plan.report.n_items, len(plan.sources)
    labelled = plan.report.n_labelled
    seconds = {
        step: fitting_seconds(fits, labelled)
        for step, fits in expected_fits(plan, settings).items()
    }
    start, per_pair, per_value = PER_EVALUATION
    pairs = min(labelled, 1000) ** 2
    solve = EVALUATIONS * (start + (per_pair + per_value * R) * pairs)
    n_solves = 25  # times that weights are learned while settings are chosen, and once to use them
    costs = {
        "sources": 0.5 + plan.report.seconds + seconds["sources"],
        "learning": 0.3 + n_solves * solve * (8 if settings.tune else 1) + seconds["learning"],
    }
    if settings.n_bootstrap:
        costs["intervals"] = 0.2 + settings.n_bootstrap * solve + seconds["intervals"]
    if settings.n_splits != 0:
        folds = settings.n_splits or FOLDS
        searches = (folds + R + 1) * 2e-8 * n * (n + 20 * labelled)
        # Seconds for each source in a fold, to predict by it alone and to choose the best one.
        per_source = 0.05
        costs["accuracy"] = 0.5 + searches + folds * (per_source * R + solve) + seconds["accuracy"]
    costs["metric"] = 0.2 + 2e-11 * n**3
    if settings.report:
        costs["page"] = 0.6 + (R + 1) * 5e-4 * n
    costs["writing"] = 0.3 + 2e-9 * R * n * n
    return costs


def fitting_seconds(fits: Mapping[str, int], labelled: int) -> float:
    """Return how long the models of supervised sources take, given how many of each kind."""
    return sum(count * (SECONDS[kind] + PER_LABEL[kind] * labelled) for kind, count in fits.items())


def expected_fits(plan: Plan, settings: FitRequest) -> dict[str, Counter[str]]:
    """Return how many models of each kind a fit to full matrices fits, by step.

    Supervised sources are fitted to all labels, in five folds while settings are chosen, in each
    fold of the comparison, and in each resample. A logistic regression is cross-fitted each time,
    with all penalties or with the one that was chosen. For numbers, all penalties of a ridge
    regression come at the price of one.
    """
    report, numbers = plan.report, plan.report.target is not None
    models = Counter(source.spec.facts.get("model") for source in plan.sources)
    linear = models["linear"]
    classes = max(1, len(report.classes))
    penalties = 1 if numbers else len(regularisation_path())

    def cross_fits(labels: int, n_folds: int, n_penalties: int) -> int:
        most = max(2, labels // (2 if numbers else classes))
        return linear * (min(n_folds, most) * n_penalties)

    L = report.n_labelled
    unlabelled = linear * (report.n_items > L)  # items that the model of all labels is for
    compared = FOLDS if numbers or report.n_labelled >= Classes.FEW * classes else 0
    held_out = 0 if settings.n_splits == 0 else settings.n_splits or FOLDS
    others = {"forest": models["forest"], "spread": models["spread"]}
    resampled = {"resampled forest": models["forest"], "spread": models["spread"]}

    def fits(times: int, linear_fits: int, others: Mapping[str, int]) -> Counter[str]:
        each = {"linear": linear_fits, **others}
        return Counter({kind: times * count for kind, count in each.items() if times * count})

    def kept(folds: int) -> int:
        return L - L // max(1, folds)

    learning = cross_fits(kept(FOLDS), FEWER_FOLDS, 1) + linear
    accuracy = cross_fits(kept(held_out), N_FOLDS, penalties) + linear
    return {
        "sources": fits(1, cross_fits(L, N_FOLDS, penalties) + unlabelled, others),
        "learning": fits(compared, learning, others),
        "intervals": fits(settings.n_bootstrap, cross_fits(L, REFIT_FOLDS, 1), resampled),
        "accuracy": fits(held_out, accuracy, others),
    }


class StepProgress:
    """Times the steps of a run, and reports the fraction of all work that is done."""

    def __init__(self, costs: Mapping[str, float], on_progress: OnProgress | None) -> None:
        self.costs, self.on_progress = dict(costs), on_progress
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[Callable[[int, int], None]]:
        """Time one step; gives a function to call with (done, total)."""
        before = [self.costs[other] for other in self.costs if other in self.seconds]
        total_cost, began = sum(self.costs.values()), time.perf_counter()

        def report(done: int, total: int) -> None:
            if self.on_progress is not None:
                cost = self.costs.get(name, 0.0) * done / max(1, total)
                self.on_progress(name, math.fsum([*before, cost]) / total_cost)

        report(0, 1)
        yield report
        self.seconds[name] = time.perf_counter() - began

"""How long the steps of a fit take, estimated before and reported meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from metricmix.app.ingest.join import Plan
from metricmix.app.ingest.source_specs import SUPERVISED_KINDS
from metricmix.app.pipeline.settings import FitSettings
from metricmix.app.pipeline.storage import ValueStorage, choose_storage
from metricmix.estimators.bootstrap import REFIT_FOLDS
from metricmix.estimators.selection import FOLDS

__all__ = ["OnProgress", "StepProgress", "expected_seconds", "storage_of"]

OnProgress = Callable[[str, float], None]
"""Called with the name of a step, and the fraction of all work that is done."""
STARTING = 2.0
"""Seconds to start, import packages and read the files."""
FIT, FIT_LABEL = {False: 0.001, True: 0.08}, 2.5e-5
"""Seconds that fitting a classifier or regressor of a supervised source takes, of a forest, and for
each label: measured once, to the right order of magnitude, as all of these."""
FITS_TO_LEARN, FITS_A_FOLD = 30, 6
"""Fits of each such source while settings are chosen, and in each fold of the comparison."""
PREDICTING = 0.05
"""Seconds for each source in a fold, to predict by it alone and to choose the best one."""


def storage_of(plan: Plan, settings: FitSettings, *, measure: bool = False) -> ValueStorage:
    """Return how the values of the sources are to be held, and what that would cost."""
    whole = STARTING + sum(expected_seconds(plan, settings).values())
    return choose_storage(plan, settings, whole, measure=measure)


def expected_seconds(
    plan: Plan, settings: FitSettings, storage: ValueStorage | None = None
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
    fits = sum(
        FIT[source.spec.kind == "forest"] + FIT_LABEL * labelled
        for source in plan.sources
        if source.spec.kind in SUPERVISED_KINDS
    )
    learning = 1.0 + 2e-6 * R * labelled**2 + FITS_TO_LEARN * fits
    costs = {
        "sources": 0.5 + plan.report.seconds,
        "learning": learning * (8 if settings.tune else 1),
    }
    if settings.n_bootstrap:
        refit = 0.008 + 2e-7 * R * min(labelled, 1000) ** 2 + REFIT_FOLDS * fits
        costs["intervals"] = 0.5 + settings.n_bootstrap * refit
    if settings.n_splits != 0:
        folds = settings.n_splits or FOLDS
        searches = (folds + R + 1) * 2e-8 * n * (n + 20 * labelled)
        of_fold = PREDICTING * R + FITS_A_FOLD * fits
        costs["accuracy"] = 0.5 + searches + folds * of_fold
    costs["metric"] = 0.2 + 2e-11 * n**3
    if settings.report:
        costs["page"] = 0.6 + (R + 1) * 5e-4 * n
    costs["writing"] = 0.3 + 2e-9 * R * n * n
    return costs


class StepProgress:
    """Times the steps of a run, and reports the fraction of all work that is done."""

    def __init__(self, costs: Mapping[str, float], on_progress: OnProgress | None) -> None:
        self.costs, self.on_progress = dict(costs), on_progress
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[Callable[[int, int], None]]:
        """Time one step; gives a function to call with (done, total)."""
        before = sum(self.costs[other] for other in self.costs if other in self.seconds)
        total_cost, began = sum(self.costs.values()), time.perf_counter()

        def report(done: int, total: int) -> None:
            if self.on_progress is not None:
                cost = self.costs.get(name, 0.0) * done / max(1, total)
                self.on_progress(name, (before + cost) / total_cost)

        report(0, 1)
        yield report
        self.seconds[name] = time.perf_counter() - began

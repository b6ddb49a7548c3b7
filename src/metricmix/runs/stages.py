"""The stages of a fit: how long each will take, how far it is, how long it took."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from metricmix.gathering.joining import Plan
from metricmix.runs.settings import FitSettings

__all__ = ["OnProgress", "Stages", "expected_seconds"]

OnProgress = Callable[[str, float], None]
"""Called with the name of a stage, and the share of all work that is done."""


def expected_seconds(plan: Plan, settings: FitSettings) -> dict[str, float]:
    """Return about how long each stage takes: a guess of the right order, measured on two cores."""
    n, R = plan.report.n_items, len(plan.sources)
    labelled = plan.report.n_labelled
    learning = 1.0 + 2e-6 * R * labelled**2
    costs = {
        "sources": 0.5 + plan.report.seconds,
        "learning": learning * (8 if settings.tune else 1),
    }
    if settings.n_bootstrap:
        costs["intervals"] = 0.5 + settings.n_bootstrap * 2e-7 * R * min(labelled, 1000) ** 2
    if settings.n_splits:
        costs["accuracy"] = 0.5 + (settings.n_splits + R + 1) * 2e-8 * n * (n + 20 * labelled)
    costs["metric"] = 0.2 + 2e-11 * n**3
    if settings.report:
        costs["page"] = 1.0 + (R + 1) * 1.2e-3 * n
    costs["writing"] = 0.3 + 2e-9 * R * n * n
    return costs


class Stages:
    """Where a run is: its stage, and the share of all work that is done."""

    def __init__(self, costs: Mapping[str, float], on_progress: OnProgress | None) -> None:
        self.costs, self.on_progress = dict(costs), on_progress
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[Callable[[int, int], None]]:
        """Tell of a stage, and time it; gives a function to call with (done, all)."""
        before = sum(self.costs[other] for other in self.costs if other in self.seconds)
        total, began = sum(self.costs.values()), time.perf_counter()

        def tell(done: int, all_: int) -> None:
            if self.on_progress is not None:
                share = done / max(1, all_)
                self.on_progress(name, (before + self.costs.get(name, 0.0) * share) / total)

        tell(0, 1)
        yield tell
        self.seconds[name] = time.perf_counter() - began

"""The steps of a fit: how long each took, and which fraction of the work is done."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from metricmix.dissimilarity.value_storage import ValueStorage
from metricmix.fitting.options import FitRequest

__all__ = ["OnProgress", "StepProgress"]

OnProgress = Callable[[str, float], None]
"""Called with the name of a step, and the fraction of all work that is done."""
SHARES = {
    "sources": 3.0,
    "learning": 2.0,
    "intervals": 2.0,
    "accuracy": 4.0,
    "metric": 1.0,
    "nearest": 1.0,
    "stretch": 1.0,
    "page": 2.0,
    "writing": 1.0,
}
"""Shares of the steps in the work, for the progress bar only; some of them do not take place."""


class StepProgress:
    """Times the steps of a fit, and reports the fraction of all work that is done."""

    def __init__(
        self, settings: FitRequest, storage: ValueStorage, on_progress: OnProgress | None = None
    ) -> None:
        skipped = {
            "intervals": not settings.n_bootstrap,
            "accuracy": settings.n_splits == 0,
            "metric": storage.kind != "matrices",
            "nearest": storage.kind == "matrices",
            "stretch": storage.kind != "edges",
            "page": not settings.report,
        }
        self.shares = {name: share for name, share in SHARES.items() if not skipped.get(name)}
        self.on_progress = on_progress
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[Callable[[int, int], None]]:
        """Time one step; gives a function to call with (done, total)."""
        before = [self.shares[other] for other in self.shares if other in self.seconds]
        all_shares, began = sum(self.shares.values()), time.perf_counter()

        def report(done: int, total: int) -> None:
            if self.on_progress is not None:
                own = self.shares.get(name, 0.0) * done / max(1, total)
                self.on_progress(name, math.fsum([*before, own]) / all_shares)

        report(0, 1)
        yield report
        self.seconds[name] = time.perf_counter() - began

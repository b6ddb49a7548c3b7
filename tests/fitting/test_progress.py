"""The fraction of the work that is done."""

from __future__ import annotations

import pytest

from metricmix.dissimilarity.value_storage import ValueStorage
from metricmix.fitting.plan import FitRequest, StepProgress


@pytest.mark.parametrize(
    ("kind", "last"),
    [("matrices", ["metric"]), ("rows", ["nearest"]), ("edges", ["nearest", "stretch"])],
)
def test_all_steps_together_are_the_whole_work(kind, last) -> None:
    told: list[tuple[str, float]] = []
    settings = FitRequest(n_bootstrap=0, report=False)
    progress = StepProgress(
        settings, ValueStorage(kind, "asked"), lambda name, share: told.append((name, share))
    )
    assert list(progress.shares) == ["sources", "learning", "accuracy", *last, "writing"]
    for name in progress.shares:
        with progress.step(name) as report:
            report(1, 1)
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, pytest.approx(1.0))
    assert list(progress.seconds) == list(progress.shares)

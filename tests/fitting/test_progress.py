"""What a fit is expected to take: the fits that it counts, and their seconds."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from metricmix.app.ingest import parse_source
from metricmix.app.pipeline import FitSettings, fit_files, plan_files
from metricmix.dissimilarity.forests import Forest
from metricmix.dissimilarity.kernel_logistic import KernelLogisticRegression
from metricmix.dissimilarity.propagation import LabelPropagation
from metricmix.fitting.progress import expected_fits, expected_seconds


@pytest.mark.parametrize("labelled", [24, 60])
def test_the_estimate_of_the_time_counts_fits(labelled, tmp_path, monkeypatch) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    rows = [
        f"i{k},{a + y[k]:.3f},{b:.3f},{'abc'[y[k]] if k < labelled else ''}"
        for k, (a, b) in enumerate(rng.normal(size=(60, 2)))
    ]
    (tmp_path / "t.csv").write_text("\n".join(["id,u,v,kind", *rows]) + "\n")
    links = [f"i{k},i{(k + 3 * step) % 60}" for k in range(60) for step in (1, 2)]
    (tmp_path / "g.csv").write_text("\n".join(["source,target", *links]) + "\n")
    specs = ("said=learned:u,v", "grown=forest:u,v", f"near=spread:{tmp_path / 'g.csv'}")
    settings = FitSettings(
        str(tmp_path / "t.csv"),
        "kind",
        sources=tuple(parse_source(spec) for spec in specs),
        defaults=False,
        n_bootstrap=2,
        report=False,
    )
    found: dict[str, Counter[str]] = {}
    step = []

    def count(owner: Any, name: str, kind: str) -> None:
        call = getattr(owner, name)

        def counted(*args: Any, **options: Any) -> Any:
            found.setdefault(step[-1], Counter())[kind] += 1
            return call(*args, **options)

        monkeypatch.setattr(owner, name, counted)

    count(KernelLogisticRegression, "fit_gram", "linear")
    count(Forest, "grown", "forest")
    count(Forest, "left_out", "resampled forest")
    count(LabelPropagation, "predict", "spread")
    plan = plan_files(settings)
    fit_files(plan, settings, tmp_path / "out", on_progress=lambda name, _: step.append(name))
    assert expected_fits(plan, settings) == found
    seconds = expected_seconds(plan, settings)
    more = expected_seconds(plan, replace(settings, n_bootstrap=200))
    assert more["intervals"] > 20 * (seconds["intervals"] - 0.2)
    assert more["accuracy"] == seconds["accuracy"]

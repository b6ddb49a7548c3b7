"""The second metric on a page: paths along the nearest items, each edge in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import metricmix as mm
from metricmix.app.page import Annotations, page_content, write_page
from metricmix.paths.geodesic import geodesic_stack

pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror='window.ran = 1'>"


@pytest.fixture(scope="module")
def model() -> mm.MetricMixtureClassifier:
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0, 30, 60))[:, None] + rng.normal(scale=0.1, size=(60, 2))
    y = (np.arange(60) // 20).astype(int)
    stack = mm.DissimilarityStack(
        {"near": mm.dissimilarity.features(X), "first": mm.dissimilarity.features(X[:, :1])},
        items=[f"item {k}" for k in range(60)],
    )
    return mm.MetricMixtureClassifier(rule="nearest", local=None).fit(stack, y)


@pytest.fixture(scope="module")
def page_file(model: Any, tmp_path_factory: Any) -> Path:
    file = tmp_path_factory.mktemp("chains") / "report.html"
    about = Annotations(
        phrases=lambda i, j: [f"{HOSTILE} {u} beside {v}" for u, v in zip(i, j, strict=True)]
    )
    write_page(file, page_content(model, n_bootstrap=0, annotations=about))
    return Path(file)


def test_the_second_metric_shows_chains_in_words(visit: Any, model: Any, page_file: Path) -> None:
    opened = visit(page_file)
    page = opened.page
    assert page.locator("#view option").all_inner_texts()[:2] == [
        "learned metric",
        "paths through items",
    ]
    opened.choose("item 0", "item 59")
    assert page.locator("#steps li").count() == 2
    assert f"{HOSTILE} 0 beside 59" in page.locator("#steps").inner_text()
    page.select_option("#view", label="paths through items")
    opened.settled("paths through items")
    chain = mm.shortest_path(
        geodesic_stack(model.stack_, model.mixture_, 10), model.mixture_, 0, 59
    )
    assert len(chain.nodes) > 3
    page.wait_for_function(
        "count => document.querySelectorAll('#steps li').length === count", arg=len(chain.nodes)
    )
    steps = page.locator("#steps li").all_inner_texts()
    for step, (u, v) in zip(steps[1:], chain.edges, strict=True):
        assert f"item {v}" in step
        assert f"{min(u, v)} beside {max(u, v)}" in step
    assert page.evaluate("window.ran") is None
    page.select_option("#view", label="near alone")
    opened.settled("near")
    assert page.locator("#steps li").count() == 2  # the metric of the model again

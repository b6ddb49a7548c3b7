"""A served page computes the paths that it does not hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metricmix as mm
from browser.shown import check_shown, far_pair
from metricmix.app.page import page_content, write_page
from metricmix.app.server import PageServer

pytestmark = pytest.mark.browser


def test_a_served_page_computes_any_path(visit: Any, large_report: Any) -> None:
    i, j = far_pair(large_report.data.paths)
    html = large_report.path.read_text(encoding="utf-8")
    with PageServer(large_report.model, html) as server:
        opened = visit(server.address)
        opened.choose(f"item {i}", f"item {j}")
        check_shown(opened.page, large_report.model, i, j)
        asked = [request.removeprefix(server.address) for request in opened.requests]
        assert [one for one in asked if one not in ("", "favicon.ico")] == [f"path/{i}/{j}"]


def test_a_page_whose_server_is_gone_says_so(visit: Any, large_report: Any) -> None:
    i, j = far_pair(large_report.data.paths)
    html = large_report.path.read_text(encoding="utf-8")
    with PageServer(large_report.model, html) as server:
        opened = visit(server.address, errors=True)
    opened.choose(f"item {i}", f"item {j}")
    opened.page.wait_for_function(
        "() => document.getElementById('told')?.innerText.includes('does not answer')"
    )


def test_a_page_of_a_sample_names_the_other_items(visit: Any, tmp_path: Any, monkeypatch) -> None:
    n = 60
    line = np.arange(n, dtype=float)
    stack = mm.DissimilarityStack(
        [abs(line[:, None] - line)], ["line"], items=[f"i{k}.0" for k in range(n)]
    )
    chain = mm.dissimilarity.EdgeSet(n, np.arange(n - 1), np.arange(1, n))
    labels = np.where(line % 9 == 0, line // 30, -1).astype(int)
    model = mm.MetricMixtureClassifier().fit(mm.EdgeStack.of(stack, chain), labels)
    monkeypatch.setattr("metricmix.app.page.content.MAX_SAMPLE", 12)
    data = page_content(model, n_bootstrap=0)
    write_page(tmp_path / "report.html", data)
    shown = set(data.items.ids)
    opened = visit(tmp_path / "report.html")
    assert opened.page.inner_text("#summary").startswith("A sample of 12 of 60 items, ")
    opened.choose("i0.0", "i9.0")
    opened.page.wait_for_selector("#told")
    assert "a sample of the items and no paths" in opened.page.inner_text("#told")
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    with PageServer(model, html) as server:
        opened = visit(server.address)
        opened.choose("i0.0", "i9.0")
        opened.page.wait_for_selector("#steps")
        steps = opened.page.locator("#steps li").all_inner_texts()
        assert len(steps) == 10
        for k, step in enumerate(steps):
            assert step.startswith(f"i{k}.0")
            assert ("not in this sample" in step) == (f"i{k}.0" not in shown)
        assert any("not in this sample" in step for step in steps)
        assert "i0.0 → i1.0" in opened.page.inner_text("#edges")

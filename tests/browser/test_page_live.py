"""A served page computes the paths that it does not hold."""

from __future__ import annotations

from typing import Any

import pytest

from browser.shown import check_shown, far_pair
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

"""Paths on a page are those of the library: items, length, contributions, edge by edge."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from browser.shown import check_shown, far_pair

pytestmark = pytest.mark.browser


def pairs_of(model: Any, count: int) -> list[tuple[int, int]]:
    """Pairs with few and with many edges."""
    rng = np.random.default_rng(1)
    n = model.stack_.n_items
    pairs = [tuple(rng.choice(n, 2, replace=False).tolist()) for _ in range(40)]
    hops = [len(model.contributions(f"item {i}", f"item {j}").edges) for i, j in pairs]
    order = np.argsort(hops)
    assert hops[order[0]] == 1
    assert hops[order[-1]] > 2
    return [pairs[k] for k in (*order[:2], *order[2 - count :])]


def test_two_clicks_draw_the_shortest_path(visit: Any, report: Any, places: Any) -> None:
    page = visit(report.path).page
    where = places(report.data)
    i, j = where.apart(2)
    before = page.locator("#map").screenshot()
    page.mouse.click(*where.of(page, i))
    page.mouse.click(*where.of(page, j))
    check_shown(page, report.model, i, j)
    assert page.locator("#map").screenshot() != before


@pytest.mark.parametrize("kind", ["report", "directed_report"])
def test_paths_are_those_of_the_library(
    visit: Any, kind: str, request: pytest.FixtureRequest
) -> None:
    report = request.getfixturevalue(kind)
    opened = visit(report.path)
    for i, j in pairs_of(report.model, 8):
        for a, b in ((i, j), (j, i)):
            opened.choose(f"item {a}", f"item {b}")
            check_shown(opened.page, report.model, a, b)


def test_directions_have_arrows_and_a_way_back(visit: Any, directed_report: Any) -> None:
    model = directed_report.model
    opened = visit(directed_report.path)
    page = opened.page
    i, j = pairs_of(model, 8)[-1]
    opened.choose(f"item {i}", f"item {j}")
    check_shown(page, model, i, j)
    there = page.locator("#length").inner_text()
    page.click("#reverse")
    check_shown(page, model, j, i)
    assert page.locator("#length").inner_text() != there


def test_arrows_tell_the_directions_apart(visit: Any, directed_report: Any, places: Any) -> None:
    """Where the way back goes over the same items, only the arrows differ."""
    opened = visit(directed_report.path)
    page, where = opened.page, places(directed_report.data)
    i, j = same_way_back(directed_report.model, lambda i: where.of(page, i))
    pictures = []
    for a, b in ((i, j), (j, i)):
        opened.choose(f"item {a}", f"item {b}")
        check_shown(page, directed_report.model, a, b)
        pictures.append(page.locator("#map").screenshot())
    assert pictures[0] != pictures[1]


def same_way_back(model: Any, place: Any) -> tuple[int, int]:
    for i in range(40):
        for j in range(i):
            there = model.contributions(f"item {i}", f"item {j}").nodes
            back = model.contributions(f"item {j}", f"item {i}").nodes
            if (
                there == back[::-1]
                and len(there) == 2
                and np.hypot(*np.subtract(place(i), place(j))) > 60
            ):
                return i, j
    raise AssertionError("no such pair")


def test_a_link_names_two_items(visit: Any, report: Any) -> None:
    opened = visit(report.path.as_uri() + "#item%203/item%2020")
    check_shown(opened.page, report.model, 3, 20)
    opened.page.click("#clear")
    assert "#" not in opened.page.url
    broken = visit(report.path.as_uri() + "#%E0%A4%A/nobody")
    assert broken.page.locator("#panel h2").inner_text() == "Shortest path"


def test_pairs_beyond_the_file_are_told_so(visit: Any, large_report: Any) -> None:
    paths = large_report.data.paths
    assert not paths.complete
    opened = visit(large_report.path)
    page = opened.page
    i, j = divmod(int(paths.pairs[len(paths.pairs) // 2]), 810)
    opened.choose(f"item {i}", f"item {j}")
    check_shown(page, large_report.model, i, j)
    i, j = far_pair(paths)
    opened.choose(f"item {i}", f"item {j}")
    page.wait_for_selector("#told")
    assert "metricmix explore" in page.locator("#told").inner_text()
    assert opened.requests == [large_report.path.as_uri()]

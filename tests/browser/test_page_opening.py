"""What a page shows when it is opened, and how it answers the first clicks and taps."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser.shown import check_shown
from metricmix.app.page import MetricCheck, write_page
from metricmix.app.page.values import Example

pytestmark = pytest.mark.browser

WIDE = {"viewport": {"width": 1280, "height": 900}}
PHONE = {"viewport": {"width": 390, "height": 800}, "is_mobile": True, "has_touch": True}
SCREENS = [pytest.param(WIDE, id="1280"), pytest.param(PHONE, id="390")]


@pytest.mark.parametrize("screen", SCREENS)
def test_opens_on_the_example(visit: Any, report: Any, screen: Any) -> None:
    example = report.data.example
    assert example.kind == "shortcut"
    page = visit(report.path, **screen).page
    check_shown(page, report.model, *example.items)
    words = page.locator("#example").inner_text()
    found = report.model.contributions(*(f"item {i}" for i in example.items))
    others = len(found.nodes) - 2
    assert words == (
        f"Example: The direct edge between item {example.items[0]} and item {example.items[1]} has "
        f"length {example.direct:.4g}. The path through {others} other "
        f"item{'s' * (others > 1)} is shorter: {found.length:.4g}."
    )
    assert "#" not in page.url
    box, screen_height = page.locator("#map").bounding_box(), screen["viewport"]["height"]
    assert box["y"] + 150 < screen_height  # the map is on the first screen
    page.click("#clear")
    assert page.locator("#example").is_hidden()


@pytest.mark.parametrize(
    ("example", "words"),
    [
        (
            Example("detour", (0, 1), nearer=0.913, farther=0.62),
            "Example: item 0 and item 1 are farther apart than 62 % of all pairs in every single "
            "source. In the learned metric they are closer than 91 % of all pairs, because",
        ),
        (
            Example("source", (0, 1), nearer=0.9991, farther=0.7, source=1, brought_by=0),
            "Example: item 0 and item 1 are farther apart than 70 % of all pairs according to "
            "angle, the source with the largest weight. They are still closer than 99 % of all "
            "pairs in the learned metric, mainly because of squares.",
        ),
        (
            Example("misfit", (0, 1)),
            "Example: item 0 is labelled north, but the prediction without this label is north. "
            "Its nearest labelled item is item 1 (south).",
        ),
        (Example("nearest", (0, 1)), "Example: The nearest labelled item of item 0 is item 1."),
    ],
)
def test_every_kind_of_example_is_explained(
    visit: Any, report: Any, tmp_path: Path, example: Example, words: str
) -> None:
    write_page(tmp_path / "page.html", replace(report.data, example=example))
    page = visit(tmp_path / "page.html").page
    assert page.locator("#example").inner_text().startswith(words)


def test_details_are_folded_unless_something_is_wrong(
    visit: Any, report: Any, tmp_path: Path
) -> None:
    page = visit(report.path).page
    assert not page.locator("#details .number").is_visible()
    broken = replace(report.data, metric_check=MetricCheck(0.25, 99, holds=False))
    write_page(tmp_path / "page.html", broken)
    page = visit(tmp_path / "page.html").page
    assert page.locator("#details .number").is_visible()
    assert "the distances are NOT a metric" in page.locator("#details").inner_text()


def test_negative_weights_are_explained(visit: Any, report: Any, tmp_path: Path) -> None:
    weights = (replace(report.data.weights[0], value=-2.0), *report.data.weights[1:])
    write_page(tmp_path / "page.html", replace(report.data, weights=weights))
    sentence = "A negative weight means that the source counts in reverse"
    for path, expected in ((report.path, 0), (tmp_path / "page.html", 1)):
        words = visit(path).page.locator("#figures").inner_text()
        assert words.count(sentence) == expected


@pytest.mark.parametrize("screen", SCREENS)
def test_a_click_that_misses_says_so(visit: Any, report: Any, places: Any, screen: Any) -> None:
    page = visit(report.path, **screen).page
    where = places(report.data)
    spots = np.array([where.of(page, i) for i in range(60)])
    box = page.locator("#map").bounding_box()
    tries = [
        (box["x"] + a, box["y"] + b)
        for a in np.linspace(30, box["width"] - 30, 9)
        for b in np.linspace(30, box["height"] - 30, 9)
    ]
    x, y = max(tries, key=lambda spot: np.hypot(*(spots - spot).T).min())
    before = page.locator("#panel h2").first.inner_text()
    if "has_touch" in screen:
        page.touchscreen.tap(x, y)
        expected = "No item here. Tap closer to a mark."
    else:
        page.mouse.click(x, y)
        expected = "No item here. Click closer to a mark."
    page.locator("#said").wait_for()
    assert page.locator("#said").inner_text() == expected
    assert page.locator("#panel h2").first.inner_text() == before


def crosses(box: dict[str, float], a: Any, b: Any) -> bool:
    """Whether a segment goes through a box, tried at many places along it."""
    along = np.linspace(0.0, 1.0, 400)[:, None]
    x, y = (np.asarray(a) + along * (np.asarray(b) - np.asarray(a))).T
    inside = (x > box["x"]) & (x < box["x"] + box["width"])
    return bool((inside & (y > box["y"]) & (y < box["y"] + box["height"])).any())


@pytest.mark.parametrize(
    "screen", [WIDE, {"viewport": {"width": 390, "height": 800}}], ids=["1280", "390"]
)
def test_the_tooltip_never_covers_the_path(
    visit: Any, annotated_report: Any, places: Any, screen: Any
) -> None:
    opened = visit(annotated_report.path, **screen)
    page, where = opened.page, places(annotated_report.data)
    paths = annotated_report.data.paths
    longest = np.argsort(-np.diff(paths.indptr), kind="stable")[:2]
    for key in paths.pairs[longest].tolist():
        i, j = divmod(key, 90)
        opened.choose(f"item {i}", f"item {j}")
        nodes = paths.nodes(i, j).tolist()
        shown = "path => document.getElementById('map').dataset.path === path"
        page.wait_for_function(shown, arg=" ".join(map(str, nodes)))
        page.evaluate("window.scrollTo(0, 0)")
        spots = [where.of(page, k) for k in nodes]
        for k in {*nodes, *range(0, 90, 15)}:
            page.mouse.move(*where.of(page, k))
            page.wait_for_function("() => !document.getElementById('tip').hidden")
            tip = page.locator("#tip").bounding_box()
            for a, b in pairwise(spots):
                assert not crosses(tip, a, b)
            assert tip["x"] >= 0
            assert tip["x"] + tip["width"] <= screen["viewport"]["width"]


def test_on_a_phone_the_panel_slides_up(visit: Any, report: Any, places: Any) -> None:
    page = visit(report.path, **PHONE).page
    where = places(report.data)
    style = "getComputedStyle(document.getElementById('sheet')).position"
    assert page.evaluate(style) != "fixed"  # the example is part of the page
    i, j = where.apart(2)
    for item in (i, j):
        page.touchscreen.tap(*where.of(page, item))
        page.wait_for_function("() => document.getElementById('sheet').classList.contains('up')")
    page.wait_for_selector("#length")
    page.wait_for_timeout(400)
    assert page.evaluate(style) == "fixed"
    sheet = page.locator("#sheet").bounding_box()
    assert sheet["y"] + sheet["height"] == pytest.approx(800, abs=1)
    assert 100 < sheet["height"] < 400
    for k in report.model.contributions(f"item {i}", f"item {j}").path.nodes:
        assert 0 < where.of(page, k)[1] < sheet["y"]  # the whole path stays in sight
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.click("#more")
    page.wait_for_function("() => document.getElementById('sheet').offsetHeight > 420")
    assert page.locator("#more").get_attribute("aria-expanded") == "true"
    page.click("#close")
    assert page.evaluate(style) != "fixed"
    assert page.locator("#panel h2").first.inner_text() == f"item {i} → item {j}"


def test_on_a_wide_screen_the_panel_stays(visit: Any, report: Any, places: Any) -> None:
    page = visit(report.path, **WIDE).page
    where = places(report.data)
    page.mouse.click(*where.of(page, where.apart(1)[0]))
    page.wait_for_selector("#panel dl")
    assert page.locator("#grip").is_hidden()
    box = page.locator("#sheet").bounding_box()
    assert box["x"] > page.locator("#map").bounding_box()["x"] + 400

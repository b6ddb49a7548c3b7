"""The map and the controls of a page, by mouse, keyboard and finger."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metricmix.app.page import PageContent, PageItems, View, write_page

pytestmark = pytest.mark.browser

pytest.importorskip("PIL", reason="pictures are compared pixel by pixel")


def picture(page: Any) -> np.ndarray:
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(page.locator("#map").screenshot())).convert("RGB"))


def test_opens_from_a_file_and_asks_nobody(visit: Any, report: Any) -> None:
    opened = visit(report.path)
    page = opened.page
    assert page.locator("#summary").inner_text().startswith("60 items, ")
    opened.choose("item 0", "item 1")
    page.wait_for_selector("#length")
    assert opened.requests == [report.path.as_uri()]
    assert opened.errors == []


def test_every_item_is_drawn(visit: Any, report: Any, places: Any) -> None:
    page = visit(report.path).page
    assert page.locator("#map").get_attribute("data-points") == "60"
    shown = picture(page)
    inked = (shown < 200).any(axis=2)
    box = page.locator("#map").bounding_box()
    where = places(report.data)
    for i in range(60):
        x, y = where.of(page, i)
        row, column = round(y - box["y"]), round(x - box["x"])
        assert inked[row - 7 : row + 8, column - 7 : column + 8].any()


def test_hovering_names_the_item(visit: Any, report: Any, places: Any) -> None:
    page = visit(report.path).page
    where = places(report.data)
    for i in where.apart(3):
        page.mouse.move(*where.of(page, i))
        page.wait_for_function(f"() => document.getElementById('tip').dataset.item === '{i}'")
        words = page.locator("#tip").inner_text()
        items = report.data.items
        assert words.startswith(f"item {i} · {items.classes[items.labels[i]]} (")


def test_a_source_has_a_map_of_its_own(visit: Any, report: Any, places: Any) -> None:
    opened = visit(report.path)
    page = opened.page
    before = picture(page)
    page.select_option("#view", label="squares alone")
    opened.settled("squares")
    assert page.locator("#map").get_attribute("data-points") == "60"
    assert (picture(page) != before).any()
    where = places(report.data)
    i = where.apart(1, view=1)[0]
    page.mouse.move(*where.of(page, i, view=1))
    page.wait_for_function(f"() => document.getElementById('tip').dataset.item === '{i}'")
    page.select_option("#view", label="learned metric")
    opened.settled("mixture")
    page.mouse.move(5, 5)
    page.wait_for_timeout(50)
    assert (picture(page) == before).all()


def test_search_finds_by_a_part_of_the_name(visit: Any, report: Any) -> None:
    page = visit(report.path).page
    page.fill("#search", "ITEM 4")
    assert page.locator("#found option").count() > 1
    page.keyboard.press("Enter")
    assert page.locator("#panel h2").inner_text() == "item 4"
    page.fill("#search", "item 57")
    page.keyboard.press("Enter")
    assert page.locator("#panel h2").first.inner_text() == "item 4 → item 57"
    page.fill("#search", "nobody")
    page.keyboard.press("Enter")
    assert page.locator("#said").inner_text() == "No item matches “nobody”."


def test_a_label_of_the_legend_is_lit_up(visit: Any, report: Any) -> None:
    page = visit(report.path).page
    before = picture(page)
    button = page.locator("#legend button").first
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    page.mouse.move(5, 5)
    page.wait_for_timeout(50)
    lit = picture(page)
    assert lit.astype(int).sum() > before.astype(int).sum()  # the others are paler
    button.click()
    page.mouse.move(5, 5)
    page.wait_for_timeout(50)
    assert (picture(page) == before).all()


def test_the_wheel_scrolls_past_the_map_until_it_is_clicked(visit: Any, report: Any) -> None:
    page = visit(report.path, viewport={"width": 1200, "height": 600}).page
    box = page.locator("#map").bounding_box()
    page.mouse.move(box["x"] + 30, box["y"] + 30)
    before = picture(page)
    page.mouse.wheel(0, 120)
    page.wait_for_function("() => window.scrollY > 0")
    assert "Ctrl" in page.locator("#said").inner_text()
    page.evaluate("window.scrollTo(0, 0)")
    page.locator("#said").wait_for(state="hidden")
    assert (picture(page) == before).all()
    page.locator("#map").focus()
    scrolled = page.evaluate("window.scrollY")
    page.mouse.wheel(0, 120)
    page.wait_for_timeout(100)
    assert page.evaluate("window.scrollY") == scrolled
    assert page.locator("#map").get_attribute("data-points") == "60"
    assert (picture(page) != before).any()


def test_keyboard_alone_finds_a_path(visit: Any, report: Any) -> None:
    page = visit(report.path).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "view"
    for _ in range(6):
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "map"
    page.keyboard.press("ArrowRight")  # begins in the middle
    page.wait_for_function("() => document.getElementById('tip').dataset.item")
    first = page.locator("#tip").get_attribute("data-item")
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowLeft")
    page.wait_for_function(f"() => document.getElementById('tip').dataset.item !== '{first}'")
    second = page.locator("#tip").get_attribute("data-item")
    page.keyboard.press(" ")
    assert page.locator("#panel h2").first.inner_text() == f"item {first} → item {second}"
    page.keyboard.press("Escape")
    assert page.locator("#panel h2").inner_text() == "Shortest path"


PHONE = {
    "viewport": {"width": 390, "height": 800},
    "device_scale_factor": 2,
    "has_touch": True,
    "is_mobile": True,
}


@pytest.mark.parametrize("kind", ["report", "hostile_report", "directed_report"])
def test_on_a_phone_nothing_is_wider_than_the_screen(
    visit: Any, kind: str, request: pytest.FixtureRequest
) -> None:
    report = request.getfixturevalue(kind)
    opened = visit(report.path, **PHONE)
    width = "document.documentElement.scrollWidth"
    assert opened.page.evaluate(width) == 390
    ids = report.data.items.ids
    opened.choose(ids[0], ids[7])
    opened.page.wait_for_selector("#length")
    assert opened.page.evaluate(width) == 390


def test_taps_choose_items(visit: Any, report: Any, places: Any) -> None:
    page = visit(report.path, **PHONE).page
    style = "getComputedStyle(document.getElementById('map')).touchAction"
    assert page.evaluate(style) == "pan-y"  # a finger scrolls the page
    where = places(report.data)
    i, j = where.apart(2)
    for item in (i, j):
        page.touchscreen.tap(*where.of(page, item))
    page.wait_for_selector("#length")
    assert page.locator("#panel h2").first.inner_text() == f"item {i} → item {j}"
    assert page.evaluate(style) == "none"  # after a tap it moves the map


def drag(page: Any, *fingers: list[tuple[float, float]]) -> None:
    """Move fingers over the screen, each through the places of a list."""
    session = page.context.new_cdp_session(page)
    for k, places in enumerate(zip(*fingers, strict=True)):
        points = [{"x": x, "y": y, "id": f} for f, (x, y) in enumerate(places)]
        kind = "touchMove" if k else "touchStart"
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        page.wait_for_timeout(20)
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.wait_for_timeout(200)


def test_one_finger_scrolls_the_page_and_two_zoom_the_map(visit: Any, report: Any) -> None:
    page = visit(report.path, **PHONE).page
    box = page.locator("#map").bounding_box()
    x, y = box["x"] + 150, box["y"] + 190
    before = picture(page)
    drag(page, [(x, y - 15 * k) for k in range(12)])
    assert page.evaluate("window.scrollY") > 50
    page.evaluate("window.scrollTo(0, 0)")
    assert (picture(page) == before).all()
    drag(page, [(x - 8 * k, y) for k in range(10)], [(x + 20 + 8 * k, y) for k in range(10)])
    assert (picture(page) != before).any()
    page.click("#whole")
    page.wait_for_timeout(100)
    assert (picture(page) == before).all()
    page.locator("#map").focus()
    page.wait_for_timeout(300)  # a scroll that is still going on ends
    scrolled = page.evaluate("window.scrollY")
    drag(page, [(x, y - 15 * k) for k in range(12)])
    assert abs(page.evaluate("window.scrollY") - scrolled) < 5
    assert (picture(page) != before).any()


def test_items_in_one_place_are_told_of_and_found(visit: Any, tmp_path: Path, places: Any) -> None:
    ids = ("here", "there", "hidden one", "hidden two")
    items = PageItems(ids, ("x",), np.zeros(4, int), np.ones(4, bool), np.zeros(4, bool))
    spots = np.array([[0.0, 0.0], [3.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
    data = PageContent("t", items, (View("mixture", spots),), ())
    write_page(tmp_path / "page.html", data)
    page = visit(tmp_path / "page.html").page
    page.mouse.move(*places(data).of(page, 0))
    page.locator("#tip").wait_for()
    assert "2 more items at this position (use Find)" in page.locator("#tip").inner_text()
    for name in ("hidden one", "hidden two"):
        page.fill("#search", name)
        page.keyboard.press("Enter")
        page.wait_for_function(
            "name => document.getElementById('tip').innerText.startsWith(name)", arg=name
        )
        page.click("#clear")


def test_a_browser_that_cannot_unpack_says_so(browser: Any, report: Any) -> None:
    page = browser.new_page()
    page.add_init_script("delete window.DecompressionStream")
    page.goto(report.path.as_uri())
    assert "needs a browser from 2023" in page.locator("#summary").inner_text()
    page.close()

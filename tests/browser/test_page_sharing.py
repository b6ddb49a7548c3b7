"""What people take away from a page: pictures, tables, and links to a view."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import numpy as np
import pytest

from browser.shown import check_shown

pytestmark = pytest.mark.browser

SVG = "{http://www.w3.org/2000/svg}"
SCREENS = [
    pytest.param({"viewport": {"width": 1280, "height": 900}}, id="1280"),
    pytest.param(
        {"viewport": {"width": 390, "height": 800}, "is_mobile": True, "has_touch": True}, id="390"
    ),
]


def saved(page: Any, selector: str) -> tuple[str, bytes]:
    """Click a button that saves a file; return its name and what is in it."""
    with page.expect_download() as waiting:
        page.locator(selector).click()
    return waiting.value.suggested_filename, Path(waiting.value.path()).read_bytes()


def rows_of(text: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text.decode(), newline="")))


@pytest.mark.parametrize("screen", SCREENS)
def test_the_map_is_saved_as_svg(visit: Any, report: Any, screen: Any) -> None:
    opened = visit(report.path, **screen)
    opened.choose("item 0", "item 1")
    opened.page.wait_for_selector("#length")
    name, text = saved(opened.page, "#svg")
    assert name == "a-learned-metric.svg"
    root = ElementTree.fromstring(text)
    width = opened.page.locator("#map").bounding_box()["width"]
    assert float(root.attrib["width"]) == pytest.approx(width, abs=1)
    used = root.findall(f".//{SVG}use")
    assert {one.find(f"{SVG}title").text for one in used} == set(report.data.items.ids)
    marks = {mark.attrib["id"] for mark in root.findall(f".//{SVG}g") if "id" in mark.attrib}
    assert {one.attrib["href"][1:] for one in used} == marks
    texts = [one.text for one in root.findall(f".//{SVG}text")]
    assert "A learned metric · learned metric" in texts
    assert {"north", "south", "west", "given", "predicted"} <= set(texts)
    drawn = root.findall(f"./{SVG}svg/{SVG}path")
    n_edges = len(report.model.contributions("item 0", "item 1").edges)
    assert any(one.attrib["d"].count("L") == n_edges for one in drawn)


def test_the_map_is_saved_as_png(visit: Any, report: Any) -> None:
    image = pytest.importorskip("PIL.Image")
    page = visit(report.path).page
    page.select_option("#view", label="angle alone")
    name, png = saved(page, "#png")
    assert name == "a-learned-metric-angle.png"
    picture = np.asarray(image.open(io.BytesIO(png)).convert("RGB"))
    box = page.locator("#map").bounding_box()
    assert picture.shape[1] == pytest.approx(2 * box["width"], abs=2)
    assert picture.shape[0] > 2 * box["height"]
    colours = {tuple(pixel) for pixel in picture.reshape(-1, 3)[::3].tolist()}
    assert {(0, 114, 178), (255, 255, 255)} <= colours


@pytest.mark.parametrize("screen", SCREENS)
def test_tables_are_saved_as_csv(visit: Any, report: Any, screen: Any) -> None:
    opened = visit(report.path, **screen)
    page, data = opened.page, report.data
    name, text = saved(page, "section.card:has-text('Weights of the sources') button.csv")
    assert name == "a-learned-metric-weights-of-the-sources.csv"
    head, *rows = rows_of(text)
    assert head == ["source", "weight", "lower", "upper"]
    found = {row[0]: [float(cell) for cell in row[1:]] for row in rows}
    for weight in data.weights:
        assert found[weight.name] == [weight.value, weight.lower, weight.upper]
    opened.choose("item 0", "item 1")
    page.wait_for_selector("#edges table")
    expected = report.model.contributions("item 0", "item 1").to_frame()
    head, *rows = rows_of(saved(page, "#edges button.csv")[1])
    assert head == ["from", "to", "length", "squares", "angle", "link (every edge)"]
    assert [row[:2] for row in rows] == expected[["from", "to"]].to_numpy().tolist()
    assert [float(row[2]) for row in rows] == pytest.approx(expected["length"].tolist(), rel=1e-4)
    head, *rows = rows_of(saved(page, "#panel button.csv")[1])
    assert {row[0] for row in rows} == {"squares", "angle", "link (every edge)"}
    head, *rows = rows_of(saved(page, "#figures button.csv >> nth=0")[1])
    assert rows[0] == ["learned metric", "0.9", "0.84", "0.94"]
    assert rows[-1] == ["angle alone", "0.5", "", ""]


def test_items_are_saved_as_csv(visit: Any, hostile_report: Any) -> None:
    items = hostile_report.data.items
    head, *rows = rows_of(saved(visit(hostile_report.path).page, "#items")[1])
    assert head[:5] == ["id", "name", "label", "given", "misfit"]
    assert [row[0] for row in rows] == list(items.ids)
    assert [row[1] for row in rows] == list(items.about)
    assert [row[2] for row in rows] == [items.classes[label] for label in items.labels]
    assert [row[3] == "yes" for row in rows] == items.given.tolist()


def test_hostile_names_are_text_in_a_picture(visit: Any, hostile_report: Any) -> None:
    page = visit(hostile_report.path).page
    root = ElementTree.fromstring(saved(page, "#svg")[1])
    ids = {one.text for one in root.findall(f".//{SVG}use/{SVG}title")}
    assert ids == set(hostile_report.data.items.ids)
    assert {one.tag.removeprefix(SVG) for one in root.iter()} <= {
        *("svg", "title", "defs", "g", "path", "rect", "use", "text")
    }


# -- links ---------------------------------------------------------------------------------------


def scale_of(page: Any) -> float:
    return float(page.evaluate("document.getElementById('map').__zoom.k"))


@pytest.mark.parametrize("screen", SCREENS)
def test_a_link_shows_the_same_view(visit: Any, report: Any, screen: Any) -> None:
    opened = visit(report.path, **screen)
    page = opened.page
    opened.choose("item 3", "item 20")
    page.select_option("#view", label="angle alone")
    opened.settled("angle")
    page.locator("#legend button").nth(1).click()
    page.click("#closer")
    page.click("#link")
    address = page.url
    assert "#pair=item%203/item%2020&map=angle&label=south&zoom=1.5," in address
    again = visit(address, **screen).page
    check_shown(again, report.model, 3, 20)
    assert again.locator("#map").get_attribute("data-view") == "angle"
    assert again.locator("#view").input_value() == "2"
    pressed = again.locator("#legend button[aria-pressed=true]").all_inner_texts()
    assert [text.split()[0] for text in pressed] == ["south"]
    assert scale_of(again) == pytest.approx(1.5)
    where = "(({k, x, y}) => [k, x, y])(document.getElementById('map').__zoom)"
    assert again.evaluate(where) == pytest.approx(page.evaluate(where), abs=0.5)
    page.click("#clear")
    assert page.url.endswith("#map=angle&label=south")


def test_a_copied_link_is_on_the_clipboard(visit: Any, report: Any) -> None:
    opened = visit(report.path, permissions=["clipboard-read", "clipboard-write"])
    opened.choose("item 3")
    opened.page.wait_for_selector("#panel dl")
    opened.page.click("#link")
    opened.page.wait_for_function("() => !document.getElementById('said').hidden")
    assert opened.page.locator("#said").inner_text() == "Link copied."
    copied = opened.page.evaluate("navigator.clipboard.readText()")
    assert copied == report.path.as_uri() + "#item=item%203"


def test_links_to_hostile_ids(visit: Any, hostile_report: Any) -> None:
    ids = hostile_report.data.items.ids
    opened = visit(hostile_report.path)
    for i in (0, 4, 8):
        opened.choose(ids[i], ids[i + 1])
        names = f"{ids[i]} → {ids[i + 1]}"
        shown = "names => document.querySelector('#panel h2').textContent === names"
        opened.page.wait_for_function(shown, arg=names)
        again = visit(opened.page.url).page
        again.wait_for_function(shown, arg=names)
        assert again.evaluate("window.ran") is None


@pytest.mark.parametrize(
    "fragment",
    [
        "pair=<img src=x onerror=window.ran=1>/%3Cscript%3Ewindow.ran=1%3C/script%3E",
        "pair=%E0%A4%A/nobody&map=%FF&label=%",
        "map=__proto__&label=constructor&item=toString",
        "zoom=NaN,Infinity,-1e999&zoom=1e308,0,0&zoom=-3,0,0&zoom=,,",
        "pair=" + "/" * 3000,
        "&=&==&pair&map&label&zoom&",
        "javascript:window.ran=1",
        "pair=nobody&" * 5000,
    ],
)
def test_fragments_that_no_page_wrote(visit: Any, report: Any, fragment: str) -> None:
    opened = visit(report.path.as_uri() + "#" + fragment)
    page = opened.page
    assert page.locator("#panel h2").inner_text() == "Shortest path"
    assert page.locator("#map").get_attribute("data-view") == "mixture"
    assert page.locator("#map").get_attribute("data-points") == "60"
    assert scale_of(page) == 1
    assert page.evaluate("window.ran") is None
    assert page.locator("img").count() == 0
    opened.choose("item 3", "item 20")
    check_shown(page, report.model, 3, 20)


def test_a_link_to_an_item_that_is_not_there_says_so(visit: Any, report: Any) -> None:
    page = visit(report.path.as_uri() + f"#pair={quote('item 3')}/nobody").page
    assert page.locator("#panel h2").inner_text() == "item 3"
    assert page.locator("#said").inner_text() == "This link names an item that is not on this page."

"""The panel of an item, the tables and figures, and whether they fit on the screen."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metricmix.app.page import ConfusionMatrix, write_page
from metricmix.app.page.values import LocalWeights
from metricmix.learning.comparison import NAMES

pytestmark = pytest.mark.browser

WIDE = {"viewport": {"width": 1280, "height": 900}}
PHONE = {"viewport": {"width": 390, "height": 800}, "is_mobile": True, "has_touch": True}


def known(page: Any) -> dict[str, str]:
    """What the panel says of one item."""
    page.wait_for_selector("#panel dl")
    terms = page.locator("#panel dt").all_inner_texts()
    return dict(zip(terms, page.locator("#panel dd").all_inner_texts(), strict=True))


def test_titles_are_shown_after_the_id(visit: Any, annotated_report: Any, places: Any) -> None:
    opened = visit(annotated_report.path)
    page, about = opened.page, annotated_report.data.items.about
    where = places(annotated_report.data)
    for i in where.apart(4):
        page.mouse.move(*where.of(page, i))
        page.wait_for_function(f"() => document.getElementById('tip').dataset.item === '{i}'")
        assert page.locator("#tip").inner_text().startswith(f"item {i} {about[i][:60]}")
    opened.choose("item 7")
    page.wait_for_selector("#panel dl")
    title = page.locator("#panel > p .about")
    assert len(about[7]) > 80
    assert title.inner_text() == about[7][:79] + "…"
    assert title.get_attribute("title") == about[7]
    opened.choose("item 2", "item 7")
    page.wait_for_selector("#steps")
    first = page.locator("#steps li").first
    assert first.inner_text() == "item 2 Rivers 2"
    assert page.locator("#steps .about").last.get_attribute("title") == about[7]


def test_titles_are_searched_too(visit: Any, annotated_report: Any) -> None:
    page = visit(annotated_report.path).page
    for text, found in (("rivers 41", 41), ("RIVERS 8", 8), ("item 4", 4), ("ivers 55,", 55)):
        page.fill("#search", text)
        assert page.locator("#found option").count() > 0
        page.keyboard.press("Enter")
        assert page.locator("#panel h2").inner_text() == f"item {found}"
        page.click("#clear")


def test_the_panel_of_one_item(visit: Any, annotated_report: Any) -> None:
    opened = visit(annotated_report.path)
    items = annotated_report.data.items
    given, found = items.given & ~items.misfit, ~items.given
    kinds = (items.misfit, given, found)
    for i in (int(np.flatnonzero(kind)[0]) for kind in kinds):
        opened.choose(f"item {i}")
        opened.page.wait_for_function(
            f"() => document.querySelector('#panel h2').innerText === 'item {i}'"
        )
        shown = known(opened.page)
        label = items.classes[items.labels[i]]
        assert shown["Label"].strip() == f"{label} ({'given' if items.given[i] else 'predicted'})"
        share = float(shown["Confidence"].split(" %")[0])
        assert share == pytest.approx(100.0 * items.confidence[i], abs=0.06)
        assert shown.get("Predicted without this label") == (
            items.classes[items.prefers[i]] if items.misfit[i] else None
        )
        near = int(items.nearest[i])
        words = shown["Nearest labelled item"]
        assert words.startswith(f"item {near} Rivers {near}")
        assert words.endswith(items.classes[items.labels[near]])


def test_a_button_goes_to_the_nearest_labelled_item(visit: Any, annotated_report: Any) -> None:
    page = visit(annotated_report.path.as_uri() + "#item%2020").page
    near = int(annotated_report.data.items.nearest[20])
    page.click("#nearest")
    assert page.locator("#panel h2").first.inner_text() == f"item 20 → item {near}"
    expected = annotated_report.model.contributions("item 20", f"item {near}").length
    assert float(page.locator("#length").inner_text()) == float(f"{expected:.4g}")


def test_sources_are_listed_by_size(visit: Any, annotated_report: Any) -> None:
    page = visit(annotated_report.path).page
    card = page.locator("section.card", has_text="Weights of the sources")
    names = card.locator("th > bdi").all_inner_texts()
    weights = sorted(annotated_report.data.weights, key=lambda weight: -abs(weight.value))
    assert names == [weight.name for weight in weights]
    assert card.locator("th small").all_inner_texts() == ["distance of 2 columns: year, pages"]


def test_local_weights_have_a_row_per_class(
    visit: Any, annotated_report: Any, tmp_path: Path
) -> None:
    data = annotated_report.data
    values = np.arange(1.0, 1.0 + 2 * len(data.weights)).reshape(2, -1)
    local = LocalWeights(("<i>theory", "systems"), values)
    write_page(tmp_path / "local.html", replace(data, local_weights=local))
    page = visit(tmp_path / "local.html").page
    rows = page.locator("section.card", has_text="Weights by class or region").locator("tbody tr")
    assert rows.count() == 2
    cells = rows.first.locator("th, td").all_inner_texts()
    assert cells == ["<i>theory", *(f"{value:g}" for value in values[0])]


def test_the_verdict_comes_first(visit: Any, annotated_report: Any, tmp_path: Path) -> None:
    words = "simpler is better here: 84.0 % by logistic regression on the table"
    some = replace(annotated_report.data, headline=words)
    write_page(tmp_path / "some.html", some)
    write_page(tmp_path / "none.html", replace(some, accuracies=(), confusion=None))
    for name in ("some", "none"):
        page = visit(tmp_path / f"{name}.html").page
        assert page.locator("#headline").text_content() == words
        verdict = page.locator("#headline").bounding_box()
        assert verdict["y"] < page.locator("#map").bounding_box()["y"]
        first = page.locator("#figures .card h2").first.inner_text()
        assert (first == "Accuracy on held-out labels") == (name == "some")


def test_words_are_explained(visit: Any, annotated_report: Any) -> None:
    opened = visit(annotated_report.path)
    page = opened.page
    assert page.locator("#details").get_attribute("open") is None
    page.click("#details summary")
    words = page.locator("#figures").inner_text()
    assert {"equal weights", "best single source"} <= set(NAMES.values())
    assert "Equal weights: every source has the same weight" in words
    assert (
        "The best single source is chosen on the training labels, so it can score lower than the "
        "best of the sources below."
    ) in words
    assert "no path through a third item is shorter" in words
    assert "How it was made\nLearner\nfull\nRule\nclass means\nmetricmix fit" in words
    opened.choose("item 0", "item 1")
    page.wait_for_selector("#length")
    assert "a constant length that every edge has" in page.locator("#panel").inner_text()
    summary = page.locator("#summary").inner_text()
    directed = annotated_report.model.stack_.directed
    assert summary.endswith("can differ from that from B to A.") == directed
    sentences = re.findall(r"[^.]+\.", page.locator("#intro").inner_text())
    assert len(sentences) == 3


def cut_off(page: Any, place: str) -> bool:
    script = "one => one.scrollWidth > one.clientWidth"
    return bool(page.locator(f"{place} .scroll").evaluate(script))


def many_edges(report: Any) -> tuple[str, str]:
    """The ends of the path with the most edges."""
    paths, n = report.data.paths, len(report.data.items.ids)
    i, j = divmod(int(paths.pairs[np.diff(paths.indptr).argmax()]), n)
    return f"item {i}", f"item {j}"


@pytest.fixture
def wide_table(annotated_report: Any, tmp_path: Path) -> Path:
    """A page whose sources all have a weight, so that tables have a column for each."""
    weights = tuple(replace(one, value=one.value or 0.01) for one in annotated_report.data.weights)
    write_page(tmp_path / "wide.html", replace(annotated_report.data, weights=weights))
    return tmp_path / "wide.html"


def test_sources_of_weight_zero_are_left_out_of_a_path(
    visit: Any, annotated_report: Any, tmp_path: Path
) -> None:
    weights = annotated_report.data.weights
    some = tuple(replace(one, value=float(k > 1)) for k, one in enumerate(weights))
    write_page(tmp_path / "some.html", replace(annotated_report.data, weights=some))
    opened = visit(tmp_path / "some.html")
    opened.choose(*many_edges(annotated_report))
    opened.page.wait_for_selector("#edges table")
    words = opened.page.locator("#panel").inner_text()
    assert "Not shown: 2 sources of weight 0." in words
    assert "some source 1" not in words
    assert opened.page.locator("#contributions tr").count() == 7 - 2 + 1
    assert opened.page.locator("#edges thead th").count() == 2 + 7 - 2 + 1


def test_tables_have_room(visit: Any, annotated_report: Any, wide_table: Path) -> None:
    opened = visit(wide_table, **WIDE)
    page = opened.page
    assert not cut_off(page, "#figures")
    assert page.locator("#figures table.upright").count() == 1
    opened.choose(*many_edges(annotated_report))
    page.wait_for_selector("#edges table")
    assert not cut_off(page, "#edges")
    opened.choose("item 3")
    page.locator("#edges").wait_for(state="hidden")


def test_tables_can_be_read_on_a_phone(visit: Any, annotated_report: Any, wide_table: Path) -> None:
    opened = visit(wide_table, **PHONE)
    page = opened.page
    assert not cut_off(page, "#figures")
    opened.choose(*many_edges(annotated_report))
    page.wait_for_selector("#edges table.upright")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    box = page.locator("#edges").bounding_box()
    right = box["x"] + box["width"]
    numbers = page.locator("#edges tbody tr").first.locator("td").all()
    cells = [number.bounding_box() for number in numbers]
    assert sum(cell["x"] + cell["width"] < right for cell in cells) >= 4
    page.locator("#edges .scroll").evaluate("one => one.scrollBy(1000, 0)")
    first = page.locator("#edges tbody th").first.bounding_box()
    assert 0 < first["x"] < 40  # the name of the edge stays


def test_long_names_get_all_columns(visit: Any, annotated_report: Any, tmp_path: Path) -> None:
    items = annotated_report.data.items
    classes = tuple(f"a class whose name is long, {k}" for k in range(len(items.classes)))
    counts = np.full((6, 6), 1000)
    data = replace(
        annotated_report.data,
        items=replace(items, classes=classes),
        confusion=ConfusionMatrix(counts, "once"),
    )
    write_page(tmp_path / "long.html", data)
    page = visit(tmp_path / "long.html", **WIDE).page
    assert page.locator("#figures .wide h2").inner_text() == "Confusion matrix"
    assert not cut_off(page, "#figures")
    heads = page.locator("#figures .wide thead th").all()
    assert [head.get_attribute("title") for head in heads[1:]] == list(classes)
    page.set_viewport_size({"width": 390, "height": 800})
    page.wait_for_function("() => !document.querySelector('#figures .wide')")


def zoomed(page: Any) -> tuple[float, float, float]:
    found = page.evaluate("(({k, x, y}) => [k, x, y])(document.getElementById('map').__zoom)")
    return tuple(found)


def in_view(page: Any, spot: tuple[float, float]) -> bool:
    """Whether what lies somewhere on the whole map lies in the frame now."""
    box = page.locator("#map").bounding_box()
    k, dx, dy = zoomed(page)
    x, y = (spot[0] - box["x"]) * k + dx, (spot[1] - box["y"]) * k + dy
    return bool(10 < x < box["width"] - 10 and 10 < y < box["height"] - 10)


def find(page: Any, name: str) -> None:
    page.fill("#search", name)
    page.keyboard.press("Enter")


def test_finding_what_is_seen_moves_nothing(visit: Any, annotated_report: Any) -> None:
    page = visit(annotated_report.path).page
    for i in range(0, 90, 7):
        find(page, f"item {i}")
        assert zoomed(page) == (1, 0, 0)


@pytest.mark.parametrize("how", ["find", "address"])
def test_the_whole_path_comes_into_view(
    visit: Any, annotated_report: Any, places: Any, how: str
) -> None:
    opened = visit(annotated_report.path)
    page, where = opened.page, places(annotated_report.data)
    names = many_edges(annotated_report)
    spots = {i: where.of(page, i) for i in range(90)}
    for _ in range(4):
        page.click("#closer")
    assert zoomed(page)[0] > 5
    path = annotated_report.model.contributions(*names).path.nodes
    if how == "find":
        find(page, names[0])
        assert zoomed(page)[0] > 5  # one item needs no zooming out
        assert in_view(page, spots[path[0]])
        find(page, names[1])
    else:
        opened.choose(*names)
    page.wait_for_selector("#length")
    assert all(in_view(page, spots[i]) for i in path)
    assert zoomed(page)[0] < 5


LOWEST = 210
"""A frame on a phone is no lower, so that fingers find room in it."""


def test_the_frame_has_the_shape_of_the_map(
    visit: Any, report: Any, annotated_report: Any, places: Any
) -> None:
    for one in (report, annotated_report):
        page = visit(one.path, **PHONE).page
        box = page.locator("#map").bounding_box()
        where = places(one.data)
        spots = np.array([where.of(page, i) for i in range(len(one.data.items.ids))])
        width, height = spots.max(axis=0) - spots.min(axis=0)
        assert width == pytest.approx(box["width"] - 40, abs=2)
        assert height == pytest.approx(box["height"] - 40, abs=2) or box["height"] < LOWEST

"""Ids, labels and titles are texts, whatever they look like."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metricmix.app.page import PageContent, PageItems, View, write_page

pytestmark = pytest.mark.browser


def test_texts_do_not_run_and_show_as_they_are(visit: Any, hostile_report: Any) -> None:
    opened = visit(hostile_report.path)
    page = opened.page
    ids = hostile_report.data.items.ids
    title = hostile_report.data.title
    assert title.startswith("</script><script>")
    assert page.title() == title
    assert page.locator("h1").text_content() == title
    legend = page.locator("#legend bdi").all_text_contents()
    assert legend == list(hostile_report.data.items.classes)
    assert page.locator("img").count() == 0
    assert page.locator("#headline").text_content() == hostile_report.data.headline
    facts = page.locator("#figures dl > *").all_text_contents()
    assert facts == [text for fact in hostile_report.data.facts for text in fact]
    sources = page.locator("#figures th small").all_text_contents()
    assert set(sources) == {weight.about for weight in hostile_report.data.weights}
    scripts = page.locator("script").count()
    for i in range(10):
        for j in (i + 1, 15):
            opened.choose(ids[i], ids[j])
            page.wait_for_function(
                "names => document.querySelector('#panel h2').textContent === names",
                arg=f"{ids[i]} → {ids[j]}",
            )
        opened.choose(ids[i])
        page.wait_for_selector("#nearest")
        about = page.locator("#panel > p .about")
        if about.count():
            assert about.get_attribute("title") == hostile_report.data.items.about[i]
        page.click("#nearest")
        page.wait_for_selector("#length")
        page.click("#clear")
        page.fill("#search", ids[i].replace("\u2028", ""))
        page.keyboard.press("Enter")
        page.click("#clear")
    assert page.locator("script").count() == scripts
    assert page.locator("img").count() == 0
    assert page.evaluate("window.ran") is None
    assert opened.requests == [hostile_report.path.as_uri()]


def test_halves_of_characters_do_no_harm(visit: Any, tmp_path: Path) -> None:
    """As names of files have them that are not written in UTF-8."""
    ids = ("r\udce9sum\udce9", "plain", "\ud83e")
    items = PageItems(ids, ("x",), np.zeros(3, int), np.ones(3, bool), np.zeros(3, bool), about=ids)
    data = PageContent(ids[0], items, (View("mixture", np.eye(3)[:, :2]),), (), command=ids[0])
    write_page(tmp_path / "page.html", data)
    page = visit(tmp_path / "page.html").page
    assert page.title() == "r\ufffdsum\ufffd"
    page.fill("#search", "sum")
    page.keyboard.press("Enter")
    assert page.url.endswith("#item=r%EF%BF%BDsum%EF%BF%BD")
    page.fill("#search", "plain")
    page.keyboard.press("Enter")
    page.reload()
    page.wait_for_selector("html[data-ready]")
    assert page.locator("#panel h2").inner_text().endswith(" → plain")

"""Ids, labels and titles are texts, whatever they look like."""

from __future__ import annotations

from typing import Any

import pytest

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

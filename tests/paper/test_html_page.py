"""Markdown becomes one HTML file that needs nothing else; tables stay tables."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest

from metricmix.paper.page import self_contained, table

PNG = b"\x89PNG\r\n\x1a\n not a picture, but nobody looks"
SVG = b"<svg xmlns='http://www.w3.org/2000/svg'/>"


def page(markdown: str, folder: Path = Path(), title: str = "A page") -> str:
    return self_contained(markdown, folder, title=title)


def sources(html: str) -> list[str]:
    return re.findall(r'<img src="([^"]*)"', html)


def test_a_picture_is_inside(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "one.png").write_bytes(PNG)
    (found,) = sources(page("![what it shows](sub/one.png)", tmp_path))
    head, data = found.split(",")
    assert head == "data:image/png;base64"
    assert base64.b64decode(data) == PNG


def test_a_vector_picture_of_the_same_name_is_taken(tmp_path: Path) -> None:
    (tmp_path / "one.png").write_bytes(PNG)
    (tmp_path / "one.svg").write_bytes(SVG)
    (tmp_path / "two.png").write_bytes(PNG)
    first, second = sources(page("![a](one.png)\n\n![b](two.png)", tmp_path))
    assert base64.b64decode(first.removeprefix("data:image/svg+xml;base64,")) == SVG
    assert second.startswith("data:image/png;base64,")


@pytest.mark.parametrize("name", ["nowhere.png", "http://x.example/a.png", "//x.example/a.png"])
def test_a_picture_that_is_not_there_is_an_error(name: str, tmp_path: Path) -> None:
    """Better none than a page that shows less than it says, or loads it from elsewhere."""
    with pytest.raises(OSError, match=r"a\.png|nowhere\.png"):
        page(f"![a]({name})", tmp_path)


def test_markup_is_shown_not_obeyed() -> None:
    html = page("a <b>bold</b> <script>alert(1)</script> & `<i>`\n\n<script>alert(2)</script>")
    assert "<script" not in html
    assert "<b>" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp;" in html
    assert "<code>&lt;i&gt;</code>" in html


def test_markup_in_the_title_and_in_texts_of_pictures(tmp_path: Path) -> None:
    (tmp_path / "one.png").write_bytes(PNG)
    html = page('![a "b" <c>](one.png)', tmp_path, title="<script>1 & 2</script>")
    assert "<title>&lt;script&gt;1 &amp; 2&lt;/script&gt;</title>" in html
    assert 'alt="a &quot;b&quot; &lt;c&gt;"' in html


def test_links_that_run_something_are_not_links() -> None:
    assert "href" not in page("[click](javascript:alert(1))")


def test_a_table_can_be_scrolled() -> None:
    html = page(table(["n", "what"], [["1", "a"], ["2", "b"]]))
    assert html.count('<div class="table"><table>') == html.count("</table></div>") == 1
    assert html.count("<tr>") == 3


def test_whole_and_alone() -> None:
    html = page("# Title\n\ntext")
    assert html.startswith("<!doctype html>\n<html lang=")
    assert html.endswith("</html>\n")
    assert '<meta charset="utf-8">' in html
    assert "<h1>Title</h1>" in html
    assert not re.search(r"(src|href)=|@import|url\(|<link|<script", html)


def test_a_table_keeps_what_looks_like_a_border() -> None:
    text = table(["a", "b"], [["x | y", "z"]])
    assert text.splitlines() == ["| a | b |", "| --- | --- |", "| x \\| y | z |"]
    assert page(text).count("<td>") == 2
    assert "<td>x | y</td>" in page(text)


def test_a_table_without_rows() -> None:
    assert table(["a", "b"], []) == "| a | b |\n| --- | --- |"

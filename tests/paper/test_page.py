"""The page: every claim that was tested, every picture, and numbers from the results alone."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from metricmix.paper import runner
from metricmix.paper.claims import CLAIMS, Verdict
from metricmix.paper.experiment import CellResult
from metricmix.paper.experiment1_complexity import Complexity
from metricmix.paper.experiment2_feature_space import FeatureSpace
from metricmix.paper.figures import PICTURES
from metricmix.paper.page import self_contained, table, write_page
from metricmix.paper.results import Results
from metricmix.paper.runner import draw_and_write
from paper.small import save_quickly
from paper.test_experiment import TINY, tiny_files, tiny_results

NAMES = [one.name for one in TINY]
DOCS = Path(__file__).parents[2] / "docs"
VOID = {"meta", "img", "br", "hr", "link", "input"}


class Seen(HTMLParser):
    """Tags and attributes; every tag that is opened must be closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def rows_of(page: str) -> list[list[str]]:
    return [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]


# -- claims --------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [(), *((name,) for name in NAMES)])
def test_a_row_for_every_claim_whose_experiment_ran(names: tuple[str, ...], tmp_path: Path) -> None:
    results = tiny_results(tmp_path, *names)
    rows = [row for row in rows_of(write_page(results, "pictures")) if len(row) >= 3]
    for claim in CLAIMS:
        found = [row for row in rows if row[:2] == [claim.where, claim.text.replace("|", "\\|")]]
        if claim.experiment not in (names or NAMES):
            assert not found
            continue
        (row,) = found
        sides = (claim.literal, claim.converged, claim.changed, claim.defaults)
        for checks, cell in zip(sides, [*row[2:], "", "", ""], strict=False):
            for check in checks:
                found_by = check(results)
                assert f"**{found_by.verdict.value}**: {found_by.figures}" in cell


def test_verdicts_are_counted_right(tmp_path: Path) -> None:
    results = tiny_results(tmp_path)
    page = write_page(results, "pictures")
    paper = [c for c in CLAIMS if c.literal and not c.where.startswith("not in the paper")]
    (line,) = [text for text in page.splitlines() if text.startswith("With the paper's own settin")]
    parts = line.split(". ")[0].split("; ")
    for start, part in zip(("random signs", "equal weights"), parts, strict=True):
        told = [c.literal[0](results).verdict for c in paper if c.start in ("", start)]
        counts = [int(number) for number in re.findall(r"\b(\d+)\b", part)]
        assert f"from {start}, " in part
        assert counts == [told.count(verdict) for verdict in Verdict]


def test_nothing_is_missing_from_a_whole_run(tmp_path: Path) -> None:
    page = write_page(tiny_results(tmp_path), "pictures")
    for word in ("nan", "None GiB", "inf ", "{", "}"):
        assert word not in page


# -- pictures ------------------------------------------------------------------------------------


def test_every_picture_named_exists_and_none_is_missing() -> None:
    files = tiny_files()
    named = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", files["reproduction.md"].decode())
    assert [Path(one).stem for one in named] == [one.name for one in PICTURES]
    for one in named:
        assert files[one].startswith(b"\x89PNG")
        assert b"<svg" in files[one.replace(".png", ".svg")]
    pictures = {name for name in files if name.endswith((".png", ".svg"))}
    assert pictures == {*named, *(one.replace(".png", ".svg") for one in named)}
    assert set(files) - pictures == {
        "reproduction.md",
        "reproduction.html",
        "reproduction/results.json",
    }


def test_pictures_of_what_was_run_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "save_figure", save_quickly)
    page, html = draw_and_write(tiny_results(tmp_path, "separation"), tmp_path)
    named = re.findall(r"\(reproduction/(\w+)\.png\)", page.read_text())
    assert named == ["separation", "map"]
    assert {path.stem for path in (tmp_path / "reproduction").iterdir()} == {*named, "results"}
    assert html.read_text().count("<img ") == 2


# -- numbers -------------------------------------------------------------------------------------


def first(results: Results, name: str, **where: Any) -> dict[str, Any]:
    return next(results.records(name, **where))


def change_separation(results: Results) -> str:
    first(results, "separation")["values"]["ratios"]["5"]["mean"] = 0.12344
    return "0.1234"  # four digits: measured seconds have three


def change_step_cost(results: Results) -> str:
    first(results, "step-cost")["seconds"]["formed"] = 0.777
    return "777 ms"


def change_operations(results: Results) -> str:
    first(results, "step-cost")["values"]["operations"]["formed"] = 98765.0
    return "9.88e+04 in"


def change_memory(results: Results) -> str:
    first(results, "general-solver")["values"]["peak_gib"] = 3.21
    return "| 3.21 |"


def change_complexity(results: Results) -> str:
    first(results, "complexity", method="cvx", D=8)["values"]["error"] = 0.98765
    return "0.98765"


def change_complexity_seconds(results: Results) -> str:
    first(results, "complexity", method="cvx", D=8)["seconds"]["total"] = 1234.0
    return "1.23e+03"


def change_feature_space(results: Results) -> str:
    for record in results.records("feature-space", D=12):
        record["values"]["accuracy"]["best, single"] = 0.4321
    return "0.432 [0.432, 0.432]"


def change_semi_supervised(results: Results) -> str:
    for record in results.records("semi-supervised", D=16, sampling="walk"):
        record["values"]["accuracy"]["more, uniform"] = 0.1234
    return "0.123 [0.123, 0.123]"


def change_edges(results: Results) -> str:
    for record in results.records("semi-supervised", sampling="walk"):
        record["values"]["edges"] = 98.7
    return "98.7 citations"


def change_convergence(results: Results) -> str:
    for record in results.records("convergence"):
        values = record["values"]
        values["paper"][0], values["paper"][-1], values["optimum"] = 1.0, 0.5, 0.0
    return "50.0%"


def change_seed(results: Results) -> str:
    results.head["seed"] = 4711
    return "4711"


def change_cpu(results: Results) -> str:
    results.head["cpu"] = "Abacus 3000"
    return "Abacus 3000"


@pytest.mark.parametrize(
    "change",
    [
        change_separation,
        change_step_cost,
        change_operations,
        change_memory,
        change_complexity,
        change_complexity_seconds,
        change_feature_space,
        change_semi_supervised,
        change_edges,
        change_convergence,
        change_seed,
        change_cpu,
    ],
)
def test_numbers_come_from_the_results(change: Callable[[Results], str], tmp_path: Path) -> None:
    results = tiny_results(tmp_path)
    before = write_page(results, "pictures")
    shown = change(results)
    assert shown not in before
    assert shown in write_page(results, "pictures")


def test_the_same_results_give_the_same_page(tmp_path: Path) -> None:
    results = tiny_results(tmp_path)
    assert write_page(results, "pictures") == write_page(results, "pictures")
    assert write_page(Results.read(results.path), "pictures") == write_page(results, "pictures")


def test_the_page_says_which_data(tmp_path: Path) -> None:
    results = tiny_results(tmp_path)
    assert "**not** the paper's" in write_page(results, "pictures")
    results.head["data"] = "real"
    page = write_page(results, "pictures")
    assert "MNIST and Citeseer" in page
    assert "--data real" in page
    assert "**not** the paper's" not in page


def test_the_page_names_outdated_results(tmp_path: Path) -> None:
    results = tiny_results(tmp_path, "separation")
    page, _ = draw_and_write(results, tmp_path)
    assert "Outdated" not in page.read_text()
    results.settings["separation"]["code"] = "of an earlier commit"
    page, _ = draw_and_write(results, tmp_path)
    assert "other code or package versions than those that wrote this page: separation." in (
        page.read_text()
    )


def test_repetitions_are_those_of_every_size(tmp_path: Path) -> None:
    """`reproduce 2 --sizes 12 --repetitions 2`, then `--sizes 16 --repetitions 5`."""
    results = tiny_results(tmp_path, "feature-space")
    values = first(results, "feature-space", D=16)["values"]
    for k in range(3, 8):
        results.add(FeatureSpace(), {"D": 16, "repetition": k}, CellResult(values))
    assert "\n3 repetitions of" not in write_page(results, "pictures")


def test_predictions_are_counted(tmp_path: Path) -> None:
    """The small run has 4 test items."""
    assert "20 predictions" not in write_page(tiny_results(tmp_path, "feature-space"), "pictures")


# -- HTML ----------------------------------------------------------------------------------------


@pytest.fixture
def html() -> str:
    return tiny_files()["reproduction.html"].decode()


def test_the_html_needs_nothing_else(html: str) -> None:
    seen = Seen(html)
    assert not seen.open
    assert not {"script", "link", "iframe", "object", "embed", "base"} & set(seen.tags)
    loaded = [value for _, name, value in seen.attributes if name in ("src", "href", "srcset")]
    assert len(loaded) == len(PICTURES)
    assert all(value.startswith("data:image/svg+xml;base64,") for value in loaded)
    assert not [name for _, name, _ in seen.attributes if name.startswith("on")]
    (style,) = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    assert "url(" not in style
    assert "@import" not in style
    assert seen.tags[0] == "html"
    assert {"title", "main", "table", "h1", "h2"} <= set(seen.tags)


def test_every_picture_has_a_text_in_its_place(html: str) -> None:
    texts = [value for tag, name, value in Seen(html).attributes if (tag, name) == ("img", "alt")]
    assert texts == [one.caption for one in PICTURES]


def test_the_html_says_what_the_page_says(html: str) -> None:
    text = Seen(html).text
    for row in rows_of(tiny_files()["reproduction.md"].decode()):
        for cell in row:
            plain = re.sub(r"\*\*|\\|`", "", cell).strip(" -")
            assert plain in text


def test_markup_in_texts_is_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "save_figure", save_quickly)
    script, image = "<script>alert(1)</script>", "<img src=http://x.example/a.png>"
    results = tiny_results(tmp_path, "complexity")
    cell = {"D": 10, "method": "cvx", "repetition": 7}
    results.add(Complexity(), cell, CellResult({"skipped": f"too {script} large {image}"}))
    results.head["cpu"] = f"fast {script}"
    html = draw_and_write(results, tmp_path)[1].read_text()
    seen = Seen(html)
    assert "script" not in seen.tags
    assert seen.tags.count("img") == 1
    assert seen.text.count(script) == 2
    assert image in seen.text
    assert "&lt;script&gt;alert(1)&lt;/script&gt; large &lt;img src=" in html


# -- the page of this repository -----------------------------------------------------------------


@pytest.fixture(scope="module")
def committed() -> Results:
    path = DOCS / "reproduction" / "results.json"
    if not path.exists() or not (DOCS / "reproduction.md").exists():
        pytest.skip("docs/reproduction.md and its results are not there yet")
    return Results.read(path)


def test_the_committed_page_is_that_of_the_committed_results(committed: Results) -> None:
    assert committed.head["data"] == "real"
    text = (DOCS / "reproduction.md").read_text()
    outdated = re.findall(r"\*\*Outdated\*\*.* this page: (.*?)\. ", text)
    names = outdated[0].split(", ") if outdated else []
    assert write_page(committed, "reproduction", names) == text


def test_all_was_run_and_drawn_for_the_committed_page(committed: Results) -> None:
    for picture in PICTURES:
        assert committed.has(picture.experiment)
        for suffix in (".png", ".svg"):
            assert (DOCS / "reproduction" / f"{picture.name}{suffix}").exists()


# -- Markdown to HTML -----------------------------------------------------------------------------


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

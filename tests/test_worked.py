"""The commands of docs/worked/ run, and print what the pages say they print."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from metricmix.datasets.example_files import EXAMPLES

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "worked").glob("*.md"))
sys.path.append(str(ROOT / "examples"))
pytestmark = pytest.mark.default_sources

from _worked import written  # noqa: E402


def without_numbers(text: str) -> list[str]:
    """Leave out what may differ in the last digit, or in how long it took."""
    return [
        re.sub(r"\s+", " ", re.sub(r"[-+]?\d[\d,.e]*", "#", line))
        for line in text.splitlines()
        if not line.startswith("intervals of the weights took")  # only where that was long
    ]


SLOW = {"articles", "citations", "digits", "roads"}
"""Take 10 to 30 seconds each. Of the others, karate has a graph, gestures a matrix and diabetes a
numeric target; tests/datasets/test_example_files.py fits to the files of all of them."""


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.stem, marks=[pytest.mark.slow] if page.stem in SLOW else [])
        for page in PAGES
    ],
)
def test_commands_print_what_the_page_says(page, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    assert without_numbers(written(text)) == without_numbers(text)
    assert (tmp_path / page.stem / "result" / "report.html").stat().st_size > 100_000


def test_every_example_is_worked() -> None:
    assert [page.stem for page in PAGES] == sorted(EXAMPLES)
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for command in EXAMPLES[page.stem].commands:
            assert command in text

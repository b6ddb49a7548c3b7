"""What people look at: marks that differ, figures in words, and pictures to look at by eye."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.browser

PHONE = {"viewport": {"width": 390, "height": 800}, "is_mobile": True, "has_touch": True}


def test_every_class_has_a_mark_of_its_own(visit: Any, many_classes_report: Any) -> None:
    page = visit(many_classes_report.path).page
    marks = page.locator("#legend canvas")
    assert marks.count() == 40
    pictures = marks.evaluate_all("all => all.map((one) => one.toDataURL())")
    assert len(set(pictures)) == 40
    blind = marks.evaluate_all(
        """all => all.map((one) => {
          const pixels = one.getContext("2d").getImageData(0, 0, 36, 36).data;
          return pixels.filter((_, k) => k % 4 === 3).join();
        })"""
    )
    assert len(set(blind[:12])) == 12  # told apart without any colour
    assert page.evaluate("document.documentElement.scrollWidth") == 1200
    legend = page.locator("#legend").bounding_box()
    assert legend["height"] < 200


def test_figures_can_be_read_as_text(visit: Any, report: Any) -> None:
    page = visit(report.path).page
    page.click("#details summary")
    words = page.locator("#figures").inner_text()
    for weight in report.data.weights:
        assert weight.name in words
        assert f"{weight.value:.4g}" in words
    assert "95 % interval" in words
    assert "5 resamples" in words
    assert "learned metric" in words
    assert "90.0 %" in words
    assert "Each source alone" in words
    assert "5-fold cross-validation" in words
    checked = report.data.metric_check
    assert (
        f"{checked.triangles:,} triangle inequalities checked: the distances are a metric" in words
    )
    assert report.data.convergence.status in words
    assert "metricmix fit items.csv" in words


@pytest.mark.parametrize(
    "kind",
    [
        "report",
        pytest.param("directed_report", marks=pytest.mark.slow),
        pytest.param("hostile_report", marks=pytest.mark.slow),
    ],
)
def test_pictures(visit: Any, kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Pictures of the page as a whole, of a path and of one source, for people to look at."""
    report = request.getfixturevalue(kind)
    ids = report.data.items.ids
    for name, options in (("desktop", {}), ("phone", PHONE)):
        opened = visit(report.path, **options)
        page = opened.page
        taken = {"whole": page.screenshot(path=tmp_path / f"{name}.png", full_page=True)}
        opened.choose(ids[0], ids[-1])
        page.wait_for_function("() => document.getElementById('map').dataset.path")
        taken["path"] = page.screenshot(path=tmp_path / f"{name}_path.png", full_page=True)
        page.select_option("#view", "2")
        opened.settled("angle")
        taken["source"] = page.screenshot(path=tmp_path / f"{name}_source.png", full_page=True)
        assert len(set(taken.values())) == 3

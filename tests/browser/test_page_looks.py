"""What people look at: marks that differ, figures in words, and pictures to look at by eye."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metricmix.plots.style import CLASS_COLOURS

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


def texts_on_the_map(page: Any, tmp_path: Path) -> list[tuple[str, dict[str, float]]]:
    """The names on the map and where they lie, measured in the SVG file that the page saves."""
    with page.expect_download() as waiting:
        page.click("#svg")
    waiting.value.save_as(tmp_path / "map.svg")
    other = page.context.new_page()
    other.goto((tmp_path / "map.svg").as_uri())
    found = other.evaluate(
        """() => Array.from(document.querySelectorAll("svg > svg text"), (one) => {
          const { x, y, width, height } = one.getBBox();
          return [one.textContent, { x, y, width, height }];
        })"""
    )
    other.close()
    return found


@pytest.mark.parametrize(
    "screen", [{"viewport": {"width": 1280, "height": 900}}, PHONE], ids=["1280", "390"]
)
@pytest.mark.parametrize("kind", ["report", "many_classes_report", "hostile_report"])
def test_names_on_the_map_do_not_overlap(
    visit: Any, kind: str, screen: Any, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    report = request.getfixturevalue(kind)
    page = visit(report.path, **screen).page
    found = texts_on_the_map(page, tmp_path)
    classes = report.data.items.classes
    names = {name if len(name) < 14 else name[:9] for name in classes}
    assert all(any(text.startswith(name[:9]) for name in names) for text, _ in found)
    assert len(found) > min(len(classes), 12) / 2
    for k, (_, a) in enumerate(found):
        for _, b in found[:k]:
            apart_x = a["x"] + a["width"] <= b["x"] or b["x"] + b["width"] <= a["x"]
            apart_y = a["y"] + 14 <= b["y"] or b["y"] + 14 <= a["y"]
            assert apart_x or apart_y
    frame = page.locator("#map").bounding_box()
    for _, box in found:
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= frame["width"]


def test_a_name_lies_beside_its_cluster(
    visit: Any, many_classes_report: Any, places: Any, tmp_path: Path
) -> None:
    page = visit(many_classes_report.path).page
    page.click("#clear")
    where, items = places(many_classes_report.data), many_classes_report.data.items
    frame = page.locator("#map").bounding_box()
    spots = np.array([where.of(page, i) for i in range(120)]) - [frame["x"], frame["y"]]
    for text, box in texts_on_the_map(page, tmp_path):
        middle = [box["x"] + box["width"] / 2, box["y"] + box["height"] / 2]
        own = spots[items.labels == items.classes.index(text)]
        assert np.hypot(*(own - middle).T).min() < 70


def test_misfits_keep_the_colour_of_their_class(
    visit: Any, annotated_report: Any, places: Any
) -> None:
    image = pytest.importorskip("PIL.Image")
    opened = visit(annotated_report.path, device_scale_factor=3)
    page, items = opened.page, annotated_report.data.items
    page.click("#clear")
    shares = []
    for i in np.flatnonzero(items.misfit)[:10].tolist():  # some are behind other marks
        x, y = places(annotated_report.data).of(page, i)
        clip = {"x": x - 5, "y": y - 5, "width": 10, "height": 10}
        pixels = np.asarray(image.open(io.BytesIO(page.screenshot(clip=clip))).convert("RGB"))
        colour = CLASS_COLOURS[items.labels[i]]
        wanted = [int(colour[k : k + 2], 16) for k in (1, 3, 5)]
        shares.append((np.abs(pixels.astype(int) - wanted).max(axis=2) < 12).mean())
    assert max(shares) > 0.3


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

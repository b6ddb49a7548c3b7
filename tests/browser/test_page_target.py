"""The page of a numeric target."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import metricmix as mm
from metricmix.app.page import Accuracy, page_content, write_page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def target_page(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = X[:, 0] + 0.1 * rng.normal(size=40)
    y[5] += 30.0  # a misfit
    stack = mm.DissimilarityStack(
        {"plane": np.linalg.norm(X[:, None] - X, axis=2)}, items=[f"i{k}" for k in range(40)]
    )
    known = np.where(np.arange(40) % 4 > 0, y, np.nan)
    model = mm.MetricMixtureRegressor(constraint="nonnegative", rule="kernel-ridge")
    with pytest.warns(UserWarning, match="are clipped to"):
        model.fit(stack, known)
    content = page_content(model, n_bootstrap=0, accuracies=[Accuracy("learned", 0.75, 0.6, 0.9)])
    file = tmp_path_factory.mktemp("page") / "report.html"
    write_page(file, content)
    return model, file


def test_targets_are_shown_as_numbers(visit: Any, target_page: Any) -> None:
    model, file = target_page
    opened = visit(file)
    page = opened.page
    assert "40 items, 30 with a known target, 1 source." in page.inner_text("#summary")
    assert "misfit" in page.inner_text("#key")
    assert "R² on held-out targets" in page.inner_text("#figures")
    assert "0.750" in page.inner_text("#figures")
    opened.choose("i5")
    page.wait_for_function("document.getElementById('panel').innerText.includes('known')")
    words = page.inner_text("#panel")
    assert f"{model.transduction_[5]:.4g} (known)" in words
    assert "Predicted without this value" in words
    opened.choose("i4")
    page.wait_for_function("document.getElementById('panel').innerText.includes('(predicted)')")
    assert f"{model.transduction_[4]:.4g} (predicted)" in page.inner_text("#panel")


def test_ranges_have_one_shape_and_colours_in_order(visit: Any, target_page: Any) -> None:
    page = visit(target_page[1]).page
    marks = page.locator("#legend canvas")
    assert marks.count() == 7
    pixels = marks.evaluate_all(
        """all => all.map((one) => {
          const all = one.getContext("2d").getImageData(0, 0, 36, 36).data;
          const shape = Array.from(all.filter((_, k) => k % 4 === 3)).join();
          return [shape, all.slice(2592 + 72, 2592 + 75).join()];
        })"""
    )
    assert len({shape for shape, _ in pixels}) == 1
    assert len({colour for _, colour in pixels}) == 7

"""The ratios of Figures 2 and 3 by looking at every pair."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix

import metricmix as mm
from metricmix.paper.data import Data
from metricmix.paper.experiment import generator
from metricmix.paper.separation import Separation, separation_ratios
from paper.test_experiment import run_cell


def slow_ratios(X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    same, different = [], []
    for i in range(len(X)):
        for j in range(len(X)):
            if i != j:
                apart = float(((X[i] - X[j]) ** 2).sum())
                (same if y[i] == y[j] else different).append(apart)
    return {"sum": sum(same) / sum(different), "mean": float(np.mean(same) / np.mean(different))}


@pytest.mark.parametrize("form", [np.asarray, csr_array, csr_matrix])
@pytest.mark.parametrize("topics", [[0, 1], [0, 1, 2, 5], [3, 7]])
def test_ratios_are_those_of_all_pairs(form: Any, topics: list[int]) -> None:
    rng = np.random.default_rng(len(topics))
    for n, d in ((9, 1), (30, 4), (41, 60)):
        X = (rng.random((n, d)) < 0.4) * rng.integers(1, 4, (n, d)).astype(float)
        y = np.concatenate([topics, topics, rng.choice(topics, n - 2 * len(topics))])
        found = separation_ratios(form(X), y)
        assert found == pytest.approx(slow_ratios(X, y), rel=1e-12)
        assert set(found) == {"sum", "mean"}


def test_topics_of_a_single_paper_have_no_pairs() -> None:
    X, y = np.array([[0.0, 1.0], [2.0, 0.0], [1.0, 1.0], [5.0, 5.0]]), np.array([0, 0, 1, 2])
    assert separation_ratios(X, y) == pytest.approx(slow_ratios(X, y), rel=1e-12)


def test_ratios_do_not_depend_on_place_and_size() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 5)), rng.integers(3, size=30)
    assert separation_ratios(100.0 + 7.0 * X, y) == pytest.approx(separation_ratios(X, y), rel=1e-6)


def test_well_separated_topics_have_small_ratios() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=60)
    near, far = (separation_ratios(rng.normal(size=(60, 3)) + k * y[:, None], y) for k in (0, 9))
    assert far["mean"] < 0.1 < 0.8 < near["mean"] < 1.2


def test_the_cell_agrees_with_the_papers() -> None:
    papers = Data().papers
    values = run_cell(Separation(n_pairs=200), {}).values
    assert list(values["ratios"]) == ["words", "2", "5", "10", "40"]
    some = np.arange(0, len(papers), 12)  # a slow check of all pairs of some
    assert separation_ratios(papers.words[some], papers.topics[some]) == pytest.approx(
        slow_ratios(papers.words[some].toarray(), papers.topics[some]), rel=1e-9
    )
    for name, ratios in values["ratios"].items():
        X = papers.words if name == "words" else papers.components[:, : int(name)]
        assert ratios == separation_ratios(X, papers.topics)
    assert values["topics"] == papers.topics.tolist()
    assert np.array(values["map"]) == pytest.approx(papers.components[:, :2], abs=1e-3)


def test_pairs_to_draw_are_pairs_of_two_papers() -> None:
    papers = Data().papers
    values = run_cell(Separation(n_pairs=200), {}).values
    rng = generator(0, "separation")
    i = rng.integers(len(papers), size=200)
    j = (i + 1 + rng.integers(len(papers) - 1, size=200)) % len(papers)
    assert (i != j).all()
    assert values["same"] == (papers.topics[i] == papers.topics[j]).astype(int).tolist()
    words = papers.words.toarray()
    for name, found in values["distances"].items():
        X = words if name == "words" else papers.components[:, : int(name)]
        assert found == pytest.approx(np.linalg.norm(X[i] - X[j], axis=1), abs=1e-4)


def test_too_many_components_are_told() -> None:
    with pytest.raises(mm.InputError, match=r"at most 40 components.*got one of 50$"):
        Separation(components=(2, 50)).check(Data())

"""Experiments 2 and 3 with the library's defaults: the same draws, and what a user would do."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import metricmix as mm
from metricmix.paper.data import Data, draw_papers, graphs_of, image_metric
from metricmix.paper.experiment import Cell, generator
from metricmix.paper.library_defaults import (
    IMAGE_METHODS,
    PAPER_METHODS,
    FeatureSpaceDefaults,
    SemiSupervisedDefaults,
    best_source,
    fitted,
    label_of_last,
)
from paper.test_experiment import run_cell

N_TEST = 6
IMAGES: Cell = {"D": 24, "repetition": 0}
PAPERS: Cell = {"sampling": "walk", "D": 20, "repetition": 0}
"""So few labels that weights stay equal: what is tested is who is compared with whom."""


@pytest.fixture(scope="module")
def on_images() -> dict[str, Any]:
    return run_cell(FeatureSpaceDefaults(n_test=N_TEST), IMAGES).values


@pytest.fixture(scope="module")
def on_papers() -> dict[str, Any]:
    return run_cell(SemiSupervisedDefaults(n_test=N_TEST), PAPERS).values


def drawn_images() -> tuple[np.ndarray, np.ndarray]:
    """Return the images that Experiment 2 draws for this cell."""
    D = int(IMAGES["D"])
    rng = generator(0, "feature-space", D, int(IMAGES["repetition"]))
    return Data().images.sample(rng, D + N_TEST)


def drawn_papers() -> np.ndarray:
    """Return the papers that Experiment 3 draws for this cell."""
    D = int(PAPERS["D"])
    rng = generator(0, "semi-supervised", 1, D, int(PAPERS["repetition"]))
    return draw_papers(Data().papers, "walk", rng, D + N_TEST, D)


def test_what_is_stored(on_images: dict[str, Any], on_papers: dict[str, Any]) -> None:
    for values, methods in ((on_images, IMAGE_METHODS), (on_papers, PAPER_METHODS)):
        for part in ("accuracy", "chosen", "weights", "moved_share"):
            assert set(values[part]) == set(methods)
        assert all(0 <= share <= 1 for share in values["moved_share"].values())
    assert len(on_images["weights"]["graphs"]) == 8
    assert on_images["moved_share"]["ready sources"] == 0.0


def test_graphs_of_one_more_image(on_images: dict[str, Any]) -> None:
    """Each test image alone is added to the labelled ones, as in Experiment 2."""
    pixels, digits = drawn_images()
    metric, D = image_metric(pixels), int(IMAGES["D"])
    model = mm.MetricMixtureClassifier(graphs_of(metric[:D, :D])).fit(np.arange(D), digits[:D])
    assert on_images["weights"]["graphs"] == pytest.approx(model.weights_, abs=1e-5)
    right = []
    for t in range(D, D + N_TEST):
        chosen = [*range(D), t]
        d = mm.path_metric(graphs_of(metric[np.ix_(chosen, chosen)]), model.mixture_)
        assert model.rule_.name == "class-mean"
        codes = np.searchsorted(model.classes_, digits[:D])
        half = model.rule_.halves(d[:D, :D], codes, len(model.classes_), d[:, :D].mean(axis=0))
        scores = [d[D, :D][codes == c].mean() - half[c] for c in range(len(half))]
        right.append(model.classes_[np.argmin(scores)] == digits[t])
    assert on_images["accuracy"]["graphs"] == pytest.approx(np.mean(right))


def test_ready_sources_are_what_a_user_calls(
    on_images: dict[str, Any], on_papers: dict[str, Any]
) -> None:
    pixels, digits = drawn_images()
    D = int(IMAGES["D"])
    known = np.where(np.arange(len(digits)) < D, digits, -1)
    stack = mm.sources_for(pixels, labels=known)
    model = mm.MetricMixtureClassifier(stack).fit(np.arange(len(digits)), known)
    right = np.mean(model.transduction_[D:] == digits[D:])
    assert on_images["accuracy"]["ready sources"] == pytest.approx(right)

    papers, drawn, D = Data().papers, drawn_papers(), int(PAPERS["D"])
    topics = papers.topics[drawn]
    known = np.where(np.arange(len(drawn)) < D, topics, -1)
    stack = mm.sources_for(papers.words[drawn], papers.graph[drawn][:, drawn], labels=known)
    model = mm.MetricMixtureClassifier(stack).fit(np.arange(len(drawn)), known)
    right = np.mean(model.transduction_[D:] == topics[D:])
    assert on_papers["accuracy"]["ready sources"] == pytest.approx(right)


def test_topics_of_test_papers_are_not_learned_from(on_papers: dict[str, Any]) -> None:
    papers, drawn = Data().papers, drawn_papers()
    other = papers.topics.copy()
    other[drawn[int(PAPERS["D"]) :]] = (other[drawn[int(PAPERS["D"]) :]] + 1) % 6
    swapped: Any = SimpleNamespace(papers=replace(papers, topics=other))
    after = run_cell(SemiSupervisedDefaults(n_test=N_TEST), PAPERS, data=swapped).values
    assert after["weights"] == on_papers["weights"]
    assert after["accuracy"] != on_papers["accuracy"]


def test_the_best_graph_is_chosen_on_the_labels() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(20) % 2
    near = np.abs(np.subtract.outer(y + 0.1 * rng.random(20), y + 0.1 * rng.random(20)))
    noise = rng.random((20, 20))
    sources = [(M + M.T) * (1 - np.eye(20)) for M in (noise, near, noise**2)]
    assert best_source(mm.DissimilarityStack(sources), y) == 1


def test_the_last_item_gets_the_label_of_its_neighbours() -> None:
    X = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2], [4.9]])
    labels = np.array(["a", "a", "a", "b", "b", "b"])
    model = fitted(mm.DissimilarityStack([mm.dissimilarity.features(X[:6])]), labels)
    stack = mm.DissimilarityStack([mm.dissimilarity.features(X)])
    assert label_of_last(model, stack) == "b"


@pytest.mark.parametrize("settings", [{"local": "classes"}, {"geodesic": 6}], ids=str)
def test_what_the_classifier_may_choose_predicts_one_more_image(settings: dict[str, Any]) -> None:
    D, n_test = 60, 12
    pixels, digits = Data().images.sample(np.random.default_rng(0), D + n_test)
    metric = image_metric(pixels)
    model = fitted(graphs_of(metric[:D, :D]), digits[:D], **settings)
    assert isinstance(model.mixture_, mm.mixture.LocalMixture) == ("local" in settings)
    right = []
    for t in range(D, D + n_test):
        chosen = [*range(D), t]
        stack = graphs_of(metric[np.ix_(chosen, chosen)])
        right.append(label_of_last(model, stack) == digits[t])
    assert np.mean(right) > 0.3  # of ten digits

"""Experiment 2 against brute force: all graphs, all shortest paths, one test image at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import metricmix as mm
from metricmix.paper import experiment2_feature_space
from metricmix.paper.data import Data
from metricmix.paper.experiment import Cell, generator
from metricmix.paper.experiment2_feature_space import METHODS, FeatureSpace
from metricmix.paper.runner import plan
from paper.test_experiment import run_cell
from reference.closure import closure_by_rows
from reference.mixing import lengths

REAL = os.environ.get("METRICMIX_DATA")
N_TEST = 6
CELLS: list[Cell] = [{"D": D, "repetition": k} for D in (12, 17) for k in range(2)]
MIXTURES = [method for method in METHODS if method != "full"]
CLOSE = 1e-9


def slow_image_metric(pixels: np.ndarray) -> np.ndarray:
    metric = np.zeros((len(pixels), len(pixels)))
    for i, x in enumerate(pixels):
        for j, z in enumerate(pixels):
            apart = np.linalg.norm(x - z)
            metric[i, j] = apart / np.sqrt(np.linalg.norm(x) * np.linalg.norm(z))
    return metric


def slow_graphs(metric: np.ndarray, R: int = 8) -> list[np.ndarray]:
    """Path lengths over pairs closer than xi_r, one more edge where there is no path, scaled."""
    return _slow_graphs(metric.tobytes(), len(metric), R)


@cache
def _slow_graphs(content: bytes, n: int, R: int) -> list[np.ndarray]:
    metric = np.frombuffer(content).reshape(n, n)
    found = []
    for r in range(R):
        xi = metric.mean() * (1 / 4 + r * 6 / (4 * R))
        hops = closure_by_rows(np.where(metric < xi, 1.0, np.inf))
        hops[np.isinf(hops)] = hops[np.isfinite(hops)].max() + 1.0
        np.fill_diagonal(hops, 0.0)
        found.append(hops * np.linalg.norm(metric) / np.linalg.norm(hops))
    return found


def slow_metric(metric: np.ndarray, weights: Any) -> np.ndarray:
    """All shortest paths over the mixture of as many graphs as there are weights."""
    return closure_by_rows(lengths(slow_graphs(metric, len(weights)), weights))


def drawn(
    cell: Cell, n_test: int = N_TEST, data: Data | None = None
) -> tuple[np.ndarray, np.ndarray]:
    D, k = int(cell["D"]), int(cell["repetition"])
    rng = generator(0, "feature-space", D, k)
    pixels, digits = (data or Data()).images.sample(rng, D + n_test)
    return slow_image_metric(pixels), digits


def augmented(metric: np.ndarray, D: int) -> Iterator[tuple[int, np.ndarray]]:
    for t in range(D, len(metric)):
        chosen = [*range(D), t]
        yield t, metric[np.ix_(chosen, chosen)]


def slow_objective(weights: Any, metric: np.ndarray, y: np.ndarray) -> float:
    d = slow_metric(metric, weights)
    signs = np.where(y[:, None] == y, 1.0, -1.0)
    return float((signs * d).sum() / len(y) ** 2 + 0.01 * np.sum(np.square(weights)))


def nearest_set(to_train: np.ndarray) -> np.ndarray:
    """All items that are nearest but for rounding."""
    return np.flatnonzero(to_train <= to_train.min() * (1 + CLOSE))


@pytest.fixture(scope="module")
def found() -> list[tuple[Cell, dict[str, Any]]]:
    return [(cell, run_cell(FeatureSpace(n_test=N_TEST), cell).values) for cell in CELLS]


@pytest.mark.parametrize("method", MIXTURES)
def test_accuracy_is_that_of_brute_force(
    method: str, found: list[tuple[Cell, dict[str, Any]]]
) -> None:
    """Graphs, softplus and all shortest paths by slow loops, from the stored weights."""
    for cell, values in found:
        D = int(cell["D"])
        metric, digits = drawn(cell)
        at_least = at_most = 0
        for t, rows in augmented(metric, D):
            d = slow_metric(rows, values["weights"][method])
            right = digits[nearest_set(d[D, :D])] == digits[t]
            at_least, at_most = at_least + right.all(), at_most + right.any()
        assert at_least <= round(values["accuracy"][method] * N_TEST) <= at_most


@pytest.mark.parametrize(("n_test", "repetitions"), [(1, 30), (3, 8)])
def test_single_predictions_are_those_of_brute_force(
    n_test: int, repetitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few test images a cell, and made-up weights: no mistake hides in a mean over many.

    With several of them, none is part of another's graphs.
    """
    rng = np.random.default_rng(0)
    made_up = {method: rng.normal(size=8) for method in MIXTURES}
    made_up |= {method: rng.normal(size=32) for method in MIXTURES if method.startswith("32")}
    made_up["32 graphs, uniform"] = np.full(32, 1 / 32)
    monkeypatch.setattr(experiment2_feature_space, "learn_all", lambda *_: (dict(made_up), {}))
    told = 0
    for k in range(repetitions):
        cell: Cell = {"D": 16, "repetition": k}
        accuracy = run_cell(FeatureSpace(n_test=n_test), cell).values["accuracy"]
        metric, digits = drawn(cell, n_test=n_test)
        for method in METHODS:
            at_least = at_most = 0
            for t, rows in augmented(metric, 16):
                d = rows if method == "full" else slow_metric(rows, made_up[method])
                right = digits[nearest_set(d[16, :16])] == digits[t]
                at_least, at_most = at_least + right.all(), at_most + right.any()
            assert at_least <= round(accuracy[method] * n_test) <= at_most, (method, k)
            told += at_least == at_most
    assert told > 0.37 * repetitions * len(METHODS)  # the others are ties


@pytest.mark.parametrize("method", MIXTURES)
def test_the_nearest_by_path_metric_is_the_nearest_by_mixture(
    method: str, found: list[tuple[Cell, dict[str, Any]]]
) -> None:
    """The lemma that spares the experiment all shortest paths, ties included."""
    cell, values = found[0]
    D, weights = int(cell["D"]), np.array(values["weights"][method])
    metric, _ = drawn(cell)
    for _, rows in augmented(metric, D):
        graphs = slow_graphs(rows, len(weights))
        d = mm.path_metric(mm.DissimilarityStack(graphs), weights)[D, :D]
        plain = np.stack(graphs, axis=-1)[D, :D] @ weights
        low = np.flatnonzero(plain <= plain.min() + CLOSE)
        assert nearest_set(d).tolist() == low.tolist()


def test_full_is_the_nearest_image(found: list[tuple[Cell, dict[str, Any]]]) -> None:
    for cell, values in found:
        D = int(cell["D"])
        metric, digits = drawn(cell)
        right = [digits[np.argmin(metric[t, :D])] == digits[t] for t in range(D, len(metric))]
        assert values["accuracy"]["full"] == pytest.approx(np.mean(right))


@pytest.mark.parametrize(("D", "k"), [(13, 12), (15, 0)])
def test_ties_go_to_the_first_item(D: int, k: int) -> None:
    """Equal weights and whole-numbered lengths: the page says that the first item is taken."""
    cell = {"D": D, "repetition": k}
    values = run_cell(FeatureSpace(n_test=20), cell).values
    metric, digits = drawn(cell, n_test=20)
    first = [
        digits[nearest_set(np.sum(slow_graphs(rows), axis=0)[D, :D])[0]] == digits[t]
        for t, rows in augmented(metric, D)
    ]
    assert values["accuracy"]["uniform"] == pytest.approx(np.mean(first))


def test_best_single_has_the_lowest_objective_of_all_graphs(
    found: list[tuple[Cell, dict[str, Any]]],
) -> None:
    for cell, values in found:
        D = int(cell["D"])
        metric, digits = drawn(cell)
        all_eight = [slow_objective(w, metric[:D, :D], digits[:D]) for w in np.eye(8)]
        chosen = np.flatnonzero(values["weights"]["best, single"])
        assert np.array(values["weights"]["best, single"])[chosen].tolist() == [1.0]
        assert all_eight[chosen[0]] == pytest.approx(min(all_eight), rel=1e-9)
        assert values["objective"]["best, single"] == pytest.approx(min(all_eight), rel=1e-9)


@pytest.mark.parametrize("method", [m for m in MIXTURES if not m.startswith("32")])
def test_objectives_are_those_of_the_stored_weights(
    method: str, found: list[tuple[Cell, dict[str, Any]]]
) -> None:
    for cell, values in found:
        D = int(cell["D"])
        metric, digits = drawn(cell)
        slow = slow_objective(values["weights"][method], metric[:D, :D], digits[:D])
        assert values["objective"][method] == pytest.approx(slow, abs=1e-4)


def test_simplex_weights_are_shares(found: list[tuple[Cell, dict[str, Any]]]) -> None:
    for _, values in found:
        weights = np.array(values["weights"]["best, simplex"])
        assert weights.min() >= 0
        assert weights.sum() == pytest.approx(1.0, abs=1e-5)
        assert values["objective"]["best, simplex"] <= values["objective"]["uniform"]


@pytest.mark.parametrize("start", ["", ", equal start"])
def test_converged_is_not_above_literal(
    start: str, found: list[tuple[Cell, dict[str, Any]]]
) -> None:
    for _, values in found:
        reached = values["objective"]
        assert reached[f"mixture, converged{start}"] <= reached[f"mixture, literal{start}"] + 1e-9


def test_the_rest_of_what_is_stored(found: list[tuple[Cell, dict[str, Any]]]) -> None:
    for _, values in found:
        assert set(values["accuracy"]) == set(METHODS)
        assert set(values["weights"]) == set(MIXTURES)
        assert values["weights"]["32 graphs, uniform"] == pytest.approx([1 / 32] * 32, abs=1e-6)
        assert values["weights"]["uniform"] == [0.125] * 8
        assert values["violation"] <= 1e-9


def test_digits_of_test_images_are_not_learned_from() -> None:
    cell = {"D": 12, "repetition": 0}
    images = Data().images
    chosen = generator(0, "feature-space", 12, 0).choice(len(images.pixels), 12 + N_TEST, False)
    other = images.digits.copy()
    other[chosen[12:]] = (other[chosen[12:]] + 1) % 10
    swapped: Any = SimpleNamespace(images=replace(images, digits=other))
    experiment = FeatureSpace(n_test=N_TEST)
    before = run_cell(experiment, cell).values
    after = run_cell(experiment, cell, data=swapped).values
    assert after["weights"] == before["weights"]
    assert after["objective"] == before["objective"]
    assert after["accuracy"] != before["accuracy"]


def test_the_smallest_size_that_is_accepted_runs() -> None:
    with pytest.raises(mm.InputError, match="sizes: expected"):
        plan("2", "embedded", sizes=(10,))
    for k in range(3):
        run_cell(FeatureSpace(n_test=1), {"D": 11, "repetition": k})


def test_too_few_images_are_told_before_the_start() -> None:
    with pytest.raises(mm.InputError, match=r"samples of at most 1797 images.*got one of 1800$"):
        FeatureSpace(sizes=(12, 1780)).check(Data())
    FeatureSpace(sizes=(12, 1777)).check(Data())


def test_brute_force_on_real_data() -> None:
    if not REAL or not (Path(REAL) / "mnist").is_dir():
        pytest.skip("METRICMIX_DATA has no mnist/")
    data, cell = Data("real", REAL), {"D": 12, "repetition": 0}
    values = run_cell(FeatureSpace(n_test=N_TEST), cell, data=data).values
    metric, digits = drawn(cell, data=data)
    for method in MIXTURES:
        at_least = at_most = 0
        for t, rows in augmented(metric, 12):
            d = slow_metric(rows, values["weights"][method])
            right = digits[nearest_set(d[12, :12])] == digits[t]
            at_least, at_most = at_least + right.all(), at_most + right.any()
        assert at_least <= round(values["accuracy"][method] * N_TEST) <= at_most

"""Maps: neighbours stay neighbours, and any matrix has a map."""

from __future__ import annotations

import numpy as np
import pytest

from metricmix.app.page.embedding import (
    align,
    attractive_forces,
    conditional_probabilities,
    plane_coordinates,
    repulsive_forces,
)


def groups(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    group = np.arange(n) % 4
    X = 6.0 * np.eye(4)[group] + rng.normal(size=(n, 4))
    return np.linalg.norm(X[:, None] - X, axis=2), group


def purity(places: np.ndarray, group: np.ndarray) -> float:
    apart = np.linalg.norm(places[:, None] - places, axis=2)
    np.fill_diagonal(apart, np.inf)
    return float(np.mean(group[apart.argmin(axis=1)] == group))


@pytest.mark.parametrize("n", [40, 400])
def test_neighbours_are_of_the_same_group(n: int) -> None:
    distances, group = groups(n)
    places = plane_coordinates(distances)
    assert purity(places, group) > 0.95
    assert places.mean(axis=0) == pytest.approx([0.0, 0.0], abs=1e-9)
    assert (places**2).sum(axis=1).mean() == pytest.approx(1.0)
    assert (plane_coordinates(distances) == places).all()


def test_of_very_many_items_some_are_laid_out() -> None:
    distances, group = groups(400)
    assert purity(plane_coordinates(distances, max_items=150), group) > 0.9


@pytest.mark.parametrize("n", [1, 2, 3, 11, 12, 13, 31])
@pytest.mark.parametrize("kind", ["equal", "zero", "apart", "oneway"])
def test_any_matrix_has_a_map(n: int, kind: str) -> None:
    distances = np.ones((n, n)) - np.eye(n)
    if kind == "zero":
        distances[:] = 0.0
    elif kind == "apart":
        distances[: n // 2, n // 2 :] = distances[n // 2 :, : n // 2] = np.inf
    elif kind == "oneway":
        distances = np.triu(distances) * 3.0
    places = plane_coordinates(distances)
    assert places.shape == (n, 2)
    assert np.isfinite(places).all()


def test_turning_keeps_distances() -> None:
    rng = np.random.default_rng(0)
    places = rng.normal(size=(20, 2))
    angle = 1.2
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    assert align(places @ turn * [1.0, -1.0], places) == pytest.approx(places)


def test_forces_are_sums_over_all_pairs() -> None:
    rng = np.random.default_rng(0)
    n = 300
    places = rng.normal(size=(2, n)).astype(np.float32)
    force = np.empty((2, n), np.float32)
    total = repulsive_forces(places[0], places[1], force)
    differences = places[:, :, None].astype(float) - places[:, None, :]
    q = 1.0 / (1.0 + (differences**2).sum(axis=0))
    assert total == pytest.approx(q.sum() - n, rel=1e-5)
    assert force == pytest.approx((q**2 * differences).sum(axis=2), abs=1e-3)
    indptr = np.arange(0, 2 * n + 1, 2, dtype=np.int32)
    indices = rng.integers(0, n, 2 * n).astype(np.int32)
    p = rng.random(2 * n).astype(np.float32)
    attractive_forces(places[0], places[1], indptr, indices, p, force)
    whole = np.zeros((n, n))
    np.add.at(whole, (np.repeat(np.arange(n), 2), indices), p)
    assert force == pytest.approx((whole * q * differences).sum(axis=2), abs=1e-4)


def test_widths_give_the_perplexity() -> None:
    squares = np.random.default_rng(0).exponential(size=(50, 40))
    p = conditional_probabilities(squares, 10.0)
    assert p.sum(axis=1) == pytest.approx(1.0)
    entropy = -(p * np.log(np.maximum(p, 1e-300))).sum(axis=1)
    assert np.exp(entropy) == pytest.approx(10.0, rel=1e-6)

"""Soft distances over walks: the series, the metric, the gradient, the limits."""

from __future__ import annotations

import numpy as np
import pytest

import metricmix as mm
from metricmix.paths import soft_paths
from reference.instances import random_lengths
from reference.paths import all_distances, by_enumeration


def some_lengths(seed, n=7, directed=False):
    rng = np.random.default_rng(seed)
    w = rng.uniform(0.5, 2.0, (n, n))
    w = w if directed else (w + w.T) / 2
    np.fill_diagonal(w, 0.0)
    return w


def by_walks(w, T, longest=400):
    """The definition: the sum over all walks of up to `longest` edges, one power after another."""
    K = np.exp(-T * w)
    np.fill_diagonal(K, 0.0)
    Z = power = np.eye(len(w))
    for _ in range(longest):
        power = power @ K
        Z = Z + power
    return -np.log(Z / np.sqrt(np.outer(np.diagonal(Z), np.diagonal(Z)))) / T


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("T", [4.0, 6.0, 20.0])
@pytest.mark.parametrize("seed", range(5))
def test_truncated_walk_series(seed, T, directed):
    w = some_lengths(seed, directed=directed)
    soft = soft_paths(w, T, directed=directed)
    assert soft.distances == pytest.approx(by_walks(w, T), rel=1e-10, abs=1e-12)
    assert soft.temperature == T


def test_series_near_its_radius():
    # Three items, K = e^(-T) off the diagonal: the radius is 2 e^(-T), 0.9999 here.
    T = -np.log(0.9999 / 2)
    w = 1.0 - np.eye(3)
    K = np.exp(-T) * w
    Z = np.linalg.inv(np.eye(3) - K)
    expected = -np.log(Z[0, 1] / Z[0, 0]) / T
    assert soft_paths(w, T).distances[0, 1] == pytest.approx(expected, rel=1e-9)


def test_two_items_by_hand():
    # Z = 1 / (1 - k²) [[1, k], [k, 1]]: the soft distance of a single edge is the edge.
    w = np.array([[0.0, 1.3], [1.3, 0.0]])
    assert soft_paths(w, 2.0).distances == pytest.approx(w, rel=1e-12)


def test_one_item():
    assert soft_paths(np.zeros((1, 1)), 1.0).distances.tolist() == [[0.0]]


@pytest.mark.parametrize("T", [4.0, 8.0, 60.0])
@pytest.mark.parametrize("seed", range(8))
def test_metric(seed, T):
    d = soft_paths(some_lengths(seed, n=12), T).distances
    assert mm.is_metric(d, strict=True)
    assert np.array_equal(d, d.T)
    assert not np.diagonal(d).any()


@pytest.mark.parametrize("seed", range(4))
def test_directed_triangles(seed):
    d = soft_paths(some_lengths(seed, n=10, directed=True), 8.0, directed=True).distances
    detours = (d[:, :, None] + d[None, :, :]).min(axis=1)
    assert (d <= detours + 1e-12).all()
    assert np.abs(d - d.T).max() > 0.01


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_tends_to_shortest_paths(seed, directed):
    w = random_lengths(np.random.default_rng(seed), 8, directed=directed) + 0.2 * (1 - np.eye(8))
    shortest = all_distances(w)
    errors = [
        np.abs(soft_paths(w, T, directed=directed).distances - shortest).max()
        for T in (20.0, 40.0, 60.0)
    ]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.02


def test_accurate_where_walks_are_very_rare():
    # exp(-T d) is 1e-260 here; an inverse by elimination would return noise.
    w = some_lengths(1) * 3.0
    T = 600.0 / all_distances(w).max()
    assert soft_paths(w, T).distances == pytest.approx(all_distances(w), rel=1e-3)


# -- the gradient --------------------------------------------------------------------------------


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("T", [4.0, 12.0])
@pytest.mark.parametrize("seed", range(3))
def test_gradient_against_central_differences(seed, T, directed):
    w = some_lengths(seed, n=5, directed=directed)
    c = np.random.default_rng(seed).normal(size=(5, 5))
    gradient = soft_paths(w, T, directed=directed).gradient(c)
    numeric = np.zeros((5, 5))
    for u in range(5):
        for v in range(5):
            if u != v:  # one entry at a time, so both sides are directed
                step = np.zeros((5, 5))
                step[u, v] = 1e-6
                ahead, behind = (
                    (c * soft_paths(w + sign * step, T, directed=True).distances).sum()
                    for sign in (1, -1)
                )
                numeric[u, v] = (ahead - behind) / 2e-6
    assert gradient == pytest.approx(numeric, rel=1e-6, abs=1e-7)
    assert not np.diagonal(gradient).any()


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_gradient_tends_to_the_path_gradient(seed, directed):
    # The derivative of a unique shortest path by an edge is 1 if the edge lies on it, else 0.
    w = random_lengths(np.random.default_rng(seed), 6, directed=directed) + 0.2 * (1 - np.eye(6))
    w = np.round(w, 2)
    c = np.random.default_rng(seed).normal(size=(6, 6))
    expected = np.zeros((6, 6))
    sure = np.ones((6, 6), dtype=bool)
    for i in range(6):
        for j in range(6):
            paths = by_enumeration(w, i, j)[1]
            sure[i, j] = len(paths) == 1
            path = next(iter(paths))
            for u, v in zip(path[:-1], path[1:], strict=True):  # noqa: RUF007
                expected[u, v] += c[i, j] * sure[i, j]
    gradients = [soft_paths(w, T, directed=directed).gradient(c * sure) for T in (15.0, 30.0, 60.0)]
    errors = [np.abs(gradient - expected).max() for gradient in gradients]
    assert errors[-1] < errors[0]
    assert errors[-1] < 0.75  # near-ties of 0.01 are still soft at T = 60


def test_gradient_of_one_dominant_path():
    w = np.array([[0.0, 1.0, 5.0], [1.0, 0.0, 2.0], [5.0, 2.0, 0.0]])
    c = np.zeros((3, 3))
    c[0, 2] = 1.0
    gradient = soft_paths(w, 30.0).gradient(c)
    assert gradient == pytest.approx(np.eye(3, k=1), abs=1e-9)


def test_gradient_ignores_the_diagonal():
    soft = soft_paths(some_lengths(0), 6.0)
    assert soft.gradient(np.eye(7)) == pytest.approx(np.zeros((7, 7)), abs=1e-15)


def test_gradient_refuses_other_shapes():
    soft = soft_paths(some_lengths(0), 6.0)
    with pytest.raises(mm.InputError, match=r"c: expected shape \(7, 7\), got shape \(3,\)"):
        soft.gradient([1.0, 2.0, 3.0])


# -- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("T", [np.log(2.0), 0.69, 0.3, 1e-3, 1e-12])
@pytest.mark.parametrize("n", [3, 40])
def test_diverging_sums_are_refused(T, n):
    # K = e^(-T) off the diagonal: spectral radius (n - 1) e^(-T), 1 or more here.
    with pytest.raises(mm.InputError, match=r"temperature: .* is too small.*spectral radius"):
        soft_paths(1.0 - np.eye(n), T)


def test_radius_is_what_decides():
    # Row sums above 1, but a spectral radius below: an edge that leads nowhere.
    w = np.full((4, 4), 4.0)
    w[0] = 0.1
    np.fill_diagonal(w, 0.0)
    K = np.exp(-w)
    np.fill_diagonal(K, 0.0)
    assert K.sum(axis=1).max() > 1
    assert np.abs(np.linalg.eigvals(K)).max() < 1
    assert soft_paths(w, 1.0, directed=True).distances == pytest.approx(by_walks(w, 1.0), rel=1e-9)


def test_underflow_is_refused():
    w = some_lengths(0)
    with pytest.raises(mm.InputError, match=r"temperature: 1000 is too large, walks underflow"):
        soft_paths(w, 1000.0)
    # The remedy named in the message works.
    assert np.isfinite(soft_paths(w, 640.0 / w.max()).distances).all()


@pytest.mark.parametrize("T", [0.0, -1.0, np.inf, np.nan])
def test_impossible_temperatures_are_refused(T):
    with pytest.raises(mm.InputError, match="temperature: expected a number > 0"):
        soft_paths(some_lengths(0), T)


def test_bad_lengths_are_refused():
    w = some_lengths(0)
    w[2, 3] = w[3, 2] = 0.0
    with pytest.raises(mm.InputError, match="w: expected positive lengths off the diagonal"):
        soft_paths(w, 5.0)
    with pytest.raises(mm.InputError, match="w: expected symmetric"):
        soft_paths(some_lengths(0, directed=True), 5.0)

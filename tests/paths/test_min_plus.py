"""The min-plus product, and distances from few roots by rounds of it or by streaming rows."""

from __future__ import annotations

import numpy as np
import pytest

import metricmix as mm
from metricmix.mixture.edge_lengths import edge_lengths
from metricmix.paths.min_plus import distances_by_rounds, distances_streamed, edges_back, min_plus
from reference.instances import on_demand, random_lengths, random_sources, whole_lengths


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 700, 5), (65, 40, 33), (20, 513, 300)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_min_plus_is_the_minimum_of_sums(shape, dtype):
    M, n, T = shape
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(M, n)).astype(dtype), rng.normal(size=(n, T)).astype(dtype)
    expected = (A[:, :, None] + B[None]).min(axis=1)
    assert np.array_equal(min_plus(A, B), expected)
    assert np.array_equal(min_plus(A, B, n_jobs=1), expected)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("n", [5, 60, 300])
def test_rounds_give_the_closure(directed, n):
    rng = np.random.default_rng(n)
    w = random_lengths(rng, n, directed=directed)
    roots = rng.choice(n, 4, replace=False)
    d = distances_by_rounds(w, roots)
    assert d == pytest.approx(mm.project(w, directed=directed)[roots], rel=1e-12)


def test_rounds_give_up_on_long_paths():
    place = np.arange(40.0)
    w = (place[:, None] - place) ** 2  # the shortest path goes over every item
    assert distances_by_rounds(w, np.array([0])) is None
    assert mm.paths.shortest_path_trees(w, roots=[0]).distances[0, -1] == 39


@pytest.mark.parametrize("directed", [False, True])
def test_edges_lead_back_to_the_root(directed):
    rng = np.random.default_rng(3)
    w = random_lengths(rng, 50, directed=directed)
    roots = np.array([7, 3])
    d = mm.project(w, directed=directed)[roots]
    tree, end = (part.ravel() for part in np.indices((2, 50)))
    number, u, v = edges_back(np.ascontiguousarray(w.T), d, roots, tree, end)
    lengths = np.bincount(number, w[u, v], minlength=100)
    assert lengths == pytest.approx(d.ravel())
    flow = np.bincount(v, minlength=50) - np.bincount(u, minlength=50)
    assert flow[3] + flow[7] == -96  # 48 paths leave each root, two end at the other


def test_edges_of_length_zero_are_left_to_others():
    w = np.zeros((4, 4))
    assert edges_back(w, w[:1], np.array([0]), np.zeros(1, int), np.array([2])) is not None
    w = np.array([[0, 5, 5, 1.0], [5, 0, 0, 5], [5, 0, 0, 5], [1, 5, 5, 0]])
    d = np.array([[0, 4.0, 4.0, 1]])  # not its distances: items 1 and 2 point at each other
    assert edges_back(w, d, np.array([0]), np.zeros(1, int), np.array([1])) is None


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weights", [[3.0, 1.0], [8.0, -5.0], [-2.0, -1.0]])
def test_streamed_rows_give_the_closure(directed, weights):
    rng = np.random.default_rng(1)
    sources = random_sources(rng, 300, 2, directed=directed)
    stack = mm.DissimilarityStack(sources, directed=directed)
    roots = rng.choice(300, 5, replace=False)
    expected = mm.path_metric(stack, weights)[roots]
    for some in (stack, on_demand(stack)):
        d = distances_streamed(edge_lengths(some, weights), roots)
        assert d == pytest.approx(expected, rel=1e-12)


def test_streamed_rows_follow_long_paths():
    place = np.arange(30.0)
    stack = mm.DissimilarityStack([(place[:, None] - place) ** 2])
    lengths = edge_lengths(on_demand(stack), mm.Mixture([1.0], link="identity"))
    assert np.array_equal(distances_streamed(lengths, np.array([0, 3, 9]))[0], place)


@pytest.mark.parametrize("kind", ["continuous", "whole"])
def test_many_pairs_of_computed_sources(kind):
    rng = np.random.default_rng(5)
    w = random_lengths(rng, 80) if kind == "continuous" else whole_lengths(rng, 80)
    stack = on_demand(mm.DissimilarityStack([w]))
    i, j = rng.integers(80, size=(2, 200))
    mixture = mm.Mixture([1.0], link="identity")
    found = mm.paths.shortest_paths(stack, mixture, i, j)
    assert found.lengths == pytest.approx(mm.project(w)[i, j])
    for path, a, b in zip(found, i, j, strict=True):
        assert path.nodes[0] == a
        assert path.nodes[-1] == b
        assert sum(w[u, v] for u, v in path.edges) == pytest.approx(path.length)

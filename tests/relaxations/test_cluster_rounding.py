"""Rounding to clusters against loops over all pairs."""

from __future__ import annotations

import numpy as np
import pytest

from metricmix.relaxations.cluster_rounding import clustering_cost, move_nodes, pivot_clusters
from metricmix.relaxations.graph_search import Adjacency, PairWeights
from reference import graph_kernels as slow
from reference import relaxations
from relaxations.graphs import random_edges


def weighted(n, seed, default):
    rng = np.random.default_rng([n, seed])
    i, j = np.tril_indices(n, -1)
    listed = rng.random(len(i)) < 0.4
    i, j, w = i[listed].astype(np.int32), j[listed].astype(np.int32), rng.normal(size=listed.sum())
    W = np.full((n, n), default)
    W[i, j] = W[j, i] = w
    np.fill_diagonal(W, 0.0)
    return PairWeights(Adjacency.from_edges(n, i, j), w, default), W, rng


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("radius", [0.0, 0.25, 0.7])
@pytest.mark.parametrize("budget", [5, 1 << 60])
def test_pivot_clusters(seed, radius, budget):
    n = 25
    ends, graph, x = random_edges(n, 0.2, seed)
    d = slow.distances(n, ends, x)
    joined = np.zeros((n, n), bool)
    joined[ends[:, 0], ends[:, 1]] = joined[ends[:, 1], ends[:, 0]] = True
    order = np.random.default_rng(seed).permutation(n).astype(np.int32)
    labels = np.full(n, -1, np.int32)
    count, at, calls = 0, 0, 0
    while at < n:
        count, at = pivot_clusters(order, at, 1000 + seed, radius, graph, x, labels, count, budget)
        calls += 1
    assert (calls == 1) == (budget > n)
    np.testing.assert_array_equal(
        labels, slow.pivot_clusters(order, 1000 + seed, radius, d, joined)
    )
    assert count == labels.max() + 1


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("default", [-0.5, -0.05])
def test_move_nodes(seed, default):
    n = 18
    weights, W, rng = weighted(n, seed, default)
    order, labels = rng.permutation(n).astype(np.int32), rng.integers(0, 5, n).astype(np.int32)
    for _ in range(3):
        expected, moved = slow.move_nodes(order, W, labels)
        assert move_nodes(order, weights, 0.0, labels) == moved
        np.testing.assert_array_equal(labels[:, None] == labels, expected[:, None] == expected)
        assert (labels < n).all()


def test_moves_that_gain_too_little_are_not_made():
    weights, _, rng = weighted(18, 0, -0.5)
    order, labels = rng.permutation(18).astype(np.int32), rng.integers(0, 5, 18).astype(np.int32)
    assert move_nodes(order, weights, 1e3, labels) == 0


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("default", [-0.5, 0.0])
def test_clustering_cost(seed, default):
    weights, W, rng = weighted(20, seed, default)
    labels = rng.integers(0, 6, 20).astype(np.int32)
    expected = relaxations.clustering_cost(W, labels)
    assert clustering_cost(weights, labels) == pytest.approx(expected)

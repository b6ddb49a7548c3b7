"""Rounding to cuts against loops over all nodes."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from metricmix.relaxations.cut_rounding import (
    flip_for_ratio,
    flip_for_weight,
    spanning_tree_cut,
    sweep_cut,
)
from reference.graph_kernels import distances, flip_nodes
from relaxations.graphs import random_edges


def network(n, seed):
    """A connected graph with capacities and demands, and the ratio of its cuts."""
    ends, graph, x = random_edges(n, 0.2, seed, connected=True)
    rng = np.random.default_rng([n, seed, 1])
    c, demand = rng.random(len(ends)) + 0.1, rng.random(n) + 0.1

    def ratio(labels):
        labels = np.asarray(labels)
        cut = c[labels[ends[:, 0]] != labels[ends[:, 1]]].sum()
        return cut / (demand[labels == 0].sum() * demand[labels == 1].sum())

    return ends, graph, x, c, demand, ratio


@pytest.mark.parametrize("seed", range(5))
def test_sweep_cut(seed):
    n = 13
    ends, graph, x, c, demand, ratio = network(n, seed)
    d = distances(n, ends, x)
    rng = np.random.default_rng(seed)
    sets = [[i] for i in rng.permutation(n)[:4]] + [rng.choice(n, 3, replace=False)]
    for chosen in ([s] for s in sets), (sets,):
        for some in chosen:
            balls = []
            for members in some:
                order = np.argsort(d[members].min(0), kind="stable")
                balls += [np.isin(np.arange(n), order[:k]) for k in range(len(members), n)]
            labels = np.empty(n, np.int32)
            starts = np.cumsum([0, *map(len, some)])
            members = np.concatenate(some).astype(np.int32)
            found = np.inf
            for first in range(0, len(some), 2):  # in slices
                part = starts[first : first + 3]
                found = sweep_cut(part, members, graph, x, c, demand, labels, found)
            best = min(ratio(ball.astype(int)) for ball in balls)
            assert found == pytest.approx(ratio(labels))
            assert found <= best * (1 + 1e-12)
            if all(len(members) == 1 for members in some):
                assert found == pytest.approx(best)


@pytest.mark.parametrize("seed", range(5))
def test_flip_for_ratio(seed):
    n = 16
    _, graph, _, c, demand, ratio = network(n, seed)
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, n).astype(np.int32)
    for _ in range(3):
        order = rng.permutation(n).astype(np.int32)
        expected, moved = flip_nodes(order, labels, ratio)
        assert flip_for_ratio(order, graph, c, demand, 1e-12, labels) == moved
        np.testing.assert_array_equal(labels, expected)
    alone = np.zeros(n, np.int32)
    alone[3] = 1
    assert flip_for_ratio(np.array([3], np.int32), graph, c, demand, 1e-12, alone) == 0


@pytest.mark.parametrize("seed", range(5))
def test_flip_for_weight(seed):
    n = 16
    ends, graph, _ = random_edges(n, 0.3, seed)
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=len(ends))
    labels = rng.integers(0, 2, n).astype(np.int32)
    for _ in range(3):
        order = rng.permutation(n).astype(np.int32)
        expected, moved = flip_nodes(
            order, labels, lambda y: -weights[y[ends[:, 0]] != y[ends[:, 1]]].sum()
        )
        assert flip_for_weight(order, graph, weights, 1e-12, labels) == moved
        np.testing.assert_array_equal(labels, expected)
    assert flip_for_weight(order, graph, weights, 1e3, 0 * labels) == 0


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("density", [0.05, 0.3])
def test_spanning_tree_cut(seed, density):
    n = 16
    ends, graph, x = random_edges(n, density, seed)
    rng = np.random.default_rng(seed)
    order, noise = rng.permutation(n).astype(np.int32), 0.2 * rng.random(len(ends))
    labels = np.empty(n, np.int32)
    spanning_tree_cut(order, graph, x, noise, labels)
    full = nx.empty_graph(n)
    for (i, j), length, more in zip(ends, x, noise, strict=True):
        full.add_edge(i, j, x=length, weight=min(length, 1 - length) + more)
    tree = nx.minimum_spanning_tree(full)
    expected = {}
    for root in order:
        if root not in expected:
            expected[root] = 0
            for i, j in nx.bfs_edges(tree, root):
                expected[j] = expected[i] ^ (tree.edges[i, j]["x"] >= 0.5)
    assert labels.tolist() == [expected[i] for i in range(n)]

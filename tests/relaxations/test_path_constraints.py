"""Path constraints against searches in Python and all shortest paths."""

from __future__ import annotations

import numpy as np
import pytest

from metricmix.dissimilarity.graphs import EdgeList
from metricmix.kernels.threads import ThreadPool
from metricmix.relaxations.graph_search import Adjacency, PairWeights, in_slices
from metricmix.relaxations.path_constraints import (
    PathProgram,
    PathSearch,
    Slacks,
    find_violated_paths,
    fractional_cost,
    truncated_distances,
)
from metricmix.relaxations.weighted_graphs import SignedGraph
from reference.graph_kernels import constraint_matrix, distances, splitmix64, violated_paths
from relaxations.graphs import random_edges


def signed(n, seed, default=-0.4):
    """A signed graph, its weights as a matrix, and lengths of its attracting pairs."""
    rng = np.random.default_rng([n, seed])
    i, j = np.tril_indices(n, -1)
    listed = rng.random(len(i)) < 0.5
    i, j, w = i[listed], j[listed], rng.normal(size=listed.sum())
    W = np.full((n, n), default)
    W[i, j] = W[j, i] = w
    graph = SignedGraph.from_pairs(EdgeList(np.arange(n), i, j, w, True), default)
    return graph, W, rng.uniform(0.1, 0.7, len(graph.attraction))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("repeats", [1, 3])
def test_violated_paths(seed, repeats):
    n = 14
    graph, W, x = signed(n, seed)
    rng = np.random.default_rng(seed)
    i, j = np.tril_indices(n, -1)
    some = rng.random(len(i)) < 0.4
    pairs = np.stack([i[some], j[some]], axis=1).astype(np.int32)
    values = rng.random(len(pairs))
    slack = np.zeros((n, n))
    slack[pairs[:, 0], pairs[:, 1]] = slack[pairs[:, 1], pairs[:, 0]] = values
    options = {"tolerance": 0.05, "capacity": graph.attraction, "penalty": 0.03, "repeats": repeats}
    start = 0.01 * rng.random(len(x))
    extra = start.copy()
    expected, worst = violated_paths(n, graph.ends, x, extra, W, slack, **options)
    assert len(expected) > 5
    grown = start.copy()
    slacks = Slacks(Adjacency.from_edges(n, *pairs.T), values)
    arrays = graph.edges, x, grown, graph.weights, slacks, PathSearch(*options.values())
    slices = in_slices(lambda i: find_violated_paths(i, n, *arrays, 20), 0, n)
    assert len(slices) > 1
    *lists, worsts = zip(*slices, strict=True)
    found = [*map(np.concatenate, lists), max(worsts)]
    ends = np.cumsum(found[1])
    paths = [found[2][e - count : e].tolist() for e, count in zip(ends, found[1], strict=True)]
    assert [
        (*pair, path) for pair, path in zip(found[0].reshape(-1, 2).tolist(), paths, strict=True)
    ] == expected
    np.testing.assert_allclose(grown, extra)
    np.testing.assert_allclose(found[3], [-W[i, u] for i, u, _ in expected])
    assert found[5] == pytest.approx(worst)
    for key, (i, u, path) in zip(found[4].tolist(), expected, strict=True):
        hashes = [splitmix64(i * n + u), *(splitmix64((-1 - e) % 2**64) for e in path)]
        assert key == sum(hashes) % 2**64


def test_more_paths_than_there_was_room_for():
    graph, W, _ = signed(60, 0, default=-1.0)
    x = np.full(len(graph.attraction), 0.2) + 1e-3 * np.random.default_rng(0).random(
        len(graph.attraction)
    )
    options = {"tolerance": 0.0, "capacity": graph.attraction, "penalty": 0.0, "repeats": 1}
    none = Slacks(Adjacency.from_edges(60, *np.empty((2, 0), np.int32)), np.empty(0))
    expected, _ = violated_paths(60, graph.ends, x, 0 * x, W, np.zeros((60, 60)), **options)
    found = find_violated_paths(
        0, 60, graph.edges, x, 0 * x, graph.weights, none, PathSearch(*options.values()), 1 << 60
    )
    assert len(found[1]) == len(expected) > 256
    assert found[2].tolist() == [e for *_, path in expected for e in path]


@pytest.mark.parametrize("seed", range(4))
def test_sums_and_distances(seed):
    n = 17
    ends, graph, x = random_edges(n, 0.15, seed)
    rng = np.random.default_rng(seed)
    i, j = np.tril_indices(n, -1)
    listed = rng.random(len(i)) < 0.3
    w = rng.normal(size=listed.sum())
    W = np.full((n, n), -0.2)
    W[i[listed], j[listed]] = w
    pairs = Adjacency.from_edges(n, i[listed].astype(np.int32), j[listed].astype(np.int32))
    near = np.minimum(1.0, distances(n, ends, x))
    parts = [(0, 5), (5, 17)]
    weights = PairWeights(pairs, w, -0.2)
    total, at = 0.0, 0
    while at < n:
        total, at = fractional_cost(at, n, graph, x, weights, total, 30)
    assert (total, n) == fractional_cost(0, n, graph, x, weights, 0.0, 1 << 60)
    expected = np.where(W > 0, W * near, -W * (1 - near))
    assert total == pytest.approx(np.sum(np.tril(expected, -1)))
    out = np.full((n, n), np.nan)
    for part in parts:
        truncated_distances(*part, graph, x, out)
    np.testing.assert_allclose(np.tril(out), np.tril(near))


@pytest.mark.parametrize("seed", range(3))
def test_the_program_gets_a_row_per_path_and_a_column_per_pair(seed):
    graph, W, x = signed(12, seed)
    program = PathProgram(graph)
    options = {"tolerance": 0.02, "penalty": 1.0, "repeats": 2}
    with ThreadPool(1) as pool:
        found = program.search(x, 0 * x, pool, **options)
        new, y = program.add_paths(found, x)
        v = np.concatenate([x, y])
        assert program.add_paths(found, x)[0] == 0
        again = program.search(v, 0 * x, pool, **options)
    assert new == program.n_rows == len(np.unique(found.keys))
    K, b = constraint_matrix(*program.rows, len(v))
    assert len(np.unique(program.pairs, axis=0)) == len(program.pairs) == len(y)
    np.testing.assert_allclose(program.columns.cost[program.m :], -W[tuple(program.pairs.T)])
    assert (K @ v >= b - 1e-12).all()  # new columns start where they satisfy their rows
    assert (K[:, program.m :].sum(1) == 1).all()
    assert not set(again.keys.tolist()) & set(found.keys.tolist())

"""Searches against Floyd and Warshall."""

from __future__ import annotations

import numpy as np
import pytest

from metricmix.kernels.heap import clear, empty_ball
from metricmix.relaxations.graph_search import (
    Adjacency,
    doubled,
    hash_integer,
    search_around,
    with_lengths,
)
from reference.graph_kernels import distances, splitmix64, walk
from relaxations.graphs import random_edges


def test_adjacency_lists_every_edge_at_both_ends():
    graph = Adjacency.from_edges(4, np.array([2, 3, 1], np.int32), np.array([0, 2, 0], np.int32))
    listed = [
        (graph.ends[s:t].tolist(), graph.edges[s:t].tolist())
        for s, t in zip(graph.starts[:-1], graph.starts[1:], strict=True)
    ]
    assert listed == [([1, 2], [2, 0]), ([0], [2]), ([0, 3], [0, 1]), ([2], [1])]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("radius", [0.3, 1.0, np.inf])
def test_nodes_within_a_radius(seed, radius):
    n = 15
    ends, graph, x = random_edges(n, 0.25, seed)
    d = distances(n, ends, x)
    lengths, ball = with_lengths(graph, x), empty_ball(n)
    for i in range(n):
        found = ball.order[: search_around(i, lengths, radius, ball)]
        inside = np.flatnonzero(d[i] < radius)
        assert found.tolist() == inside[np.argsort(d[i, inside])].tolist()
        np.testing.assert_allclose(ball.dist[found], d[i, found])
        clear(ball)
        assert (ball.dist == np.inf).all()
        assert (ball.place == -1).all()


@pytest.mark.parametrize("seed", range(4))
def test_shortest_path_trees(seed):
    n = 12
    ends, graph, x = random_edges(n, 0.3, seed, connected=True)
    d = distances(n, ends, x)
    lengths, ball = with_lengths(graph, x), empty_ball(n)
    for i in range(n):
        assert search_around(i, lengths, np.inf, ball) == n
        np.testing.assert_allclose(ball.dist, d[i])
        for j in range(n):
            path, v = [], j
            while v != i:
                path.append(lengths.by[v])
                v = ball.pred[v]
            assert walk(ends, path, j) == i
            assert x[path].sum() == pytest.approx(d[i, j])
        clear(ball)


def test_doubled():
    for array in (
        np.arange(3, dtype=np.int32),
        np.array([0.5, 2.0]),
        np.arange(4, dtype=np.uint64),
    ):
        more = doubled(array)
        assert (len(more), more.dtype) == (2 * len(array), array.dtype)
        np.testing.assert_array_equal(more[: len(array)], array)


def test_hash_integer():
    for number in (0, 1, 2**40, 12345678901):
        assert int(hash_integer(number)) == splitmix64(number)
    for number in (-1, -7):
        assert int(hash_integer(number)) == splitmix64(number % 2**64)

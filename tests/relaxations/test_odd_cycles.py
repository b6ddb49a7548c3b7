"""Odd cycles against all shortest paths of the doubled graph."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from metricmix.kernels.heap import clear, empty_ball
from metricmix.relaxations.graph_search import in_slices
from metricmix.relaxations.odd_cycles import (
    DoubledGraph,
    find_odd_cycles,
    search_doubled_graph,
    write_cycle,
)
from reference.graph_kernels import doubled_distances, splitmix64
from relaxations.graphs import random_edges

ALL = 1 << 60


def check_cycle(ends, terms):
    """Check that the terms are a simple cycle with an odd number of terms 1 - x."""
    edges = [e if e >= 0 else ~e for e in terms.tolist()]
    assert len(set(edges)) == len(edges)
    graph = nx.Graph([tuple(ends[e].tolist()) for e in edges])
    assert nx.is_connected(graph)
    assert {degree for _, degree in graph.degree} == {2}
    assert (terms < 0).sum() % 2 == 1


def violation_of(x, terms):
    return 1.0 - sum(x[e] if e >= 0 else 1.0 - x[~e] for e in terms.tolist())


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("hop", [0.0, 0.03])
def test_violated_cycles(seed, hop):
    n = 12
    ends, graph, x = random_edges(n, 0.4, seed)
    d = doubled_distances(n, ends, x)
    violations = [
        max(x[e] - d[2 * i, 2 * j], 1.0 - x[e] - d[2 * i, 2 * j + 1])
        for e, (i, j) in enumerate(ends)
    ]
    parts = in_slices(lambda i: find_odd_cycles(i, n, graph, x, hop, 0.05, 30), 0, n)
    assert 1 < len(parts) < n
    *whole, stop = find_odd_cycles(0, n, graph, x, hop, 0.05, ALL)
    assert stop == n
    for array, slices in zip(whole[:3], zip(*parts, strict=True), strict=False):
        np.testing.assert_array_equal(array, np.concatenate(slices))
    worst = max(part[3] for part in parts)
    if hop:
        assert worst <= max(violations) + 1e-12
    else:
        assert worst == pytest.approx(max(violations))
        assert sum(len(part[0]) for part in parts) >= sum(v > 0.05 for v in violations) > 0
    for counts, terms, keys, _ in parts:
        assert counts.sum() == len(terms)
        for stop, count, key in zip(np.cumsum(counts), counts, keys.tolist(), strict=True):
            cycle = terms[stop - count : stop]
            check_cycle(ends, cycle)
            assert 0.05 < violation_of(x, cycle) <= max(violations) + 1e-12
            assert key == sum(splitmix64(t % 2**64) for t in cycle.tolist()) % 2**64


def test_more_cycles_than_there_was_room_for():
    ends, graph, _ = random_edges(40, 1.0)
    x = np.random.default_rng(0).uniform(0.9, 1.0, len(ends))
    counts, terms, *_ = find_odd_cycles(0, 40, graph, x, 0.0, 0.05, ALL)
    assert len(counts) > 256
    for stop, count in zip(np.cumsum(counts), counts, strict=True):
        check_cycle(ends, terms[stop - count : stop])


def test_no_cycle_is_violated_by_a_cut():
    ends, graph, _ = random_edges(14, 0.5)
    labels = np.random.default_rng(0).integers(0, 2, 14)
    x = (labels[ends[:, 0]] != labels[ends[:, 1]]).astype(float)
    counts, _, _, worst, _ = find_odd_cycles(0, 14, graph, x, 0.0, 1e-12, ALL)
    assert (len(counts), worst) == (0, 0.0)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("radius", [0.6, 1.0])
def test_search_doubled_graph(seed, radius):
    n = 11
    ends, graph, x = random_edges(n, 0.3, seed)
    d = doubled_distances(n, ends, x)
    ball = empty_ball(2 * n)
    copies = DoubledGraph(graph, x, 0.0, np.empty(2 * n), np.empty(2 * n, np.int32))
    for i in range(n):
        touched = ball.order[: search_doubled_graph(i, copies, radius, ball)]
        inside = d[2 * i] < radius
        assert sorted(touched.tolist()) == np.flatnonzero(inside).tolist()
        np.testing.assert_allclose(ball.dist[inside], d[2 * i, inside])
        np.testing.assert_array_equal(copies.length[inside], ball.dist[inside])
        for v in touched.tolist():
            length = 0.0
            while v != 2 * i:
                term, parent = copies.term[v], ball.pred[v]
                e = term if term >= 0 else ~term
                assert {v // 2, parent // 2} == set(ends[e].tolist())
                assert (v % 2 != parent % 2) == (term < 0)
                length += x[e] if term >= 0 else 1.0 - x[e]
                v = parent
            assert length < radius
        clear(ball)


def test_write_cycle():
    # The path 0, 1, 2, 3 and back to 0; then one that visits both copies of node 1.
    pred, term = np.empty((2, 10), np.int32)
    for v, before, by in ((2, 0, 10), (5, 2, ~11), (7, 5, 12)):
        pred[v], term[v] = before, by
    position, walk = np.full(5, -1, np.int32), np.empty(11, np.int32)
    size = write_cycle(0, 7, 13, pred, term, position, walk)
    assert walk[:size].tolist() == [12, ~11, 10, 13]
    for v, before, by in ((2, 0, 10), (4, 2, 11), (7, 4, ~12), (3, 7, 13), (8, 3, 14)):
        pred[v], term[v] = before, by
    size = write_cycle(0, 8, 15, pred, term, position, walk)
    assert walk[:size].tolist() == [13, ~12, 11]
    assert (position == -1).all()

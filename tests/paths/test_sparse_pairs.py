"""Searches that explore a ball over a sparse edge set: pairs, nearest items; and their kernels."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from metricmix.dissimilarity import edge_set
from metricmix.dissimilarity.edge_set import EdgeSet
from metricmix.dissimilarity.edge_stack import EdgeStack
from metricmix.kernels.heap import clear, empty_ball, reach, settle
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.mixture.linear import Mixture
from metricmix.mixture.local import LocalMixture
from metricmix.paths import sparse_bundle
from metricmix.paths.pair import bundle_paths
from metricmix.paths.sparse_bundle import sparse_paths, trace_to_roots, traced_paths
from metricmix.paths.sparse_pairs import (
    arc_length,
    arcs_of,
    expand_side,
    find_sparse_paths,
    grow_ball,
    meet,
    nearest_items,
    read_mixed,
    use_balls,
)
from metricmix.paths.sparse_rows import distances_in_blocks
from tests.reference.paths import all_distances
from tests.reference.sparse import arcs, fresh, random_graph


def check_paths(found, i, j, w, d, rtol):
    """Check lengths, ends, edges and the sums of edges of paths."""
    lengths, indptr, nodes, _ = found
    np.testing.assert_allclose(lengths, d[i, j], rtol=rtol)
    for p, (start, end) in enumerate(zip(i, j, strict=True)):
        path = nodes[indptr[p] : indptr[p + 1]].tolist()
        if np.isinf(lengths[p]):
            assert path == []
            continue
        assert path[0] == start
        assert path[-1] == end
        assert len(set(path)) == len(path)
        total = sum(w[u, v] for u, v in pairwise(path))
        assert np.isclose(total, lengths[p], rtol=rtol, atol=1e-300)


def is_clear(ball):
    return np.isinf(ball.dist).all() and (ball.place == -1).all() and not ball.counts.any()


def balls(n):
    return empty_ball(n), empty_ball(n)


# -- paths ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", range(0, 600, 100))
def test_paths_of_all_pairs_on_many_graphs(first, monkeypatch):
    monkeypatch.setattr(edge_set, "SMALL", 0)
    for seed in range(first, first + 100):
        graph = random_graph(seed, largest=12)
        d = all_distances(graph.w)
        i, j = (a.ravel() for a in np.indices(d.shape))
        for per_item in (10, 0, 1e9):  # chosen by itself; pair by pair; by roots
            monkeypatch.setattr(sparse_bundle, "PER_ITEM", per_item)
            found = sparse_paths(graph.lengths, i, j, n_jobs=1)
            check_paths(found, i, j, graph.w, d, graph.rtol)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("from_ends", [False, True])
def test_pairs_that_share_roots(directed, from_ends, monkeypatch):
    monkeypatch.setattr(edge_set, "SMALL", 0)
    rng = np.random.default_rng(0)
    n = 120
    edges = EdgeSet(n, *rng.integers(n, size=(2, 450)), directed=directed)
    lengths = EdgeLengths(EdgeStack(edges, rng.random((1, len(edges)))), Mixture([1.0]))
    w = lengths.matrix()
    d = all_distances(w)
    few, many = rng.integers(n, size=10), rng.integers(n, size=40)
    few, many = (a.ravel() for a in np.meshgrid(few, many))
    i, j = (many, few) if from_ends else (few, many)
    shuffle = rng.permutation(len(i))
    i, j = i[shuffle], j[shuffle]
    found = sparse_paths(lengths, i, j, n_jobs=1)
    assert (found[3] == n).sum() > 300  # searched from ten items to all, not pair by pair
    check_paths(found, i, j, w, d, 1e-12)
    again = sparse_paths(lengths, i, j, n_jobs=2)
    assert all(np.array_equal(a, b) for a, b in zip(found, again, strict=True))


def test_an_edge_wins_against_detours_of_its_length():
    edges = EdgeSet(4, [0, 1, 0, 2], [1, 2, 2, 3])
    lengths = EdgeLengths(EdgeStack(edges, [[1.0, 2.0, 1.0, 1.0]]), Mixture([1], link="identity"))
    path = bundle_paths(lengths, np.array([0]), np.array([2]))[0]
    assert path.length == 2.0
    assert path.nodes == (0, 2)


@pytest.mark.parametrize("seed", range(30))
def test_lengths_computed_on_demand_are_the_same(seed):
    graph = random_graph(seed)
    lengths = fresh(graph)
    i, j = np.random.default_rng(seed).integers(lengths.n, size=(2, 3))
    for reverse in (False, True):
        on_demand, formed = arcs_of(lengths, 0, reverse=reverse), None
        assert not on_demand.formed
        graph.lengths.edge_values  # noqa: B018 (formed from now on)
        formed = arcs_of(graph.lengths, 0, reverse=reverse)
        assert formed.formed
        for u in range(lengths.n):
            for a in range(formed.indptr[u], formed.indptr[u + 1]):
                v = formed.ends[a]
                expected = graph.w[v, u] if reverse else graph.w[u, v]
                assert arc_length(on_demand, a) == expected
                assert arc_length(formed, a) == expected
    found = sparse_paths(lengths, i, j)
    known = sparse_paths(graph.lengths, i, j)
    assert all(np.array_equal(a, b) for a, b in zip(found, known, strict=True))


def test_lengths_of_a_local_mixture_are_formed():
    rng = np.random.default_rng(0)
    edges = EdgeSet(20, *rng.integers(20, size=(2, 60)))
    stack = EdgeStack(edges, rng.random((2, len(edges))))
    shares = rng.dirichlet([1, 1, 1], size=20)
    mixture = LocalMixture(rng.normal(size=2), rng.normal(size=(3, 2)), shares)
    arcs = arcs_of(EdgeLengths(stack, mixture), 0)
    assert arcs.formed
    expected = EdgeLengths(stack, mixture).arcs().lengths
    assert [arc_length(arcs, a) for a in range(len(expected))] == expected.tolist()


def test_a_pair_costs_the_ball_it_explores():
    """The items settled for a pair of a long ring do not depend on its size, nor does anything
    form the lengths of all edges."""
    settled = []
    for n in (20_000, 80_000):
        around = np.arange(n)
        edges = EdgeSet(n, around, (around + 1) % n)
        lengths = EdgeLengths(EdgeStack(edges, np.ones((1, n))), Mixture([1.0]))
        bundle = bundle_paths(lengths, np.array([100]), np.array([130]))
        assert bundle[0].nodes == tuple(range(100, 131))
        settled.append(bundle.rows_touched[0])
        assert "edge_values" not in lengths.__dict__
    assert settled[0] == settled[1] <= 62


# -- kernels --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_a_ball_holds_the_nearest_items_and_is_cleared(seed):
    graph = random_graph(seed)
    d = all_distances(graph.w)
    n = len(d)
    ball = empty_ball(n)
    formed = arcs_of(graph.lengths, 10**9)
    for limit in {1, min(3, n), n}:
        reach(0, 0.0, -1, ball)
        grow_ball(formed, limit, ball)
        order = ball.order[: ball.counts[1]]
        reachable = np.sort(d[0][np.isfinite(d[0])])
        last = reachable[min(limit, len(reachable)) - 1]
        within = np.flatnonzero(d[0] <= last * (1 - 1e-6))
        assert set(within) <= set(order.tolist())
        np.testing.assert_allclose(ball.dist[order], d[0][order], rtol=1e-12)
        assert (np.diff(ball.dist[order]) >= 0).all()
        assert len(order) >= min(limit, len(reachable))
        for v in order[1:]:
            before = ball.pred[v]
            assert np.isclose(ball.dist[v], ball.dist[before] + graph.w[before, v])
        clear(ball)
        assert is_clear(ball)


def test_arcs_of_an_item_lead_to_its_neighbours():
    edges = EdgeSet(3, [0, 0], [1, 2])
    lengths = EdgeLengths(EdgeStack(edges, [[1.0, 3.0]]), Mixture([2.0], link="identity"))
    for searches in (0, 10**9):  # lengths mixed as they are met; known
        ball = empty_ball(3)
        reach(0, 1.0, -1, ball)
        read_mixed(arcs_of(lengths, searches), settle(ball), 7.0, ball)
        assert ball.dist.tolist() == [1.0, 3.0, np.inf]  # none at the radius


def test_items_at_the_same_distance_are_settled_together():
    star = np.full((6, 6), np.inf)
    star[0, 1:] = star[1:, 0] = 1.0
    np.fill_diagonal(star, 0)
    edges = EdgeSet(6, [0] * 5, np.arange(1, 6))
    lengths = EdgeLengths(EdgeStack(edges, np.ones((1, 5))), Mixture([1.0], link="identity"))
    ball = empty_ball(6)
    reach(0, 0.0, -1, ball)
    grow_ball(arcs_of(lengths, 1), 2, ball)
    assert ball.counts[1] == 6
    clear(ball)
    distances, neighbours = np.full((2, 3), np.inf), np.full((2, 3), -1)
    nearest_items(arcs_of(lengths, 1), np.array([0, 4]), ball, distances, neighbours)
    assert neighbours.tolist() == [[1, 2, 3], [0, 1, 2]]
    assert distances.tolist() == [[1, 1, 1], [1, 2, 2]]


@pytest.mark.parametrize("seed", range(40))
def test_two_balls_meet_on_the_shortest_path(seed):
    graph = random_graph(seed)
    d = all_distances(graph.w)
    n = len(d)
    out, into = (arcs_of(graph.lengths, 10**9, reverse=side) for side in (False, True))
    ahead, back = balls(n)
    for i, j in np.random.default_rng(seed).integers(n, size=(5, 2)):
        if i == j:
            continue
        length, where = meet(out, into, i, j, ahead, back)
        if where >= 0:
            assert length == ahead.dist[where] + back.dist[where]
        assert np.isclose(length, d[i, j], rtol=1e-12)
        clear(ahead)
        clear(back)
        assert is_clear(ahead)
        assert is_clear(back)


def test_a_side_settles_one_item_and_finds_where_the_sides_meet():
    edges = EdgeSet(3, [0, 1], [1, 2])
    lengths = EdgeLengths(EdgeStack(edges, [[1.0, 2.0]]), Mixture([1.0], link="identity"))
    both = arcs_of(lengths, 1)
    ahead, back = balls(3)
    reach(0, 0.0, -1, ahead)
    reach(2, 0.0, -1, back)
    assert expand_side(both, np.inf, -1, ahead, back) == (np.inf, -1)
    assert ahead.dist.tolist() == [0.0, 1.0, np.inf]
    assert expand_side(both, np.inf, -1, back, ahead) == (3.0, 1)


@pytest.mark.parametrize("seed", range(30))
def test_the_kernel_of_many_pairs(seed):
    graph = random_graph(seed)
    d = all_distances(graph.w)
    n = len(d)
    i, j = np.random.default_rng(seed).integers(n, size=(2, 20))
    out, into = (arcs_of(graph.lengths, 10**9, reverse=side) for side in (False, True))
    ahead, back = balls(n)
    lengths, indptr = np.empty(20), np.empty(21, np.int64)
    settled = np.empty(20, np.int32)
    nodes = find_sparse_paths(out, into, i, j, ahead, back, lengths, indptr, settled)
    check_paths((lengths, indptr, nodes, settled), i, j, graph.w, d, 1e-12)
    assert is_clear(ahead)
    assert is_clear(back)
    assert (settled <= 2 * n).all()


@pytest.mark.parametrize("seed", range(30))
def test_paths_are_traced_along_distances(seed):
    graph = random_graph(seed)
    d = all_distances(graph.w)
    n = len(d)
    order = np.arange(n, dtype=np.int32)
    roots, ends = np.random.default_rng(seed).integers(n, size=(2, 20)).astype(np.int32)
    lengths, indptr = np.empty(20), np.empty(21, np.int64)
    lanes = np.arange(20)
    into = arcs(graph.w.T)
    dist = np.ascontiguousarray(d[roots].T)
    nodes = trace_to_roots(into, dist, lanes, roots, ends, order, lengths, indptr)
    for p in range(20):
        path = nodes[indptr[p] : indptr[p + 1]][::-1].tolist()
        if lengths[p] < 0:  # an edge that does not change a distance
            assert path == []
            continue
        assert np.isclose(lengths[p], d[roots[p], ends[p]], rtol=1e-12)
        if path:
            assert (path[0], path[-1]) == (roots[p], ends[p])
            assert np.isclose(sum(graph.w[u, v] for u, v in pairwise(path)), lengths[p])


@pytest.mark.parametrize("first", range(0, 200, 100))
def test_paths_to_targets_of_known_distances(first, monkeypatch):
    monkeypatch.setattr(edge_set, "SMALL", 0)
    monkeypatch.setattr(sparse_bundle, "LANES", 3)
    for seed in range(first, first + 100):
        graph = random_graph(seed, largest=12)
        d = all_distances(graph.w)
        targets = np.random.default_rng(seed).permutation(len(d))[:7]
        known = np.empty((len(d), len(targets)))
        for some, rows in distances_in_blocks(
            graph.lengths, targets, reverse=graph.lengths.directed, n_jobs=1
        ):
            known[:, some] = rows.T
        i, lane = (a.ravel() for a in np.indices(known.shape))
        found = traced_paths(graph.lengths, i, lane, targets, known, n_jobs=1)
        check_paths(found, i, targets[lane], graph.w, d, graph.rtol)


def test_edges_of_length_zero_leave_a_path_undetermined():
    w = np.array([[0.0, 1.0, np.inf], [1.0, 0.0, 0.0], [np.inf, 0.0, 0.0]])
    lengths, indptr = np.empty(1), np.empty(2, np.int64)
    zero = np.zeros(1, np.int32)
    dist = np.array([[0.0], [1.0], [1.0]])
    end = np.array([2], np.int32)
    order = np.arange(3, dtype=np.int32)
    trace_to_roots(arcs(w), dist, np.zeros(1, np.int64), zero, end, order, lengths, indptr)
    assert lengths[0] == -1
    assert indptr.tolist() == [0, 0]


def test_balls_are_reused():
    lengths = EdgeLengths(EdgeStack(EdgeSet(5, [0], [1]), [[1.0]]), Mixture([1.0]))
    with use_balls(lengths) as first, use_balls(lengths) as second:
        assert first[0] is not second[0]
    with use_balls(lengths) as third:
        assert third[0] is second[0] or third[0] is first[0]

"""Every path query over a sparse edge set, against the same query on the matrix of lengths."""

from __future__ import annotations

import numpy as np
import pytest

import metricmix as mm
from metricmix.dissimilarity import edge_set
from metricmix.dissimilarity.edge_stack import EdgeStack
from metricmix.exceptions import InputError, TooLargeError
from metricmix.mixture.edge_lengths import EdgeLengths, lengths_of
from metricmix.mixture.linear import Mixture
from metricmix.paths import (
    all_pairs,
    kneighbors,
    kneighbors_graph,
    nearest_labelled,
    path_metric,
    shortest_path,
    shortest_path_trees,
    shortest_paths,
    soft_paths,
)
from metricmix.paths.dijkstra import dijkstra
from metricmix.paths.neighbours import nearest_labels
from metricmix.paths.trees import distances_from, grow_trees
from tests.reference.sparse import SparseGraph, random_graph


@pytest.fixture(params=range(40))
def graph(request, monkeypatch):
    if request.param % 2:
        monkeypatch.setattr(edge_set, "SMALL", 0)
    if request.param % 3:
        monkeypatch.setattr(all_pairs, "PER_ARC", 0)  # searches instead of the closure
    return random_graph(request.param)


def dense_of(graph: SparseGraph) -> EdgeLengths:
    return lengths_of(graph.w, directed=graph.lengths.directed)


def same(found, expected, graph):
    np.testing.assert_allclose(found, expected, rtol=graph.rtol)


def test_all_pairs(graph):
    d = path_metric(graph.lengths)
    same(d, path_metric(dense_of(graph)), graph)
    assert graph.lengths.directed or np.array_equal(d, d.T)


def test_some_roots(graph):
    n = graph.lengths.n
    roots = np.random.default_rng(n).integers(n, size=10)
    expected = distances_from(dense_of(graph), roots)
    same(distances_from(graph.lengths, roots), expected, graph)
    same(distances_from(graph.lengths, roots, n_jobs=2), expected, graph)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_trees(graph, n_jobs):
    n = graph.lengths.n
    roots = np.random.default_rng(n).integers(n, size=3)
    trees = grow_trees(graph.lengths, roots, n_jobs=n_jobs)
    same(trees.distances, distances_from(dense_of(graph), roots), graph)
    for s in range(3):
        for j in range(n):
            path = trees.path(s, j)
            if path.nodes:
                assert (path.nodes[0], path.nodes[-1]) == (roots[s], j)
                total = sum(graph.w[edge] for edge in path.edges)
                assert np.isclose(total, path.length, rtol=graph.rtol, atol=1e-300)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_set_of_roots(graph, reverse):
    n = graph.lengths.n
    roots = np.unique(np.random.default_rng(n).integers(n, size=3))
    for limit in (None, 1, min(4, n)):
        found = dijkstra(graph.lengths, roots, limit=limit, reverse=reverse)
        expected = dijkstra(dense_of(graph), roots, limit=limit, reverse=reverse)
        settled = expected.settled
        reached = expected.distances[settled] < np.inf
        settled = settled[reached]
        same(found.distances[found.settled], np.sort(found.distances[found.settled]), graph)
        if limit is None:
            assert set(found.settled) == set(settled)
            same(found.distances, expected.distances, graph)
        same(np.sort(found.distances)[: len(settled)], expected.distances[settled], graph)
        for v in found.settled:
            u, steps = v, 0.0
            while found.predecessors[u] >= 0:
                before = found.predecessors[u]
                steps += graph.w[u, before] if reverse else graph.w[before, u]
                u = before
            assert u == found.roots[v]
            assert u in roots
            assert np.isclose(steps, found.distances[v], rtol=graph.rtol, atol=1e-300)


def test_nearest_items(graph):
    n = graph.lengths.n
    if n == 1:
        with pytest.raises(InputError, match="k"):
            kneighbors(graph.lengths, k=1)
        return
    for k in {1, min(5, n - 1), n - 1}:
        distances, neighbours = kneighbors(graph.lengths, k=k)
        expected, _ = kneighbors(dense_of(graph), k=k)
        same(distances, expected, graph)
        d = path_metric(dense_of(graph))
        known = neighbours >= 0
        assert np.array_equal(known, np.isfinite(distances))
        same(np.take_along_axis(d, np.maximum(neighbours, 0), 1)[known], distances[known], graph)
        assert all(len(set(row[row >= 0])) == (row >= 0).sum() for row in neighbours)
        again = kneighbors(graph.lengths, k=k, items=np.arange(n)[::-1], n_jobs=2)
        assert np.array_equal(again[0][::-1], distances)
        assert np.array_equal(again[1][::-1], neighbours)
    if graph.rtol < 1e-6:
        theirs = kneighbors_graph(dense_of(graph), k=1).toarray()
        same(kneighbors_graph(graph.lengths, k=1).max(axis=1).toarray(), theirs.max(axis=1), graph)


def test_nearest_labelled_items(graph):
    n = graph.lengths.n
    labelled = np.unique(np.random.default_rng(n).integers(n, size=5))
    d = path_metric(dense_of(graph))
    for k in range(1, len(labelled) + 1):
        distances, items = nearest_labelled(graph.lengths, labelled=labelled, k=k)
        same(distances, nearest_labelled(dense_of(graph), labelled=labelled, k=k)[0], graph)
        known = items >= 0
        same(np.take_along_axis(d, np.maximum(items, 0), 1)[known], distances[known], graph)
        assert set(items[known]) <= set(labelled)
    classes = np.arange(len(labelled)) % 3
    found = nearest_labels(graph.lengths, labelled, classes, 2)
    same(found[0], nearest_labels(dense_of(graph), labelled, classes, 2)[0], graph)


def test_public_functions_take_a_stack_over_edges():
    rng = np.random.default_rng(0)
    edges = mm.dissimilarity.EdgeSet(30, *rng.integers(30, size=(2, 90)))
    stack = EdgeStack(edges, rng.random((2, len(edges))))
    w = EdgeLengths(stack, Mixture([1.0, -0.2])).matrix()
    d = mm.project(w)
    np.testing.assert_allclose(path_metric(stack, [1.0, -0.2]), d)
    i, j = rng.integers(30, size=(2, 10))
    bundle = shortest_paths(stack, [1.0, -0.2], i, j)
    np.testing.assert_allclose(bundle.lengths, d[i, j])
    path = shortest_path(stack, [1.0, -0.2], int(i[0]), int(j[0]))
    assert np.isclose(path.length, d[i[0], j[0]])
    trees = shortest_path_trees(stack, [1.0, -0.2], [3, 4])
    np.testing.assert_allclose(trees.distances, d[[3, 4]])
    np.testing.assert_allclose(
        nearest_labelled(stack, [1.0, -0.2], [0, 5])[0][:, 0], d[:, [0, 5]].min(axis=1)
    )


def test_no_path_to_another_part():
    edges = mm.dissimilarity.EdgeSet(5, [0, 2], [1, 3])
    stack = EdgeStack(edges, np.ones((1, 2)))
    assert shortest_path(stack, [1.0], 0, 3) == mm.paths.Path(np.inf, ())
    assert shortest_path(stack, [1.0], 4, 4) == mm.paths.Path(0.0, (4,))
    assert kneighbors(stack, [1.0], k=2, items=[4])[1].tolist() == [[-1, -1]]
    assert np.isinf(path_metric(stack, [1.0])[0, 2:]).all()


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weights", [[1.0, 0.5], [1.0, -0.6]])
def test_all_edges_are_the_complete_graph(directed, weights):
    rng = np.random.default_rng(1)
    M = rng.random((2, 25, 25))
    M = M if directed else (M + M.transpose(0, 2, 1)) / 2
    M[:, np.arange(25), np.arange(25)] = 0.0
    dense = mm.DissimilarityStack(list(M), directed=directed)
    sparse = EdgeStack.complete(dense)
    np.testing.assert_allclose(path_metric(sparse, weights), path_metric(dense, weights))
    i, j = (a.ravel() for a in np.indices((25, 25)))
    ours, theirs = (shortest_paths(s, weights, i, j) for s in (sparse, dense))
    np.testing.assert_allclose(ours.lengths, theirs.lengths)
    for k in (1, 4):
        a, b = (kneighbors(s, weights, k=k) for s in (sparse, dense))
        np.testing.assert_allclose(a[0], b[0])
        assert np.array_equal(a[1], b[1])
        a, b = (nearest_labelled(s, weights, [1, 5, 9, 14], k=k) for s in (sparse, dense))
        np.testing.assert_allclose(a[0], b[0])
        assert np.array_equal(a[1], b[1])
    a, b = (shortest_path_trees(s, weights, [0, 7]) for s in (sparse, dense))
    np.testing.assert_allclose(a.distances, b.distances)
    assert np.array_equal(a.predecessors, b.predecessors)


def test_a_metric_that_does_not_fit_is_refused():
    n = 3_000_000
    edges = mm.dissimilarity.EdgeSet(n, [0], [1])
    stack = EdgeStack(edges, np.ones((1, 1)))
    with pytest.raises(TooLargeError, match="the metric"):
        path_metric(stack, [1.0])


def test_soft_paths_need_all_pairs():
    edges = mm.dissimilarity.EdgeSet(3, [0], [1])
    w = EdgeLengths(EdgeStack(edges, np.ones((1, 1))), Mixture([1.0])).matrix()
    with pytest.raises(InputError, match="finite entries"):
        soft_paths(w, temperature=10.0)

"""An infinite length is no edge, in every search as in `project`."""

from __future__ import annotations

import numpy as np
import pytest

import metricmix as mm
from metricmix import paths

INF = np.inf
TWO_PARTS = np.array([[0, 1, INF, INF], [1, 0, INF, INF], [INF, INF, 0, 2], [INF, INF, 2, 0]])


@pytest.fixture(params=[(7, False), (7, True), (90, False), (90, True)], ids=str)
def sparse(request):
    """Lengths of a graph with few edges, its metric, and whether it is directed."""
    n, directed = request.param
    rng = np.random.default_rng(n)
    w = np.where(rng.random((n, n)) < 1.5 / n, rng.random((n, n)), INF)
    w = w if directed else np.minimum(w, w.T)
    w[0], w[:, 0] = INF, INF  # an item without edges
    np.fill_diagonal(w, 0.0)
    d = mm.project(w, directed)
    assert np.isinf(d).any()
    return w, d, directed


def test_shortest_path(sparse):
    w, d, directed = sparse
    for j in range(7):
        path = mm.shortest_path(w, None, 2, j, directed=directed)
        assert path.length == pytest.approx(d[2, j])
        if np.isinf(path.length):
            assert path.nodes == ()
            assert path.edges == []
        else:
            assert sum(w[edge] for edge in path.edges) == pytest.approx(d[2, j])


def test_shortest_paths(sparse):
    w, d, directed = sparse
    n = len(w)
    found = paths.shortest_paths(w, None, *np.divmod(np.arange(n * n), n), directed=directed)
    np.testing.assert_allclose(found.lengths, d.ravel())
    path, u, v = found.edges()
    lengths = np.bincount(path, w[u, v], n * n)
    np.testing.assert_allclose(lengths, np.where(np.isinf(d), 0.0, d).ravel())


@pytest.mark.parametrize("k", [1, 4])
def test_kneighbors(sparse, k):
    w, d, directed = sparse
    np.fill_diagonal(d, INF)  # an item is not its own neighbour
    nearest = np.argsort(d, axis=1, kind="stable")[:, :k]
    expected = np.take_along_axis(d, nearest, axis=1)
    distances, items = paths.kneighbors(w, k=k, directed=directed)
    np.testing.assert_allclose(distances, expected)
    np.testing.assert_array_equal(items, np.where(np.isinf(expected), -1, nearest))
    graph = paths.kneighbors_graph(w, k=k, directed=directed)
    assert graph.nnz == np.isfinite(expected).sum()
    assert np.isfinite(graph.data).all()


@pytest.mark.parametrize("k", [1, 3])
def test_nearest_labelled(sparse, k):
    w, d, directed = sparse
    labelled = np.arange(1, len(w), 2)
    expected = np.sort(d[:, labelled], axis=1)[:, :k]
    distances, items = paths.nearest_labelled(w, labelled=labelled, k=k, directed=directed)
    np.testing.assert_allclose(distances, expected)
    np.testing.assert_array_equal(items == -1, np.isinf(expected))


def test_trees_and_all_pairs(sparse):
    w, d, directed = sparse
    np.testing.assert_allclose(paths.path_metric(w, directed=directed), d)
    for roots in (np.arange(len(w)), np.array([0, 3])):
        trees = paths.shortest_path_trees(w, roots=roots, directed=directed)
        np.testing.assert_allclose(trees.distances, d[roots])
        no_path = np.isinf(d[roots])
        assert (trees.predecessors[no_path] == -1).all()
        for s, j in np.argwhere(no_path)[:5]:
            assert trees.path(s, j) == paths.Path(INF, ())
        for s, j in np.argwhere(~no_path)[:20]:
            edges = trees.path(s, j).edges
            assert sum(w[edge] for edge in edges) == pytest.approx(d[roots[s], j])


def test_two_parts():
    assert mm.shortest_path(TWO_PARTS, None, 0, 3) == paths.Path(INF, ())
    distances, items = paths.kneighbors(TWO_PARTS, k=2)
    assert distances.tolist() == [[1, INF], [1, INF], [2, INF], [2, INF]]
    assert items.tolist() == [[1, -1], [0, -1], [3, -1], [2, -1]]
    distances, items = paths.nearest_labelled(TWO_PARTS, labelled=[0])
    assert distances.ravel().tolist() == [0, 1, INF, INF]
    assert items.ravel().tolist() == [0, 0, -1, -1]


@pytest.mark.parametrize(
    "search",
    [
        lambda w: mm.shortest_path(w, None, 0, 1),
        lambda w: paths.kneighbors(w, k=1),
        lambda w: paths.nearest_labelled(w, labelled=[0]),
        paths.path_metric,
        paths.shortest_path_trees,
        mm.project,
    ],
)
@pytest.mark.parametrize("entry", [np.nan, -INF])
def test_nan_is_no_length(search, entry):
    w = TWO_PARTS.copy()
    w[0, 2] = w[2, 0] = entry
    with pytest.raises(mm.InputError, match=r"finite entries, found (nan|-inf) at \(0, 2\)"):
        search(w)

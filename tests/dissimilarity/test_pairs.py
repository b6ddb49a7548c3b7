"""Values of given pairs agree with rows, for every source that has a way of its own."""

from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, eye_array

from metricmix.dissimilarity import (
    FeatureSource,
    GraphSource,
    ProbabilitySource,
    as_graph,
    jaccard,
)
from metricmix.dissimilarity.breadth_first import hops_of_pairs
from metricmix.dissimilarity.feature_metrics import FACTS
from metricmix.dissimilarity.neighbour_overlap import (
    SharedNeighbours,
    jaccard_of_pairs,
    two_links_between,
    two_links_from,
)
from metricmix.dissimilarity.sources import Source
from metricmix.dissimilarity.squared_distances import dense_squares, sparse_squares

RNG = np.random.default_rng(0)


def check(source: Source, tolerance: float = 1e-12) -> None:
    n = source.n
    i, j = RNG.integers(n, size=(2, 300))
    expected = np.asarray(source.rows(np.arange(n)))[i, j]
    np.testing.assert_allclose(source.pairs(i, j), expected, rtol=tolerance, atol=tolerance)
    assert source.pairs(i[:0], j[:0]).shape == (0,)


@pytest.mark.parametrize("metric", [name for name in FACTS if name != "haversine"])
def test_features(metric: str) -> None:
    X = np.abs(RNG.standard_normal((40, 19))) + 0.1
    X[3] = X[7]
    X[5, :4] = 0.0
    if metric == "mahalanobis":
        X = X[:, :5]
    check(FeatureSource(X, metric), 1e-9 if metric == "nan_euclidean" else 1e-12)


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean", "cosine", "angular"])
def test_sparse_features(metric: str) -> None:
    X = np.where(RNG.random((40, 25)) < 0.2, RNG.standard_normal((40, 25)), 0.0)
    X[3] = X[7]
    X[5] = X[6] = 0.0
    unsorted = csr_array(X)
    unsorted.indices[: unsorted.indptr[1]] = unsorted.indices[: unsorted.indptr[1]][::-1].copy()
    unsorted.data[: unsorted.indptr[1]] = unsorted.data[: unsorted.indptr[1]][::-1].copy()
    unsorted.has_sorted_indices = False
    check(FeatureSource(unsorted, metric), 1e-7)
    check(FeatureSource(X, metric), 1e-7)


def test_large_and_small_numbers() -> None:
    check(FeatureSource(1e200 * RNG.standard_normal((20, 3))))
    check(FeatureSource(1e-200 * RNG.standard_normal((20, 3))))


def test_probabilities() -> None:
    p = RNG.dirichlet(np.ones(4), size=30)
    p[4] = p[9]
    check(ProbabilitySource(p))


class ByRows(Source):
    """A source that has nothing but rows."""

    def __init__(self, n: int) -> None:
        self.n, self.asked = n, 0
        self.M = RNG.random((n, n))

    def rows(self, indices: Any) -> Any:
        self.asked += len(indices)
        return self.M[indices]


def test_sources_by_rows_are_asked_once_per_row() -> None:
    source = ByRows(200)
    i, j = RNG.integers(200, size=(2, 1000))
    np.testing.assert_array_equal(source.pairs(i, j), source.M[i, j])
    assert source.asked == len(np.unique(i))


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]]]:
    n = draw(st.integers(3, 14))  # of 2 nodes, two edges could be a matrix
    pairs = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))
    return n, draw(st.lists(pairs, min_size=1, max_size=25))


@settings(max_examples=60, deadline=None)
@given(graphs(), st.integers(1, 6), st.booleans())
def test_clipped_path_lengths(
    graph: tuple[int, list[tuple[int, int]]], longest: int, directed: bool
) -> None:
    n, edges = graph
    reference: Any = nx.DiGraph(edges) if directed else nx.Graph(edges)
    reference.add_nodes_from(range(n))
    source = GraphSource(
        np.array(edges), nodes=n, unreachable=longest, clipped=True, directed=directed
    )
    i, j = (side.ravel() for side in np.indices((n, n)))
    known = dict(nx.all_pairs_shortest_path_length(reference))
    expected = [min(longest, known[u].get(v, longest)) for u, v in zip(i, j, strict=True)]
    np.testing.assert_array_equal(source.pairs(i, j), expected)
    np.testing.assert_array_equal(source.rows(np.arange(n)).ravel(), expected)


@settings(max_examples=40, deadline=None)
@given(graphs(), st.booleans())
def test_shared_neighbours(graph: tuple[int, list[tuple[int, int]]], closed: bool) -> None:
    n, edges = graph
    expected = np.asarray(jaccard(np.array(edges), nodes=n, closed=closed))
    table = as_graph(np.array(edges), nodes=n, weight="ignore").adjacency
    source = SharedNeighbours((table + eye_array(n)).tocsr() if closed else table)
    i, j = (side.ravel() for side in np.indices((n, n)))
    np.testing.assert_allclose(source.pairs(i, j), expected.ravel(), atol=1e-15)


# -- the compiled loops themselves ---------------------------------------------------------------


def random_pairs(n: int, seed: int) -> Any:
    return np.random.default_rng(seed).integers(n, size=(2, 200))


@pytest.mark.parametrize("d", [1, 7, 8, 21])
def test_squares_of_rows(d: int) -> None:
    rng = np.random.default_rng(d)
    X = rng.normal(size=(30, d)) * (rng.random((30, d)) < 0.4)
    i, j = random_pairs(30, d)
    expected = ((X[i] - X[j]) ** 2).sum(axis=1)
    found = np.empty(200)
    dense_squares(X, i, j, found)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    rows = csr_array(X)
    sparse_squares(rows.indptr, rows.indices, rows.data, i, j, found)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_shared_neighbours_of_pairs() -> None:
    graph = nx.gnp_random_graph(40, 0.1, seed=0)
    rows = csr_array(nx.to_scipy_sparse_array(graph))
    rows.sort_indices()
    i, j = random_pairs(40, 0)
    found = np.empty(200)
    jaccard_of_pairs(rows.indptr, rows.indices, i, j, found)
    for value, u, v in zip(found, i.tolist(), j.tolist(), strict=True):
        mine, yours = set(graph[u]), set(graph[v])
        union = mine | yours
        shared = 1 - len(mine & yours) / len(union) if union else 1.0
        assert value == pytest.approx(0.0 if u == v else shared)


@pytest.mark.parametrize("longest", [1, 2, 3, 4, 7])
def test_hops_of_pairs(longest: int) -> None:
    graph = nx.gnp_random_graph(40, 0.05, seed=longest, directed=True)
    forward = csr_array(nx.to_scipy_sparse_array(graph))
    backward = csr_array(forward.T)
    i, j = random_pairs(40, longest)
    order = np.argsort(i, kind="stable")
    i, j = i[order], j[order]
    out = np.empty(200)
    sides = [
        np.asarray(part) for rows in (forward, backward) for part in (rows.indptr, rows.indices)
    ]
    hops_of_pairs(*sides, i, j, longest, out)
    known = dict(nx.all_pairs_shortest_path_length(graph))
    expected = [min(known[u].get(v, longest), longest) for u, v in zip(i, j, strict=True)]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("seed", range(3))
def test_one_or_two_links(seed: int) -> None:
    rng = np.random.default_rng(seed)
    w = rng.random((30, 30)) * (rng.random((30, 30)) < 0.15)
    np.fill_diagonal(w, 0.0)
    lengths = np.where(w > 0, w, np.inf)
    expected = np.minimum(lengths, (lengths[:, :, None] + lengths[None]).min(axis=1))
    expected = np.minimum(expected, 1.5)
    np.fill_diagonal(expected, 0.0)
    out, into = csr_array(w), csr_array(w.T)
    forward = (out.indptr.astype(np.int64), out.indices.astype(np.int32), out.data)
    backward = (into.indptr.astype(np.int64), into.indices.astype(np.int32), into.data)
    rows = np.full((30, 30), 1.5)
    two_links_from(*forward, np.arange(30), rows)
    np.testing.assert_allclose(rows, expected)
    i, j = random_pairs(30, seed)
    values = np.full(200, 1.5)
    two_links_between(*forward, *backward, i, j, values)
    np.testing.assert_allclose(values, expected[i, j])

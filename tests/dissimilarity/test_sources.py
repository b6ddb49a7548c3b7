"""Sources: anything that can give rows."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import metricmix as mm
from metricmix.dissimilarity import ComputedSource, FeatureSource, GraphSource
from metricmix.dissimilarity.sources import DenseSource, Source
from reference.instances import random_sources

N = 150  # pairs are answered 64 rows at a time


def matrix(directed=False, n=N):
    return random_sources(np.random.default_rng(0), n, 1, directed=directed)[0]


class Plain(Source):
    """The least a source must do: give rows."""

    def __init__(self, M):
        self.M, self.n = M, len(M)

    def rows(self, indices):
        return self.M[indices]


KINDS = {
    "rows only": lambda M: Plain(M),
    "dense": lambda M: DenseSource(M),
    "computed": lambda M: ComputedSource(len(M), lambda i: M[i]),
    "computed pairs": lambda M: ComputedSource(len(M), lambda i: M[i], pairs=lambda i, j: M[i, j]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_symmetric_sources(kind):
    M = matrix()
    source = KINDS[kind](M)
    rng = np.random.default_rng(1)
    items = rng.integers(0, N, 9)
    assert np.array_equal(source.rows(items), M[items])
    assert np.array_equal(source.columns(items), M[:, items].T)
    assert np.array_equal(source.block(items, items[:4]), M[np.ix_(items, items[:4])])
    i, j = rng.integers(0, N, (2, 700))
    assert np.array_equal(source.pairs(i, j), M[i, j])
    assert source.pairs(i[:0], j[:0]).shape == (0,)


def test_a_block_asks_for_a_few_rows_at_a_time(monkeypatch):
    monkeypatch.setattr("metricmix.dissimilarity.sources.VALUES_AT_ONCE", 1)
    M, asked = matrix(), []
    source = ComputedSource(N, lambda i: (asked.append(len(i)), M[i])[1])
    items, columns = np.arange(N)[::-1], np.array([5, 3])
    assert np.array_equal(source.block(items, columns), M[np.ix_(items, columns)])
    assert asked == [64, 64, 22]
    assert source.block(items[:0], columns).shape == (0, 2)


def test_directed_sources():
    M = matrix(directed=True)
    items = np.array([3, 140, 3])
    for source in (
        DenseSource(M, directed=True),
        ComputedSource(N, lambda i: M[i], columns=lambda i: M[:, i].T),
    ):
        assert np.array_equal(source.rows(items), M[items])
        assert np.array_equal(source.columns(items), M[:, items].T)
        i, j = np.divmod(np.arange(0, N * N, 97), N)
        assert np.array_equal(source.pairs(i, j), M[i, j])


def test_directed_stack_of_a_source_without_columns_is_refused():
    # Its rows would silently be taken for columns.
    M = matrix(directed=True, n=5)
    source = ComputedSource(5, lambda i: M[i])
    with pytest.raises(mm.InputError, match="columns"):
        mm.DissimilarityStack([source], directed=True)


def test_pairs_ask_for_few_rows_at_a_time():
    M = matrix()
    asked = []

    def rows(items):
        asked.append(len(items))
        return M[items]

    source = ComputedSource(N, rows)
    i, j = np.random.default_rng(2).integers(0, N, (2, 1000))
    assert np.array_equal(source.pairs(i, j), M[i, j])
    assert max(asked) <= 64
    assert sum(asked) == len(np.unique(i))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            lambda i: np.zeros((len(i), 4)),
            r"source 'lag': expected rows of shape \(2, 5\), got \(2, 4\)",
        ),
        (lambda i: np.zeros(5), "source 'lag': expected rows of shape"),
        (
            lambda i: np.full((len(i), 5), np.nan),
            "source 'lag': expected finite, non-negative rows",
        ),
        (
            lambda i: np.full((len(i), 5), np.inf),
            "source 'lag': expected finite, non-negative rows",
        ),
        (lambda i: np.full((len(i), 5), -1.0), "source 'lag': expected finite, non-negative rows"),
    ],
)
def test_bad_rows_are_refused(rows, message):
    source = ComputedSource(5, rows, name="lag")
    with pytest.raises(mm.InputError, match=message):
        source.rows(np.array([0, 1]))
    with pytest.raises(mm.InputError, match="source 'lag': expected"):
        mm.DissimilarityStack([source])
    columns = ComputedSource(5, lambda i: np.zeros((len(i), 5)), columns=rows, name="lag")
    with pytest.raises(mm.InputError, match=message.replace("rows", "columns")):
        columns.columns(np.array([0, 1]))


@pytest.mark.parametrize(
    "pairs",
    [lambda i, j: np.full(len(i), np.nan), lambda i, j: -np.ones(len(i)), lambda i, j: np.ones(3)],
)
def test_bad_pairs_are_refused(pairs):
    source = ComputedSource(5, lambda i: np.zeros((len(i), 5)), pairs=pairs, name="lag")
    with pytest.raises(mm.InputError, match="source 'lag': expected"):
        source.pairs(np.array([0, 1]), np.array([2, 3]))


def test_sources_without_a_name_are_called_computed():
    source = ComputedSource(5, lambda i: np.zeros(5))
    with pytest.raises(mm.InputError, match="computed source: expected rows"):
        source.rows(np.array([0]))


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "sqeuclidean"])
def test_feature_source_is_the_feature_matrix(metric):
    X = np.random.default_rng(3).normal(size=(40, 4))
    source = FeatureSource(X, metric)
    D = np.asarray(mm.dissimilarity.features(X, metric))
    assert source.name == metric
    assert source.n == 40
    items = np.array([7, 0, 39])
    assert source.rows(items) == pytest.approx(D[items], rel=1e-9, abs=1e-12)
    assert source.pairs(items, items[::-1]) == pytest.approx(
        D[items, items[::-1]], rel=1e-9, abs=1e-12
    )
    stack = mm.DissimilarityStack([source])
    assert stack.names == (metric,)
    assert stack.source(0) == pytest.approx(D, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("directed", [False, True])
def test_graph_source_is_breadth_first_search(directed):
    kind = nx.gnp_random_graph(60, 0.04, seed=5, directed=directed)
    source = GraphSource(kind, unreachable=99.0, directed=directed)
    lengths = dict(nx.all_pairs_shortest_path_length(kind))
    D = np.array([[lengths[i].get(j, 99.0) for j in range(60)] for i in range(60)])
    assert (D == 99.0).any()
    items = np.arange(60)
    assert np.array_equal(source.rows(items), D)
    assert np.array_equal(source.columns(items), D.T)
    assert source.name == "path_length"
    stack = mm.DissimilarityStack([source], directed=directed)
    assert np.array_equal(stack.source("path_length"), D)


def test_stack_keeps_asking_the_same_source():
    M = matrix(n=6)
    source = ComputedSource(6, lambda i: M[i], name="lag")
    stack = mm.DissimilarityStack([source])
    part = stack[np.ix_([4, 1], [4, 1])]
    assert np.array_equal(part.source(0), M[np.ix_([4, 1], [4, 1])])
    assert part.block is None
    M[1, 4] = M[4, 1] = 50.0  # computed on demand: the part sees it
    assert part.pairs([0], [1]).tolist() == [[50.0]]


def test_asymmetric_sources_are_refused_at_the_door():
    M = matrix(directed=True, n=6)
    with pytest.raises(mm.InputError, match=r"stack\[0\], a sample of it: expected symmetric"):
        mm.DissimilarityStack([ComputedSource(6, lambda i: M[i])])


def test_directed_graph_in_an_undirected_stack_is_refused():
    graph = mm.dissimilarity.GraphSource(np.array([[0, 1], [0, 0]]), unreachable=9.0, directed=True)
    with pytest.raises(mm.InputError, match="expected a symmetric source, got a directed one"):
        mm.DissimilarityStack([graph])
    assert mm.DissimilarityStack([graph], directed=True).source(0).tolist() == [[0, 1], [9, 0]]


def test_a_source_as_an_array_is_exactly_symmetric():
    M = np.random.default_rng(0).uniform(1, 2, (N, N))
    M = M + M.T
    np.fill_diagonal(M, 0)
    rounded = M * (1 + 1e-7 * np.triu(np.ones((N, N))))  # as of a product in single precision
    stack = mm.DissimilarityStack([ComputedSource(N, lambda i: rounded[i])], validate=False)
    found = stack.source(0)
    assert np.array_equal(found, found.T)
    assert found == pytest.approx(M, rel=2e-7)

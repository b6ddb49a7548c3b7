import os
import warnings
from pathlib import Path

import igraph
import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import shortest_path

from metricmix.dissimilarity import GraphSource
from metricmix.dissimilarity.path_length import path_length
from metricmix.exceptions import InputError, UnreachableWarning
from metricmix.metric import is_metric

PATH = [(0, 1), (1, 2)]


def naive(n, edges, directed):
    """Floyd and Warshall, written out; inf is no path."""
    d = np.full((n, n), np.inf)
    np.fill_diagonal(d, 0)
    for u, v, length in edges:
        d[u, v] = min(d[u, v], length)
        if not directed:
            d[v, u] = min(d[v, u], length)
    for k in range(n):
        d = np.minimum(d, d[:, k, None] + d[None, k, :])
    return d


@settings(max_examples=50, deadline=None)
@given(
    n=st.integers(1, 12),
    n_edges=st.integers(0, 30),
    directed=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_weighted_and_unweighted_paths(n, n_edges, directed, seed):
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, n, (n_edges, 2))
    lengths = rng.choice([0.0, 0.25, 1.0, 3.0], n_edges)  # zeros are edges
    table = pd.DataFrame({"source": ends[:, 0], "target": ends[:, 1], "weight": lengths})
    options = {"nodes": n, "unreachable": "inf"}
    expected = naive(n, zip(*ends.T, lengths, strict=True), directed)
    found = path_length(table, weight="length", directed=directed, **options)
    np.testing.assert_array_equal(found, expected)
    assert found.n_unreachable == np.isinf(expected).sum()
    expected = naive(n, zip(*ends.T, np.ones(n_edges), strict=True), directed)
    found = path_length(table, weight="ignore", directed=directed, **options)
    np.testing.assert_array_equal(found, expected)


def test_scipy_agrees_on_random_lengths():
    rng = np.random.default_rng(0)
    graph = sp.random_array((200, 200), density=0.02, rng=rng, format="csr")
    expected = shortest_path(graph, directed=False)
    found = path_length(graph, weight="length", unreachable="inf")
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_array_equal(found, found.T)
    similar = path_length(graph, weight="similarity", unreachable="inf")
    graph.data = 1 / graph.data
    # One triangle or both: where both have an entry the shortest counts.
    np.testing.assert_allclose(similar, shortest_path(graph, directed=False), rtol=1e-12)


def test_every_format_gives_the_same_matrix():
    graph = nx.karate_club_graph()
    n = len(graph)
    expected = nx.floyd_warshall_numpy(graph, weight=None)
    adjacency = nx.to_numpy_array(graph, weight=None)
    edges = np.array(graph.edges)
    forms = [
        adjacency,
        sp.csr_array(adjacency),
        sp.coo_matrix(np.triu(adjacency)),
        edges,
        pd.DataFrame(edges),
        igraph.Graph(n=n, edges=edges.tolist()),
        nx.from_numpy_array(adjacency),
    ]
    for form in forms:
        M = path_length(form, nodes=n)
        np.testing.assert_array_equal(M, expected)
        assert M.source_name == "path_length"
        assert M.n_unreachable == 0
    shuffled = np.random.default_rng(0).permutation(n)
    M = path_length(graph, nodes=shuffled, weight="ignore")
    np.testing.assert_array_equal(M, expected[np.ix_(shuffled, shuffled)])


def test_directed_paths_are_not_symmetric():
    M = path_length(PATH, nodes=4, directed=True, unreachable=9)
    np.testing.assert_array_equal(M, [[0, 1, 2, 9], [9, 0, 1, 9], [9, 9, 0, 9], [9, 9, 9, 0]])
    assert M.n_unreachable == 9


class TestUnreachable:
    def test_default_warns_and_bridges(self):
        message = r"6 of 12 ordered pairs \(50\.0%\) have no path and were given 3,"
        with pytest.warns(UnreachableWarning, match=message) as caught:
            M = path_length(PATH, nodes=4)
        assert caught[0].filename == __file__
        np.testing.assert_array_equal(M[3], [3, 3, 3, 0])
        assert M.n_unreachable == 6

    def test_connected_graphs_do_not_warn(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            path_length(PATH, nodes=3)

    def test_bridge_is_the_same_without_warning(self):
        np.testing.assert_array_equal(path_length(PATH, nodes=4, unreachable="bridge")[3, :3], 3)

    def test_bridge_adds_the_longest_edge(self):
        edges = np.array([[0, 1, 2.0], [1, 2, 5.0], [0, 2, 6.0]])
        M = path_length(edges, nodes=4, weight="length", unreachable="bridge")
        assert M[0, 3] == 6 + 6

    @pytest.mark.parametrize("directed", [False, True])
    @pytest.mark.parametrize("seed", range(8))
    def test_numbers_are_refused_exactly_where_the_triangle_inequality_fails(self, seed, directed):
        rng = np.random.default_rng(seed)
        lengths = sp.random_array((12, 12), density=0.12, rng=rng, data_sampler=rng.random)
        lengths = sp.triu(lengths, 1) if directed and seed % 2 else lengths
        lengths = sp.block_diag([lengths, [[0.0]]])
        lengths = lengths if directed else lengths.maximum(lengths.T)
        options = {"weight": "length", "directed": directed}
        free = np.asarray(path_length(lengths, unreachable="inf", **options))
        longest = free[np.isfinite(free)].max()
        assert not np.isfinite(free).all()
        outcomes = set()
        for value in longest * np.linspace(0, 1.1, 23):
            filled = np.where(np.isinf(free), value, free)
            allowed = is_metric(filled, directed=directed)
            outcomes.add(allowed)
            if not allowed:
                with pytest.raises(
                    InputError, match=r"unreachable: expected .* triangle inequality"
                ):
                    path_length(lengths, unreachable=value, **options)
            else:
                M = path_length(lengths, unreachable=value, **options)
                np.testing.assert_array_equal(M, filled)
                assert M.facts.triangle_inequality
        assert outcomes == {True, False}

    def test_computed_rows_refuse_numbers_that_are_too_small(self):
        for source in (
            GraphSource(PATH, nodes=4, unreachable=1),
            GraphSource(PATH, nodes=4, unreachable=9),
        ):
            assert source.facts.triangle_inequality
            np.testing.assert_array_equal(source.rows(np.array([1]))[0, :3], [1, 0, 1])
        with pytest.raises(InputError, match=r"unreachable: expected at least 1, .* got 0\.9"):
            GraphSource(PATH, nodes=4, unreachable=0.9).rows(np.array([0]))
        connected = GraphSource(PATH, nodes=3, unreachable=0.1)
        np.testing.assert_array_equal(connected.rows(np.array([0])), [[0, 1, 2]])

    def test_no_edges(self):
        M = path_length(np.zeros((3, 3)), unreachable="bridge")
        np.testing.assert_array_equal(M, 1 - np.eye(3))
        assert M.n_unreachable == 6

    def test_edges_of_length_zero_only(self):
        M = path_length([(0, 1, 0.0)], nodes=3, weight="length", unreachable="bridge")
        np.testing.assert_array_equal(M, [[0, 0, 1], [0, 0, 1], [1, 1, 0]])

    @pytest.mark.parametrize("value", [1, 7, 2.5, np.float32(4)])
    def test_number(self, value):
        assert path_length(PATH, nodes=4, unreachable=value)[0, 3] == value

    def test_infinite(self):
        M = path_length(PATH, nodes=4, unreachable="inf")
        assert np.isinf(M).sum() == M.n_unreachable == 6

    def test_raise(self):
        with pytest.raises(InputError, match=r"\(50\.0%\) have no path, such as \(0, 3\)"):
            path_length(PATH, nodes=4, unreachable="raise")
        assert path_length(PATH, nodes=3, unreachable="raise").n_unreachable == 0

    @pytest.mark.parametrize(
        ("policy", "message"),
        [
            ("largest", "'bridge', 'raise', 'inf' or a number >= 0, got 'largest'"),
            (-1, "number >= 0, got -1"),
            (np.inf, "number >= 0, got inf"),
            (np.nan, "number >= 0, got nan"),
            ([1], "expected a number"),
        ],
    )
    def test_bad_policy(self, policy, message):
        with pytest.raises(InputError, match=message):
            path_length(PATH, nodes=3, unreachable=policy)


def test_citeseer():
    home = os.environ.get("METRICMIX_DATA")
    if not home or not (Path(home) / "citeseer.npz").exists():
        pytest.skip("METRICMIX_DATA has no citeseer.npz")
    with np.load(Path(home) / "citeseer.npz", allow_pickle=False) as data:
        edges, n = data["edges"], len(data["labels"])
    with pytest.warns(UnreachableWarning, match=r"59\.4%"):
        M = path_length(edges, nodes=n)
    assert M.n_unreachable == 6_569_276
    assert M.max() == 29
    some = np.random.default_rng(0).integers(0, n, 50)
    graph = sp.csr_array((np.ones(len(edges)), edges.T), shape=(n, n))
    expected = shortest_path(graph, directed=False, unweighted=True, indices=some)
    np.testing.assert_array_equal(M[some], np.where(np.isinf(expected), 29, expected))

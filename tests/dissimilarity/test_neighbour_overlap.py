import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from metricmix.dissimilarity.neighbour_overlap import jaccard, resource_allocation
from metricmix.exceptions import InputError


@pytest.fixture
def graph():
    graph = nx.gnm_random_graph(25, 40, seed=3)
    graph.add_nodes_from([25, 26])  # isolated
    graph.add_edges_from([(27, 0), (27, 1), (28, 0), (28, 1)])  # twins
    return graph


def assert_is_dissimilarity(M):
    np.testing.assert_array_equal(M, M.T)
    assert not np.diagonal(M).any()
    assert M.min() >= 0
    assert M.max() <= 1


def test_jaccard_against_networkx(graph):
    M = jaccard(graph)
    assert_is_dissimilarity(M)
    assert M.source_name == "jaccard"
    pairs = [(i, j) for i in graph for j in graph if i != j]
    for i, j, similarity in nx.jaccard_coefficient(graph, pairs):
        assert M[i, j] == pytest.approx(1 - similarity)
    assert M[27, 28] == 0
    assert (np.delete(M[25], 25) == 1).all()


def test_jaccard_of_closed_neighbourhoods(graph):
    M = jaccard(graph, closed=True)
    assert_is_dissimilarity(M)
    around = {i: {i, *graph[i]} for i in graph}
    for i in graph:
        for j in graph:
            common = len(around[i] & around[j]) / len(around[i] | around[j])
            assert M[i, j] == pytest.approx(1 - common)
    np.testing.assert_array_equal(jaccard([(0, 1), (1, 2), (0, 2)], nodes=3, closed=True), 0)


def test_resource_allocation_against_networkx(graph):
    M = resource_allocation(graph)
    assert_is_dissimilarity(M)
    assert M.source_name == "resource_allocation"
    n = len(graph)
    RA = np.diag([sum(1 / graph.degree(k) for k in graph[i]) for i in range(n)])
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    for i, j, value in nx.resource_allocation_index(graph, pairs):
        RA[i, j] = value
    scale = np.sqrt(np.outer(np.diagonal(RA), np.diagonal(RA)))
    expected = 1 - np.divide(RA, scale, out=np.zeros((n, n)), where=scale > 0)
    np.fill_diagonal(expected, 0)
    np.testing.assert_allclose(M, expected, atol=1e-12)
    assert M[27, 28] == 0
    assert M[25, 26] == 1


@pytest.mark.parametrize("function", [jaccard, resource_allocation])
def test_only_who_is_joined_counts(function, graph):
    expected = function(graph)
    weighted = sp.csr_array(nx.to_numpy_array(graph) * 3.5)
    np.testing.assert_array_equal(function(weighted), expected)
    np.testing.assert_array_equal(function(graph.to_directed()), expected)
    order = np.random.default_rng(0).permutation(len(graph))
    np.testing.assert_allclose(
        function(graph, nodes=order), expected[np.ix_(order, order)], atol=1e-15
    )
    np.testing.assert_array_equal(function(np.zeros((3, 3))), 1 - np.eye(3))
    with pytest.raises(InputError, match="graph: expected"):
        function(np.zeros(3))

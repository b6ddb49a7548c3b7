import importlib

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from metricmix.dissimilarity.diffusion import diffusion, smoothing_operator
from metricmix.dissimilarity.features import features
from metricmix.dissimilarity.graphs import as_graph
from metricmix.exceptions import InputError

diffusion_module = importlib.import_module("metricmix.dissimilarity.diffusion")
RNG = np.random.default_rng(0)
GRAPH = nx.gnm_random_graph(40, 60, seed=0)
X = RNG.poisson(0.5, size=(40, 12)).astype(float)


def normalised_adjacency(graph):
    A = nx.to_numpy_array(graph) + np.eye(len(graph))
    degree = A.sum(axis=1)
    return A / np.sqrt(np.outer(degree, degree))


B = normalised_adjacency(GRAPH)


def test_operator():
    np.testing.assert_allclose(smoothing_operator(as_graph(GRAPH)).toarray(), B)


@pytest.mark.parametrize("steps", [0, 1, 2, 10])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_smoothed_features(steps, form):
    M = diffusion(GRAPH, form(X), steps)
    expected = features(np.linalg.matrix_power(B, steps) @ X, "cosine")
    np.testing.assert_allclose(M, expected, atol=1e-12)
    assert M.source_name == f"diffusion_{steps}"
    np.testing.assert_array_equal(M, M.T)


@pytest.mark.parametrize("restart", [0.01, 0.1, 0.5, 1.0])
def test_pagerank(restart):
    S = restart * np.linalg.inv(np.eye(40) - (1 - restart) * B)
    M = diffusion(GRAPH, X, restart=restart)
    np.testing.assert_allclose(M, features(S @ X, "cosine"), atol=1e-12)
    assert M.source_name == "pagerank_features"
    M = diffusion(GRAPH, restart=restart)
    np.testing.assert_allclose(M, features(np.sqrt(np.maximum(S, 0)), "cosine"), atol=1e-9)
    assert M.source_name == "pagerank"


def test_without_features_rows_of_the_walk_are_compared():
    walk = np.linalg.matrix_power(B, 2)
    np.testing.assert_allclose(diffusion(GRAPH), features(np.sqrt(walk), "cosine"), atol=1e-12)
    np.testing.assert_allclose(
        diffusion(GRAPH, steps=12),
        features(np.sqrt(np.linalg.matrix_power(B, 12)), "cosine"),
        atol=1e-12,
    )


def test_other_metrics_and_order_of_nodes():
    order = RNG.permutation(40)
    M = diffusion(GRAPH, X, metric="euclidean")
    np.testing.assert_allclose(M, features(B @ B @ X), atol=1e-12)
    moved = diffusion(GRAPH, X[order], metric="euclidean", nodes=order)
    np.testing.assert_allclose(moved, M[np.ix_(order, order)], atol=1e-12)


def test_weights_are_conductances():
    weighted = GRAPH.copy()
    for u, v in weighted.edges:
        weighted[u][v]["weight"] = 1.0 + (u + v) % 3
    expected = features(normalised_adjacency(weighted) @ X, "cosine")
    np.testing.assert_allclose(diffusion(weighted, X, 1, weight="similarity"), expected, atol=1e-12)
    lengths = weighted.copy()
    for u, v in lengths.edges:
        lengths[u][v]["weight"] = 1 / weighted[u][v]["weight"]
    np.testing.assert_allclose(diffusion(lengths, X, 1, weight="length"), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("graph", "options", "message"),
    [
        (GRAPH, {"X": X[:5]}, "expected 40 rows, one per node of the graph, got 5"),
        (GRAPH, {"steps": -1}, "steps: expected a whole number >= 0, got -1"),
        (GRAPH, {"steps": 1.5}, "got 1.5"),
        (GRAPH, {"restart": 0}, "restart: expected a number > 0 and <= 1, got 0"),
        (GRAPH, {"restart": 1.5}, "got 1.5"),
        (GRAPH, {"X": X * np.nan}, "row 0, column 0"),
        (GRAPH, {"X": X, "metric": "cosin"}, "did you mean 'cosine'"),
        ([(0, 1, 0.0)], {"nodes": 2, "weight": "length"}, "positive edge lengths"),
    ],
)
def test_bad_input(graph, options, message):
    with pytest.raises(InputError, match=message):
        diffusion(graph, **options)


def test_walks_of_many_items_are_in_single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    items = np.array([3, 0, 17])
    exact = diffusion_module.LogPageRank(smoothing_operator(as_graph(GRAPH)))(items)
    monkeypatch.setattr(diffusion_module, "LARGE", 100)
    found = diffusion_module.LogPageRank(smoothing_operator(as_graph(GRAPH)))(items)
    assert (exact.dtype, found.dtype) == (np.float64, np.float32)
    np.testing.assert_allclose(found, exact, atol=1e-4)

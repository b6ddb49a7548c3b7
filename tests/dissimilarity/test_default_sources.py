"""The default sources of an attributed graph, against their definitions."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

import metricmix as mm

N = 40


def example(seed=0):
    rng = np.random.default_rng(seed)
    words = (rng.random((N, 30)) < 0.2) * rng.integers(1, 4, (N, 30)).astype(float)
    words[:, 0] += 1.0  # no item without any
    A = np.triu(rng.random((N, N)) < 0.08, 1).astype(float)
    return words, A + A.T


def operator(A):
    looped = A + np.eye(N)
    s = 1 / np.sqrt(looped.sum(axis=1))
    return s[:, None] * looped * s


def pagerank(A, restart):
    return restart * np.linalg.inv(np.eye(N) - (1 - restart) * operator(A))


def similar(Z, k):
    d = cdist(Z, Z, "cosine")
    np.fill_diagonal(d, np.inf)
    K = np.zeros((N, N))
    for i in range(N):
        nearest = np.argsort(d[i])[:k]
        K[i, nearest[d[i, nearest] < 1]] = 1
    return np.maximum(K, K.T)


def definition(words, A, weighting):
    if weighting == "tfidf":
        words = words * (1 + np.log((1 + N) / (1 + (words > 0).sum(axis=0))))
    F = words / np.linalg.norm(words, axis=1, keepdims=True)
    near = pagerank(A, 0.2) @ F
    tables = {
        "attributes": F,
        "diffusion_2": operator(A) @ operator(A) @ F,
        "pagerank_0.2": near,
        "pagerank_0.1": pagerank(A, 0.1) @ F,
        "joint_attributes": pagerank(10 * A + similar(F, 5), 0.1) @ F,
        "joint_pagerank": pagerank(10 * A + similar(near, 10), 0.1) @ F,
    }
    sources = {name: cdist(Z, Z, "cosine") for name, Z in tables.items()}
    sources["log_pagerank"] = np.maximum(-np.log(pagerank(A, 0.1) + 1e-6), 0)
    for M in sources.values():
        np.fill_diagonal(M, 0)
    return sources


@pytest.mark.parametrize("weighting", ["plain", "tfidf"])
@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_sources_are_what_the_page_says(weighting, dense, form):
    words, A = example()
    stack = mm.sources_for(form(words), A, weighting=weighting, dense=dense)
    expected = definition(words, A, weighting)
    assert set(stack.names) == set(expected)
    assert (stack.block is None) == (not dense)
    for name, M in expected.items():
        scaled = M / (M.sum() / (N * (N - 1)))
        assert stack.source(name) == pytest.approx(scaled, rel=1e-4, abs=1e-5), name
        assert stack.source(name).sum() == pytest.approx(N * (N - 1), rel=1e-4)


def test_a_table_and_a_graph_are_lined_up_by_their_ids():
    words, A = example()
    ids = [f"paper {k}" for k in range(N)]
    order = np.random.default_rng(1).permutation(N)
    graph = nx.from_numpy_array(A[np.ix_(order, order)])
    graph = nx.relabel_nodes(graph, {k: ids[order[k]] for k in range(N)})
    table = pd.DataFrame(words, index=ids)
    stack = mm.sources_for(table, graph)
    assert stack.items.tolist() == ids
    assert np.asarray(stack) == pytest.approx(np.asarray(mm.sources_for(words, A)))


def test_isolated_items_and_links_with_weights():
    words, A = example()
    A[3], A[:, 3] = 0, 0
    stack = mm.sources_for(words, 2 * A, weight="similarity")
    assert np.isfinite(np.asarray(stack)).all()
    assert stack.source("log_pagerank")[3, 4] == stack.source("log_pagerank")[3].max()


def test_what_is_refused():
    words, A = example()
    with pytest.raises(mm.InputError, match="X: expected 40 rows, one per node"):
        mm.sources_for(words[:-1], A)
    with pytest.raises(mm.InputError, match="weighting: expected one of"):
        mm.sources_for(words, A, weighting="count")


def test_a_classifier_takes_it_by_ids():
    words, A = example()
    stack = mm.sources_for(words, A)
    labels = np.arange(N) % 2
    model = mm.MetricMixtureClassifier(stack).fit(np.arange(12), labels[:12])
    assert model.transduction_.shape == (N,)
    assert np.array_equal(model.transduction_[:12], labels[:12])

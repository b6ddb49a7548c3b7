"""Every kind of dissimilarity keeps what its file declares, on random data.

A new kind needs one entry in `EXAMPLES`; a test fails if it is missing.
"""

from __future__ import annotations

import dataclasses
from functools import cache

import networkx as nx
import numpy as np
import pytest

import metricmix as mm
from metricmix.dissimilarity import (
    DissimilarityStack,
    FeatureSource,
    GraphSource,
    diffusion,
    facts,
    features,
    jaccard,
    knn_path_length,
    mahalanobis,
    path_length,
    resource_allocation,
    threshold_graphs,
)
from metricmix.dissimilarity.feature_metrics import ON_SETS, feature_facts
from metricmix.dissimilarity.feature_rows import feature_rows
from metricmix.dissimilarity.matrix import DECLARED, SourceFacts
from metricmix.metric import metric_violations

SEEDS = range(12)
LAWS = ("metric", "pseudo-metric", "no")


def random_table(seed, metric):
    """Return rows for which the metric is defined, all different and some of them close."""
    rng = np.random.default_rng(seed)
    if metric in ON_SETS:  # neither empty nor full, as some of these metrics need it
        table = np.array([[int(bit) for bit in f"{number:05b}"] for number in range(1, 31)])
        return rng.permutation(table)[:20] * rng.uniform(0.5, 2, (20, 5))
    table = rng.exponential(size=(24, 3)) ** 2 + 0.01
    table[12:] = table[:12] * rng.uniform(0.9, 1.1, (12, 3))
    if metric == "haversine":
        return np.column_stack([table[:, 0] % 1.5, table[:, 1] % 3])
    if metric == "hamming":
        table = np.column_stack([np.arange(24), table.astype(int)])
    if metric == "nan_euclidean":
        table[rng.random(table.shape) < 0.3] = np.nan
        table[:, 0] = rng.exponential(size=24)
    return table


def random_graph(seed):
    """Return a graph with several components, and an isolated node."""
    graph = nx.gnp_random_graph(20, 0.12, seed=seed)
    graph.add_node(20)
    return graph


def weighted_graph(seed, directed=False):
    rng = np.random.default_rng(seed)
    graph = random_graph(seed)
    graph = graph.to_directed() if directed else graph
    for u, v in graph.edges:
        graph.edges[u, v]["weight"] = float(rng.integers(0, 4))  # edges of length 0 among them
    return graph


def words(seed):
    return np.random.default_rng(seed).poisson(0.4, size=(21, 6)) + np.eye(21, 6)


def metric_matrix(seed):
    root = np.random.default_rng(seed).normal(size=(1, 3))
    return root.T @ root  # of rank 1


def log_pagerank(seed):
    stack = mm.sources_for(words(seed), random_graph(seed), nodes=21, dense=False)
    return stack.source("links reach") * stack.scales[stack.names.index("links reach")]


def supervised(seed):
    labels = np.where(np.arange(21) % 3, np.arange(21) % 2, -1)
    stack = mm.sources_for(words(seed), random_graph(seed), nodes=21, labels=labels)
    return stack.source("learned") * stack.scales[stack.names.index("learned")]


def predictions(seed):
    target = words(seed)[:, 0]
    stack = mm.sources_for(words(seed), random_graph(seed), nodes=21, target=target)
    return stack.source("learned") * stack.scales[stack.names.index("learned")]


EXAMPLES = {
    "path_length": lambda seed: [
        path_length(random_graph(seed), unreachable="bridge"),
        path_length(weighted_graph(seed), weight="length", unreachable="bridge"),
        path_length(
            weighted_graph(seed, directed=True),
            weight="length",
            directed=True,
            unreachable="bridge",
        ),
    ],
    "knn_path_length": lambda seed: [
        knn_path_length(random_table(seed, ""), 3, metric, unreachable="bridge")
        for metric in ("euclidean", "sqeuclidean", "cosine")
    ],
    "threshold_graphs": lambda seed: threshold_graphs(
        features(random_table(seed, "")), 4, unreachable="bridge"
    ),
    "jaccard": lambda seed: [jaccard(random_graph(seed), closed=closed) for closed in (0, 1)],
    "resource_allocation": lambda seed: [resource_allocation(random_graph(seed))],
    "diffusion": lambda seed: [
        diffusion(random_graph(seed), words(seed), steps=1),
        diffusion(random_graph(seed), restart=0.2),
    ],
    "mahalanobis": lambda seed: [mahalanobis(random_table(seed, ""), metric_matrix(seed))],
    "log_pagerank": lambda seed: [log_pagerank(seed)],
    "hellinger": lambda seed: [supervised(seed)],
    "prediction_differences": lambda seed: [predictions(seed)],
}
SPECS = {
    "features": lambda metric, seed: features(metric=metric),
    "knn_path_length": lambda metric, seed: knn_path_length(k=3),
    "mahalanobis": lambda metric, seed: mahalanobis(matrix=metric_matrix(seed)),
}
KINDS = [(kind, "") for kind in EXAMPLES] + [("features", m) for m in DECLARED["features"]]


def declared(kind, metric):
    return facts(kind, metric) if metric else facts(kind)


@cache
def matrices(kind, metric, seed):
    if kind == "features":
        return [features(random_table(seed, metric), metric)]
    return EXAMPLES[kind](seed)


def excess(M, directed=False):
    """Return the largest violation of the triangle inequality, relative to the largest entry."""
    report = metric_violations(np.asarray(M), directed=directed)
    return report.triangle / report.scale


def test_every_kind_has_an_example():
    assert {*EXAMPLES, "features"} == set(DECLARED)
    assert {kind for kind, metric in KINDS if declared(kind, metric).new_items} == set(SPECS)


@pytest.mark.parametrize(("kind", "metric"), KINDS)
def test_laws_of_a_metric(kind, metric):
    stated = declared(kind, metric)
    assert stated.metric in LAWS
    assert stated.row_cost
    worst = 0.0
    for seed in SEEDS:
        for M in matrices(kind, metric, seed):
            assert (np.diagonal(M) == 0).all()
            assert (np.asarray(M) >= 0).all()
            worst = max(worst, excess(M, stated.directed))
            if stated.metric == "metric":
                assert (M[~np.eye(len(M), dtype=bool)] > 0).all()
    if stated.triangle_inequality:
        assert worst <= 1e-7
    else:  # if nothing violates it, the declaration is wrong
        assert worst > 1e-3


@pytest.mark.parametrize(("kind", "metric"), KINDS)
def test_bounds_and_symmetry(kind, metric):
    stated = declared(kind, metric)
    for seed in SEEDS:
        for M in matrices(kind, metric, seed):
            assert np.max(M) <= stated.bound * (1 + 1e-12)
            own = getattr(M, "facts", None) or stated
            if not own.directed:
                np.testing.assert_allclose(M, M.T, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("kind", "metric"), KINDS)
def test_matrices_carry_the_facts_of_their_kind(kind, metric):
    stated = declared(kind, metric)
    for M in matrices(kind, metric, 0):
        if isinstance(M, mm.dissimilarity.DissimilarityMatrix):
            assert dataclasses.replace(M.facts, directed=stated.directed) == stated


@pytest.mark.parametrize(("kind", "metric"), [k for k in KINDS if declared(*k).new_items])
def test_new_items_are_at_the_distances_of_the_matrix(kind, metric):
    for seed in range(3):
        X = random_table(seed, metric)
        source = SPECS[kind](metric, seed).bind(X)
        scale = float(np.max(source.matrix()))
        np.testing.assert_allclose(
            source.cross(X), np.asarray(source.matrix()), rtol=1e-9, atol=1e-7 * scale
        )


@pytest.mark.parametrize(("kind", "metric"), [k for k in KINDS if not declared(*k).new_items])
def test_other_kinds_need_data(kind, metric):
    function = getattr(mm.dissimilarity, kind, None)
    if callable(function):
        with pytest.raises(TypeError, match="argument"):
            function()


@pytest.mark.parametrize(("kind", "metric"), [k for k in KINDS if declared(*k).new_items])
def test_equal_rows_are_at_zero_in_the_matrix_its_rows_and_from_new_items(kind, metric):
    X = random_table(0, metric)
    X[5] = X[17]
    if metric in ON_SETS:
        X[5] *= 2  # the same set
    source = SPECS[kind](metric, 0).bind(X)
    M, cross = np.asarray(source.matrix()), source.cross(X)
    rounding = 1e-7 * M.max()
    assert M[5, 17] <= rounding
    np.testing.assert_allclose(M[5], M[17], atol=rounding)
    np.testing.assert_allclose(cross, M, rtol=1e-9, atol=rounding)
    if kind == "features":
        np.testing.assert_allclose(feature_rows(X, metric).rows(np.arange(len(X))), M, atol=1e-12)
        np.testing.assert_array_equal(FeatureSource(X, metric).rows(np.array([5]))[0, [5, 17]], 0)


def test_a_function_that_is_not_zero_for_equal_rows():
    X = np.array([[0.0, 1.0], [2.0, 2.0], [0.0, 1.0]])
    source = features(metric=lambda x, y: 1.0 + abs(x - y).sum()).bind(X)
    expected = [[0, 4, 0], [4, 0, 4], [0, 4, 0]]
    np.testing.assert_array_equal(source.matrix(), expected)
    np.testing.assert_array_equal(source.cross(X), expected)


def test_arguments_that_void_the_triangle_inequality():
    X = random_table(0, "")
    for p, law in ((1, "metric"), (3, "metric"), (0.5, "no")):
        assert features(X, "minkowski", p=p).facts.metric == law
        assert (excess(features(X, "minkowski", p=p)) > 1e-9) == (law == "no")
    assert feature_facts("l1", {}) == facts("features", "cityblock")
    assert not features(X, lambda x, y: float(abs(x - y).max())).facts.triangle_inequality
    assert diffusion(random_graph(0), words(0), metric="euclidean").facts.metric == "pseudo-metric"


def test_stacks_pass_the_facts_on():
    X = random_table(0, "")[:21]
    graph = random_graph(0)
    sources = {
        "line": features(X),
        "links": path_length(graph, unreachable="bridge"),
        "unknown": np.asarray(features(X)),
        "computed": FeatureSource(X, "cosine"),
        "hops": GraphSource(graph, unreachable=9),
    }
    stack = DissimilarityStack(sources)
    metric = [None if known is None else known.metric for known in stack.facts]
    assert metric == ["metric", "pseudo-metric", None, "no", "pseudo-metric"]
    some = np.arange(5, 15)
    assert stack[np.ix_(some, some)].facts == stack.facts
    assert stack.select(["hops", "line"]).facts == (stack.facts[4], stack.facts[0])
    assert stack.rescaled("mean").facts == stack.facts
    labelled = path_length(graph, nodes=list(graph)[::-1], unreachable="bridge")
    assert DissimilarityStack([labelled], items=list(graph)).facts == (labelled.facts,)
    for dense in (False, True):
        stack = mm.sources_for(words(0), graph, nodes=21, dense=dense)
        bounds = {name: one.bound for name, one in zip(stack.names, stack.facts, strict=True)}
        assert bounds["links reach"] == -np.log(1e-6)
        assert bounds["links walks"] == bounds["links smoothed"] == 1.0
        assert bounds["numbers"] == bounds["links"] == np.inf


def test_copies_forget_the_facts():
    M = features(random_table(0, ""))
    assert M.facts == SourceFacts("metric", new_items=True)
    assert M[:3].facts is None
    assert M.copy().facts is None


def test_unknown_names_are_refused():
    with pytest.raises(mm.InputError, match=r"kind: expected one of .*'jaccard'"):
        facts("nonsense")
    with pytest.raises(mm.InputError, match=r"metric: expected one of .*'cosine'"):
        facts("features", "nonsense")

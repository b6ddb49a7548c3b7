"""Weights >= 0 and sources that are metrics: the edge lengths are the metric."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metricmix as mm
from metricmix.dissimilarity import features
from metricmix.mixture.edge_lengths import EdgeLengths, lengths_of
from metricmix.mixture.linear import link
from metricmix.paths.neighbours import nearest_by_rows
from metricmix.paths.trees import distances_from

METRICS = ("euclidean", "cityblock", "angular", "chebyshev")


def example(seed, weights, link="softplus"):
    X = np.random.default_rng(seed).normal(size=(20, 3))
    stack = mm.DissimilarityStack([features(X, metric) for metric in METRICS], scaling="mean")
    lengths = EdgeLengths(stack, mm.Mixture(weights, link=link, beta=2.0))
    return lengths, lengths_of(lengths.matrix(), directed=False)


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    weights=st.lists(st.floats(0, 10), min_size=4, max_size=4),
    link=st.sampled_from(["softplus", "identity"]),
)
def test_no_path_is_shorter_than_the_edge(seed, weights, link):
    lengths, plain = example(seed, weights, link)
    assert lengths.is_metric
    assert not plain.is_metric  # nothing is known of a bare matrix, so that paths are searched
    closed = mm.project(lengths.matrix())
    assert lengths.matrix() == pytest.approx(closed, rel=1e-9, abs=1e-12)


@st.composite
def metrics(draw):
    """Draw some metrics over the same items, (R, n, n): closures of random lengths, many tied."""
    n, R = draw(st.integers(3, 9)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    steps = draw(st.sampled_from([2, 5, 1000]))  # whole numbers, so that triangles are tight
    raw = rng.integers(0, steps + 1, size=(R, n, n)) / steps
    raw = np.minimum(raw, raw.swapaxes(1, 2))
    raw[:, np.arange(n), np.arange(n)] = 0.0
    return np.array([mm.project(one) for one in raw])


@settings(deadline=None, max_examples=200)
@given(st.floats(-50, 50), st.floats(-50, 50), st.sampled_from([0.1, 1.0, 10.0]))
def test_the_link_is_subadditive(a, b, beta):
    whole, one, other = link(np.array([a + b, a, b]), beta)
    assert whole <= (one + other) * (1 + 1e-12)


@settings(deadline=None, max_examples=200)
@given(st.floats(-20, 20), st.floats(-20, 20), st.sampled_from([0.5, 1.0, 4.0]))
def test_slack_of_the_link(a, b, beta):
    """At most log 2 / beta for one sign; more for two, at most by the smaller of both."""
    whole, one, other = link(np.array([a + b, a, b]), beta)
    most = np.log(2) / beta + (min(abs(a), abs(b)) if a * b < 0 else 0.0)
    assert one + other - whole <= most + 1e-9
    whole, one, other = link(np.array([0.01, -4.98, 4.99]), 1.0)
    assert one + other - whole == pytest.approx(4.305, abs=0.001)


@settings(deadline=None, max_examples=60)
@given(
    sources=metrics(),
    weights=st.lists(st.floats(0, 20), min_size=4, max_size=4),
    beta=st.sampled_from([0.1, 1.0, 10.0]),
)
def test_a_mixture_of_metrics_is_its_own_closure(sources, weights, beta):
    mixture = mm.Mixture(weights[: len(sources)], beta=beta)
    w = EdgeLengths(mm.DissimilarityStack(list(sources)), mixture).matrix()
    assert w[~np.eye(len(w), dtype=bool)].min() >= np.log(2) / beta * (1 - 1e-12)
    assert mm.project(w) == pytest.approx(w, rel=1e-12)
    assert mm.metric_violations(w).triangle <= 1e-12 * w.max()


@pytest.mark.parametrize(
    ("sources", "weights", "detour", "edge"),
    [
        ([features([[0.0], [1.0], [2.0]], "sqeuclidean")], [1.0], 2.63, 4.02),
        ([features([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]], "cosine")], [4.0], 2.88, 4.02),
        ([1.0 - np.eye(3), np.array([[0, 2, 1], [2, 0, 2], [1, 2, 0.0]])], [4.0, -2.0], 1.39, 2.13),
    ],
    ids=["squared distances", "cosine", "a negative weight"],
)
def test_three_items_refute_it_otherwise(sources, weights, detour, edge):
    """The table in docs/mathematics.md."""
    lengths = EdgeLengths(mm.DissimilarityStack(sources), mm.Mixture(weights))
    w = lengths.matrix()
    assert not lengths.is_metric
    assert (w[0, 1] + w[1, 2], w[0, 2]) == pytest.approx((detour, edge), abs=0.005)
    assert mm.project(w)[0, 2] == pytest.approx(w[0, 1] + w[1, 2])


@settings(deadline=None, max_examples=60)
@given(sources=metrics(), seed=st.integers(0, 2**32 - 1))
def test_another_source_or_a_negative_weight_is_searched(sources, seed):
    """Whatever the weights: never called a metric without a reason, and a metric in the end."""
    rng = np.random.default_rng(seed)
    n = sources.shape[1]
    X = rng.normal(size=(n, 2))
    own, squared = features(X, "euclidean"), features(X, "sqeuclidean")
    for stack, weights in (
        ([own, own], [rng.uniform(0, 9), -rng.uniform(1e-9, 9)]),
        ([own, squared], rng.uniform(0.1, 9, size=2)),
        ([own, *sources], rng.uniform(0, 9, size=1 + len(sources))),  # of which nothing is known
    ):
        lengths = EdgeLengths(mm.DissimilarityStack(stack), mm.Mixture(weights))
        assert not lengths.is_metric
        assert mm.is_metric(mm.project(lengths.matrix()))


def test_every_query_agrees_with_the_search():
    lengths, plain = example(0, [1.0, 0.5, 2.0, 0.0])
    roots = np.array([3, 7, 11, 19])
    assert distances_from(lengths, roots) == pytest.approx(distances_from(plain, roots))
    trees, slow = (mm.paths.shortest_path_trees(one, roots=roots) for one in (lengths, plain))
    assert trees.distances == pytest.approx(slow.distances)
    assert np.array_equal(trees.predecessors, slow.predecessors)
    for k in (1, 3):
        for one, other in zip(
            mm.nearest_labelled(lengths, None, roots, k),
            mm.nearest_labelled(plain, None, roots, k),
            strict=True,
        ):
            assert one == pytest.approx(other)
        for one, other in zip(mm.kneighbors(lengths, k=k), mm.kneighbors(plain, k=k), strict=True):
            assert one == pytest.approx(other)
    fewer = nearest_by_rows(lengths, roots, np.array([0, 1, 0, 1]), 3)
    assert fewer[1][:, 2].tolist() == [-1] * 20
    assert np.isinf(fewer[0][:, 2]).all()
    paths = mm.paths.shortest_paths(lengths, None, [0, 4, 4], [5, 4, 2])
    assert [path.nodes for path in paths] == [(0, 5), (4,), (4, 2)]


@pytest.mark.parametrize(
    ("metrics", "weights", "is_metric"),
    [
        (["euclidean", "cityblock"], [1.0, 1.0], True),
        (["euclidean", "cityblock"], [1.0, -1e-9], False),
        (["euclidean", "cosine"], [1.0, 1.0], False),
        (["euclidean", "sqeuclidean"], [1.0, 0.5], False),
    ],
)
def test_negative_weights_and_other_sources_need_the_search(metrics, weights, is_metric):
    X = np.random.default_rng(0).normal(size=(20, 3))
    stack = mm.DissimilarityStack([features(X, metric) for metric in metrics])
    assert EdgeLengths(stack, mm.Mixture(weights)).is_metric == is_metric
    assert mm.is_metric(mm.path_metric(stack, weights))

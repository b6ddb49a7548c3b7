"""Weights >= 0 and sources that are metrics: the edge lengths are the metric."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metricmix as mm
from metricmix.dissimilarity import features
from metricmix.mixture.edge_lengths import EdgeLengths, lengths_of
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

"""The default sources of a plain table, and those of a graph with labels."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_wine

import metricmix as mm
from metricmix.dissimilarity.table_sources import scaled_columns, without_far_values


def test_every_default_source_of_a_table_is_a_metric():
    X, y = load_wine(return_X_y=True)
    stack = mm.sources_for(X, labels=np.where(np.arange(len(y)) % 5, -1, y))
    assert stack.n_sources <= 20
    for name, known in zip(stack.names, stack.facts, strict=True):
        assert known.triangle_inequality
        assert mm.is_metric(stack.source(name)), name
    model = mm.MetricMixtureClassifier(stack, constraint="nonnegative", rho=1e-4)
    model.fit(np.arange(len(y)), np.where(np.arange(len(y)) % 5, -1, y))
    assert mm.is_metric(model.compute_metric())
    assert np.mean(model.transduction_ == y) > 0.93


def test_every_default_source_of_a_labelled_graph_is_a_metric():
    data = mm.datasets.make_attributed_graph(80, 3, random_state=0)
    known = np.where(np.arange(80) % 4, -1, data.target)
    stack = mm.sources_for(data.data, data.edges, nodes=80, labels=known)
    assert stack.n_sources <= 20
    for name, facts in zip(stack.names, stack.facts, strict=True):
        assert facts.triangle_inequality
        assert mm.is_metric(stack.source(name)), name


def test_one_far_value_stretches_nothing():
    X = np.random.default_rng(0).normal(size=(50, 3))
    far = X.copy()
    far[7, 1] = 1e9
    others = np.arange(50) != 7
    assert scaled_columns(far)[others] == pytest.approx(scaled_columns(X)[others], abs=0.5)
    assert np.abs(scaled_columns(far)).max() <= 3
    mostly_zero = np.zeros((50, 1))
    mostly_zero[:5] = 1.0
    mostly_zero[9] = 1e9
    scaled = scaled_columns(mostly_zero)
    assert scaled[0] > 1  # the few ones still differ from the zeros
    assert np.array_equal(scaled_columns(np.ones((4, 2))), np.zeros((4, 2)))


def test_tables_with_negative_values_and_sparse_ones():
    from scipy.sparse import csr_array

    X = np.random.default_rng(0).poisson(1.0, (30, 6)).astype(float)
    dense, sparse = mm.sources_for(X), mm.sources_for(csr_array(X))
    assert np.asarray(dense) == pytest.approx(np.asarray(sparse))
    assert np.isfinite(np.asarray(mm.sources_for(X - 1))).all()
    edges = [(k, k + 1) for k in range(29)]
    signed = mm.sources_for(X - 1, edges, nodes=30, labels=np.arange(30) % 2)
    assert np.isfinite(np.asarray(signed)).all()

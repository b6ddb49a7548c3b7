from __future__ import annotations

import numpy as np
import pytest

import metricmix as mm
from metricmix.mixture.network import NetworkMixture, network_values


def test_values_are_those_of_the_formula():
    rng = np.random.default_rng(0)
    R, H, pairs = 3, 4, 10
    raw = rng.random((R, pairs))
    linear, hidden = rng.normal(size=R), rng.normal(size=(H, R))
    bias, out = rng.normal(size=H), rng.normal(size=H)
    m = np.full(pairs, np.nan)
    network_values(raw, 2, 9, linear, hidden, bias, out, m)
    expected = linear @ raw + out @ (np.tanh(hidden @ raw + bias[:, None]) - np.tanh(bias)[:, None])
    assert m[2:9] == pytest.approx(expected[2:9], abs=1e-12)
    assert np.isnan(m[[0, 1, 9]]).all()


def test_weights_of_a_pair_add_up_to_its_value():
    rng = np.random.default_rng(1)
    stack = mm.DissimilarityStack([1.0 - np.eye(3)] * 2)
    parts = (rng.normal(size=2), rng.normal(size=(4, 2)), rng.normal(size=4), rng.normal(size=4))
    mixture = NetworkMixture([1.0, 1.0], *parts)
    raw = np.column_stack([rng.random((2, 6)), np.zeros(2)])
    weights = mixture.pair_weights(raw, stack)
    assert (weights * raw).sum(axis=0) == pytest.approx(mixture.values(raw, stack), abs=1e-12)


def test_a_convex_network_of_a_metric_is_no_metric():
    """A threshold: two edges below it are together shorter than one beyond it."""
    place = np.array([0.0, 2.0, 4.0])
    stack = mm.DissimilarityStack([abs(place[:, None] - place)])
    mixture = NetworkMixture([1.0], [0.0], [[2.0]], [-6.0], [10.0], link="identity")
    w = mm.mixture.edge_lengths(stack, mixture).matrix()
    assert w[0, 1] + w[1, 2] < w[0, 2]
    assert mm.is_metric(mm.path_metric(stack, mixture))

from __future__ import annotations

import numpy as np
import pytest

from metricmix.mixture.network import network_values


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

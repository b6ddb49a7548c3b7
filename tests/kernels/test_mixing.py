"""Rows of mixtures and edge lengths, against the formula one number at a time."""

from __future__ import annotations

import numpy as np
import pytest

from metricmix.kernels.mixing import (
    dense_edge_gradient,
    floor_of,
    form_lengths,
    length_of,
    link_in_place,
    mix_row,
    mix_rows,
    tangent_of,
)
from reference.instances import random_sources
from reference.mixing import lengths, sigmoid, softplus

WEIGHTS = np.array([0.8, -0.5, 0.3])
LINKS = [(0, "identity"), (1, "softplus")]


def sources(directed=True, dtype=np.float64):
    return np.array(random_sources(np.random.default_rng(0), 9, 3, directed=directed, dtype=dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_and_columns_of_the_mixture(dtype):
    block = sources(dtype=dtype)
    expected = np.tensordot(WEIGHTS, block.astype(np.float64), axes=1)
    m = np.empty(9)
    for u in range(9):
        mix_row(block, WEIGHTS, u, False, m)
        assert m == pytest.approx(expected[u])
        mix_row(block, WEIGHTS, u, True, m)
        assert m == pytest.approx(expected[:, u])
    some = np.empty((4, 9))
    mix_rows(block, WEIGHTS, 3, some)
    assert some == pytest.approx(expected[3:7])


@pytest.mark.parametrize("beta", [0.5, 1.0, 4.0])
def test_one_edge_length_and_its_lower_bound(beta):
    for m in np.linspace(-30, 30, 121):
        assert length_of(m, beta, 1) == pytest.approx(softplus(m, beta), rel=1e-12)
        assert length_of(m, beta, 0) == max(m, 0.0)
        for link in (0, 1):
            bound = floor_of(m, *tangent_of(beta, link))
            assert 0 <= bound <= length_of(m, beta, link)
    shift, slope = tangent_of(beta, 1)  # the tangent of softplus at 0
    assert (shift, slope) == (pytest.approx(softplus(0.0, beta)), 0.5)


@pytest.mark.parametrize(("code", "name"), LINKS)
def test_matrix_of_lengths(code, name):
    block = sources()
    expected = lengths(block, WEIGHTS, 2.0, name)
    w = np.empty((5, 9))
    form_lengths(block, WEIGHTS, 2.0, code, 2, w)
    assert w == pytest.approx(expected[2:7])
    m = np.tensordot(WEIGHTS, block, axes=1)
    link_in_place(m, 2.0, code)
    np.fill_diagonal(m, 0.0)
    assert m == pytest.approx(expected)


@pytest.mark.parametrize(("code", "name"), LINKS)
def test_gradient_of_flows_on_edges(code, name):
    block = sources()
    rng = np.random.default_rng(1)
    flow = np.where(rng.random((9, 9)) < 0.5, rng.normal(size=(9, 9)), 0.0)
    gradient = np.zeros((9, 3))
    dense_edge_gradient(block, WEIGHTS, 2.0, code, np.arange(9), flow, gradient)
    for u in range(9):
        for r in range(3):
            total = 0.0
            for v in range(9):
                m = float(WEIGHTS @ block[:, u, v])
                slope = sigmoid(m, 2.0) if name == "softplus" else float(m >= 0)
                total += flow[u, v] * slope * block[r, u, v]
            assert gradient[u, r] == pytest.approx(total)

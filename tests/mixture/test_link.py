"""The link: stable, positive, differentiable, invertible."""

from __future__ import annotations

import math

import numpy as np
import pytest

import metricmix as mm
from metricmix.kernels.mixing import length_of
from metricmix.mixture import inverse_link, link, link_derivative
from metricmix.mixture.linear import LINKS, link_code
from reference.mixing import sigmoid, softplus

BETAS = [0.3, 1.0, 5.0]


@pytest.mark.parametrize("beta", BETAS)
def test_formula(beta):
    m = np.linspace(-20, 20, 401)
    assert link(m, beta) == pytest.approx([softplus(x, beta) for x in m], rel=1e-12, abs=1e-14)
    assert link_derivative(m, beta) == pytest.approx([sigmoid(x, beta) for x in m], rel=1e-12)


@pytest.mark.parametrize("beta", BETAS)
def test_relative_accuracy_far_below_zero(beta):
    # There, log(1 + e^x) = e^x to the last digit.
    m = np.array([-100.0, -50.0, -40.0]) / beta
    assert link(m, beta) == pytest.approx(np.exp(beta * m) / beta, rel=1e-13, abs=0)
    assert link_derivative(m, beta) == pytest.approx(np.exp(beta * m), rel=1e-13, abs=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("beta", [1.0, 0.01, 100.0])
def test_stable_far_from_zero(dtype, beta):
    m = np.array([-1e30, -1000.0, 0.0, 1000.0, 1e30], dtype=dtype)
    with np.errstate(all="raise", under="ignore"):
        w, slope = link(m, beta), link_derivative(m, beta)
    assert w.dtype == dtype
    tiny = np.finfo(dtype).tiny
    assert (w >= tiny).all()
    assert w[0] == tiny
    assert w[2] == pytest.approx(math.log(2) / beta, rel=1e-6)
    assert w[4] == m[4]
    assert slope[0] == 0.0
    assert slope[2] == 0.5
    assert slope[4] == 1.0
    assert ((slope >= 0) & (slope <= 1)).all()
    if beta == 1.0:
        assert w[1] == tiny
        assert w[3] == 1000.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_always_positive(dtype):
    m = -np.logspace(-3, 6, 2000).astype(dtype)
    for beta in BETAS:
        w = link(m, beta)
        assert w.dtype == dtype
        assert (w > 0).all()
        assert (np.diff(w) <= 0).all()  # the more negative, the shorter


def test_monotone_and_above_its_hinge():
    m = np.linspace(-800, 800, 5001)
    w = link(m)
    assert (np.diff(w) >= 0).all()
    assert (w >= np.maximum(m, 0)).all()
    assert (w <= np.maximum(m, 0) + math.log(2)).all()


@pytest.mark.parametrize("beta", BETAS)
def test_derivative_against_central_differences(beta):
    m = np.linspace(-6, 6, 101)
    numeric = (link(m + 1e-6, beta) - link(m - 1e-6, beta)) / 2e-6
    assert link_derivative(m, beta) == pytest.approx(numeric, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("beta", BETAS)
def test_inverse(beta):
    w = np.logspace(-250, 8, 300)
    m = inverse_link(w, beta)
    assert np.isfinite(m).all()
    assert link(m, beta) == pytest.approx(w, rel=1e-10, abs=0)
    m = np.linspace(-500, 500, 300) / beta
    assert inverse_link(link(m, beta), beta) == pytest.approx(m, rel=1e-9, abs=1e-9)


def test_identity():
    m = np.array([-1e-17, 0.0, 2.5])
    assert link(m, name="identity").tolist() == [0.0, 0.0, 2.5]
    assert link_derivative(m, name="identity").tolist() == [0.0, 1.0, 1.0]
    inverse = inverse_link(m, name="identity")
    assert inverse.tolist() == m.tolist()
    assert inverse is not m


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("beta", BETAS)
def test_kernel_agrees(name, beta):
    m = np.concatenate([np.linspace(-900, 900, 201), [-1e9, 0.0, 1e9]])
    compiled = [length_of(x, beta, link_code(name)) for x in m]
    assert compiled == pytest.approx(link(m, beta, name), rel=1e-14, abs=0)


def test_any_shape():
    m = np.arange(24.0).reshape(2, 3, 4) - 10
    assert link(m).shape == link_derivative(m).shape == (2, 3, 4)
    assert link(np.array(0.0)) == pytest.approx(math.log(2))


def test_unknown_links_are_refused():
    for function in (link, link_derivative, inverse_link):
        with pytest.raises(mm.InputError, match="link: expected one of 'identity', 'softplus'"):
            function(np.zeros(3), 1.0, "relu")

"""Laws of the shortest-path closure, for whatever lengths hypothesis comes up with."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from metricmix.metric import is_metric
from metricmix.paths.all_pairs import project

directions = pytest.mark.parametrize("directed", [False, True])
LENGTHS = st.one_of(st.just(0.0), st.just(np.inf), st.floats(2.0**-10, 2.0**10, width=32))


@st.composite
def matrices(draw, elements=LENGTHS, largest=14):
    """Square matrices of lengths with a zero diagonal, in either precision."""
    n = draw(st.integers(1, largest))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    W = draw(arrays(dtype, (n, n), elements=elements))
    np.fill_diagonal(W, 0)
    return W


def lengths(W, directed):
    return W if directed else np.minimum(W, W.T)


def close(a, b):
    """Equal up to the rounding of a few additions."""
    np.testing.assert_allclose(a, b, rtol=16 * np.finfo(a.dtype).eps)


@directions
@given(W=matrices())
@settings(max_examples=40, deadline=None)
def test_never_above_its_input(directed, W):
    W = lengths(W, directed)
    d = project(W, directed)
    assert (d <= W).all()
    assert (d >= 0).all()
    assert (np.diagonal(d) == 0).all()
    assert directed or (d == d.T).all()


@directions
@given(W=matrices())
@settings(max_examples=40, deadline=None)
def test_idempotent(directed, W):
    d = project(lengths(W, directed), directed)
    close(project(d, directed), d)


@directions
@given(W=matrices())
@settings(max_examples=40, deadline=None)
def test_triangles_hold_even_with_unreachable_pairs(directed, W):
    d = project(lengths(W, directed), directed)
    detours = (d[:, :, None] + d[None]).min(axis=1)
    close(np.minimum(d, detours), d)


@directions
@given(W=matrices(elements=st.one_of(st.just(0.0), st.floats(2.0**-10, 2.0**10, width=32))))
@settings(max_examples=40, deadline=None)
def test_is_a_metric(directed, W):
    assert is_metric(project(lengths(W, directed), directed), directed=directed)


@directions
@given(W=matrices(), data=st.data())
@settings(max_examples=40, deadline=None)
def test_permutation_equivariant(directed, W, data):
    W = lengths(W, directed)
    order = np.array(data.draw(st.permutations(range(len(W)))))
    grid = np.ix_(order, order)
    close(project(W[grid], directed), project(W, directed)[grid])


@directions
@given(W=matrices(), power=st.integers(-8, 8))
@settings(max_examples=40, deadline=None)
def test_scaling_equivariant(directed, W, power):
    """Exactly so for powers of two, which round nothing."""
    W = lengths(W, directed)
    factor = W.dtype.type(2.0**power)
    np.testing.assert_array_equal(project(factor * W, directed), factor * project(W, directed))


@given(X=arrays(np.float64, st.tuples(st.integers(1, 14), st.just(2)), elements=st.integers(0, 50)))
@settings(max_examples=40, deadline=None)
def test_fixes_metrics(X):
    """City-block distances of integer points are a metric without any rounding."""
    D = np.abs(X[:, None] - X).sum(axis=-1)
    np.testing.assert_array_equal(project(D), D)
    np.testing.assert_array_equal(project(D, directed=True), D)


@directions
@given(W=matrices(), shrink=st.floats(0.1, 1.0))
@settings(max_examples=40, deadline=None)
def test_monotone(directed, W, shrink):
    """Shorter edges never make a longer path: rounding is monotone too."""
    W = lengths(W, directed)
    less = W * W.dtype.type(shrink)
    assert (project(less, directed) <= project(W, directed)).all()


@given(W=matrices())
@settings(max_examples=40, deadline=None)
def test_directed_and_undirected_agree_on_symmetric_lengths(W):
    W = lengths(W, False)
    close(project(W, directed=True), project(W))


@given(W=matrices())
@settings(max_examples=40, deadline=None)
def test_reversing_every_edge_transposes(W):
    close(project(W.T, directed=True), project(W, directed=True).T)

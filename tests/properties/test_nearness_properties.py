"""Laws of nearest metrics, for whatever dissimilarities hypothesis comes up with."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import metricmix as mm
from reference.nearness import objective_of, pairs

NORMS = ("l2", "l1", "linf", "increase")
norms = pytest.mark.parametrize("norm", NORMS)
ENTRIES = st.one_of(st.just(0.0), st.just(1.0), st.floats(2.0**-6, 2.0**6, width=32))


@st.composite
def dissimilarities(draw, largest=8):
    n = draw(st.integers(3, largest))
    D = np.tril(draw(arrays(np.float64, (n, n), elements=ENTRIES)), -1)
    return D + D.T


def nearest(D, norm, **options):
    return mm.nearest_metric(D, norm, tol=1e-6, max_iter=5000, **options)


@norms
@given(D=dissimilarities())
@settings(max_examples=40, deadline=None)
def test_is_a_metric_with_a_gap(norm, D):
    result = nearest(D, norm)
    assert mm.is_metric(result.metric, tol=1e-9)
    assert result.lower_bound <= result.objective
    assert result.gap <= 1e-6
    told = objective_of(norm, pairs(result.metric), pairs(D), 1.0)
    assert result.objective == pytest.approx(told, rel=1e-9, abs=1e-12 * max(1.0, D.max()) ** 2)


@norms
@given(D=dissimilarities())
@settings(max_examples=40, deadline=None)
def test_never_worse_than_the_closure(norm, D):
    result = nearest(D, norm)
    if norm != "increase":
        closure = objective_of(norm, pairs(mm.project(D)), pairs(D), 1.0)
        assert result.objective <= closure * (1 + 1e-12)


@norms
@given(D=dissimilarities())
@settings(max_examples=40, deadline=None)
def test_fixes_metrics(norm, D):
    metric = mm.project(mm.project(D))
    result = nearest(metric, norm)
    np.testing.assert_allclose(result.metric, metric, rtol=1e-12, atol=1e-13 * D.max(initial=0))


@norms
@given(D=dissimilarities(), power=st.integers(-20, 20))
@settings(max_examples=40, deadline=None)
def test_scales_along(norm, D, power):
    """Exactly so for powers of two, which round nothing."""
    factor = 2.0**power
    result, scaled = nearest(D, norm), nearest(factor * D, norm)
    np.testing.assert_array_equal(scaled.metric, factor * result.metric)


@norms
@given(D=dissimilarities(), data=st.data())
@settings(max_examples=40, deadline=None)
def test_names_of_items_do_not_matter(norm, D, data):
    order = np.array(data.draw(st.permutations(range(len(D)))))
    grid = np.ix_(order, order)
    result, renamed = nearest(D, norm), nearest(D[grid], norm)
    small = 1e-9 * max(1.0, D.max()) ** 2
    assert renamed.objective == pytest.approx(result.objective, rel=3e-6, abs=small)
    if norm in ("l2", "increase"):  # the others may have many solutions
        close = 4e-3 * np.sqrt(result.objective) + 1e-7 * D.max()
        np.testing.assert_allclose(renamed.metric, result.metric[grid], atol=close)


@given(D=dissimilarities())
@settings(max_examples=40, deadline=None)
def test_squares_project_onto_a_cone(D):
    """x - d is orthogonal to x, and no metric is on d's side of that plane."""
    x = pairs(mm.nearest_metric(D, tol=1e-10, max_iter=5000).metric)
    d = pairs(D)
    size = float(d @ d) + 1e-300
    assert abs((x - d) @ x) <= 1e-4 * size
    for metric in (1 - np.eye(len(D)), mm.project(D)):
        assert (x - d) @ pairs(metric) >= -1e-4 * size


@given(D=dissimilarities())
@settings(max_examples=40, deadline=None)
def test_norms_are_ordered(D):
    """Each is best in its own norm."""
    found = {norm: pairs(nearest(D, norm).metric) for norm in NORMS}
    for norm in ("l2", "l1", "linf"):
        own = objective_of(norm, found[norm], pairs(D), 1.0)
        for other in NORMS:
            there = objective_of(norm, found[other], pairs(D), 1.0)
            assert own <= there * (1 + 2e-6) + 1e-9 * max(1.0, D.max()) ** 2

"""Laws of filled entries, for whatever dissimilarities hypothesis comes up with."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import metricmix as mm
from metricmix.nearness.unknown import fill_unknown

NORMS = ("l2", "l1", "linf", "decrease", "increase")
ENTRIES = st.one_of(st.just(0.0), st.just(1.0), st.floats(2.0**-6, 2.0**6, width=32))
few = settings(max_examples=60, deadline=None)


@st.composite
def dissimilarities(draw, largest=9):
    """Dissimilarities, and unknown pairs that leave a tree of known ones."""
    n = draw(st.integers(3, largest))
    D = np.tril(draw(arrays(np.float64, (n, n), elements=ENTRIES)), -1)
    unknown = np.tril(draw(arrays(bool, (n, n))), -1)
    for i in range(1, n):
        unknown[i, draw(st.integers(0, i - 1))] = False
    return D + D.T, unknown | unknown.T


def metric_of(D):
    """The closure of the closure: free of rounding errors of sums."""
    return mm.project(mm.project(D))


@given(case=dissimilarities())
@few
def test_known_entries_stay_and_the_others_lie_inside_their_intervals(case):
    d, unknown = metric_of(case[0]), case[1]
    metric, filled, allowed = fill_unknown(d, unknown)
    np.testing.assert_array_equal(metric[~unknown], d[~unknown])
    assert mm.is_metric(metric, tol=1e-12)
    value, (low, high) = metric[tuple(filled.T)], allowed.T
    room = high > low
    assert ((low < value) & (value < high))[room].all()
    np.testing.assert_allclose(value[~room], high[~room], rtol=1e-12)
    assert (low <= d[tuple(filled.T)] * (1 + 1e-12)).all()
    assert (d[tuple(filled.T)] <= high * (1 + 1e-12)).all()


@given(case=dissimilarities(), data=st.data())
@few
def test_a_single_unknown_entry_is_the_midpoint(case, data):
    d = metric_of(case[0])
    i, j = data.draw(st.permutations(range(len(d))))[:2]
    unknown = np.zeros(d.shape, bool)
    unknown[i, j] = unknown[j, i] = True
    metric, _, [[low, high]] = fill_unknown(d, unknown)
    others = [k for k in range(len(d)) if k not in (i, j)]
    assert low == pytest.approx(abs(d[i, others] - d[j, others]).max(), abs=1e-11)
    assert high == pytest.approx((d[i, others] + d[j, others]).min(), abs=1e-11)
    assert metric[i, j] == pytest.approx((low + high) / 2, abs=1e-11)


@given(case=dissimilarities(), data=st.data(), power=st.integers(-20, 20))
@few
def test_names_of_items_and_units_do_not_matter(case, data, power):
    d, unknown = metric_of(case[0]), case[1]
    order = np.array(data.draw(st.permutations(range(len(d)))))
    grid = np.ix_(order, order)
    metric = fill_unknown(d, unknown).metric
    renamed = fill_unknown(d[grid], unknown[grid]).metric
    np.testing.assert_allclose(renamed, metric[grid], rtol=1e-12, atol=1e-12)
    scaled = fill_unknown(2.0**power * d, unknown).metric
    np.testing.assert_array_equal(scaled, 2.0**power * metric)


@pytest.mark.parametrize("norm", NORMS)
@given(case=dissimilarities(largest=7))
@settings(max_examples=25, deadline=None)
def test_every_norm_fills_the_metric_that_it_finds(norm, case):
    D, unknown = case
    D = np.where(unknown, np.nan, D)
    result = mm.nearest_metric(D, norm, max_iter=5000)
    assert mm.is_metric(result.metric, tol=1e-9)
    assert result.lower_bound <= result.objective
    again = fill_unknown(result.metric, unknown)
    np.testing.assert_allclose(again.metric, result.metric, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(again.allowed, result.allowed, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(again.filled, result.filled)
    repaired = mm.MetricRepair(norm).fit(D)
    np.testing.assert_allclose(repaired.metric_, result.metric, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(repaired.filled_, result.filled)

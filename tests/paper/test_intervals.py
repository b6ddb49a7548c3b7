"""Means and intervals against scipy, verdicts at their edges."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from metricmix.paper.claims import Verdict, above, below, within
from metricmix.paper.results import Interval, geometric_interval, mean_interval

HOLDS, FAILS, UNCLEAR = Verdict.HOLDS, Verdict.FAILS, Verdict.UNCLEAR


@pytest.mark.parametrize("n", [2, 3, 10, 200])
def test_interval_is_that_of_a_t_test(n: int) -> None:
    x = np.random.default_rng(n).normal(3.0, 2.0, n)
    low, high = stats.ttest_1samp(x, 0.0).confidence_interval(0.95)
    found = mean_interval(x)
    assert (found.mean, found.low, found.high) == pytest.approx((x.mean(), low, high))
    assert found.std == pytest.approx(stats.tstd(x))
    assert found.count == n


def test_anything_that_can_be_gone_through() -> None:
    expected = mean_interval([1.0, 2.0, 4.0])
    assert mean_interval(x for x in (1.0, 2.0, 4.0)) == expected
    assert mean_interval((1, 2, 4)) == expected
    assert mean_interval(np.array([1.0, 2.0, 4.0])) == expected


def test_equal_values_leave_no_doubt() -> None:
    assert mean_interval([0.5] * 4) == Interval(0.5, 0.5, 0.5, 0.0, 4)


def test_a_single_value_has_no_interval() -> None:
    found = mean_interval([0.25])
    assert (found.mean, found.count) == (0.25, 1)
    assert found.text(".2f") == "0.25"


@pytest.mark.parametrize("n", [2, 30])
def test_geometric_interval_is_that_of_the_logarithms(n: int) -> None:
    x = np.random.default_rng(n).lognormal(0.3, 0.5, n)
    low, high = stats.ttest_1samp(np.log(x), 0.0).confidence_interval(0.95)
    found = geometric_interval(x)
    assert found.mean == pytest.approx(stats.gmean(x))
    assert (found.low, found.high) == pytest.approx((math.exp(low), math.exp(high)))
    assert found.count == n


def test_geometric_mean_of_ratios_and_of_their_inverses() -> None:
    x = [0.5, 3.0, 1.7]
    there, back = geometric_interval(x), geometric_interval([1 / value for value in x])
    assert there.mean * back.mean == pytest.approx(1.0)
    assert there.low * back.high == pytest.approx(1.0)


def test_text() -> None:
    assert Interval(0.5, 0.25, 0.75, 0.1, 9).text() == "0.500 [0.250, 0.750]"
    assert Interval(0.05, -0.01, 0.11, 0.1, 9).text("+.2f") == "+0.05 [-0.01, +0.11]"


def spanning(low: float, high: float) -> Interval:
    return Interval((low + high) / 2, low, high, 1.0, 10)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.1, 0.3, HOLDS),
        (1e-12, 0.3, HOLDS),
        (0.0, 0.3, UNCLEAR),
        (-0.1, 0.1, UNCLEAR),
        (-0.3, 1e-12, UNCLEAR),
        (-0.3, 0.0, UNCLEAR),
        (-0.3, -0.1, FAILS),
        (0.0, 0.0, UNCLEAR),
        (math.nan, math.nan, UNCLEAR),
    ],
)
def test_above_zero_and_below_zero_are_mirror_images(
    low: float, high: float, verdict: Verdict
) -> None:
    assert above(spanning(low, high)) is verdict
    assert below(spanning(-high, -low)) is verdict


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.91, 0.99, HOLDS),
        (0.9, 0.99, UNCLEAR),
        (0.8, 0.9, UNCLEAR),
        (0.8, 0.89, FAILS),
        (0.8, 0.91, UNCLEAR),
    ],
)
def test_above_a_bound(low: float, high: float, verdict: Verdict) -> None:
    assert above(spanning(low, high), 0.9) is verdict


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.5, 1.24, HOLDS),
        (0.5, 1.25, UNCLEAR),
        (1.25, 2.0, UNCLEAR),
        (1.26, 2.0, FAILS),
        (1.24, 2.0, UNCLEAR),
    ],
)
def test_below_a_bound(low: float, high: float, verdict: Verdict) -> None:
    assert below(spanning(low, high), 1.25) is verdict


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (-0.01, 0.01, HOLDS),
        (0.01, 0.049, HOLDS),
        (-0.049, -0.01, HOLDS),
        (-0.05, 0.01, UNCLEAR),
        (-0.01, 0.05, UNCLEAR),
        (-0.2, 0.2, UNCLEAR),
        (0.049, 0.2, UNCLEAR),
        (0.05, 0.2, FAILS),
        (-0.2, -0.05, FAILS),
        (-0.2, -0.049, UNCLEAR),
        (math.nan, math.nan, UNCLEAR),
    ],
)
def test_within_a_margin(low: float, high: float, verdict: Verdict) -> None:
    assert within(spanning(low, high), 0.05) is verdict


@pytest.mark.parametrize("judge", [above, below])
def test_one_repetition_tells_nothing(judge: object) -> None:
    assert callable(judge)
    assert judge(mean_interval([0.1])) is UNCLEAR
    assert judge(mean_interval([-0.1])) is UNCLEAR

"""Means with 95 % confidence intervals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["Interval", "difference_interval", "geometric", "mean_interval"]


@dataclass(frozen=True)
class Interval:
    """A mean, where it lies with 95 % confidence, and the spread and number of what it is of.

    The mean of a single value may lie anywhere.
    """

    mean: float
    low: float
    high: float
    std: float
    count: int

    def text(self, form: str = ".3f") -> str:
        """Return it in words.

        >>> mean_interval([1.0, 2.0, 3.0]).text(".1f")
        '2.0 [-0.5, 4.5]'
        """
        if self.count < 2:
            return f"{self.mean:{form}}"
        return f"{self.mean:{form}} [{self.low:{form}}, {self.high:{form}}]"


def mean_interval(values: Iterable[float] | ArrayLike) -> Interval:
    """Return the mean with Student's interval."""
    from scipy.stats import t

    x = np.asarray(list(values) if isinstance(values, Iterable) else values, dtype=np.float64)
    mean = float(x.mean())
    if len(x) < 2:
        return Interval(mean, -np.inf, np.inf, 0.0, len(x))
    std = float(x.std(ddof=1))
    half = float(t.ppf(0.975, len(x) - 1)) * std / np.sqrt(len(x))
    return Interval(mean, mean - half, mean + half, std, len(x))


def difference_interval(first: Interval, second: Interval) -> Interval:
    """Return the second mean minus the first, of independent samples, with Welch's interval."""
    from scipy.stats import t

    apart, count = second.mean - first.mean, first.count + second.count
    if min(first.count, second.count) < 2:
        return Interval(apart, -np.inf, np.inf, 0.0, count)
    a, b = first.std**2 / first.count, second.std**2 / second.count
    if a + b == 0:
        return Interval(apart, apart, apart, 0.0, count)
    freedom = (a + b) ** 2 / (a**2 / (first.count - 1) + b**2 / (second.count - 1))
    half = float(t.ppf(0.975, freedom)) * float(np.sqrt(a + b))
    return Interval(apart, apart - half, apart + half, 0.0, count)


def geometric(values: Iterable[float]) -> Interval:
    """Return the geometric mean of positive values with its interval: for ratios and times.

    >>> round(geometric([1.0, 100.0]).mean, 6)
    10.0
    """
    logs = mean_interval(np.log(list(values)))
    return Interval(
        float(np.exp(logs.mean)),
        float(np.exp(logs.low)),
        float(np.exp(logs.high)),
        logs.std,
        logs.count,
    )

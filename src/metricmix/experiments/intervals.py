"""Means with 95 % confidence intervals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["Interval", "geometric", "mean_interval"]


@dataclass(frozen=True)
class Interval:
    """A mean, where it lies with 95 % confidence, and the spread and number of what it is of."""

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
    """Return the mean with Student's interval; a single value has none."""
    from scipy.stats import t

    x = np.asarray(list(values) if isinstance(values, Iterable) else values, dtype=np.float64)
    mean = float(x.mean())
    if len(x) < 2:
        return Interval(mean, mean, mean, 0.0, len(x))
    std = float(x.std(ddof=1))
    half = float(t.ppf(0.975, len(x) - 1)) * std / np.sqrt(len(x))
    return Interval(mean, mean - half, mean + half, std, len(x))


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

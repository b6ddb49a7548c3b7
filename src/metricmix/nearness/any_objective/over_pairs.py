r"""An objective as a function of one number per pair of items.

.. math:: f(x) = \sum_t p_t \Bigl(g_t(x_{t_1}, \dots, x_{t_q})
          + \frac{\rho}{q} \sum_k x_{t_k}^2\Bigr)

An item has distance 0 to itself: such places of a term look at an entry behind the last pair that
is always 0. Where q = 1 the terms of a pair add up to one function of its distance, and f is
separable: :math:`f(x) = \sum_e f_e(x_e)`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from metricmix.objectives.base import Objective

__all__ = ["OverPairs", "PairCosts", "summed", "with_zero"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

DOUBLINGS = 60


def with_zero(x: Floats) -> Floats:
    """Return the pairs, and the distance of an item to itself behind them."""
    return np.append(x, 0.0)


def summed(where: Indices, values: Floats, count: int) -> Floats:
    """Return the sums of the values at each place 0 .. count - 1."""
    sums: Floats = np.bincount(where, values, count).astype(np.float64, copy=False)
    return sums


class OverPairs:
    """Value and gradient of an objective over the pairs of n items.

    Attributes
    ----------
    pairs : int
    where : (T, q) array
        The pair that each place of a term looks at, or `pairs` for an item and itself.
    """

    def __init__(self, objective: Objective, n: int) -> None:
        self.objective, self.n, self.pairs = objective, n, n * (n - 1) // 2
        self.terms = np.arange(objective.n_terms(n))
        i, j = objective.pairs(self.terms, n)
        high, low = np.maximum(i, j), np.minimum(i, j)
        self.where: Indices = np.where(i == j, self.pairs, high * (high - 1) // 2 + low)
        self.p = objective.probabilities(self.terms, n)
        self.ridge = objective.rho / self.where.shape[1]

    @property
    def separable(self) -> bool:
        """Whether every term looks at one pair."""
        return bool(self.where.shape[1] == 1)

    def evaluate(self, terms: Indices, d: Floats, *, ridge: bool = True) -> tuple[Floats, Floats]:
        """Return what terms add to f at distances (T, q), and the derivatives by these."""
        value, slope = self.objective.evaluate(terms, d, self.n)
        p = self.p[terms]
        if ridge and self.ridge:
            value = value + self.ridge * (d**2).sum(axis=1)
            slope = slope + 2.0 * self.ridge * d
        return p * value, p[:, None] * slope

    def value_and_gradient(self, x: Floats) -> tuple[float, Floats]:
        """Return f and its derivatives by the pairs."""
        value, slope = self.evaluate(self.terms, with_zero(x)[self.where])
        return float(value.sum()), self.collect(slope)

    def collect(self, values: Floats) -> Floats:
        """Return, for each pair, the sum of (T, q) values over the places that look at it."""
        return summed(self.where.ravel(), values.ravel(), self.pairs + 1)[: self.pairs]


class PairCosts:
    r"""The functions :math:`f_e` of a separable objective, for any choice of pairs."""

    def __init__(self, over: OverPairs) -> None:
        self.over = over
        flat = over.where[:, 0]
        self.order = np.argsort(flat, kind="stable")
        self.counts = np.bincount(flat, minlength=over.pairs + 1)[: over.pairs]
        self.starts = np.cumsum(self.counts) - self.counts
        alone = self.order[self.counts.sum() :]
        own, _ = over.evaluate(alone, np.zeros((len(alone), 1)))
        self.constant = float(own.sum())

    def at(self, chosen: Indices, x: Floats) -> tuple[Floats, Floats]:
        """Return the values and slopes of the chosen pairs at distances x."""
        counts = self.counts[chosen]
        owner = np.repeat(np.arange(len(chosen)), counts)
        first = np.cumsum(counts) - counts
        terms = self.order[np.arange(len(owner)) + np.repeat(self.starts[chosen] - first, counts)]
        value, slope = self.over.evaluate(terms, x[owner, None])
        return (
            summed(owner, value, len(chosen)),
            summed(owner, slope[:, 0], len(chosen)),
        )

    def ceiling(self, top: float) -> float:
        """Return a length from which on no pair gains by growing, at least `top`; inf if none.

        Convex costs do not fall any more from there on. Cutting a metric off at that height leaves
        a metric that costs no more: some solution has no longer entry.
        """
        everyone = np.arange(self.over.pairs)
        height = top or 1.0
        for _ in range(DOUBLINGS):
            _, slope = self.at(everyone, np.full(len(everyone), height))
            if (slope >= 0).all():
                return height
            height *= 2.0
        return math.inf

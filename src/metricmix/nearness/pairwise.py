r"""An objective as a function of one number per pair of items.

.. math:: f(x) = \sum_t p_t \Bigl(g_t(x_{t_1}, \dots, x_{t_q})
          + \frac{\rho}{q} \sum_k x_{t_k}^2\Bigr)

An item has distance 0 to itself: such places of a term look at an entry behind the last pair that
is always 0. Where q = 1 the terms of a pair add up to one function of its distance, and f is
separable: :math:`f(x) = \sum_e f_e(x_e)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from metricmix.objectives.base import Objective
from metricmix.typing import Floats, Indices

__all__ = [
    "OverPairs",
    "PairCosts",
    "least_with",
    "prox_of_pairs",
    "prox_of_terms",
    "summed",
    "with_zero",
]


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


# -- proximal maps of convex terms, known by their values and slopes alone ----------------------

Slope = Callable[[Indices, Floats], Floats]

SHARP = 1e-14
"""Width of an enclosure that is small enough, relative to the largest entry."""
ASIDE = 0.4
"""How far beside a guess to look, in such widths: two looks enclose it."""
MAX_TRIES, MAX_CUTS = 200, 200


def prox_of_pairs(costs: PairCosts, v: Floats, sigma: float, guess: Floats) -> tuple[Floats, float]:
    """Return the proximal point y >= 0 of every pair, and the sum of all costs there."""
    everyone = np.arange(len(v))
    width = SHARP * float(max(np.abs(v).max(initial=0.0), guess.max(initial=0.0)))

    def slope(chosen: Indices, y: Floats) -> Floats:
        return costs.at(chosen, y)[1] + sigma * (y - v[chosen])

    # The slope of f itself grows, so that a step of h / sigma leads to the root or beyond it.
    at = np.maximum(v, 0.0)
    h = slope(everyone, at)
    beyond = np.maximum(at - h / sigma, 0.0)
    low, high = np.minimum(at, beyond), np.maximum(at, beyond)
    # Where f is linear, it leads right there.
    there = np.where(h < 0, high - ASIDE * width, low + ASIDE * width)
    y = _roots(slope, low, high, [there, *_beside(guess, width)], width)
    return y, float(costs.at(everyone, y)[0].sum()) + costs.constant


def least_with(
    costs: PairCosts, pull: Floats, ceiling: float, guess: Floats
) -> tuple[float, float]:
    r"""Return :math:`\sum_e \min f_e(x) + u_e x` over :math:`0 \le x \le U`, and what it is off by.

    Where the pull u has no positive product with any metric, that is a lower bound of f over the
    metrics that are nowhere longer than U.
    """
    everyone, width = np.arange(len(pull)), SHARP * ceiling
    low, high = np.zeros(len(pull)), np.full(len(pull), ceiling)

    def slope(chosen: Indices, x: Floats) -> Floats:
        return costs.at(chosen, x)[1] + pull[chosen]

    ends = [low + ASIDE * width, high - ASIDE * width]
    x = _roots(slope, low, high, [*_beside(guess, width), *ends], width)
    value, steep = costs.at(everyone, x)
    # The minimum is within a width of x; over that, a cost falls by its slope at most.
    error = width * float(np.abs(steep + pull).sum())
    return float((value + pull * x).sum()) + costs.constant, error


def _beside(guess: Floats, width: float) -> tuple[Floats, Floats]:
    return guess - ASIDE * width, guess + ASIDE * width


def _roots(slope: Slope, low: Floats, high: Floats, first: list[Floats], width: float) -> Floats:
    """Return where slopes change sign between low and high, looking at some places first."""
    low, high = low.copy(), high.copy()
    h_low, h_high = np.full(len(low), -np.inf), np.full(len(low), np.inf)
    left = np.flatnonzero(high - low > width)
    for tries in range(MAX_TRIES):
        if len(left) == 0:
            break
        a, b, ha, hb = low[left], high[left], h_low[left], h_high[left]
        y = first[tries][left] if tries < len(first) else _secant(a, b, ha, hb, width, tries)
        y = np.where((y > a) & (y < b), y, 0.5 * (a + b))
        h = slope(left, y)
        below = h < 0
        low[left], high[left] = np.where(below, y, a), np.where(below, b, y)
        h_low[left], h_high[left] = np.where(below, h, ha), np.where(below, hb, h)
        left = left[high[left] - low[left] > width]
    return 0.5 * (low + high)


def _secant(
    low: Floats, high: Floats, h_low: Floats, h_high: Floats, width: float, tries: int
) -> Floats:
    """Return the root of the line through the ends, but a little aside; the middle now and then.

    Both sides in turn, for the enclosure to shrink from both; NaN where an end is not known yet.
    """
    if tries % 3 == 0:
        return 0.5 * (low + high)
    with np.errstate(invalid="ignore"):
        share = h_low / (h_low - h_high)
    return low + share * (high - low) + (ASIDE if tries % 3 == 1 else -ASIDE) * width


def prox_of_terms(over: OverPairs, v: Floats, sigma: float) -> tuple[Floats, float]:
    """Return the proximal points (T, q) of all terms, and the sum of their values there.

    The values are those of the models, which touch f there or lie a little below. Terms are looked
    at where distances may be negative.
    """
    bend = 2.0 * over.ridge * over.p[:, None]  # the ridge moves the centre and stiffens the spring
    stiff = sigma + bend
    centre = sigma / stiff * v
    size = float(np.abs(centre).max(initial=0.0))
    flat, xi = np.full(len(v), -np.inf), np.zeros_like(v)  # the model: flat + xi (y - centre)
    y, left = centre.copy(), over.terms
    for _ in range(MAX_CUTS):
        away = y[left] - centre[left]
        value, slope = over.evaluate(left, y[left], ridge=False)
        cut = value - _dot(slope, away)
        short = value - flat[left] - _dot(xi[left], away)
        steep = (np.abs(slope) + np.abs(xi[left])).sum(axis=1)
        worse = short > SHARP * (np.abs(value) + size * steep)
        left, cut, slope = left[worse], cut[worse], slope[worse]
        if len(left) == 0:
            break
        share = _share_of_first(flat[left], xi[left], cut, slope, stiff[left, 0])
        flat[left] = cut + share * np.where(share > 0, flat[left] - cut, 0.0)
        xi[left] = slope + share[:, None] * (xi[left] - slope)
        y[left] = centre[left] - xi[left] / stiff[left]
    below = flat + _dot(xi, y - centre) + 0.5 * _dot(bend * y, y)
    return y, float(below.sum())


def _share_of_first(
    first: Floats, xi: Floats, second: Floats, slope: Floats, stiff: Floats
) -> Floats:
    """Return how much the first of two linear functions counts at the minimum of their maximum."""
    turn = xi - slope
    square = _dot(turn, turn)
    gain = stiff * (first - second) - _dot(slope, turn)
    known = np.isfinite(first) & (square > 0)
    return np.clip(np.divide(gain, square, out=np.zeros_like(gain), where=known), 0.0, 1.0)


def _dot(a: Floats, b: Floats) -> Floats:
    return np.asarray((a * b).sum(axis=1))

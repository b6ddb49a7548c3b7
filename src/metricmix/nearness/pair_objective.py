r"""An objective as a function of one number per pair of items.

.. math:: f(x) = \sum_t p_t \Bigl(g_t(x_{t_1}, \dots, x_{t_q})
          + \frac{\rho}{q} \sum_k x_{t_k}^2\Bigr)

The distance of an item to itself is 0: such arguments of a term refer to an entry after the last
pair that is always 0. If q = 1, the terms of a pair add up to one function of its distance, and f
is separable: :math:`f(x) = \sum_e f_e(x_e)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from metricmix.kernels.deadline import check_time
from metricmix.objectives.base import Objective
from metricmix.typing import Floats, Indices

__all__ = [
    "PairObjective",
    "SeparableCosts",
    "TermProperties",
    "check_smoothness",
    "prox_separable",
    "prox_terms",
    "separable_minimum",
    "sum_by_index",
    "with_zero",
]


def with_zero(x: Floats) -> Floats:
    """Return the pairs, followed by the distance of an item to itself."""
    return np.append(x, 0.0)


def sum_by_index(where: Indices, values: Floats, count: int) -> Floats:
    """Return the sums of the values at each index 0 .. count - 1."""
    sums: Floats = np.bincount(where, values, count).astype(np.float64, copy=False)
    return sums


class PairObjective:
    """Value and gradient of an objective over the pairs of n items.

    Attributes
    ----------
    pairs : int
    where : (T, q) array
        The pair of each argument of a term, or `pairs` for an item and itself.
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
        """Whether every term depends on one pair."""
        return bool(self.where.shape[1] == 1)

    def evaluate(self, terms: Indices, d: Floats, *, ridge: bool = True) -> tuple[Floats, Floats]:
        """Return the contributions of terms to f at distances (T, q), and their derivatives."""
        check_time()
        value, slope = self.objective.evaluate(terms, d, self.n)
        p = self.p[terms]
        if ridge and self.ridge:
            value = value + self.ridge * (d**2).sum(axis=1)
            slope = slope + 2.0 * self.ridge * d
        return p * value, p[:, None] * slope

    def value_and_gradient(self, x: Floats) -> tuple[float, Floats]:
        """Return f and its gradient."""
        value, slope = self.evaluate(self.terms, with_zero(x)[self.where])
        return float(value.sum()), self.collect(slope)

    def collect(self, values: Floats) -> Floats:
        """Return, for each pair, the sum of (T, q) values over the arguments that refer to it."""
        return sum_by_index(self.where.ravel(), values.ravel(), self.pairs + 1)[: self.pairs]


class SeparableCosts:
    r"""The functions :math:`f_e` of a separable objective, for any choice of pairs."""

    def __init__(self, objective: PairObjective) -> None:
        self.objective = objective
        flat = objective.where[:, 0]
        self.order = np.argsort(flat, kind="stable")
        self.counts = np.bincount(flat, minlength=objective.pairs + 1)[: objective.pairs]
        self.starts = np.cumsum(self.counts) - self.counts
        alone = self.order[self.counts.sum() :]
        own, _ = objective.evaluate(alone, np.zeros((len(alone), 1)))
        self.constant = float(own.sum())

    def at(self, chosen: Indices, x: Floats) -> tuple[Floats, Floats]:
        """Return the values and slopes of the chosen pairs at distances x."""
        counts = self.counts[chosen]
        owner = np.repeat(np.arange(len(chosen)), counts)
        first = np.cumsum(counts) - counts
        terms = self.order[np.arange(len(owner)) + np.repeat(self.starts[chosen] - first, counts)]
        value, slope = self.objective.evaluate(terms, x[owner, None])
        return (
            sum_by_index(owner, value, len(chosen)),
            sum_by_index(owner, slope[:, 0], len(chosen)),
        )

    def ceiling(self, top: float) -> float:
        """Return a length >= `top` from which on no cost decreases; inf if there is none.

        Truncating a metric at that height gives a metric that costs no more: some solution has no
        longer entry.
        """
        every = np.arange(self.objective.pairs)
        height = top or 1.0
        for _ in range(60):
            _, slope = self.at(every, np.full(len(every), height))
            if (slope >= 0).all():
                return height
            height *= 2.0
        return math.inf


# -- proximal maps of convex terms, from values and slopes alone --------------------------------

SHARP = 1e-14
"""Width at which an enclosure of a root is small enough, relative to the largest entry."""
ASIDE = 0.4
"""Distance from a guess at which slopes are evaluated, in such widths: two values enclose it."""
MAX_TRIES, MAX_CUTS = 200, 200


def prox_separable(
    costs: SeparableCosts, v: Floats, sigma: float, guess: Floats
) -> tuple[Floats, float]:
    """Return the proximal point y >= 0 of every pair, and the sum of all costs there."""
    every = np.arange(len(v))
    width = SHARP * float(max(np.abs(v).max(initial=0.0), guess.max(initial=0.0)))

    def slope(chosen: Indices, y: Floats) -> Floats:
        return costs.at(chosen, y)[1] + sigma * (y - v[chosen])

    # The slope of f is monotone, so that a step of h / sigma reaches the root or goes beyond it.
    at = np.maximum(v, 0.0)
    h = slope(every, at)
    beyond = np.maximum(at - h / sigma, 0.0)
    low, high = np.minimum(at, beyond), np.maximum(at, beyond)
    # Where f is linear, the step reaches the root itself.
    there = np.where(h < 0, high - ASIDE * width, low + ASIDE * width)
    y = _roots(slope, low, high, [there, *_beside(guess, width)], width)
    return y, float(costs.at(every, y)[0].sum()) + costs.constant


def separable_minimum(
    costs: SeparableCosts, pull: Floats, ceiling: float, guess: Floats
) -> tuple[float, float]:
    r"""Return :math:`\sum_e \min f_e(x) + u_e x` over :math:`0 \le x \le U`, and its error.

    If the product of u with any metric is at most 0, that is a lower bound of f over the metrics
    with entries of at most U.
    """
    every, width = np.arange(len(pull)), SHARP * ceiling
    low, high = np.zeros(len(pull)), np.full(len(pull), ceiling)

    def slope(chosen: Indices, x: Floats) -> Floats:
        return costs.at(chosen, x)[1] + pull[chosen]

    ends = [low + ASIDE * width, high - ASIDE * width]
    x = _roots(slope, low, high, [*_beside(guess, width), *ends], width)
    value, steep = costs.at(every, x)
    # The minimum is within a width of x; over that, a cost falls by its slope at most.
    error = width * float(np.abs(steep + pull).sum())
    return float((value + pull * x).sum()) + costs.constant, error


def _beside(guess: Floats, width: float) -> tuple[Floats, Floats]:
    return guess - ASIDE * width, guess + ASIDE * width


def _roots(
    slope: Callable[[Indices, Floats], Floats],
    low: Floats,
    high: Floats,
    guesses: list[Floats],
    width: float,
) -> Floats:
    """Return where slopes change sign between low and high; the guesses are tried first.

    Then secant steps, to a little beside the root of the secant, on both sides in turn, for the
    enclosure to shrink from both; every third step bisects.
    """
    low, high = low.copy(), high.copy()
    h_low, h_high = np.full(len(low), -np.inf), np.full(len(low), np.inf)
    left = np.flatnonzero(high - low > width)
    for tries in range(MAX_TRIES):
        if len(left) == 0:
            break
        a, b, ha, hb = low[left], high[left], h_low[left], h_high[left]
        y = 0.5 * (a + b)
        if tries < len(guesses):
            y = guesses[tries][left]
        elif tries % 3:
            with np.errstate(invalid="ignore"):  # NaN where an end is not known yet
                y = a + ha / (ha - hb) * (b - a) + (ASIDE if tries % 3 == 1 else -ASIDE) * width
        y = np.where((y > a) & (y < b), y, 0.5 * (a + b))
        h = slope(left, y)
        below = h < 0
        low[left], high[left] = np.where(below, y, a), np.where(below, b, y)
        h_low[left], h_high[left] = np.where(below, h, ha), np.where(below, hb, h)
        left = left[high[left] - low[left] > width]
    return 0.5 * (low + high)


def prox_terms(objective: PairObjective, v: Floats, sigma: float) -> tuple[Floats, float]:
    """Return the proximal points (T, q) of all terms, and the sum of their values there.

    Each term is replaced by the maximum of two cutting planes, refined until it touches the term.
    The values are those of the planes, which touch f there or lie a little below. Terms are
    evaluated at negative distances too.
    """
    curvature = 2.0 * objective.ridge * objective.p[:, None]
    stiff = sigma + curvature  # the ridge moves the centre of the proximal term and stiffens it
    centre = sigma / stiff * v
    size = float(np.abs(centre).max(initial=0.0))
    flat, xi = np.full(len(v), -np.inf), np.zeros_like(v)  # the plane flat + xi (y - centre)
    y, left = centre.copy(), objective.terms
    for _ in range(MAX_CUTS):
        away = y[left] - centre[left]
        value, slope = objective.evaluate(left, y[left], ridge=False)
        cut = value - _dot(slope, away)
        short = value - flat[left] - _dot(xi[left], away)
        steep = (np.abs(slope) + np.abs(xi[left])).sum(axis=1)
        worse = short > SHARP * (np.abs(value) + size * steep)
        left, cut, slope = left[worse], cut[worse], slope[worse]
        if len(left) == 0:
            break
        # The minimum of the maximum of both planes: a convex combination of them.
        turn = xi[left] - slope
        square = _dot(turn, turn)
        gain = stiff[left, 0] * (flat[left] - cut) - _dot(slope, turn)
        known = np.isfinite(flat[left]) & (square > 0)
        share = np.divide(gain, square, out=np.zeros_like(gain), where=known)
        share = np.clip(share, 0.0, 1.0)
        flat[left] = cut + share * np.where(share > 0, flat[left] - cut, 0.0)
        xi[left] = slope + share[:, None] * (xi[left] - slope)
        y[left] = centre[left] - xi[left] / stiff[left]
    below = flat + _dot(xi, y - centre) + 0.5 * _dot(curvature * y, y)
    return y, float(below.sum())


def _dot(a: Floats, b: Floats) -> Floats:
    return np.asarray((a * b).sum(axis=1))


# -- which terms are smooth, which convex -------------------------------------------------------

SEGMENTS, PIECES, HALVINGS = 4096, 32, 34
JUMP, FALL = 1e-3, 1e-7
"""Shares of the largest derivative that count as a jump, and as a decrease."""


class TermProperties(NamedTuple):
    """Whether some term has a jump in its derivative, and whether all look convex."""

    nonsmooth: bool
    convex: bool


def check_smoothness(objective: PairObjective, typical: float) -> TermProperties:
    """Test random terms along random segments: the derivative jumps, or decreases, or neither.

    `typical` is the typical distance.
    """
    rng = np.random.default_rng(0)
    terms = rng.integers(len(objective.terms), size=SEGMENTS)
    end = rng.random((len(terms), objective.where.shape[1])) + 0.1
    end *= (typical or 1.0) * 2.0 ** rng.uniform(-12.0, 12.0, (len(terms), 1))
    end[objective.where[terms] == objective.pairs] = 0.0

    def slope(share: Floats) -> Floats:
        return np.asarray((objective.evaluate(terms, share[:, None] * end)[1] * end).sum(axis=1))

    grid = np.linspace(0.0, 1.0, PIECES + 2)[1:]  # not at 0, where user functions may have a pole
    with np.errstate(all="ignore"):
        slopes = np.stack([slope(np.full(len(terms), share)) for share in grid])
        height = np.abs(slopes).max(axis=0)
        falls = np.diff(slopes, axis=0) < -FALL * height
        # Bisect for the largest change of each slope: over a tiny piece, only a jump is left.
        worst, column = np.abs(np.diff(slopes, axis=0)).argmax(axis=0), np.arange(len(terms))
        a, b = grid[worst], grid[worst + 1]
        at_a, at_b = slopes[worst, column], slopes[worst + 1, column]
        for _ in range(HALVINGS):
            middle = 0.5 * (a + b)
            at = slope(middle)
            first = np.abs(at - at_a) >= np.abs(at_b - at)
            a, at_a = np.where(first, a, middle), np.where(first, at_a, at)
            b, at_b = np.where(first, middle, b), np.where(first, at, at_b)
        jumps = np.abs(at_b - at_a) > JUMP * height
    return TermProperties(bool(jumps.any()), not falls.any())

r"""Proximal maps of convex terms, known by their values and slopes alone.

.. math:: \operatorname{prox}(v) = \operatorname{argmin}_y \; f(y) + \tfrac{\sigma}{2} \|y - v\|^2

One distance: the slope :math:`f'(y) + \sigma (y - v)` grows, and its change of sign is enclosed and
closed in on, by secants where it is continuous and halving where it jumps. Most pairs that sit on a
kink stay there, so the last solution is tried early.

Several distances: the two-cut bundle method. With the best model so far
:math:`\max(l_1, l_2)` of two linear functions below f, its minimum y is known in closed form; the
two become one, :math:`l_1 \leftarrow \lambda l_1 + (1 - \lambda) l_2`, and the tangent of f at y is
the new :math:`l_2`. For a hinge of differences that is exact after two rounds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from metricmix.nearness.any_objective.over_pairs import OverPairs, PairCosts

__all__ = ["least_with", "prox_of_pairs", "prox_of_terms"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
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

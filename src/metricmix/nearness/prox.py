r"""Proximal maps of convex terms, known by their values and slopes alone.

.. math:: \operatorname{prox}(v) = \operatorname{argmin}_y \; f(y) + \tfrac{\sigma}{2} \|y - v\|^2

One distance: the slope :math:`f'(y) + \sigma (y - v)` grows, and its change of sign is enclosed and
closed in on, by secants where it is continuous and halving where it jumps. Most pairs that sit on a
kink stay there, so the last solution is tried first.

Several distances: the two-cut bundle method. With the best model so far
:math:`\max(l_1, l_2)` of two linear functions below f, its minimum y is known in closed form; the
two become one, :math:`l_1 \leftarrow \lambda l_1 + (1 - \lambda) l_2`, and the tangent of f at y is
the new :math:`l_2`. For a hinge of differences that is exact after two rounds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from metricmix.nearness.over_pairs import OverPairs, PairCosts

__all__ = ["prox_of_pairs", "prox_of_terms"]

Floats = NDArray[np.float64]

SHARP = 1e-14
"""Width of an enclosure that is small enough, relative to the largest entry."""
MAX_CUTS = 200


def prox_of_pairs(
    costs: PairCosts, v: Floats, sigma: float, guess: Floats
) -> tuple[Floats, float]:
    """Return the proximal point y >= 0 of every pair, and the sum of all costs there."""
    everyone = np.arange(len(v))
    width = SHARP * float(max(np.abs(v).max(initial=0.0), guess.max(initial=0.0)))

    def slope(chosen: NDArray[np.int64], y: Floats) -> Floats:
        return costs.at(chosen, y)[1] + sigma * (y - v[chosen])

    # The slope of f itself grows, so that a step of h / sigma leads beyond the root.
    at = np.maximum(v, 0.0)
    h = slope(everyone, at)
    low, high = np.maximum(np.minimum(at, at - h / sigma), 0.0), np.maximum(at, at - h / sigma)
    h_low, h_high = np.where(h < 0, h, -np.inf), np.where(h < 0, np.inf, h)
    left = everyone[(high - low > width) & (h != 0)]
    high[h == 0] = low[h == 0] = at[h == 0]
    for tries in range(200):
        if len(left) == 0:
            break
        a, b, ha, hb = low[left], high[left], h_low[left], h_high[left]
        y = _next_try(a, b, ha, hb, guess[left], width, tries)
        h = slope(left, y)
        below = h < 0
        low[left] = np.where(below, y, a)
        high[left] = np.where(below, b, y)
        h_low[left], h_high[left] = np.where(below, h, ha), np.where(below, hb, h)
        left = left[(high[left] - low[left] > width) & (h != 0)]
    y = np.where(h_high == 0, high, 0.5 * (low + high))
    return y, float(costs.at(everyone, y)[0].sum()) + costs.constant


def _next_try(
    low: Floats, high: Floats, h_low: Floats, h_high: Floats, guess: Floats, width: float, tries: int
) -> Floats:
    """Return where to look next: beside the guess, at the secant's root, or in the middle."""
    middle = 0.5 * (low + high)
    if tries < 2:
        y = guess + (0.4 * width if tries else -0.4 * width)
    elif tries % 3 == 2:
        return middle
    else:
        share = np.clip(h_low / (h_low - h_high), 0.0, 1.0)  # NaN where a side is not known yet
        # Just beyond the root, in turn, for the enclosure to shrink from both sides.
        y = low + share * (high - low) + (0.4 * width if tries % 3 else -0.4 * width)
    return np.where((y > low) & (y < high), y, middle)


def prox_of_terms(over: OverPairs, v: Floats, sigma: float) -> tuple[Floats, float]:
    """Return the proximal points (T, q) of all terms, and the sum of their values there.

    The values are those of the models, which touch f there or lie a little below. Terms are only
    looked at where no distance is negative.
    """
    bend = 2.0 * over.ridge * over.p[:, None]  # the ridge moves the centre and stiffens the spring
    stiff = sigma + bend
    centre = sigma / stiff * v
    size = float(np.abs(centre).max(initial=0.0))
    flat, xi = np.full(len(v), -np.inf), np.zeros_like(v)  # the model: flat + xi (y - centre)
    y, left = centre.copy(), over.terms
    for _ in range(MAX_CUTS):
        at, away = np.maximum(y[left], 0.0), y[left] - centre[left]
        value, slope = over.evaluate(left, at, ridge=False)
        cut = value + _dot(slope, centre[left] - at)
        short = cut + _dot(slope, away) - flat[left] - _dot(xi[left], away)
        worse = short > SHARP * (np.abs(value) + size * np.abs(slope).sum(axis=1))
        left, cut, slope = left[worse], cut[worse], slope[worse]
        if len(left) == 0:
            break
        share = _share_of_first(flat[left], xi[left], cut, slope, stiff[left, 0])
        flat[left] = cut + np.where(share > 0, share * (flat[left] - cut), 0.0)
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

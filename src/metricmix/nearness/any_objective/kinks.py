r"""Whether the terms of an objective have kinks, and whether they look convex.

Along a segment from no distance to some, the derivative of a convex term never falls, and a kink is
where it jumps. Segments are cut into pieces; the piece over which the derivative changes most is
halved again and again. The change dies away with the length of the piece, unless there is a jump.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metricmix.nearness.any_objective.over_pairs import OverPairs

__all__ = ["Shape", "shape_of"]

Floats = NDArray[np.float64]

SEGMENTS, PIECES, HALVINGS = 4096, 32, 34
SCALES = 12.0
"""Segments end between 2^-12 and 2^12 times the typical distance: kinks have their own scale."""
JUMP, FALL = 1e-3, 1e-7
"""Shares of the largest derivative that count as a jump, and as a fall."""


class Shape(NamedTuple):
    """What was found along the segments."""

    kinked: bool
    convex: bool


def shape_of(over: OverPairs, typical: float) -> Shape:
    """Look at terms drawn at random, each along a segment drawn at random."""
    rng = np.random.default_rng(0)
    terms = rng.integers(len(over.terms), size=SEGMENTS)
    end = rng.random((len(terms), over.where.shape[1])) + 0.1
    end *= (typical or 1.0) * 2.0 ** rng.uniform(-SCALES, SCALES, (len(terms), 1))
    end[over.where[terms] == over.pairs] = 0.0

    def slope(share: Floats) -> Floats:
        return np.asarray((over.evaluate(terms, share[:, None] * end)[1] * end).sum(axis=1))

    grid = np.linspace(0.0, 1.0, PIECES + 2)[1:]  # not at 0, where own functions may have a pole
    with np.errstate(all="ignore"):
        slopes = np.stack([slope(np.full(len(terms), share)) for share in grid])
        height = np.abs(slopes).max(axis=0)
        falls = np.diff(slopes, axis=0) < -FALL * height
        jumps = _smallest_jump(slope, grid, slopes) > JUMP * height
    convex, kinked = not falls.any(), bool(jumps.any())
    return Shape(kinked, convex)


def _smallest_jump(slope: Callable[[Floats], Floats], grid: Floats, slopes: Floats) -> Floats:
    """Return the change of each slope over a tiny piece, where it is largest."""
    change = np.abs(np.diff(slopes, axis=0))
    worst = change.argmax(axis=0)
    column = np.arange(slopes.shape[1])
    a, b = grid[worst], grid[worst + 1]
    at_a, at_b = slopes[worst, column], slopes[worst + 1, column]
    for _ in range(HALVINGS):
        middle = 0.5 * (a + b)
        at = slope(middle)
        first = np.abs(at - at_a) >= np.abs(at_b - at)
        a, at_a = np.where(first, a, middle), np.where(first, at_a, at)
        b, at_b = np.where(first, middle, b), np.where(first, at, at_b)
    return np.asarray(np.abs(at_b - at_a))

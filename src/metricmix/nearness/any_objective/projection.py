r"""The nearest metric, again and again: the projection that iterations over metrics step with.

.. math:: N(v) = \operatorname{argmin}_x \sum_e w_e (x_e - v_e)^2 \qquad x \text{ a metric}

of numbers v of any sign. From one step to the next v moves little, so the duals of the last
projection start the next one, and early steps need not be exact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.threads import Crew
from metricmix.nearness.dual_ascent import DualAscent
from metricmix.nearness.keeping import Kept
from metricmix.nearness.problem import Problem
from metricmix.nearness.terms import Squares

__all__ = ["NO_DUALS", "Duals", "Nearest", "nearest_pairs"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

MAX_ROUNDS = 300
ROUNDING = 4 * float(np.finfo(np.float64).eps)


class Duals(NamedTuple):
    """Triangles (i, j, k) and their multipliers."""

    triples: Ints
    multipliers: Floats


NO_DUALS = Duals(np.empty((0, 3), np.int32), np.empty(0))


class Nearest(NamedTuple):
    r"""A metric, and what proves that it is near.

    `pull` is :math:`A^T z` for the duals :math:`z \ge 0`: its product with any metric is at most 0.
    Up to the accuracy, it is :math:`w (v - N(v))`.
    """

    metric: Floats
    pull: Floats
    duals: Duals


def nearest_pairs(
    v: Floats, w: Floats | None, n: int, crew: Crew, duals: Duals, accuracy: float
) -> Nearest:
    """Return the metric nearest to numbers of any sign, by pairs.

    Parameters
    ----------
    v : (pairs,) array
    w : (pairs,) array, optional
        Weights > 0; default 1.
    n : int
    crew : Crew
    duals : Duals
        Of a problem like it, to start from.
    accuracy : float
        Distance from the exact projection, as a share of the largest entry and per pair.
    """
    unit = float(np.abs(v).max(initial=0.0))
    if n < 3 or unit == 0.0:
        metric = np.maximum(v, 0.0)
        return Nearest(metric, (1.0 if w is None else w) * (v - metric), NO_DUALS)
    even = w is None
    h = np.ones_like(v) if w is None else w
    problem = Problem(n, v / unit, h, None, None, even, unit, 1.0)
    start = Kept(None, duals.triples, duals.multipliers / unit)
    solver = DualAscent(Squares(problem, crew.threads), crew, tol=0.0, start=start)
    # f has curvature 2 w: its value is as far from the minimum as the point, squared.
    close = accuracy**2 * float(h.sum())
    rng = np.random.default_rng(0)
    state, _ = solver.check(solver.init(rng))
    for iteration in range(MAX_ROUNDS):
        if solver.upper - solver.lower <= max(close, ROUNDING * solver.upper):
            break
        if solver.status(state) is not None:
            break
        state, _ = solver.check(solver.step(state, iteration, rng))
    metric = unit * solver.finish()
    if solver.ascent is None:
        return Nearest(metric, np.zeros_like(v), NO_DUALS)
    triples, multipliers = solver.triangles()
    assert solver.rows is not None
    pull = unit * solver.rows.transposed()
    return Nearest(metric, pull, Duals(triples, multipliers * unit))

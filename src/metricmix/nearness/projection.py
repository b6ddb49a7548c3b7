"""Projection onto the cone of metrics, by dual ascent, with its certificate."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from metricmix.kernels.threads import ThreadPool
from metricmix.nearness.constraints import TriangleConstraints
from metricmix.nearness.dual_ascent import DualAscent
from metricmix.nearness.norms.l2 import SquaredLoss
from metricmix.nearness.problem import NearnessProblem
from metricmix.nearness.solver import WarmStart
from metricmix.typing import Floats, Ints

__all__ = ["NO_DUALS", "Duals", "Projection", "project_onto_metrics"]


class Duals(NamedTuple):
    """Triangles (i, j, k) and their multipliers."""

    triangles: Ints
    multipliers: Floats


NO_DUALS = Duals(np.empty((0, 3), np.int32), np.empty(0))


class Projection(NamedTuple):
    r"""The nearest metric, and what certifies it.

    `pull` is :math:`A^T z` for the duals :math:`z \ge 0`: its product with any metric is at most 0.
    Up to the accuracy, it is :math:`w (v - N(v))`.
    """

    metric: Floats
    pull: Floats
    duals: Duals


def project_onto_metrics(
    v: Floats, w: Floats | None, n: int, pool: ThreadPool, duals: Duals, accuracy: float
) -> Projection:
    """Return the nearest metric N(v) of numbers of any sign.

    Parameters
    ----------
    v : (pairs,) array
    w : (pairs,) array, optional
        Weights > 0; default 1.
    n : int
    pool : ThreadPool
    duals : Duals
        Of a similar problem, to start from.
    accuracy : float
        Distance from the exact projection, as a share of the largest entry and per pair.
    """
    unit = float(np.abs(v).max(initial=0.0))
    if n < 3 or unit == 0.0:
        metric = np.maximum(v, 0.0)
        return Projection(metric, (1.0 if w is None else w) * (v - metric), NO_DUALS)
    h = np.ones_like(v) if w is None else w
    problem = NearnessProblem("l2", n, v / unit, h, None, None, w is None, unit, 1.0)
    start = WarmStart(None, duals.triangles, duals.multipliers / unit)
    solver = DualAscent(SquaredLoss(problem, pool.threads), pool, tol=0.0, start=start)
    # f has curvature 2 w: its value is as far from the minimum as the point, squared.
    close = accuracy**2 * float(h.sum())
    rounding = 4 * float(np.finfo(np.float64).eps)
    rng = np.random.default_rng(0)
    state, _ = solver.check(solver.init(rng))
    for iteration in range(300):
        if state.upper - state.lower <= max(close, rounding * state.upper):
            break
        if solver.status(state) is not None:
            break
        state = solver.step(state, iteration, rng)
    state = solver.finish(state)
    assert state.metric is not None
    if not state.started:
        return Projection(unit * state.metric, np.zeros_like(v), NO_DUALS)
    constraints = TriangleConstraints(n, pool, state.duals)
    triangles, multipliers = constraints.triangles()
    pull = unit * constraints.transposed()
    return Projection(unit * state.metric, pull, Duals(triangles, multipliers * unit))

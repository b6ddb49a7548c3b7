r"""A metric near a point that is almost one.

.. math:: P(\min(x + \delta, u))

is a metric below the bounds u for every :math:`\delta \ge 0`. Without lower bounds, 0 will do.
With them, the smallest :math:`\delta` that brings it above them is wanted; there is one, since
P(u) is above them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from metricmix.nearness.problem import Problem, closure_of

__all__ = ["metric_near"]

Floats = NDArray[np.float64]

HALVINGS = 6
"""Steps of bisection: the smallest shift is met to a share of 1 / 64."""


def metric_near(x: Floats, problem: Problem, n_jobs: int | None) -> Floats:
    """Return a metric within the bounds, as pairs, near x."""
    lower = problem.lower
    base = np.maximum(x, 0.0 if lower is None else lower)

    def shifted(by: float) -> Floats:
        lengths = base + by if problem.upper is None else np.minimum(base + by, problem.upper)
        return closure_of(lengths, problem.n, n_jobs)

    metric = shifted(0.0)
    if lower is None:
        return metric
    floor = lower - 8 * np.finfo(float).eps * max(problem.ceiling, float(np.max(base)))
    below, above = 0.0, float(np.max(lower - metric))
    if np.any(metric < floor):
        metric = shifted(above)
        while np.any(metric < floor):
            below, above = above, 2.0 * above
            metric = shifted(above)
        for _ in range(HALVINGS):
            middle = 0.5 * (below + above)
            tried = shifted(middle)
            if np.any(tried < floor):
                below = middle
            else:
                above, metric = middle, tried
    return np.maximum(metric, lower)  # by a few roundings at most

r"""Absolute values as a linear program over the rows that matter.

.. math:: \min_{a, b \ge 0} \; \sum_e w_e (a_e + b_e) \qquad A (d + a - b) \le 0, \quad
          l \le d + a - b \le u

Dual ascent finds the rows and comes near, and slows down; cutting planes that start from nothing
take many linear programs. Together they are fast: once the rows are about right, a few programs
over these and what little they miss (HiGHS, interior points with crossover) end at the solution.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.nearness.problem import Problem
from metricmix.nearness.rows import Rows

__all__ = ["solve_over_rows"]

Floats = NDArray[np.float64]


def solve_over_rows(
    problem: Problem, rows: Rows, low: Floats, high: Floats
) -> tuple[Floats, Floats] | None:
    """Return the point and the duals that are best for these rows, or None if that failed.

    Parameters
    ----------
    problem : Problem
    rows : Rows
        T rows; their duals are not looked at.
    low, high : (pairs,) arrays
        Bounds.

    Returns
    -------
    (pairs,) and (T,) arrays
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, hstack

    pairs, count = len(problem.d), len(rows)
    d = np.where(problem.w > 0, problem.d, low)
    columns = np.stack([rows.side, rows.leg, rows.other], axis=1).ravel()
    values = np.tile([1.0, -1.0, -1.0], count)
    A = csr_array((values, columns, np.arange(0, 3 * count + 1, 3)), shape=(count, pairs))
    raised = np.stack([np.maximum(0.0, low - d), np.maximum(0.0, high - d)], axis=1)
    lowered = np.stack([np.maximum(0.0, d - high), np.maximum(0.0, d - low)], axis=1)
    solve: Any = linprog  # its types know no arrays of bounds
    found = solve(
        np.concatenate([problem.w, problem.w]),
        A_ub=hstack([A, -A], format="csr"),
        b_ub=-(A @ d),
        bounds=np.concatenate([raised, lowered]),
        method="highs-ipm",
    )
    if found.status != 0:
        return None
    return d + found.x[:pairs] - found.x[pairs:], np.maximum(0.0, -found.ineqlin.marginals)

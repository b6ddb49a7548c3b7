r"""Weights strictly inside the cone of metrics: phase 1 of the cutting planes.

.. math:: \max_{x \in C, \; |x_r| \max M_r \le 1} \; s \quad \text{s.t.} \quad a^T x \ge s
          \text{ for the rows } a \text{ known so far}

by HiGHS. Since some rows are missing, s bounds the margin of all weights from above: if it is 0, or
below, the cone has no interior, or the simplex no metric.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["widest"]

Floats = NDArray[np.float64]
TOLERANCES = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def widest(rows: Floats, largest: Floats, constraint: str) -> tuple[Floats, float]:
    """Return the weights with the largest margin over `rows`, and that margin.

    Parameters
    ----------
    rows : (L, R) array
    largest : (R,) array
        Largest entry of every source; weights are measured by it.
    constraint : {"none", "nonnegative", "simplex"}
    """
    from scipy.optimize import linprog

    R = rows.shape[1]
    simplex = constraint == "simplex"
    # Either way the entries of the mixture, and with them s, are about 1.
    unit = np.ones(R) if simplex else largest
    height = float(largest.max()) if simplex else 1.0
    cost = np.zeros(R + 1)
    cost[-1] = -1.0
    low = -1.0 if constraint == "none" else 0.0
    options: Any = TOLERANCES
    bounds: list[tuple[float | None, float]] = [(low, 1.0)] * R
    found: Any = linprog(
        cost,
        A_ub=np.column_stack([-rows / (unit * height), np.ones(len(rows))]),
        b_ub=np.zeros(len(rows)),
        A_eq=np.append(np.ones(R), 0.0)[None] if simplex else None,
        b_eq=np.ones(1) if simplex else None,
        bounds=[*bounds, (None, 1.0)],
        method="highs",
        options=options,
    )
    if found.x is None:  # HiGHS gave up; there always is a solution
        return np.zeros(R), 0.0
    weights = found.x[:-1] / unit
    if constraint != "none":
        weights = np.maximum(weights, 0.0)
    return weights / weights.sum() if simplex else weights, height * float(found.x[-1])

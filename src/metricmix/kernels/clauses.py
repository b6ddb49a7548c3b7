r"""Linear programs whose rows are clauses, by primal-dual steps.

.. math:: \min_v \; c^T v \qquad \sum_{j \in P_r} v_j + \sum_{j \in N_r} (1 - v_j) \ge 1
          \quad \text{for every row } r, \qquad 0 \le v \le 1

A step from (v, z), the duals z >= 0 being those of the rows, goes to

.. math:: v' = \mathrm{clip}\bigl(v - \tfrac{1}{\omega\, n_j} (c - K^T z)\bigr), \qquad
          z' = \max\bigl(0,\; z + \tfrac{\omega}{n_r} (1 - \text{row}(2 v' - v))\bigr)

with :math:`n_j` and :math:`n_r` the entries of column and row (Pock and Chambolle), and is taken
twice as far and drawn back to where it started from (Halpern): :math:`v \leftarrow a (2 v' - v) +
(1 - a) v_0` with :math:`a = (k + 1) / (k + 2)`, and z likewise.

Rows are listed one after another: ``terms[starts[r]:starts[r + 1]]`` holds j for :math:`v_j` and
``~j`` for :math:`1 - v_j`. Columns hold their rows in the same way. Every entry is computed by
itself, so that threads may share out the entries in any way.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.compile import kernel

__all__ = [
    "columns_of",
    "dual_part",
    "gap_part",
    "move_columns",
    "move_rows",
    "move_times",
    "row_sums",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Starts = NDArray[np.int64]


@kernel
def columns_of(starts: Starts, terms: Ints, out_starts: Starts, out_terms: Ints) -> None:
    """Write the rows of every column; `out_starts` (columns + 1) comes with zeros."""
    for t in range(terms.shape[0]):
        j = terms[t]
        out_starts[(j if j >= 0 else ~j) + 1] += 1
    for j in range(out_starts.shape[0] - 1):
        out_starts[j + 1] += out_starts[j]
    for r in range(starts.shape[0] - 1):
        for t in range(starts[r], starts[r + 1]):
            j = terms[t]
            column = j if j >= 0 else ~j
            out_terms[out_starts[column]] = r if j >= 0 else ~r
            out_starts[column] += 1
    for j in range(out_starts.shape[0] - 1, 0, -1):  # each start was moved to its stop
        out_starts[j] = out_starts[j - 1]
    out_starts[0] = 0


@kernel
def _pull(j: int, column_starts: Starts, rows: Ints, z: Floats) -> float:
    """Return entry j of K^T z."""
    total = 0.0
    for t in range(column_starts[j], column_starts[j + 1]):
        r = rows[t]
        if r >= 0:
            total += z[r]
        else:
            total -= z[~r]
    return total


@kernel
def _sum_of(r: int, starts: Starts, terms: Ints, v: Floats) -> float:
    """Return the left-hand side of row r."""
    total = 0.0
    for t in range(starts[r], starts[r + 1]):
        j = terms[t]
        if j >= 0:
            total += v[j]
        else:
            total += 1.0 - v[~j]
    return total


@kernel
def move_columns(
    column_starts: Starts,
    rows: Ints,
    c: Floats,
    z: Floats,
    v: Floats,
    anchor: Floats,
    ahead: Floats,
    moved: Floats,
    omega: float,
    a: float,
    start: int,
    stop: int,
) -> float:
    """Step of the columns start .. stop - 1; `moved` gets v', `ahead` 2 v' - v.

    Return how far they go: the sum of n_j (v' - v)^2.
    """
    total = 0.0
    for j in range(start, stop):
        count = max(1, column_starts[j + 1] - column_starts[j])
        x = v[j] - (c[j] - _pull(j, column_starts, rows, z)) / (omega * count)
        x = min(1.0, max(0.0, x))
        total += count * (x - v[j]) * (x - v[j])
        moved[j] = x
        x = 2.0 * x - v[j]
        ahead[j] = x
        v[j] = a * x + (1.0 - a) * anchor[j]
    return total


@kernel
def move_rows(
    starts: Starts,
    terms: Ints,
    ahead: Floats,
    z: Floats,
    anchor: Floats,
    moved: Floats,
    omega: float,
    a: float,
    start: int,
    stop: int,
) -> float:
    """Step of the rows start .. stop - 1; `moved` gets z'.

    Return how far they go: the sum of n_r (z' - z)^2.
    """
    total = 0.0
    for r in range(start, stop):
        count = starts[r + 1] - starts[r]
        lacking = 1.0 - _sum_of(r, starts, terms, ahead)
        y = max(0.0, z[r] + lacking * omega / count)
        total += count * (y - z[r]) * (y - z[r])
        moved[r] = y
        z[r] = a * (2.0 * y - z[r]) + (1.0 - a) * anchor[r]
    return total


@kernel
def move_times(
    starts: Starts,
    terms: Ints,
    column_starts: Starts,
    rows: Ints,
    c: Floats,
    v: Floats,
    v_anchor: Floats,
    ahead: Floats,
    v_moved: Floats,
    z: Floats,
    z_anchor: Floats,
    z_moved: Floats,
    omega: float,
    first: int,
    last: int,
    part: int,
) -> tuple[float, float]:
    """Do steps first .. last - 1 since the anchor, in parts; return how far the last one went."""
    far_v, far_z = 0.0, 0.0
    for k in range(first, last):
        a = (k + 1.0) / (k + 2.0)
        far_v, far_z = 0.0, 0.0
        for start in range(0, v.shape[0], part):
            stop = min(start + part, v.shape[0])
            far_v += move_columns(
                column_starts, rows, c, z, v, v_anchor, ahead, v_moved, omega, a, start, stop
            )
        for start in range(0, z.shape[0], part):
            stop = min(start + part, z.shape[0])
            far_z += move_rows(starts, terms, ahead, z, z_anchor, z_moved, omega, a, start, stop)
    return far_v, far_z


@kernel
def dual_part(
    column_starts: Starts, rows: Ints, c: Floats, z: Floats, start: int, stop: int
) -> float:
    r"""Return this part of :math:`\sum_j \min_{0 \le v \le 1} (c - K^T z)_j v_j`."""
    total = 0.0
    for j in range(start, stop):
        total += min(0.0, c[j] - _pull(j, column_starts, rows, z))
    return total


@kernel
def gap_part(starts: Starts, terms: Ints, z: Floats, start: int, stop: int) -> float:
    """Return this part of the sum of z_r (1 - number of terms 1 - v_j)."""
    total = 0.0
    for r in range(start, stop):
        if z[r] > 0.0:
            left = 1.0
            for t in range(starts[r], starts[r + 1]):
                if terms[t] < 0:
                    left -= 1.0
            total += z[r] * left
    return total


@kernel
def row_sums(starts: Starts, terms: Ints, v: Floats, start: int, stop: int, out: Floats) -> None:
    """Write the left-hand sides of the rows start .. stop - 1."""
    for r in range(start, stop):
        out[r] = _sum_of(r, starts, terms, v)

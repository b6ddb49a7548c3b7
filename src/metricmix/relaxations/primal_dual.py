r"""Restarted primal-dual steps for the linear program of a relaxation.

Chambolle and Pock's method in the form that solves large linear programs best today: the steps of
:mod:`metricmix.relaxations.primal_dual`, each reflected and
drawn back to an anchor (Halpern), which makes

.. math:: \rho = \omega \sum_j n_j (v'_j - v_j)^2 + \frac1\omega \sum_r n_r (z'_r - z_r)^2

fall like :math:`1 / k^2`; the anchor moves to where the method is each time this has fallen by
enough, which makes it fall geometrically. The weight :math:`\omega` between the two is set at such
restarts, to what makes both go as far.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.compile import kernel
from metricmix.kernels.threads import Crew
from metricmix.typing import Floats, Indices, Ints, Keys

__all__ = [
    "PART",
    "Clauses",
    "PrimalDual",
    "columns_of",
    "dual_part",
    "gap_part",
    "move_columns",
    "move_rows",
    "move_times",
    "row_sums",
]


@kernel
def columns_of(starts: Indices, terms: Ints, out_starts: Indices, out_terms: Ints) -> None:
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
def _pull(j: int, column_starts: Indices, rows: Ints, z: Floats) -> float:
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
def _sum_of(r: int, starts: Indices, terms: Ints, v: Floats) -> float:
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
    column_starts: Indices,
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
    starts: Indices,
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
    starts: Indices,
    terms: Ints,
    column_starts: Indices,
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
    column_starts: Indices, rows: Ints, c: Floats, z: Floats, start: int, stop: int
) -> float:
    r"""Return this part of :math:`\sum_j \min_{0 \le v \le 1} (c - K^T z)_j v_j`."""
    total = 0.0
    for j in range(start, stop):
        total += min(0.0, c[j] - _pull(j, column_starts, rows, z))
    return total


@kernel
def gap_part(starts: Indices, terms: Ints, z: Floats, start: int, stop: int) -> float:
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
def row_sums(starts: Indices, terms: Ints, v: Floats, start: int, stop: int, out: Floats) -> None:
    """Write the left-hand sides of the rows start .. stop - 1."""
    for r in range(start, stop):
        out[r] = _sum_of(r, starts, terms, v)


# -- restarted primal-dual steps for the linear program of a relaxation -------------------------


ENOUGH, SOME = 0.04, 0.2
"""Restart when the residual has fallen to ENOUGH of what it was; or to SOME, if it rises again."""

LONGEST = 0.36
"""Restart at the latest when this share of all steps lies behind the anchor."""

MANY = 0.01
"""Share of new rows from which on the residual so far says nothing."""

WORTHWHILE = 1 << 17
"""Entries from which threads share a step."""


class PrimalDual:
    """The iterates of one linear program; see the module.

    Parameters
    ----------
    lp : Clauses
    v, z : (columns,) and (rows,) arrays
        To start from, 0 <= v <= 1, z >= 0.
    omega : float
        About the size of duals over that of columns.
    crew : Crew

    Attributes
    ----------
    v, z : (columns,) and (rows,) arrays
        Where the last step led: within the bounds.
    """

    def __init__(self, lp: Clauses, v: Floats, z: Floats, omega: float, crew: Crew) -> None:
        self.lp, self.crew, self.omega = lp, crew, omega
        self.v, self.z = v, z
        self.steps, self.residual = 0, math.inf
        self._v: Floats
        self._z: Floats
        self._v_anchor: Floats
        self._z_anchor: Floats
        self._since: int
        self._first: float | None
        self._restart()

    def extend(self, v: Floats) -> None:
        """Take in columns, starting at v, and rows that were added to the linear program."""
        z = np.zeros(len(self.lp) - len(self.z))
        self.v, self.z = np.concatenate([self.v, v]), np.concatenate([self.z, z])
        if len(z) > MANY * len(self.lp):
            self._restart()
            return
        self._v = np.concatenate([self._v, v])
        self._v_anchor = np.concatenate([self._v_anchor, v])
        self._z = np.concatenate([self._z, z])
        self._z_anchor = np.concatenate([self._z_anchor, z])
        self._ahead = np.empty(len(self.v))

    def advance(self, steps: int) -> None:
        """Do that many steps, and restart if it is time to."""
        lp, first, last = self.lp, self._since, self._since + steps
        columns = (lp.column_starts, lp.rows, lp.c)
        if self.crew.threads == 1 or len(lp.terms) < WORTHWHILE:
            arrays = (self._v, self._v_anchor, self._ahead, self.v)
            duals = (self._z, self._z_anchor, self.z)
            far_v, far_z = move_times(
                lp.starts, lp.terms, *columns, *arrays, *duals, self.omega, first, last, PART
            )
        else:
            for k in range(first, last):
                far_v, far_z = self._step((k + 1.0) / (k + 2.0))
        self._since, self.steps = last, self.steps + steps
        before, self.residual = self.residual, self.omega * far_v + far_z / self.omega
        if self._first is None:
            self._first = self.residual
        fallen = self.residual <= ENOUGH * self._first
        rising = self.residual <= SOME * self._first and self.residual > before
        if fallen or rising or self._since >= LONGEST * self.steps:
            self._reweigh()
            self._restart()

    def _step(self, a: float) -> tuple[float, float]:
        lp, options = self.lp, (self.omega, a)
        columns = (lp.column_starts, lp.rows, lp.c, self._z)
        arrays = (self._v, self._v_anchor, self._ahead, self.v)
        far_v = self.crew.run(
            lambda part: move_columns(*columns, *arrays, *options, *part), lp.column_parts
        )
        rows = (lp.starts, lp.terms, self._ahead, self._z, self._z_anchor, self.z)
        far_z = self.crew.run(lambda part: move_rows(*rows, *options, *part), lp.row_parts)
        return sum(far_v, 0.0), sum(far_z, 0.0)

    def _reweigh(self) -> None:
        """Let both sides go as far, in the mean of what this run says and those before said."""
        lp = self.lp
        far_v = float(np.sum(np.diff(lp.column_starts) * (self.v - self._v_anchor) ** 2))
        far_z = float(np.sum(np.diff(lp.starts) * (self.z - self._z_anchor) ** 2))
        if far_v > 0.0 and far_z > 0.0:
            self.omega = math.sqrt(self.omega * math.sqrt(far_z / far_v))

    def _restart(self) -> None:
        """Anchor everything where it is."""
        self._v, self._v_anchor = self.v.copy(), self.v.copy()
        self._z, self._z_anchor = self.z.copy(), self.z.copy()
        self._ahead = np.empty(len(self.v))
        self._since = 0
        self._first = None


# -- the linear program of a relaxation, its rows added as they are found -----------------------


PART = 1 << 14
"""Columns or rows of a task; fixed, so that sums do not depend on the threads."""


class Clauses:
    """Columns with their costs, and rows.

    Attributes
    ----------
    c : (columns,) array
    starts, terms : (rows + 1,) and (entries,) arrays
        Row r has the terms ``terms[starts[r]:starts[r + 1]]``: j for v_j, ``~j`` for 1 - v_j.
    column_starts, rows : (columns + 1,) and (entries,) arrays
        The same by column: r for a term v, ``~r`` for 1 - v.
    """

    def __init__(self, c: Floats) -> None:
        self.c = c
        self.starts: Indices = np.zeros(1, np.int64)
        self.terms: Ints = np.empty(0, np.int32)
        self._keys: Keys = np.empty(0, np.uint64)
        self._transpose()

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def column_parts(self) -> list[tuple[int, int]]:
        """The columns, cut into tasks."""
        return _parts(len(self.c))

    @property
    def row_parts(self) -> list[tuple[int, int]]:
        """The rows, cut into tasks."""
        return _parts(len(self))

    def fresh(self, keys: Keys) -> NDArray[np.int64]:
        """Return which of these keys, one per row, no row has yet; of equal ones the first."""
        found, first = np.unique(keys, return_index=True)
        if len(self._keys):
            at = np.minimum(np.searchsorted(self._keys, found), len(self._keys) - 1)
            first = first[self._keys[at] != found]
        return np.sort(first)

    def add(self, costs: Floats, starts: Indices, terms: Ints, keys: Keys) -> None:
        """Add columns with these costs, then rows that may have terms in them."""
        self.c = np.concatenate([self.c, costs])
        self.starts = np.concatenate([self.starts, self.starts[-1] + starts[1:]])
        self.terms = np.concatenate([self.terms, terms])
        self._keys = np.sort(np.concatenate([self._keys, keys]))
        self._transpose()

    def lower_bound(self, z: Floats, crew: Crew) -> float:
        """Return the lower bound that duals z >= 0 give."""
        columns = (self.column_starts, self.rows, self.c, z)
        rows = (self.starts, self.terms, z)
        total = sum(crew.run(lambda part: dual_part(*columns, *part), self.column_parts), 0.0)
        return sum(crew.run(lambda part: gap_part(*rows, *part), self.row_parts), total)

    def _transpose(self) -> None:
        self.column_starts: Indices = np.zeros(len(self.c) + 1, np.int64)
        self.rows: Ints = np.empty(len(self.terms), np.int32)
        columns_of(self.starts, self.terms, self.column_starts, self.rows)


def _parts(count: int) -> list[tuple[int, int]]:
    return [(start, min(start + PART, count)) for start in range(0, count, PART)]

r"""Restarted primal-dual steps for linear programs whose rows are added as they are found.

.. math:: \min_{0 \le v \le 1} c^T v, \qquad
          \sum_{j \in P_r} v_j + \sum_{j \in N_r} (1 - v_j) \ge 1 \quad \text{for every row } r

or :math:`K v \ge b` with entries :math:`\pm 1` of K. A step T of Chambolle and Pock's method goes
from (v, z), with duals :math:`z \ge 0`, to

.. math:: v' = \mathrm{clip}\bigl(v - \tfrac{1}{\omega n_j} (c - K^T z)_j\bigr), \qquad
          z' = \max\bigl(0, z + \tfrac{\omega}{n_r} (b - K (2 v' - v))_r\bigr)

where :math:`n_j` and :math:`n_r` count the entries of a column and of a row. Steps are reflected
and averaged with an anchor (Halpern): the iterate k steps after the anchor is
:math:`\tfrac{k+1}{k+2} (2 T(v, z) - (v, z)) + \tfrac{1}{k+2} (v, z)_{\text{anchor}}`. The residual

.. math:: \rho = \omega \sum_j n_j (v'_j - v_j)^2 + \frac1\omega \sum_r n_r (z'_r - z_r)^2

then falls like :math:`1 / k^2`. The method restarts, with a new anchor, whenever the residual has
fallen by enough, which makes it fall geometrically; each restart updates the primal weight
:math:`\omega`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from metricmix.devices import torch_module
from metricmix.kernels.compile import kernel
from metricmix.kernels.deadline import check_time
from metricmix.kernels.threads import ThreadPool
from metricmix.relaxations.iterates import DualIterate, PrimalIterate, Restarts
from metricmix.typing import Floats, Indices, Ints, Keys

__all__ = [
    "PART",
    "LinearProgram",
    "PrimalDual",
    "SparseColumns",
    "SparseRows",
    "dual_columns",
    "dual_rows",
    "halpern_steps",
    "step_columns",
    "step_rows",
    "transpose",
]


PART = 1 << 14
"""Columns or rows per task; fixed, so that sums do not depend on the number of threads."""

MIN_ENTRIES = 1 << 17
"""Entries of K from which several threads share a step, or a device takes the steps if one was
asked for."""


# -- kernels ------------------------------------------------------------------------------------


class SparseRows(NamedTuple):
    """K by rows: row r has ``terms[starts[r]:starts[r + 1]]``, j for v_j and ``~j`` for 1 - v_j."""

    starts: Indices
    terms: Ints


class SparseColumns(NamedTuple):
    """K by columns, and their costs: r for an entry +1 in row r, ``~r`` for an entry -1."""

    starts: Indices
    rows: Ints
    cost: Floats


@kernel
def transpose(rows: SparseRows, out_starts: Indices, out_rows: Ints) -> None:
    """Write K by columns; `out_starts` (columns + 1) is zero on entry."""
    starts, terms = rows
    for t in range(terms.shape[0]):
        j = terms[t]
        out_starts[(j if j >= 0 else ~j) + 1] += 1
    for j in range(out_starts.shape[0] - 1):
        out_starts[j + 1] += out_starts[j]
    for r in range(starts.shape[0] - 1):
        for t in range(starts[r], starts[r + 1]):
            j = terms[t]
            column = j if j >= 0 else ~j
            out_rows[out_starts[column]] = r if j >= 0 else ~r
            out_starts[column] += 1
    for j in range(out_starts.shape[0] - 1, 0, -1):  # each start has moved to its stop
        out_starts[j] = out_starts[j - 1]
    out_starts[0] = 0


@kernel
def column_product(j: int, columns: SparseColumns, z: Floats) -> float:
    """Return entry j of K^T z."""
    total = 0.0
    for t in range(columns.starts[j], columns.starts[j + 1]):
        r = columns.rows[t]
        if r >= 0:
            total += z[r]
        else:
            total -= z[~r]
    return total


@kernel
def step_columns(
    columns: SparseColumns,
    z: Floats,
    v: PrimalIterate,
    omega: float,
    a: float,
    start: int,
    stop: int,
) -> float:
    """Step of the columns start .. stop - 1, with the weight a = (k + 1) / (k + 2).

    Return the sum of n_j (v' - v)^2.
    """
    total = 0.0
    for j in range(start, stop):
        count = max(1, columns.starts[j + 1] - columns.starts[j])
        before = v.current[j]
        x = before - (columns.cost[j] - column_product(j, columns, z)) / (omega * count)
        x = min(1.0, max(0.0, x))
        total += count * (x - before) * (x - before)
        v.image[j] = x
        x = 2.0 * x - before
        v.extrapolated[j] = x
        v.current[j] = a * x + (1.0 - a) * v.anchor[j]
    return total


@kernel
def step_rows(
    rows: SparseRows, v: Floats, z: DualIterate, omega: float, a: float, start: int, stop: int
) -> float:
    """Step of the rows start .. stop - 1, with the extrapolated v.

    Return the sum of n_r (z' - z)^2.
    """
    total = 0.0
    for r in range(start, stop):
        count = rows.starts[r + 1] - rows.starts[r]
        left_side = 0.0
        for t in range(rows.starts[r], rows.starts[r + 1]):
            j = rows.terms[t]
            if j >= 0:
                left_side += v[j]
            else:
                left_side += 1.0 - v[~j]
        lacking = 1.0 - left_side
        before = z.current[r]
        y = max(0.0, before + lacking * omega / count)
        total += count * (y - before) * (y - before)
        z.image[r] = y
        z.current[r] = a * (2.0 * y - before) + (1.0 - a) * z.anchor[r]
    return total


@kernel
def halpern_steps(
    columns: SparseColumns,
    rows: SparseRows,
    v: PrimalIterate,
    z: DualIterate,
    omega: float,
    first: int,
    last: int,
    part: int,
) -> tuple[float, float]:
    """Take the steps first .. last - 1 since the anchor.

    Return the sums of :func:`step_columns` and :func:`step_rows` of the last one, added up in
    parts.
    """
    primal, dual = 0.0, 0.0
    for k in range(first, last):
        a = (k + 1.0) / (k + 2.0)
        primal, dual = 0.0, 0.0
        for start in range(0, v.current.shape[0], part):
            stop = min(start + part, v.current.shape[0])
            primal += step_columns(columns, z.current, v, omega, a, start, stop)
        for start in range(0, z.current.shape[0], part):
            stop = min(start + part, z.current.shape[0])
            dual += step_rows(rows, v.extrapolated, z, omega, a, start, stop)
    return primal, dual


@kernel
def dual_columns(columns: SparseColumns, z: Floats, start: int, stop: int) -> float:
    r"""Return :math:`\sum_j \min_{0 \le v \le 1} (c - K^T z)_j v_j` over start <= j < stop."""
    total = 0.0
    for j in range(start, stop):
        total += min(0.0, columns.cost[j] - column_product(j, columns, z))
    return total


@kernel
def dual_rows(rows: SparseRows, z: Floats, start: int, stop: int) -> float:
    """Return the sum of z_r b_r over start <= r < stop; b_r is 1 less the terms 1 - v_j."""
    total = 0.0
    for r in range(start, stop):
        if z[r] > 0.0:
            b = 1.0
            for t in range(rows.starts[r], rows.starts[r + 1]):
                if rows.terms[t] < 0:
                    b -= 1.0
            total += z[r] * b
    return total


# -- the linear program -------------------------------------------------------------------------


class LinearProgram:
    """A linear program that grows; see the module.

    Parameters
    ----------
    cost : (columns,) array

    Attributes
    ----------
    rows : SparseRows
    columns : SparseColumns
    """

    def __init__(self, cost: Floats) -> None:
        self.rows = SparseRows(np.zeros(1, np.int64), np.empty(0, np.int32))
        self.columns = SparseColumns(np.zeros(len(cost) + 1, np.int64), np.empty(0, np.int32), cost)
        self._keys: Keys = np.empty(0, np.uint64)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.rows.starts) - 1

    def new_rows(self, keys: Keys) -> Indices:
        """Return the indices of the keys that no row has yet; of equal ones the first."""
        found, first = np.unique(keys, return_index=True)
        if len(self._keys):
            at = np.minimum(np.searchsorted(self._keys, found), len(self._keys) - 1)
            first = first[self._keys[at] != found]
        return np.sort(first)

    def add(self, cost: Floats, starts: Indices, terms: Ints, keys: Keys) -> None:
        """Add columns with these costs, then rows, each with a key that identifies it."""
        old = self.rows
        self.rows = SparseRows(
            np.concatenate([old.starts, old.starts[-1] + starts[1:]]),
            np.concatenate([old.terms, terms]),
        )
        cost = np.concatenate([self.columns.cost, cost])
        out = np.zeros(len(cost) + 1, np.int64), np.empty(len(self.rows.terms), np.int32)
        transpose(self.rows, *out)
        self.columns = SparseColumns(*out, cost)
        self._keys = np.sort(np.concatenate([self._keys, keys]))

    def lower_bound(self, z: Floats, pool: ThreadPool) -> float:
        """Return the dual objective of z >= 0, a lower bound of the optimum."""
        columns, rows = self.columns, self.rows
        total = sum(
            pool.run(lambda part: dual_columns(columns, z, *part), split(len(columns.cost))), 0.0
        )
        return sum(pool.run(lambda part: dual_rows(rows, z, *part), split(self.n_rows)), total)


def split(count: int) -> list[tuple[int, int]]:
    """Return 0 .. count in ranges of PART."""
    return [(start, min(start + PART, count)) for start in range(0, count, PART)]


# -- the method ---------------------------------------------------------------------------------


@dataclass
class PrimalDual:
    """The iterates of one linear program; :meth:`advance` updates them in place.

    `v.image` and `z.image` are the primal and dual solution so far, within their bounds.
    """

    v: PrimalIterate
    z: DualIterate
    restarts: Restarts

    @classmethod
    def start(cls, v: Floats, z: Floats, omega: float) -> PrimalDual:
        """Return the iterates at v in [0, 1] and z >= 0."""
        return cls(PrimalIterate.anchored(v), DualIterate.anchored(z), Restarts(omega))

    def extend(self, v: Floats, rows: int) -> None:
        """Append columns, which start at v, and rows; restart if these are many."""
        if not rows:
            return
        z = np.zeros(rows)
        many = 0.01  # share of new rows from which on the method restarts
        if rows > many * (len(self.z.image) + rows):
            self.v = PrimalIterate.anchored(np.concatenate([self.v.image, v]))
            self.z = DualIterate.anchored(np.concatenate([self.z.image, z]))
            self.restarts.restart()
        else:
            self.v = PrimalIterate(*(np.concatenate([old, v]) for old in self.v))
            self.z = DualIterate(*(np.concatenate([old, z]) for old in self.z))

    def advance(
        self, program: LinearProgram, steps: int, pool: ThreadPool, device: str = "cpu"
    ) -> None:
        """Take some steps, on a device if they are large, and restart if that is due."""
        columns, rows, v, z = program.columns, program.rows, self.v, self.z
        omega, first, last = self.restarts.omega, self.restarts.since, self.restarts.since + steps

        def step(a: float) -> tuple[float, float]:
            primal = pool.run(
                lambda part: step_columns(columns, z.current, v, omega, a, *part),
                split(len(v.current)),
            )
            dual = pool.run(
                lambda part: step_rows(rows, v.extrapolated, z, omega, a, *part),
                split(len(z.current)),
            )
            return sum(primal, 0.0), sum(dual, 0.0)

        if device != "cpu" and len(rows.terms) >= MIN_ENTRIES:
            check_time()
            primal, dual = torch_module("linear_programs").halpern_steps(
                columns, rows, v, z, omega, first, last, device
            )
        elif pool.threads == 1 or len(rows.terms) < MIN_ENTRIES:
            # Entries of K times steps of one kernel call, about: a tenth of a second.
            entries_at_once = 1 << 24
            at_once = max(1, entries_at_once // (1 + len(rows.terms)))
            for k in range(first, last, at_once):
                check_time()
                stop = min(k + at_once, last)
                primal, dual = halpern_steps(columns, rows, v, z, omega, k, stop, PART)
        else:
            for k in range(first, last):
                primal, dual = step((k + 1.0) / (k + 2.0))
        if self.restarts.is_due(steps, primal, dual):
            primal = float(np.sum(np.diff(columns.starts) * (v.image - v.anchor) ** 2))
            dual = float(np.sum(np.diff(rows.starts) * (z.image - z.anchor) ** 2))
            self.restarts.restart(primal, dual)
            self.v, self.z = PrimalIterate.anchored(v.image), DualIterate.anchored(z.image)

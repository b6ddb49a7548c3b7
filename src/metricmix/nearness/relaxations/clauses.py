r"""The linear program of a relaxation, its rows added as they are found.

.. math:: \min_v \; c^T v \qquad \sum_{j \in P_r} v_j + \sum_{j \in N_r} (1 - v_j) \ge 1, \qquad
          0 \le v \le 1

Every z >= 0, one number per row, gives a lower bound of the minimum, also of that over more rows:

.. math:: \sum_r z_r (1 - |N_r|) + \sum_j \min(0,\; c_j - (K^T z)_j)

where K has 1 for a term v and -1 for a term 1 - v.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.clauses import columns_of, dual_part, gap_part
from metricmix.kernels.threads import Crew

__all__ = ["PART", "Clauses"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Starts = NDArray[np.int64]
Keys = NDArray[np.uint64]

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
        self.starts: Starts = np.zeros(1, np.int64)
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

    def add(self, costs: Floats, starts: Starts, terms: Ints, keys: Keys) -> None:
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
        self.column_starts: Starts = np.zeros(len(self.c) + 1, np.int64)
        self.rows: Ints = np.empty(len(self.terms), np.int32)
        columns_of(self.starts, self.terms, self.column_starts, self.rows)


def _parts(count: int) -> list[tuple[int, int]]:
    return [(start, min(start + PART, count)) for start in range(0, count, PART)]

"""Rows that are computed once and asked for several times."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock

import numpy as np

from metricmix.typing import Floats, Indices

__all__ = ["KeptRows"]

KEPT = 1 << 23
"""Numbers that are kept at most: 64 MiB."""


class KeptRows:
    """The rows of some items, those of the last call kept.

    The folds that choose settings, the fit and its answers ask for the rows of the same labelled
    items, or of some of them. They are computed once where they are at most 8 million numbers.

    Parameters
    ----------
    compute : callable
        ``compute(items) -> (len(items), n)``.

    >>> kept = KeptRows(lambda items: print("computed") or items[:, None] * np.ones(2))
    >>> kept(np.array([4, 7]))
    computed
    array([[4., 4.],
           [7., 7.]])
    >>> kept(np.array([7]))
    array([[7., 7.]])
    """

    def __init__(self, compute: Callable[[Indices], Floats]) -> None:
        self.compute = compute
        self._kept: tuple[Indices, Floats] = np.empty(0, np.int64), np.empty((0, 0))
        self._lock = RLock()

    def __call__(self, items: Indices) -> Floats:
        """Return the rows of some items, as a new array; threads wait for each other's."""
        with self._lock:
            known, rows = self._kept
            if rows.shape[1] == 0 or not np.isin(items, known).all():
                known = np.unique(items)
                rows = np.ascontiguousarray(self.compute(known))
                if rows.size <= KEPT:
                    self._kept = known, rows
        return np.asarray(rows[np.searchsorted(known, items)])

    def __reduce__(self) -> tuple[type[KeptRows], tuple[Callable[[Indices], Floats]]]:
        return KeptRows, (self.compute,)

r"""Distances from some roots where the lengths are not formed: few passes over all rows.

A pass asks for every row once, a few at a time, and lets all paths grow by an edge,
:math:`D \leftarrow \min(D, D \otimes w)`. A path of h edges from s to v is at least

.. math:: \min_u w_{su} + (h - 2) \min_{uv} w_{uv} + \min_u w_{uv}

long, all of which one pass finds out: as soon as no longer path can be shorter than what has been
found, that is final. For learned metrics one pass is mostly enough.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from metricmix.mixture.lengths import EdgeLengths
from metricmix.paths.product import min_plus

__all__ = ["distances_streamed"]

ROWS_AT_ONCE = 128


def distances_streamed(
    lengths: EdgeLengths, roots: NDArray[np.int64], *, n_jobs: int | None = None
) -> NDArray[np.float64]:
    """Return the (S, n) distances from `roots`; memory O((S + 128 R) n)."""
    n = lengths.n
    d = lengths.rows(roots)
    out, into = np.full(n, np.inf), np.full(n, np.inf)
    edges = 2  # after the pass to come, paths of so many edges are known
    while True:
        before = d.copy()
        for start in range(0, n, ROWS_AT_ONCE):
            some = np.arange(start, min(n, start + ROWS_AT_ONCE))
            w = lengths.some_rows(start, start + len(some), n_jobs=n_jobs)
            np.minimum(d, min_plus(d[:, some], w, n_jobs=n_jobs), out=d)
            if edges == 2:
                w[np.arange(len(some)), some] = np.inf
                out[some] = w.min(axis=1)
                np.minimum(into, w.min(axis=0), out=into)
        longer = out[roots, None] + (edges - 1) * out.min() + into
        if np.array_equal(d, before) or (d <= longer).all():
            return d
        edges += 1

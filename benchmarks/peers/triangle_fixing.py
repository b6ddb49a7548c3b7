r"""Nearest metrics by Dykstra's method, "triangle fixing", one thread.

Sweeps over all :math:`3 \binom n3` rows, each with a dual of its own: :math:`4 n^3` bytes.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numba
import numpy as np

__all__ = ["triangle_fixing"]


def triangle_fixing(
    D: np.ndarray,
    *,
    done: Callable[[np.ndarray], bool],
    every: int = 10,
    time_limit: float = np.inf,
) -> tuple[float, int, bool]:
    """Sweep until `done`, asked every few sweeps, says so; return seconds, sweeps, whether it did.

    Asking is not counted.
    """
    n = len(D)
    x = D.copy()
    duals = np.zeros((n * (n - 1) * (n - 2) // 6, 3))
    seconds, sweeps = 0.0, 0
    while seconds < time_limit:
        started = time.perf_counter()
        for _ in range(every):
            _sweep(x, duals)
        seconds += time.perf_counter() - started
        sweeps += every
        if done(np.tril(x, -1) + np.tril(x, -1).T):
            return seconds, sweeps, True
    return seconds, sweeps, False


@numba.njit(cache=True)
def _sweep(x: np.ndarray, z: np.ndarray) -> None:
    """Fix every triangle in turn; entries left of the diagonal count.

    Rows that are neither broken nor have a dual are most of them; branches skip these.
    """
    n, third, at = len(x), 1.0 / 3.0, 0
    for i in range(2, n):
        xi = x[i]
        for j in range(1, i):
            xj, ij = x[j], xi[j]
            for k in range(j):
                ik, jk = xi[k], xj[k]
                if ij > ik + jk or z[at, 0] > 0.0:
                    c = max((ij - ik - jk) * third, -z[at, 0])
                    ij, ik, jk = ij - c, ik + c, jk + c
                    z[at, 0] += c
                if ik > ij + jk or z[at, 1] > 0.0:
                    c = max((ik - ij - jk) * third, -z[at, 1])
                    ij, ik, jk = ij + c, ik - c, jk + c
                    z[at, 1] += c
                if jk > ij + ik or z[at, 2] > 0.0:
                    c = max((jk - ij - ik) * third, -z[at, 2])
                    ij, ik, jk = ij + c, ik + c, jk - c
                    z[at, 2] += c
                xi[k], xj[k] = ik, jk
                at += 1
            xi[j] = ij

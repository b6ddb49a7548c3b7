r"""Nearest metrics by the Halpern-Lions-Wittmann-Bauschke iteration, one thread.

.. math:: x \leftarrow \lambda_t d + (1 - \lambda_t) x, \quad \text{then one sweep of projections}

over all triangles, without duals, :math:`\lambda` 1/2 at first and 0.382 / t later. O(n^2) memory;
no stopping rule and no bound, so that 100 iterations are usual. What comes out is closed here by
shortest paths, to be a metric.
"""

from __future__ import annotations

import numba
import numpy as np

__all__ = ["hlwb"]


def hlwb(D: np.ndarray, iterations: int = 100) -> np.ndarray:
    """Return what the iterations lead to."""
    x = D.copy()
    for t in range(iterations):
        share = 0.5 if t <= 1 else 0.382 / t
        x *= 1.0 - share
        x += share * D
        _sweep(x)
    return np.tril(x, -1) + np.tril(x, -1).T


@numba.njit(cache=True)
def _sweep(x: np.ndarray) -> None:
    """Project on every triangle inequality in turn; entries left of the diagonal count.

    Of a triangle's three, one at most is broken. Most are not, which branches skip.
    """
    n, third = len(x), 1.0 / 3.0
    for i in range(2, n):
        xi = x[i]
        for j in range(1, i):
            xj, ij = x[j], xi[j]
            for k in range(j):
                ik, jk = xi[k], xj[k]
                if ij > ik + jk:
                    v = (ij - ik - jk) * third
                    ij, xi[k], xj[k] = ij - v, ik + v, jk + v
                elif ik > ij + jk:
                    v = (ik - ij - jk) * third
                    ij, xi[k], xj[k] = ij + v, ik - v, jk + v
                elif jk > ij + ik:
                    v = (jk - ij - ik) * third
                    ij, xi[k], xj[k] = ij + v, ik + v, jk - v
            xi[j] = ij

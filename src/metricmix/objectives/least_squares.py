"""Regression onto a given metric, as in the paper's Experiment 1."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from metricmix.exceptions import InputError
from metricmix.objectives.base import Objective
from metricmix.typing import Floats, Indices
from metricmix.validation import as_float_array

__all__ = ["LeastSquares"]


class LeastSquares(Objective):
    r"""Mean squared difference from target distances.

    .. math:: f = \frac{1}{|K|} \sum_{(i, j) \in K} (d_{ij} - t_{ij})^2 + \rho \lVert\alpha\rVert^2

    over the ordered pairs K whose target is known.

    Parameters
    ----------
    target : (n, n) array
        NaN marks pairs that are left out.
    rho : float
        Weight of the ridge.

    Examples
    --------
    >>> import numpy as np, metricmix as mm
    >>> mm.objectives.LeastSquares([[0.0, 1.0], [1.0, 0.0]]).n_terms(2)
    4
    >>> mm.objectives.LeastSquares([[0.0, np.nan], [1.0, 0.0]]).n_terms(2)
    3
    """

    convex = True

    def __init__(self, target: ArrayLike, rho: float = 0.0) -> None:
        super().__init__(rho)
        values = as_float_array(target, name="target")
        if values.ndim != 2 or values.shape[0] != values.shape[1]:
            raise InputError(
                argument="target", expected="a square matrix (n, n)", found=f"shape {values.shape}"
            )
        if np.isinf(values).any():
            raise InputError(
                argument="target",
                expected="finite distances, found inf",
                remedy="NaN leaves a pair out",
            )
        known = ~np.isnan(values.ravel())
        if not known.any():
            raise InputError(argument="target", expected="some known distances, found only NaN")
        self.target = values.astype(np.float64).ravel()
        self.known = None if known.all() else np.flatnonzero(known)
        self._n = len(values)

    def check(self, n: int) -> None:
        """Raise InputError unless there is a target for every pair of the n items."""
        if n != self._n:
            raise InputError(
                argument="target", expected=f"shape ({n}, {n})", found=f"({self._n}, {self._n})"
            )

    def n_terms(self, n: int) -> int:
        """Return the number of known targets."""
        return len(self.target) if self.known is None else len(self.known)

    def pairs(self, terms: Indices, n: int) -> tuple[Indices, Indices]:
        """Return the pairs of the known targets, row by row."""
        i, j = np.divmod(self._flat(terms), n)
        return i[:, None], j[:, None]

    def evaluate(self, terms: Indices, d: Floats, n: int) -> tuple[Floats, Floats]:
        """Return (d - t)² and 2 (d - t)."""
        residual = d[:, 0] - self.target[self._flat(terms)]
        return residual**2, 2.0 * residual[:, None]

    def quadratic(self, terms: Indices, n: int) -> tuple[Floats, Floats, Floats]:
        """Return (d - t)² as d² - 2 t d + t²."""
        t: Floats = self.target[self._flat(terms)]
        return np.ones(len(terms)), -2.0 * t, t**2

    def _flat(self, terms: Indices) -> Indices:
        return terms if self.known is None else self.known[terms]

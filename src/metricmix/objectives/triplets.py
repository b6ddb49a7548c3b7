"""Comparisons: this item is nearer to that one than to the other."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from metricmix.exceptions import InputError
from metricmix.objectives.base import Objective
from metricmix.typing import Floats, Indices
from metricmix.validation import check_indices, check_number

__all__ = ["Triplets"]


class Triplets(Objective):
    r"""Hinge loss on comparisons of distances.

    .. math:: f = \frac{1}{T} \sum_{(a, p, q)} \max(0,\; \tau + d_{ap} - d_{aq})
              + \rho \lVert\alpha\rVert^2

    over triples that say "a is nearer to p than to q", with a margin :math:`\tau`.

    Parameters
    ----------
    triples : (T, 3) array of int
        Rows (a, p, q).
    rho : float
        Weight of the ridge.
    margin : float
        By how much nearer; the hinge has no scale of its own, so it sets that of the metric.

    Examples
    --------
    >>> import metricmix as mm
    >>> mm.objectives.Triplets([[0, 1, 2], [2, 1, 0]]).n_terms(3)
    2
    """

    convex = True

    def __init__(self, triples: ArrayLike, rho: float = 0.0, *, margin: float = 1.0) -> None:
        super().__init__(rho)
        rows = np.asarray(triples)
        if rows.ndim != 2 or rows.shape[1] != 3 or len(rows) == 0 or rows.dtype.kind not in "iu":
            raise InputError(
                argument="triples",
                expected="an integer array (T, 3) of rows (item, nearer, farther)",
                found=f"shape {rows.shape} and dtype {rows.dtype}",
            )
        self.triples = rows.astype(np.int64)
        self.margin = check_number(margin, name="margin", low=0)

    def check(self, n: int) -> None:
        """Raise InputError unless all items exist."""
        check_indices(self.triples.ravel(), n, name="triples")

    def n_terms(self, n: int) -> int:
        """Return the number of triples."""
        return len(self.triples)

    def pairs(self, terms: Indices, n: int) -> tuple[Indices, Indices]:
        """Return (a, p) and (a, q) for each triple."""
        chosen = self.triples[terms]
        return chosen[:, [0, 0]], chosen[:, [1, 2]]

    def evaluate(self, terms: Indices, d: Floats, n: int) -> tuple[Floats, Floats]:
        """Return the hinge and its derivatives +1 and -1 where it is active."""
        excess = self.margin + d[:, 0] - d[:, 1]
        active = (excess > 0).astype(np.float64)
        return np.maximum(excess, 0.0), np.stack([active, -active], axis=1)

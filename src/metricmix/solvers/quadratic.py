r"""An objective of the mixture as a quadratic function of the weights.

.. math:: f(\alpha) = \sum_t p_t (a_t m_t^2 + b_t m_t + c_t) + \rho \lVert\alpha - c\rVert^2
          = \lVert F \alpha + h \rVert^2 + q^T \alpha + \kappa, \qquad m_t = \sum_r \alpha_r M_r[t]

The triangular F, R by R, is found by QR decompositions of a few thousand terms at a time, stacked
upon each other. Sums of products, :math:`F^T F = S^T S`, would lose half of the digits: sources
that nearly coincide, and targets that are nearly met, are common.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from metricmix.kernels.threads import in_threads, threads_for
from metricmix.solvers.linear_model import LinearModel
from metricmix.solvers.problem import Indices

__all__ = ["Quadratic", "quadratic_of"]

Floats = NDArray[np.float64]
VALUES_AT_ONCE = 1 << 16
"""Values of sources that are decomposed at a time: they stay in the second cache."""


@dataclass(frozen=True)
class Quadratic:
    """``||factor α + shift||² + slope·α + constant``."""

    factor: Floats
    shift: Floats
    slope: Floats
    constant: float

    def value(self, weights: Floats) -> float:
        """Return f."""
        residual = self.factor @ weights + self.shift
        return float(residual @ residual + self.slope @ weights) + self.constant

    def gradient(self, weights: Floats) -> Floats:
        """Return the derivatives of f."""
        residual = self.factor @ weights + self.shift
        return np.asarray(2.0 * (residual @ self.factor) + self.slope)


def quadratic_of(model: LinearModel) -> Quadratic:
    """Return the objective of the model as a function of the weights, ridge and all.

    One pass over the terms, O(R) memory beside the stack, O(R² T) operations for T terms.
    """
    R = model.stack.n_sources
    step = max(4 * R, VALUES_AT_ONCE // (R + 1))
    threads = 1 if model.stack.block is None else threads_for(model.n, model.n_jobs)
    ridge = np.sqrt(model.objective.rho) * np.eye(R)
    centre = np.zeros(R) if model.centre is None else model.centre
    factor = np.column_stack([ridge, -(ridge @ centre)])
    slope, constant = np.zeros(R), 0.0
    for terms in model.pieces():
        pieces = [terms[start : start + step] for start in range(0, len(terms), step)]
        # Small decompositions, each on one thread: BLAS would get in its own way.
        with threadpool_limits(1, user_api="blas"):
            parts = in_threads(lambda piece: _decompose(model, piece), pieces, threads)
        factor = _triangle(np.concatenate([factor, *(part[0] for part in parts)]))
        slope += sum((part[1] for part in parts), np.zeros(R))
        constant += float(np.sum([part[2] for part in parts]))
    return Quadratic(factor[:, :-1].copy(), factor[:, -1].copy(), slope, constant)


def _decompose(model: LinearModel, terms: Indices) -> tuple[Floats, Floats, float]:
    """Return triangular [F, h], q and the constant of some terms."""
    a, b, c = model.quadratic(terms)
    i, j = (side[:, 0] for side in model.objective.pairs(terms, model.n))
    S = model.sources_at(i, j)
    S[i == j] = 0.0
    curved = a > 0
    root = np.sqrt(a[curved])
    # a m² + b m = (√a m + b / 2√a)² - b² / 4a
    shift = b[curved] / (2.0 * root)
    triangle = _triangle(np.column_stack([root[:, None] * S[curved], shift]))
    # What is left of c is 0 for squares, up to rounding of each: no sum of large terms cancels.
    c[curved] -= shift**2
    return triangle, np.asarray(b[~curved] @ S[~curved]), float(c.sum())


def _triangle(rows: Floats) -> Floats:
    """Return the triangular factor of a QR decomposition."""
    factor: Floats = np.asarray(np.linalg.qr(rows, mode="r"))
    return factor

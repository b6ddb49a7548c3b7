r"""Ridge regression with exact leave-one-out errors, and what is done about far targets first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from metricmix.typing import Floats, Indices

__all__ = ["RidgeFit", "moved_in", "ridge_path"]

PENALTIES = np.logspace(-4, 3, 22)
"""Penalties to choose from, where features have a mean square length of about 1."""


def moved_in(known: Floats) -> Floats:
    r"""Return targets with far ones replaced by the smallest or largest that is not far.

    Those outside

    .. math:: [\, q_1 - 10\,(q_3 - q_1),\; q_3 + 10\,(q_3 - q_1) \,]

    are far, with the quartiles :math:`q_1, q_3`. Where half of the targets are equal, the quartiles
    are those of the others, as long as these are a tenth of all.

    >>> moved_in(np.array([1.0, 2.0, 3.0, 4.0, 1e6]))
    array([1., 2., 3., 4., 4.])
    """
    low, high = np.percentile(known, [25, 75])
    if low == high:
        others = known[known != low]
        if len(others) < 0.1 * len(known):
            return known
        first, last = np.percentile(others, [25, 75])
        low, high = min(low, first), max(high, last)
    far = 10.0 * (high - low)
    near = known[(known >= low - far) & (known <= high + far)]
    return np.asarray(np.clip(known, near.min(), near.max()))


@dataclass(frozen=True, eq=False)
class RidgeFit:
    r"""A ridge regression :math:`\hat y = a + \phi b`.

    Attributes
    ----------
    intercept : float
    coefficients : (p,) array
    penalty : float
        As given, or the one with the smallest leave-one-out error.
    held_out : (L,) array
        What is predicted for each item without its own target, or without those of its fold.
    """

    intercept: float
    coefficients: Floats
    penalty: float
    held_out: Floats


def ridge_path(
    features: Floats,
    y: Floats,
    penalty: float | None = None,
    weights: Floats | None = None,
    folds: Indices | None = None,
) -> RidgeFit:
    r"""Return ridge regression with the penalty that has the smallest leave-one-out error.

    .. math:: \min_{a, b} \sum_i v_i \big(y_i - a - \phi_i b\big)^2 + \lambda \lVert b \rVert^2,
              \qquad y_i - \hat y_i^{(-i)} = \frac{y_i - \hat y_i}{1 - H_{ii}}

    with the smoother :math:`\hat y = H y`. Without all targets of a fold f, the residuals are
    :math:`(I - H_{ff})^{-1} (y_f - \hat y_f)`. Neither takes a refit.

    Parameters
    ----------
    features : (L, p) array
    y : (L,) array
    penalty : float, optional
        If given, nothing is chosen.
    weights : (L,) array, optional
        The weights v, of mean 1.
    folds : (L,) array, optional
        The fold of each item, 0, 1, …; default: each item is one.

    Examples
    --------
    >>> x = np.arange(-3.0, 4.0)
    >>> fit = ridge_path(x[:, None], 2.0 * x + 1.0)
    >>> round(fit.intercept, 3), fit.coefficients.round(3)
    (1.0, array([2.]))
    >>> bool(np.abs(fit.held_out - 2.0 * x - 1.0).max() < 1e-3)
    True
    """
    root = np.ones(len(y)) if weights is None else np.sqrt(weights)
    mean = float(np.average(y, weights=weights))
    middle = np.average(features, axis=0, weights=weights)
    weighted, centred = root[:, None] * (features - middle), root * (y - mean)
    # By eigenvectors of the product: a singular value decomposition takes much longer.
    squares, right = np.linalg.eigh(weighted.T @ weighted)
    kept = squares > 1e-14 * max(float(squares.max(initial=0.0)), 1e-300)
    squares, right = squares[kept], right[:, kept]
    left = weighted @ right / np.sqrt(squares)
    t, shares = left.T @ centred, left**2
    constant = root / np.sqrt(root @ root)  # the intercept's part of the smoother
    best: tuple[float, float, Floats] | None = None
    for one in PENALTIES if penalty is None else (penalty,):
        shrunk = squares / (squares + one)
        left_over = np.maximum(1.0 - constant**2 - shares @ shrunk, 1e-9)
        residual = (centred - left @ (shrunk * t)) / left_over
        error = float(residual @ residual)
        if best is None or error < best[0]:
            best = error, float(one), residual
    assert best is not None
    residual, shrunk = best[2], squares / (squares + best[1])
    if folds is not None:
        apart = centred - left @ (shrunk * t)
        for fold in range(int(folds.max()) + 1):
            test = folds == fold
            own, of_constant = left[test], constant[test]
            smoother = (own * shrunk) @ own.T + np.outer(of_constant, of_constant)
            residual[test] = np.linalg.solve(np.eye(len(own)) - smoother, apart[test])
    coefficients = right @ (np.sqrt(squares) / (squares + best[1]) * t)
    held_out = y - residual / np.maximum(root, 1e-150)
    return RidgeFit(mean - float(middle @ coefficients), coefficients, best[1], held_out)

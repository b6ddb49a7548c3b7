r"""Ridge regression with exact leave-one-out errors, and what is done about far targets first."""

from __future__ import annotations

import numpy as np

from metricmix.typing import Floats

__all__ = ["moved_in", "ridge_path"]

PENALTIES = np.logspace(-4, 3, 22)
"""Penalties to choose from, where features have a mean square length of about 1."""
FAR = 10.0
"""Distances between the quartiles beyond which a target is moved in."""
FEW = 0.1
"""Share of targets that differ from the most frequent one, below which none of them is far."""


def moved_in(known: Floats) -> Floats:
    r"""Return targets with far ones moved to the nearest of these limits.

    .. math:: [\, q_1 - 10\,(q_3 - q_1),\; q_3 + 10\,(q_3 - q_1) \,]

    with the quartiles :math:`q_1, q_3`. Where half of the targets are equal, the quartiles are
    those of the others, as long as these are a tenth of all.

    >>> moved_in(np.array([1.0, 2.0, 3.0, 4.0, 1e6]))
    array([ 1.,  2.,  3.,  4., 24.])
    """
    low, high = np.percentile(known, [25, 75])
    if low == high:
        others = known[known != low]
        if len(others) < FEW * len(known):
            return known
        first, last = np.percentile(others, [25, 75])
        low, high = min(low, first), max(high, last)
    far = FAR * (high - low)
    return np.asarray(np.clip(known, low - far, high + far))


def ridge_path(
    features: Floats, y: Floats, penalty: float | None = None, weights: Floats | None = None
) -> tuple[Floats, float, Floats]:
    r"""Return ridge regression with the penalty that has the smallest leave-one-out error.

    .. math:: \min_b \sum_i v_i \big(y_i - \bar y - \phi_i b\big)^2 + \lambda \lVert b \rVert^2,
              \qquad y_i - \hat y_i^{(-i)} = \frac{y_i - \hat y_i}{1 - h_i}

    with the diagonal h of the smoother :math:`y - \bar y \mapsto \hat y - \bar y`. The mean is that
    of all targets, also where one is held out: a mean without a target tells which one it was.

    Parameters
    ----------
    features : (L, p) array
    y : (L,) array
    penalty : float, optional
        If given, nothing is chosen.
    weights : (L,) array, optional
        The weights v, of mean 1.

    Returns
    -------
    coefficients : (p,) array
    penalty : float
    leave_one_out : (L,) array
        What is predicted for each item without its own target.

    Examples
    --------
    >>> x = np.arange(-3.0, 4.0)
    >>> b, _, held_out = ridge_path(x[:, None], 2.0 * x + 1.0)
    >>> b.round(3), np.abs(held_out - 2.0 * x - 1.0).max().round(3)
    (array([2.]), np.float64(0.0))
    """
    root = np.ones(len(y)) if weights is None else np.sqrt(weights)
    mean = float(np.average(y, weights=weights))
    weighted, centred = root[:, None] * features, root * (y - mean)
    # By eigenvectors of the smaller product: a singular value decomposition takes much longer.
    squares, right = np.linalg.eigh(weighted.T @ weighted)
    kept = squares > 1e-14 * max(float(squares.max(initial=0.0)), 1e-300)
    squares, right = squares[kept], right[:, kept]
    left = weighted @ right / np.sqrt(squares)
    t, shares = left.T @ centred, left**2
    best: tuple[float, float, Floats] | None = None
    for one in PENALTIES if penalty is None else (penalty,):
        shrunk = squares / (squares + one)
        held_out = np.maximum(1.0 - shares @ shrunk, 1e-9)
        residual = (centred - left @ (shrunk * t)) / held_out
        error = float(residual @ residual)
        if best is None or error < best[0]:
            best = error, float(one), residual
    assert best is not None
    coefficients = right @ (np.sqrt(squares) / (squares + best[1]) * t)
    return coefficients, best[1], y - best[2] / np.maximum(root, 1e-150)

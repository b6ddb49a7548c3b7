r"""Multinomial logistic regressions of several folds and penalties, solved together.

.. math:: \min_{W, b} \; C \sum_i v_i \bigl(-\log p_{y_i}(z_i)\bigr) + \tfrac12 \lVert W \rVert^2,
          \qquad p_c(z) \propto e^{w_c \cdot z + b_c}

for L rows z with classes y. A fold is a row of weights v, 0 for the rows that it holds out, so that
all folds share one table. Each regression starts where that of the next stronger penalty ended.

The solver is L-BFGS with a diagonal preconditioner, the diagonal of the Hessian

.. math:: H_{cj} = C \sum_i v_i\, p_c(z_i) (1 - p_c(z_i))\, z_{ij}^2 + 1,

which is close to the Hessian where the columns of the table are orthogonal, as singular vectors
are. One evaluation takes two products of an (L, k) and a (k, c) matrix; some 20 are needed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metricmix.kernels.compile import kernel
from metricmix.kernels.threads import in_threads
from metricmix.typing import AnyArray, Floats, Indices

__all__ = ["class_probabilities", "logistic_path"]

TOLERANCE = 1e-5
"""Squared length of the preconditioned gradient at which to stop, relative to the objective."""
MAX_ITER = 300
MEMORY = 8
"""Steps that L-BFGS keeps."""


def logistic_path(
    Z: Floats,
    y: Indices,
    weights: Floats,
    penalties: Sequence[float],
    n_classes: int,
    *,
    tol: float = TOLERANCE,
    max_iter: int = MAX_ITER,
) -> Floats:
    """Return the coefficients of all regressions, of shape (F, P, n_classes, k + 1).

    Parameters
    ----------
    Z : (L, k) array
        Converges fastest if its columns are orthogonal.
    y : (L,) array
        Classes 0 to `n_classes` - 1.
    weights : (F, L) array
        How much each row counts in each of F fits.
    penalties : sequence of P floats
        C of each fit, the strongest penalty (the smallest C) first.
    tol, max_iter
        When to stop.

    Returns
    -------
    array
        The last column is the intercept, minus infinity for a class without a row that counts. For
        two classes W is penalised twice as much, as by scikit-learn, whose model has one vector
        for both.

    Examples
    --------
    >>> import numpy as np
    >>> Z, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 1])
    >>> found = logistic_path(Z, y, np.ones((1, 4)), [1.0, 10.0], 2)
    >>> class_probabilities(Z, found[0, 1]).argmax(axis=1)
    array([0, 0, 1, 1])
    """
    rows = np.column_stack([Z, np.ones(len(Z))])
    columns, squares = np.ascontiguousarray(rows.T), rows * rows
    found = np.zeros((len(weights), len(penalties), n_classes, rows.shape[1]))

    def solve_fold(fold: int) -> None:
        own = np.ascontiguousarray(weights[fold], dtype=np.float64)
        present = np.zeros(n_classes, dtype=np.bool_)
        present[y[own > 0]] = True
        W = np.zeros(found.shape[2:])
        W[~present, -1] = -np.inf
        ridge = 2.0 if present.sum() == 2 else 1.0
        for k, C in enumerate(penalties):
            if present.sum() > 1:
                minimize_loss(W, rows, columns, squares, y, C * own, present, ridge, tol, max_iter)
            found[fold, k] = W

    in_threads(solve_fold, range(len(weights)))
    return found


def class_probabilities(Z: Floats, W: Floats) -> Floats:
    """Return the probabilities (m, C) of m rows by coefficients (C, k + 1)."""
    logits = Z @ W[:, :-1].T + W[:, -1]
    logits -= logits.max(axis=1, keepdims=True)
    p = np.exp(logits)
    return np.asarray(p / p.sum(axis=1, keepdims=True))


@kernel
def minimize_loss(
    W: Floats,
    rows: Floats,
    columns: Floats,
    squares: Floats,
    y: Indices,
    weights: Floats,
    present: AnyArray,
    ridge: float,
    tol: float,
    max_iter: int,
) -> int:
    """Minimise the loss from W (c, k) on, in place; return the number of evaluations.

    `rows` (L, k) end with a column of ones, `columns` are their transpose.
    """
    c, k = W.shape
    size = c * k
    residual, share = np.empty((c, len(y))), np.empty((c, len(y)))
    gradient, diagonal = np.empty((c, k)), np.empty((c, k))
    new, new_gradient = np.empty((c, k)), np.empty((c, k))
    steps, changes = np.empty((MEMORY, size)), np.empty((MEMORY, size))
    curvature, factor = np.empty(MEMORY), np.empty(MEMORY)
    kept, oldest = 0, 0
    value = loss_and_gradient(W, rows, columns, y, weights, present, ridge, residual, gradient)
    evaluations = 1
    least = 1e-9 * weights.sum()  # of the intercepts, which have no penalty
    for iteration in range(max_iter):
        if iteration % MEMORY == 0:
            for a in range(c):
                for i in range(len(y)):
                    expected = residual[a, i] + (weights[i] if y[i] == a else 0.0)
                    rest = 1.0 - expected / weights[i] if weights[i] > 0.0 else 0.0
                    share[a, i] = expected * rest
            np.dot(share, squares, diagonal)
            for a in range(c):
                for j in range(k):
                    diagonal[a, j] += ridge if j < k - 1 else least
        g = gradient.ravel()
        h = diagonal.ravel()
        if (g * g / h).sum() <= tol * value:
            break
        direction = g.copy()
        for m in range(kept - 1, -1, -1):
            r = (oldest + m) % MEMORY
            factor[r] = np.dot(steps[r], direction) / curvature[r]
            direction -= factor[r] * changes[r]
        direction /= h
        if kept:
            r = (oldest + kept - 1) % MEMORY
            direction *= curvature[r] / (changes[r] * changes[r] / h).sum()
        for m in range(kept):
            r = (oldest + m) % MEMORY
            direction += (factor[r] - np.dot(changes[r], direction) / curvature[r]) * steps[r]
        slope = np.dot(g, direction)
        length, accepted = 1.0, False
        while not accepted and length > 1e-9:
            for a in range(c):
                for j in range(k):
                    new[a, j] = W[a, j] - (length * direction[a * k + j] if present[a] else 0.0)
            trial = loss_and_gradient(
                new, rows, columns, y, weights, present, ridge, residual, new_gradient
            )
            evaluations += 1
            accepted = trial <= value - 1e-4 * length * slope
            length *= 0.5
        if not accepted:  # at the limit of precision
            break
        r = (oldest + kept) % MEMORY
        curvature[r] = 0.0
        for a in range(c):
            for j in range(k):
                steps[r, a * k + j] = new[a, j] - W[a, j] if present[a] else 0.0
                changes[r, a * k + j] = new_gradient[a, j] - gradient[a, j]
                curvature[r] += steps[r, a * k + j] * changes[r, a * k + j]
        if kept == MEMORY:
            oldest = (oldest + 1) % MEMORY
        else:
            kept += 1
        if curvature[r] <= 0.0:  # rounding: forget all steps
            kept = 0
        for a in range(c):  # loops: slices would take half of the time to compile
            for j in range(k):
                W[a, j], gradient[a, j] = new[a, j], new_gradient[a, j]
        value = trial
    return evaluations


@kernel
def loss_and_gradient(
    W: Floats,
    rows: Floats,
    columns: Floats,
    y: Indices,
    weights: Floats,
    present: AnyArray,
    ridge: float,
    residual: Floats,
    gradient: Floats,
) -> float:
    """Return the loss at W (c, k); write its gradient, and v (p - 1[y = c]) into `residual`."""
    c, k = W.shape
    np.dot(W[:, : k - 1].copy(), columns[: k - 1], residual)
    value = 0.0
    for i in range(len(y)):
        if weights[i] == 0.0:
            residual[:, i] = 0.0
            continue
        largest = -np.inf
        for a in range(c):
            if present[a]:
                residual[a, i] += W[a, k - 1]
                largest = max(largest, residual[a, i])
        own, total = residual[y[i], i] - largest, 0.0
        for a in range(c):
            residual[a, i] = np.exp(residual[a, i] - largest) if present[a] else 0.0
            total += residual[a, i]
        value += weights[i] * (np.log(total) - own)
        for a in range(c):
            residual[a, i] *= weights[i] / total
        residual[y[i], i] -= weights[i]
    np.dot(residual, rows, gradient)
    for a in range(c):
        for j in range(k - 1):
            value += 0.5 * ridge * W[a, j] * W[a, j]
            gradient[a, j] += ridge * W[a, j]
    return value

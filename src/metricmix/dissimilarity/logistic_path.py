r"""Multinomial logistic regressions of several folds and penalties, solved together.

.. math:: \min_{W, b} \; C \sum_i v_i \bigl(-\log p_{y_i}(z_i)\bigr) + \tfrac12 \lVert W \rVert^2,
          \qquad p_c(z) \propto e^{w_c \cdot z + b_c}

for L rows z with classes y. A fold is a row of weights v, 0 for the rows that it holds out, so that
all folds share one table. Each regression starts where that of the next stronger penalty ended.

The solver is L-BFGS with a diagonal preconditioner, the diagonal of the Hessian

.. math:: H_{cj} = C \sum_i v_i\, p_c(z_i) (1 - p_c(z_i))\, z_{ij}^2 + 1,

which is close to the Hessian where the columns of the table are orthogonal, as singular vectors
are. Some 20 iterations are needed. Each multiplies the directions of all folds, (F c, k), with the
table, and then their residuals, (F c, L). Along a direction the loss needs no product: the logits
are linear in the step.

A fold that has converged stays in these products until the last one has. So the result of a fold
depends, to the last digit, on its own rows alone: the rounding of a product depends on its shape.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metricmix.kernels.compile import kernel
from metricmix.kernels.threads import in_threads
from metricmix.typing import AnyArray, Floats, Indices

__all__ = ["class_probabilities", "logistic_path", "softmax"]

TOLERANCE = 1e-5
"""Squared length of the preconditioned gradient at which to stop, relative to the objective."""
MAX_ITER = 300
MEMORY = 8
"""Steps that L-BFGS keeps."""
TOGETHER = 5
"""Folds whose products are computed as one; such groups run on several threads."""


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
    table = rows, np.ascontiguousarray(rows.T), rows * rows
    found = np.zeros((len(weights), len(penalties), n_classes, rows.shape[1]))

    def solve_group(start: int) -> None:
        group = slice(start, start + TOGETHER)
        own = np.ascontiguousarray(weights[group], dtype=np.float64)
        present = np.zeros((len(own), n_classes), dtype=np.bool_)
        for fold, counts in zip(present, own, strict=True):
            fold[y[counts > 0]] = True
        W = np.zeros((len(own), *found.shape[2:]))
        for k, C in enumerate(penalties):
            minimize_losses(W, *table, y, C * own, present, tol, max_iter)
            found[group, k] = W
        found[group, :, :, -1] = np.where(present[:, None], found[group, :, :, -1], -np.inf)

    in_threads(solve_group, range(0, len(weights), TOGETHER))
    return found


def class_probabilities(Z: Floats, W: Floats) -> Floats:
    """Return the probabilities (m, C) of m rows by coefficients (C, k + 1)."""
    return softmax(Z @ W[:, :-1].T + W[:, -1])


def softmax(scores: Floats) -> Floats:
    """Return exp(scores), each row divided by its sum."""
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(p / p.sum(axis=1, keepdims=True))


@kernel
def minimize_losses(
    W: Floats,
    rows: Floats,
    columns: Floats,
    squares: Floats,
    y: Indices,
    weights: Floats,
    present: AnyArray,
    tol: float,
    max_iter: int,
) -> Indices:
    """Minimise the losses of F folds from W (F, c, k) on, in place; return their iterations.

    `rows` (L, k) end with a column of ones, `columns` are their transpose, `squares` their
    squares. Coefficients of classes that a fold does not have, by `present` (F, c), stay 0.
    """
    F, c, k = W.shape
    L = len(y)
    direction, gradient = np.zeros((F, c, k)), np.empty((F, c, k))
    diagonal, fresh = np.empty((F, c, k)), np.empty((F, c, k))
    moved, logits = np.empty((F, c, L)), np.empty((F, c, L))
    residual, share = np.zeros((F, c, L)), np.zeros((F, c, L))
    steps, changes = np.empty((F, MEMORY, c, k)), np.empty((F, MEMORY, c, k))
    trial, ones, curvature = np.empty((c, L)), np.ones((c, k)), np.empty((F, MEMORY))
    kept, latest = np.zeros(F, np.int64), np.zeros(F, np.int64)
    value, ridge, iterations = np.empty(F), np.ones(F), np.zeros(F, np.int64)
    running = np.ones(F, np.bool_)

    np.dot(W.reshape(F * c, k), columns, logits.reshape(F * c, L))
    for f in range(F):
        running[f] = present[f].sum() > 1
        ridge[f] = 2.0 if present[f].sum() == 2 else 1.0
        value[f] = ridge[f] * 0.5 * penalised(W[f], W[f])
        value[f] += loss_and_residual(logits[f], y, weights[f], present[f], residual[f])
    np.dot(residual.reshape(F * c, L), rows, gradient.reshape(F * c, k))
    for f in range(F):
        add_multiple(gradient[f], ridge[f], W[f], k - 1)

    for iteration in range(max_iter):
        if iteration % MEMORY == 0:
            for f in range(F):
                if running[f]:
                    write_shares(residual[f], y, weights[f], share[f])
            np.dot(share.reshape(F * c, L), squares, diagonal.reshape(F * c, k))
            for f in range(F):  # intercepts have no penalty
                add_multiple(diagonal[f], ridge[f], ones, k - 1)
                for a in range(c):
                    diagonal[f, a, k - 1] += 1e-9 * weights[f].sum()
        for f in range(F):
            if running[f]:
                g, h, d = gradient[f], diagonal[f], direction[f]
                running[f] = scaled_square(g, h) > tol * value[f]
                if running[f]:
                    iterations[f] += 1
                    find_direction(g, h, steps[f], changes[f], curvature[f], kept[f], latest[f], d)
        if not running.any():
            break
        np.dot(direction.reshape(F * c, k), columns, moved.reshape(F * c, L))
        for f in range(F):
            if not running[f]:
                continue
            own, along = W[f], direction[f]
            slope = product(gradient[f], along)
            start, both = penalised(own, own), penalised(own, along)
            square = penalised(along, along)
            length, accepted = 2.0, False
            while not accepted and length > 2e-9:
                length *= 0.5
                copy_to(logits[f], trial)
                add_multiple(trial, -length, moved[f], L)
                lower = loss_and_residual(trial, y, weights[f], present[f], residual[f])
                penalty = start - 2.0 * length * both + length * length * square
                lower += 0.5 * ridge[f] * penalty
                accepted = lower <= value[f] - 1e-4 * length * slope
            if not accepted:  # at the limit of precision
                running[f] = False
                continue
            latest[f] = (latest[f] + 1) % MEMORY
            add_multiple(own, -length, along, k)
            copy_to(along, steps[f, latest[f]], -length)
            copy_to(trial, logits[f])
            value[f] = lower
        np.dot(residual.reshape(F * c, L), rows, fresh.reshape(F * c, k))
        for f in range(F):
            if not running[f]:
                continue
            add_multiple(fresh[f], ridge[f], W[f], k - 1)
            change = changes[f, latest[f]]
            copy_to(fresh[f], change)
            add_multiple(change, -1.0, gradient[f], k)
            copy_to(fresh[f], gradient[f])
            curvature[f, latest[f]] = product(steps[f, latest[f]], change)
            kept[f] = min(kept[f] + 1, MEMORY)
            if curvature[f, latest[f]] <= 0.0:  # rounding: forget all steps
                kept[f] = 0
    return iterations


@kernel
def find_direction(
    g: Floats,
    h: Floats,
    steps: Floats,
    changes: Floats,
    curvature: Floats,
    kept: int,
    latest: int,
    d: Floats,
) -> None:
    """Write the direction of L-BFGS at gradient g, with the preconditioner h, into d."""
    c, k = g.shape
    factor = np.empty(MEMORY)
    copy_to(g, d)
    for m in range(kept):
        r = (latest - m) % MEMORY
        factor[r] = product(steps[r], d) / curvature[r]
        add_multiple(d, -factor[r], changes[r], k)
    scale = curvature[latest] / scaled_square(changes[latest], h) if kept else 1.0
    for a in range(c):
        for j in range(k):
            d[a, j] *= scale / h[a, j]
    for m in range(kept - 1, -1, -1):
        r = (latest - m) % MEMORY
        rest = factor[r] - product(changes[r], d) / curvature[r]
        add_multiple(d, rest, steps[r], k)


@kernel
def loss_and_residual(
    logits: Floats, y: Indices, weights: Floats, present: AnyArray, residual: Floats
) -> float:
    """Return the weighted loss of logits (c, L); write v (p - 1[y = c]) into `residual`."""
    c, L = logits.shape
    largest, total = np.full(L, -np.inf), np.zeros(L)
    for a in range(c):
        if present[a]:
            for i in range(L):
                largest[i] = max(largest[i], logits[a, i])
    for a in range(c):
        if present[a]:
            for i in range(L):
                residual[a, i] = np.exp(logits[a, i] - largest[i])
                total[i] += residual[a, i]
    value = 0.0
    for i in range(L):
        if weights[i] > 0.0:
            value += weights[i] * (np.log(total[i]) + largest[i] - logits[y[i], i])
        total[i] = weights[i] / total[i]
    for a in range(c):
        if present[a]:
            for i in range(L):
                residual[a, i] *= total[i]
    for i in range(L):
        if weights[i] > 0.0:
            residual[y[i], i] -= weights[i]
    return value


@kernel
def write_shares(residual: Floats, y: Indices, weights: Floats, share: Floats) -> None:
    """Write v p (1 - p) into `share` (c, L), given v (p - 1[y = c])."""
    copy_to(residual, share)
    for i in range(len(y)):
        if weights[i] > 0.0:
            share[y[i], i] += weights[i]
    for a in range(len(share)):
        for i in range(len(y)):
            if weights[i] > 0.0:
                share[a, i] *= 1.0 - share[a, i] / weights[i]


@kernel
def scaled_square(g: Floats, h: Floats) -> float:
    """Return the sum of g^2 / h."""
    total = 0.0
    for a in range(len(g)):
        for j in range(g.shape[1]):
            total += g[a, j] * g[a, j] / h[a, j]
    return total


@kernel
def product(A: Floats, B: Floats) -> float:
    """Return the sum of the products of the entries of two matrices."""
    return float(np.dot(A.ravel(), B.ravel()))


@kernel
def penalised(A: Floats, B: Floats) -> float:
    """Return the same without the last column, the intercepts."""
    total: float = product(A, B)
    for a in range(len(A)):
        total -= A[a, -1] * B[a, -1]
    return total


@kernel
def add_multiple(A: Floats, factor: float, B: Floats, columns: int) -> None:
    """Add a multiple of the first columns of B to those of A."""
    for a in range(len(A)):
        for j in range(columns):
            A[a, j] += factor * B[a, j]


@kernel
def copy_to(A: Floats, B: Floats, factor: float = 1.0) -> None:
    """Write a multiple of A into B; assignments to slices take half of the time to compile."""
    for a in range(len(A)):
        for j in range(A.shape[1]):
            B[a, j] = factor * A[a, j]

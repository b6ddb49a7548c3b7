r"""Smoothing, then softmax regression: SGC, S²GC and GGCM.

With A the graph, :math:`B = D^{-1/2} (A + I) D^{-1/2}` and X the attributes as shares of their row,
softmax regression is done on the table P X, where

- SGC (Wu et al., ICML 2019): :math:`P = B^2`;
- S²GC (Zhu and Koniusz, ICLR 2021): :math:`P = \alpha I + \frac{1 - \alpha}{K} \sum_{k \le K} B^k`,
  K = 16, α = 0.05;
- GGCM (Wang et al., arXiv 2309.13599): :math:`P = \alpha I + \frac{1 - \alpha}{2K} \sum_{k \le K}
  (B^k + N_k B^{k-1})`, K = 16, α = 0.15. :math:`N_k = (1 - \beta_k) I + \beta_k (2I - A_k) /
  (r + 2)` pushes apart the items that a random r-regular graph :math:`A_k` joins, r = 20;
  :math:`\beta_k` is 1, or halved in each step.

As published, the regression takes 100 steps of Adam with rate 0.2; validation chooses its weight
decay. Each peer may be given the weight decays, so that there is nothing to choose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array, eye_array

from benchmarks.accuracy.data import Case, Indices

Variants = Iterator[tuple[str, Indices]]
Smooth = Callable[[Any], Any]
Floats = NDArray[Any]

DECAYS = (5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 3e-4)
K = 16
NEGATIVE_DEGREE = 20


def sgc(case: Case, decays: Sequence[float] = DECAYS) -> Variants:
    """Return what SGC says."""
    B = smoothing_operator(case)

    def smooth(M: Any) -> Any:
        return B @ (B @ M)

    yield from softmax_regressions(case, smooth, smooth, decays)


def s2gc(case: Case, alpha: float = 0.05, decays: Sequence[float] = DECAYS) -> Variants:
    """Return what S²GC says."""
    B = smoothing_operator(case)

    def smooth(M: Any) -> Any:
        total, stage = alpha * M, M
        for _ in range(K):
            stage = B @ stage
            total = total + (1 - alpha) / K * stage
        return total

    yield from softmax_regressions(case, smooth, smooth, decays)


def ggcm(
    case: Case,
    seed: int = 0,
    decays: Sequence[float] = (1e-5, 2e-5, 1e-4),
    strengths: Sequence[float] = (1.0, 0.5),
) -> Variants:
    """Return what GGCM says."""
    B = smoothing_operator(case)
    rng = np.random.default_rng(seed)
    graphs = [random_regular(rng, case.n) for _ in range(K)]
    for strength in strengths:
        name = "beta 1" if strength == 1 else "beta halved"
        smooth, transposed = ggcm_smoothing(B, graphs, strength)
        for setting, labels in softmax_regressions(case, smooth, transposed, decays):
            yield f"{name}, {setting}", labels


def ggcm_smoothing(
    B: Any, graphs: Sequence[Any], decay: float, alpha: float = 0.15
) -> tuple[Smooth, Smooth]:
    """Return M -> P M and M -> P^T M of GGCM."""
    share = (1 - alpha) / (2 * len(graphs))

    def apart(k: int, M: Any) -> Any:
        beta = decay**k
        pushed = (2 * M - graphs[k] @ M) / (NEGATIVE_DEGREE + 2)
        return (1 - beta) * M + beta * pushed

    def smooth(M: Any) -> Any:
        total, stage = alpha * M, M
        for k in range(len(graphs)):
            smoothed = B @ stage
            total = total + share * (smoothed + apart(k, stage))
            stage = smoothed
        return total

    def transposed(M: Any) -> Any:
        once = B @ M
        total = np.zeros_like(M)
        for k in reversed(range(len(graphs))):
            total = once + apart(k, M) + B @ total
        return alpha * M + share * total

    return smooth, transposed


def adjacency(case: Case) -> Any:
    """Return the symmetric matrix of the links, each once, without self-loops."""
    assert case.edges is not None
    i, j = np.concatenate([case.edges, case.edges[:, ::-1]]).T
    kept = i != j
    A = csr_array((np.ones(kept.sum(), np.float32), (i[kept], j[kept])), shape=(case.n, case.n))
    A.data[:] = 1.0
    return A


def normalised(A: Any) -> Any:
    """Return :math:`D^{-1/2} A D^{-1/2}`."""
    degrees = np.asarray(A.sum(axis=1)).ravel()
    root = np.divide(1.0, np.sqrt(degrees), out=np.zeros_like(degrees), where=degrees > 0)
    return csr_array(diags_array(root) @ A @ diags_array(root)).astype(np.float32)


def smoothing_operator(case: Case) -> Any:
    """Return B."""
    return normalised(adjacency(case) + eye_array(case.n, dtype=np.float32))


def row_shares(case: Case) -> Any:
    """Return the attributes as shares of their row, sparse.

    Attributes are taken as they are if some are negative, or if all rows have length 1.
    """
    X = csr_array(case.X).astype(np.float32)
    squares = np.asarray((X * X).sum(axis=1)).ravel()
    if X.data.min(initial=0.0) < 0 or np.allclose(squares[squares > 0], 1, atol=1e-4):
        return X
    totals = np.asarray(X.sum(axis=1)).ravel()
    return csr_array(diags_array(1 / np.maximum(totals, 1e-12).astype(np.float32)) @ X)


def random_regular(rng: np.random.Generator, n: int) -> Any:
    """Return a random graph in which all have the same degree: a sum of cycles through all items.

    The few pairs that two cycles join count twice.
    """
    count = NEGATIVE_DEGREE // 2
    orders = np.array([rng.permutation(n) for _ in range(count)])
    i, j = orders.ravel(), np.roll(orders, 1, axis=1).ravel()
    ones = np.ones(2 * count * n, np.float32)
    return csr_array((ones, (np.concatenate([i, j]), np.concatenate([j, i]))), shape=(n, n))


def softmax_regressions(
    case: Case, smooth: Smooth, transposed: Smooth, decays: Sequence[float]
) -> Variants:
    """Return softmax regressions on P X.

    P X itself, n × d, is never formed: training takes the rows of the labelled items, which are
    :math:`(P^T E)^T X` with E their unit vectors, and predictions are P (X W).
    """
    X = row_shares(case)
    units = np.zeros((case.n, len(case.train)), np.float32)
    units[case.train, np.arange(len(case.train))] = 1.0
    rows = np.asarray(X.T @ transposed(units)).T
    for decay in decays:
        W, b = softmax_regression(rows, case.labels[case.train], case.n_classes, decay)
        yield f"weight decay {decay:g}", np.asarray(smooth(X @ W) + b).argmax(axis=1)


def softmax_regression(
    rows: Floats, labels: Indices, n_classes: int, decay: float, steps: int = 100, rate: float = 0.2
) -> tuple[Floats, Floats]:
    """Return weights (d, C) and intercepts (C,) after some steps of Adam from 0."""
    table = np.hstack([rows, np.ones((len(rows), 1), rows.dtype)])
    target = np.eye(n_classes, dtype=rows.dtype)[labels]
    W = np.zeros((table.shape[1], n_classes), rows.dtype)
    mean, square = np.zeros_like(W), np.zeros_like(W)
    for t in range(1, steps + 1):
        scores = table @ W
        p = np.exp(scores - scores.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        gradient = table.T @ (p - target) / len(table) + decay * W
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        W -= rate * (mean / (1 - 0.9**t)) / (np.sqrt(square / (1 - 0.999**t)) + 1e-8)
    return W[:-1], W[-1]

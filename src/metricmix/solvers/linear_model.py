r"""The other model: the mixture itself is the metric; the weights are constrained so that it is.

.. math:: \min_{\alpha \in C} \; f(\alpha) = \sum_t p_t \, g_t\big(m(\alpha)\big)
          + \rho \lVert\alpha\rVert^2 \quad \text{s.t.} \quad m = \sum_r \alpha_r M_r
          \text{ is a metric}

The weights that satisfy this form a convex cone. There is no softplus and no projection here, so
that the same weights mean another metric than in the path model, :math:`P(\mathrm{softplus}(m))`;
what is learned therefore carries ``link="identity"``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from metricmix.exceptions import InputError
from metricmix.kernels.mixing import mix_rows
from metricmix.kernels.threads import in_threads, threads_for
from metricmix.metric import metric_violations
from metricmix.mixture.edge_lengths import ROWS_AT_ONCE
from metricmix.solvers.problem import UnprojectedProblem
from metricmix.solvers.result import SolveResult, Status, Trace
from metricmix.typing import Floats, Indices

__all__ = [
    "LinearModel",
    "constraint_matrix",
    "dense_bytes",
    "n_constraints",
    "pair_positions",
    "reduced_rows",
    "sparse_bytes",
]


@dataclass(frozen=True)
class LinearModel(UnprojectedProblem):
    """An objective over the entries of a mixture that must be a metric."""

    link: str = "identity"

    def mixed(self, weights: Floats) -> Floats:
        """Return the mixture as an (n, n) array, of any sign, with a zero diagonal."""
        m = np.empty((self.n, self.n))
        raw, block = weights / self.stack.scales, self.stack.block

        def fill(start: int) -> None:
            part = m[start : start + ROWS_AT_ONCE]
            if block is not None:
                mix_rows(block, raw, start, part)
            else:
                items = np.arange(start, start + len(part))
                part[...] = np.tensordot(raw, self.stack.raw_rows(items), axes=1)

        # Computed sources may not be safe to call from several threads.
        threads = 1 if block is None else threads_for(self.n, self.n_jobs)
        in_threads(fill, range(0, self.n, ROWS_AT_ONCE), threads)
        np.fill_diagonal(m, 0.0)
        return m if self.stack.directed or block is not None else np.minimum(m, m.T)

    def violation(self, weights: Floats) -> float:
        """Return the largest breach of a metric's laws, as a share of the largest entry."""
        report = metric_violations(self.mixed(weights), self.stack.directed, n_jobs=self.n_jobs)
        if report.scale <= self.noise(weights):  # sources that cancel each other: a mixture of 0
            return 0.0
        return max(report.triangle, report.negativity) / report.scale

    def noise(self, weights: Floats) -> float:
        """Return what rounding alone may do to a law under these weights."""
        return 8.0 * self.rounding * float(np.abs(weights) @ self.largest)

    @cached_property
    def rounding(self) -> float:
        """The relative rounding of the sources' entries, by their type."""
        return float(np.finfo(self.stack.raw_rows(np.arange(1)).dtype).eps)

    @cached_property
    def largest(self) -> Floats:
        """The largest entry of every source, divided by its scale; 1 where all are 0."""
        stack = self.stack
        known = stack.raw_range()
        if known is None:
            everyone = range(0, stack.n_items, 256)
            blocks = (np.arange(a, min(stack.n_items, a + 256)) for a in everyone)
            high = np.max([stack.raw_rows(items).max(axis=(1, 2)) for items in blocks], axis=0)
        else:
            high = known[1].max(axis=1)
        return np.where(high > 0, high, 1.0) / stack.scales

    def sources_at(self, i: Indices, j: Indices) -> Floats:
        """Return the values of the sources at pairs, divided by their scales: (len(i), R)."""
        raw = self.stack.raw_pairs(i, j) / self.stack.scales[:, None]
        return np.asarray(raw.T, dtype=np.float64)

    def all_rows(self, S: Floats) -> Floats:
        """Return every law of a metric as a row over the weights, from the sources at all pairs."""
        return reduced_rows(self.n, S, directed=self.stack.directed, rounding=self.rounding)

    def check_quadratic(self, method: str, instead: str) -> None:
        """Refuse objectives that are no convex quadratic function of single distances."""
        terms = np.arange(min(1, self.n_terms))
        if self.objective.quadratic(terms, self.n) is None:
            raise InputError(
                (
                    f"method={method!r} takes objectives that are quadratic in each "
                    "distance (LeastSquares, LabelContrast), got "
                    f"{type(self.objective).__name__}"
                ),
                argument="objective",
                remedy=instead,
            )

    def pair_coefficients(self, column: Indices) -> tuple[Floats, Floats, float]:
        """Return (a, b, c): without the ridge, f is the sum over columns of a m² + b m, plus c.

        `column` says which one each of the n x n pairs is, -1 for none.
        """
        count = int(column.max(initial=-1)) + 1
        a, b, constant = np.zeros(count), np.zeros(count), 0.0
        for terms in self.pieces():
            i, j = (side[:, 0] for side in self.objective.pairs(terms, self.n))
            square, linear, rest = self.quadratic(terms)
            where = column[i, j]
            apart = where >= 0
            a += np.bincount(where[apart], square[apart], minlength=count)
            b += np.bincount(where[apart], linear[apart], minlength=count)
            constant += float(rest.sum())
        return a, b, constant

    def quadratic(self, terms: Indices) -> tuple[Floats, Floats, Floats]:
        """Return the objective's own coefficients, times the probabilities of the terms."""
        found = self.objective.quadratic(terms, self.n)
        if found is None or (found[0] < 0).any():
            raise InputError(
                argument="objective",
                expected="a convex quadratic one",
                found=type(self.objective).__name__,
                remedy="method='full' takes any",
            )
        p = self.objective.probabilities(terms, self.n)
        return p * found[0], p * found[1], p * found[2]

    def _evaluate(
        self, weights: Floats, terms: Indices, sources: NDArray[np.floating], p: Floats
    ) -> tuple[float, Floats]:
        """As without the projection, but entries may be negative: the constraints see to that."""
        i, j = self.objective.pairs(terms, self.n)
        d = np.where(i == j, 0.0, (weights @ sources).reshape(i.shape))
        values, slopes = self.objective.evaluate(terms, d, self.n)
        flow = np.where(i == j, 0.0, slopes * p[:, None]).ravel()
        return float((values * p).sum()), np.asarray(sources @ flow, dtype=np.float64)

    def infeasible(self) -> InputError:
        """Return the error for a simplex without a metric; 0 is one, without that constraint."""
        return InputError(
            (
                f"no weights with constraint={self.constraint!r} make the mixture of "
                "these sources a metric"
            ),
            argument="constraint",
            remedy="use method='full', whose projection makes one of any mixture",
        )

    def result(
        self, weights: Floats, status: Status, *, n_iter: int, seconds: dict[str, float]
    ) -> SolveResult:
        """Return what a solver found in a single call, with a trace of one entry."""
        objective = self.value(weights)
        return SolveResult(
            objective=objective,
            objective_kind="exact",
            status=status,
            n_iter=n_iter,
            trace=Trace([n_iter], [objective], [seconds["assembly"] + seconds["solve"]], [weights]),
            mixture=self.mixture(weights),
            violation=self.violation(weights),
            seconds=seconds,
        ).warn_unless_converged()


# -- the laws of a metric as rows of a matrix, all of them: what the direct solvers hand over ---

EPS = float(np.finfo(np.float64).eps)


def n_constraints(n: int, *, directed: bool = False) -> int:
    """Return the number of rows: one per pair, and one per pair and third item."""
    pairs = n * (n - 1) // (1 if directed else 2)
    return int(pairs * (1 + max(0, n - 2)))


def dense_bytes(n: int) -> int:
    """Return the bytes of the paper's matrix of n³ triangles by n² pairs, dense, in float64.

    >>> f"{dense_bytes(100) / 2**30:.1f} GiB"
    '74.5 GiB'
    """
    return 8 * n**5


def sparse_bytes(n: int, *, directed: bool = False) -> int:
    """Return the bytes of what :func:`constraint_matrix` returns: at most 3 entries in a row."""
    return 20 * 3 * n_constraints(n, directed=directed)


def pair_positions(n: int, *, directed: bool = False) -> tuple[Indices, Indices, Indices]:
    """Return the pairs (i, j) behind the columns, and the (n, n) columns of pairs; -1 for i = j."""
    i, j = np.nonzero(~np.eye(n, dtype=bool)) if directed else np.triu_indices(n, 1)
    column = np.full((n, n), -1)
    column[i, j] = np.arange(len(i))
    if not directed:
        column[j, i] = column[i, j]
    return i, j, column


def constraint_matrix(n: int, *, directed: bool = False) -> sparse.csr_array[Any]:
    r"""Return the sparse A, entries in {-1, 0, 1}, such that m is a metric when A m >= 0.

    Columns are pairs i < j (all ordered pairs, if `directed`) in the order of
    :func:`pair_positions`; first come the n (n - 1) / 2 rows of :math:`m_{ij} \ge 0`, then the
    n (n - 1) (n - 2) / 2 rows of :math:`m_{ik} + m_{kj} \ge m_{ij}`, pair by pair (twice as many of
    either, if `directed`).

    Examples
    --------
    >>> constraint_matrix(3).toarray().astype(int)
    array([[ 1,  0,  0],
           [ 0,  1,  0],
           [ 0,  0,  1],
           [-1,  1,  1],
           [ 1, -1,  1],
           [ 1,  1, -1]])
    """
    i, j, column = pair_positions(n, directed=directed)
    count = len(i)
    everyone = np.arange(n)
    apart = (everyone != i[:, None]) & (everyone != j[:, None])
    pair, k = np.nonzero(apart)
    legs = np.stack([pair, column[i[pair], k], column[k, j[pair]]], axis=1)
    indices = np.concatenate([np.arange(count), legs.ravel()])
    signs = np.tile([-1.0, 1.0, 1.0], len(pair))
    data = np.concatenate([np.ones(count), signs])
    starts = np.concatenate([np.arange(count), count + 3 * np.arange(len(pair) + 1)])
    return sparse.csr_array((data, indices, starts), shape=(count + len(pair), count))


def reduced_rows(n: int, S: Floats, *, directed: bool = False, rounding: float = EPS) -> Floats:
    """Return A S, dense: the rows over R weights where ``m = S @ weights``; without rows of zeros.

    What only rounding keeps from 0 is 0: a solver that scales its rows would take it at its word.
    """
    A = constraint_matrix(n, directed=directed)
    rows: Floats = np.asarray(A @ S)
    rows[np.abs(rows) <= 4.0 * rounding * (abs(A) @ np.abs(S))] = 0.0
    return rows[rows.any(axis=1)]

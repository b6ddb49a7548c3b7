r"""The linear model: a mixture that is a metric itself, by constraints on the weights.

.. math:: \min_{\alpha \in C} \; f(\alpha) = \sum_t p_t \, g_t\big(m(\alpha)\big)
          + \rho \lVert\alpha\rVert^2 \quad \text{s.t.} \quad m = \sum_r \alpha_r M_r
          \text{ is a metric}

The weights that satisfy this form a convex cone. There is no softplus and no projection here, so
the same weights define a different metric than in the path model, :math:`P(\mathrm{softplus}(m))`.
The learned mixture therefore has ``link="identity"``.

The separation oracle finds the inequalities that a mixture violates most, without a list of them:

.. math:: \max_{i, j, k} \; m_{ij} + s - (m_{ik} + m_{kj}), \qquad
          \max_{i, j} \; s - m_{ij}

One min-plus product of m with itself finds the best detour of every pair, at n³ / 2 additions and
minima; unlike the closure, it remains valid for negative entries. A violated inequality is a
row over the weights, :math:`a^T \alpha \ge 0`, with :math:`a_r = M_r[i, k] + M_r[k, j] -
M_r[i, j]` or :math:`a_r = M_r[i, j]`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from metricmix.cached import cached_property
from metricmix.exceptions import InputError
from metricmix.kernels.mixing import mix_rows
from metricmix.kernels.threads import in_threads, threads_for
from metricmix.kernels.triangles import ROW_BLOCK, lower_by_detours, worst_of_rows
from metricmix.metric import metric_violations
from metricmix.mixture.edge_lengths import ROWS_AT_ONCE
from metricmix.solvers.unprojected import PairValues, UnprojectedProblem
from metricmix.typing import Floats, Indices

__all__ = ["LinearModel", "SeparationOracle", "ViolatedRows"]


@dataclass(frozen=True)
class LinearModel(UnprojectedProblem):
    """An objective over the entries of a mixture that must be a metric."""

    kind: ClassVar[str] = "exact"

    link: str = "identity"

    def mixed(self, weights: Floats) -> Floats:
        """Return the mixture as an (n, n) array, of any sign, with a zero diagonal."""
        m = np.empty((self.n, self.n))
        lengths = self.lengths(weights)
        raw, block = lengths.raw_weights, self.stack.block if lengths.is_linear else None

        def fill(start: int) -> None:
            part = m[start : start + ROWS_AT_ONCE]
            items = np.arange(start, start + len(part))
            if block is not None:
                mix_rows(block, raw, start, part)
            elif lengths.is_linear:
                part[...] = np.tensordot(raw, self.stack.raw_rows(items), axes=1)
            else:
                part[...] = lengths.mixed_rows(items)

        # Computed sources may not be safe to call from several threads.
        threads = 1 if block is None else threads_for(self.n, self.n_jobs)
        in_threads(fill, range(0, self.n, ROWS_AT_ONCE), threads)
        np.fill_diagonal(m, 0.0)
        return m if self.stack.directed or block is not None else np.minimum(m, m.T)

    def violation(self, weights: Floats) -> float:
        """Return the largest violation of the metric axioms, as a share of the largest entry."""
        report = metric_violations(self.mixed(weights), self.stack.directed, n_jobs=self.n_jobs)
        if report.scale <= self.noise(weights):  # sources cancel: the mixture is 0
            return 0.0
        return max(report.triangle, report.negativity) / report.scale

    def noise(self, weights: Floats) -> float:
        """Return the rounding error of an inequality under these weights."""
        return 8.0 * self.rounding * float(np.abs(weights) @ self.largest)

    @cached_property
    def rounding(self) -> float:
        """The relative rounding of the sources' entries, by their type."""
        return float(np.finfo(self.stack.raw_rows(np.arange(1)).dtype).eps)

    @cached_property
    def largest(self) -> Floats:
        """The largest entry that each weight multiplies; 1 where all are 0."""
        known = self.stack.raw_range() if self.weighting is None else None
        if known is None:
            n = self.n
            high = np.zeros(self.n_weights)
            for start in range(0, n, 256):
                items = np.arange(start, min(n, start + 256))
                raw = self.stack.raw_rows(items).reshape(self.stack.n_sources, -1)
                ends = np.repeat(items, n), np.tile(np.arange(n), len(items))
                high = np.maximum(high, self.parametrisation.terms(raw, *ends).max(axis=1))
        else:
            high = known[1].max(axis=1) / self.stack.scales
        return np.where(high > 0, high, 1.0)

    def sources_at(self, i: Indices, j: Indices) -> Floats:
        """Return what the weights multiply at pairs, (len(i), R): the sources over their scales."""
        terms = self.parametrisation.terms(self.stack.raw_pairs(i, j), i, j)
        return np.asarray(terms.T, dtype=np.float64)

    def check_quadratic(self, method: str, instead: str) -> None:
        """Raise InputError unless the objective is convex and quadratic in single distances."""
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

    def _lengths(self, weights: Floats, values: PairValues) -> tuple[Floats, Floats]:
        """As for edge lengths, but entries may be negative: only the constraints exclude that."""
        d = weights @ values.sources
        d[values.same] = 0.0
        return d, np.ones_like(d)

    def infeasible(self) -> InputError:
        """Return the error for a simplex without a metric (without it, weights 0 are feasible)."""
        return InputError(
            (
                f"no weights with constraint={self.constraint!r} make the mixture of "
                "these sources a metric"
            ),
            argument="constraint",
            remedy="use method='full', whose projection makes one of any mixture",
        )


# -- separation: the inequalities that a mixture violates most -----------------------------------


@dataclass(frozen=True)
class ViolatedRows:
    """Inequalities that a mixture violates, or satisfies by less than some slack.

    Attributes
    ----------
    rows, excess : (L, R) and (L,) arrays
        The inequalities as rows over the weights, and how much each is violated, slack included.
    margin : float
        The smallest slack of any inequality, up to the slack asked for; negative if one is
        violated.
    scale : float
        Largest absolute entry of the mixture.
    """

    rows: Floats
    excess: Floats
    margin: float
    scale: float


@dataclass(frozen=True)
class SeparationOracle:
    """Finds the inequalities that the mixture of a model violates."""

    model: LinearModel

    def separate(self, weights: Floats, count: int, slack: float = 0.0) -> ViolatedRows:
        """Return about `count` inequalities that are violated, or satisfied by less than `slack`.

        The worst of every item, then the worst of these, with a few third items each; rows that
        are 0 for all sources are dropped, since no weights change them.
        """
        model = self.model
        m = model.mixed(weights)
        scale = float(np.abs(m).max())
        directed, n = model.stack.directed, model.n
        np.fill_diagonal(m, np.inf)  # a detour is over a third item
        pairs: list[tuple[Indices, Indices, Indices]] = []
        margin = np.inf
        if n > 1:
            lowest = m.argmin(axis=1)
            at = m[np.arange(n), lowest]
            margin = float(at.min())
            i = np.argsort(at, kind="stable")[: max(1, count // 4)]
            i = i[at[i] < slack]
            pairs.append((i, i, lowest[i]))
        if n > 2:
            excess, partner = self.worst_pairs(m, slack)
            margin = min(margin, slack - float(excess.max()))
            i = np.argsort(-excess, kind="stable")[:count]
            i = i[excess[i] > 0]
            j = partner[i]
            into = m[:, j].T if directed else m[j]
            detours = m[i] + into
            # Third items per pair: where the shortest detour is tight in all sources, its row is 0
            # and another one may not be.
            n_detours = 4
            few = min(n_detours, n - 2)
            third = np.argpartition(detours, few - 1, axis=1)[:, :few]
            pairs += [(i, third[:, c], j) for c in range(few)]
        rows, excess = self.rows_over_weights(m, pairs, slack)
        return ViolatedRows(rows, excess, margin, scale)

    def worst_pairs(self, m: Floats, slack: float) -> tuple[Floats, Indices]:
        """Return for every item the largest excess over a detour, and the other item of the pair.

        One min-plus product.
        """
        n, lower = len(m), not self.model.stack.directed
        excess, partner = np.zeros(n), np.zeros(n, dtype=np.int64)

        def fill(low: int) -> None:
            high = min(low + ROW_BLOCK, n)
            shortest = m[low:high, : high if lower else n] + slack
            # Not to be lowered, and no obstacle to leaving its tile out.
            shortest[np.arange(high - low), np.arange(low, high)] = -np.inf
            lower_by_detours(shortest, m, low, lower)
            worst_of_rows(m, shortest, low, lower, slack, excess[low:high], partner[low:high])

        # The longest rows first, so that no thread is left with them.
        in_threads(fill, range(0, n, ROW_BLOCK)[::-1], threads_for(n, self.model.n_jobs))
        return excess, partner

    def rows_over_weights(
        self, m: Floats, found: list[tuple[Indices, Indices, Indices]], slack: float
    ) -> tuple[Floats, Floats]:
        """Return inequalities (i, k, j) as rows, and their excess; k = i is m_ij >= 0."""
        R = self.model.n_weights
        if not found:
            return np.empty((0, R)), np.empty(0)
        i, k, j = (np.concatenate(side) for side in zip(*found, strict=True))
        single = i == k
        direct = self.model.sources_at(i, j)
        legs = self.model.sources_at(i, k), self.model.sources_at(k, j)
        rows = legs[0] + legs[1] - direct
        rounding = 4.0 * self.model.rounding * (legs[0] + legs[1] + direct)
        rows[np.abs(rows) <= rounding] = 0.0
        rows[single] = direct[single]
        around = np.where(single, 0.0, m[i, k] + m[k, j])
        excess = slack + np.where(single, -m[i, j], m[i, j] - around)
        matter = (excess > 0) & rows.any(axis=1)
        return rows[matter], excess[matter]

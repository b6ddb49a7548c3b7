r"""Which laws of a metric a mixture breaks most, without a list of them.

.. math:: \max_{i, j, k} \; m_{ij} + s - (m_{ik} + m_{kj}), \qquad
          \max_{i, j} \; s - m_{ij}

One min-plus product of m with itself finds the best detour of every pair, at n³ / 2 additions and
minima; it stays valid where entries are negative, as a closure does not. A law that is broken is a
row over the weights, :math:`a^T \alpha \ge 0`, with :math:`a_r = M_r[i, k] + M_r[k, j] -
M_r[i, j]` or :math:`a_r = M_r[i, j]`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from metricmix.kernels.threads import in_threads, threads_for
from metricmix.metric import ROW_BLOCK, lower_by_detours, worst_of_rows
from metricmix.solvers.linear_model import LinearModel
from metricmix.solvers.problem import project_weights
from metricmix.typing import Floats, Indices

__all__ = ["Broken", "Inner", "InnerSearch", "Oracle", "widest"]


DETOURS = 4
"""Third items that are looked at per pair: where the shortest detour is tight in all sources, and
says nothing about the weights, another may."""


@dataclass(frozen=True)
class Broken:
    """Laws that a mixture breaks, or nearly.

    Attributes
    ----------
    rows, excess : (L, R) and (L,) arrays
        The laws as rows over the weights, and by how much each is broken, slack included.
    margin : float
        How far the mixture is from breaking any law, up to the slack; negative if it breaks one.
    scale : float
        Largest absolute entry of the mixture.
    """

    rows: Floats
    excess: Floats
    margin: float
    scale: float


@dataclass(frozen=True)
class Oracle:
    """The laws of a metric over the sources of a model."""

    model: LinearModel

    def worst(self, weights: Floats, count: int, slack: float = 0.0) -> Broken:
        """Return up to about `count` of the laws that are broken, or kept by less than `slack`.

        The worst of every item, then the worst of these, with a few third items each; rows that
        are 0 for all sources are left out, since no weights change them.
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
            excess, partner = self._detours(m, slack)
            margin = min(margin, slack - float(excess.max()))
            i = np.argsort(-excess, kind="stable")[:count]
            i = i[excess[i] > 0]
            j = partner[i]
            into = m[:, j].T if directed else m[j]
            detours = m[i] + into
            few = min(DETOURS, n - 2)
            third = np.argpartition(detours, few - 1, axis=1)[:, :few]
            pairs += [(i, third[:, c], j) for c in range(few)]
        rows, excess = self._as_rows(m, pairs, slack)
        return Broken(rows, excess, margin, scale)

    def _detours(self, m: Floats, slack: float) -> tuple[Floats, Indices]:
        """Return for every item the largest excess of a pair over its best detour, and the pair."""
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

    def _as_rows(
        self, m: Floats, found: list[tuple[Indices, Indices, Indices]], slack: float
    ) -> tuple[Floats, Floats]:
        """Return laws (i, k, j) as rows over the weights; k = i stands for m_ij >= 0."""
        R = self.model.stack.n_sources
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


# -- weights strictly inside the cone of metrics: phase 1 of the cutting planes -----------------

TOLERANCES = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
NO_MARGIN = 1e-9
"""Margins up to this share of the largest entries mean that there is no interior."""
WIDE = 1e-3
"""Margins from this share of the largest entries on are good enough."""


class Inner(NamedTuple):
    """What is known of the interior.

    `margin` is that of `weights` (nan: none known yet; 0: strictly inside but for triangles that
    are tight in all sources), `width` an upper bound of all margins, `settled` whether to look no
    further.
    """

    weights: Floats
    margin: float
    width: float
    settled: bool


@dataclass(frozen=True)
class InnerSearch:
    """Look for weights strictly inside."""

    model: LinearModel
    oracle: Oracle
    start: Floats
    rows_per_round: int

    @cached_property
    def unit(self) -> float:
        """What margins are compared with: the largest entries that weights inside may give."""
        return float(self.model.largest.max()) if self.model.constraint == "simplex" else 1.0

    def exists(self, inner: Inner) -> bool | None:
        """Return whether there is an interior; None if that is not known yet."""
        if inner.margin > 0:
            return True
        if inner.width <= NO_MARGIN * self.unit:
            return False
        return True if inner.settled and inner.margin == 0 else None

    def keeps(self, inner: Inner) -> bool:
        """Return whether the weights make a metric, as nearly as such weights can."""
        short = -NO_MARGIN * self.unit if self.exists(inner) is False else 0.0
        return inner.margin >= short - self.model.noise(inner.weights)

    def wider(self, inner: Inner, rows: Floats) -> tuple[Inner, Broken | None]:
        """Return weights further inside, and laws that others tried do not keep well enough.

        To be called again once those are among the rows, unless :meth:`is_settled`.
        """
        width = inner.width
        if np.isnan(inner.margin):
            x = self._first_guess()
            broken = self.oracle.worst(x, self.rows_per_round, WIDE * self.unit)
        else:
            x, found = widest(rows, self.model.largest, self.model.constraint)
            width = min(width, found)
            if width <= NO_MARGIN * self.unit and self.model.constraint != "simplex":
                return inner._replace(width=width), None
            broken = self.oracle.worst(x, self.rows_per_round, max(width, 0.0))
        margin = 0.0 if abs(broken.margin) <= self.model.noise(x) else broken.margin
        if np.isnan(inner.margin) or margin > inner.margin:
            return Inner(x, margin, width, False), broken
        return inner._replace(width=width), broken

    def is_settled(self, inner: Inner, new: bool) -> bool:
        """Return whether to look no further: wide enough, none there, or no `new` rows found.

        On the simplex, where 0 is not to be had, weights at the edge of the cone are looked for.
        """
        least = NO_MARGIN * self.unit
        at_edge = self.model.constraint == "simplex" and abs(inner.width) <= least
        if at_edge and new and not self.keeps(inner):
            return False
        enough = inner.margin >= min(WIDE * self.unit, 0.5 * inner.width)
        asked = np.isfinite(inner.width)
        return bool(enough or (asked and not new) or (not inner.width > least))

    def _first_guess(self) -> Floats:
        if self.model.constraint == "simplex":
            return project_weights(self.start, "simplex")
        size = float(np.abs(self.start) @ self.model.largest)
        return self.start / size if size > 0 else self.start


def widest(rows: Floats, largest: Floats, constraint: str) -> tuple[Floats, float]:
    """Return the weights with the largest margin over `rows`, and that margin.

    Parameters
    ----------
    rows : (L, R) array
    largest : (R,) array
        Largest entry of every source; weights are measured by it.
    constraint : {"none", "nonnegative", "simplex"}
    """
    from scipy.optimize import linprog

    R = rows.shape[1]
    simplex = constraint == "simplex"
    # Either way the entries of the mixture, and with them s, are about 1.
    unit = np.ones(R) if simplex else largest
    height = float(largest.max()) if simplex else 1.0
    cost = np.zeros(R + 1)
    cost[-1] = -1.0
    low = -1.0 if constraint == "none" else 0.0
    options: Any = TOLERANCES
    bounds: list[tuple[float | None, float]] = [(low, 1.0)] * R
    found: Any = linprog(
        cost,
        A_ub=np.column_stack([-rows / (unit * height), np.ones(len(rows))]),
        b_ub=np.zeros(len(rows)),
        A_eq=np.append(np.ones(R), 0.0)[None] if simplex else None,
        b_eq=np.ones(1) if simplex else None,
        bounds=[*bounds, (None, 1.0)],
        method="highs",
        options=options,
    )
    if found.x is None:  # HiGHS gave up; there always is a solution
        return np.zeros(R), 0.0
    weights = found.x[:-1] / unit
    if constraint != "none":
        weights = np.maximum(weights, 0.0)
    return weights / weights.sum() if simplex else weights, height * float(found.x[-1])

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

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.laws import worst_of_rows
from metricmix.kernels.threads import in_threads, threads_for
from metricmix.metric import ROWS, lower_by_detours
from metricmix.solvers.linear_model import LinearModel
from metricmix.solvers.problem import Indices

__all__ = ["Broken", "Oracle"]

Floats = NDArray[np.float64]
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
            high = min(low + ROWS, n)
            shortest = m[low:high, : high if lower else n] + slack
            # Not to be lowered, and no obstacle to leaving its tile out.
            shortest[np.arange(high - low), np.arange(low, high)] = -np.inf
            lower_by_detours(shortest, m, low, lower)
            worst_of_rows(m, shortest, low, lower, slack, excess[low:high], partner[low:high])

        # The longest rows first, so that no thread is left with them.
        in_threads(fill, range(0, n, ROWS)[::-1], threads_for(n, self.model.n_jobs))
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

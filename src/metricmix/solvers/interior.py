r"""Weights strictly inside the cone of metrics: phase 1 of the cutting planes.

.. math:: \max_{x \in C, \; |x_r| \max M_r \le 1} \; s \quad \text{s.t.} \quad a^T x \ge s
          \text{ for the rows } a \text{ known so far}

by HiGHS. The triangles that x keeps by less than s become rows, and so on. Since some rows are
missing, s bounds the margin of all weights from above: if it is 0, or below, the cone has no
interior, or the simplex no metric.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metricmix.solvers.constraint import project_weights
from metricmix.solvers.linear_model import LinearModel
from metricmix.solvers.oracle import Broken, Oracle

__all__ = ["Inner", "InnerSearch", "widest"]

Floats = NDArray[np.float64]
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

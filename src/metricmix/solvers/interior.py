"""Interior points of the linear model: phase 1 of the cutting planes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from metricmix.solvers.linear_model import LinearModel, SeparationOracle, ViolatedRows
from metricmix.solvers.problem import project_weights
from metricmix.typing import Floats

__all__ = ["InteriorPoint", "InteriorSearch", "largest_margin"]

NO_MARGIN = 1e-9
"""Margins up to this share of the largest entries mean that there is no interior."""
WIDE = 1e-3
"""Margins from this share of the largest entries on are good enough."""


class InteriorPoint(NamedTuple):
    """What is known of the interior.

    `margin` is that of `weights` (nan: none known yet; 0: in the interior but for triangles that
    are tight in all sources), `width` an upper bound of all margins, `settled` whether the search
    has ended.
    """

    weights: Floats
    margin: float
    width: float
    settled: bool


@dataclass(frozen=True)
class InteriorSearch:
    """Search for weights that satisfy all inequalities with a margin."""

    model: LinearModel
    oracle: SeparationOracle
    start: Floats
    rows_per_round: int

    @cached_property
    def unit(self) -> float:
        """The unit of margins: the largest entry that feasible weights may give."""
        return float(self.model.largest.max()) if self.model.constraint == "simplex" else 1.0

    def exists(self, point: InteriorPoint) -> bool | None:
        """Return whether there is an interior; None if that is not known yet."""
        if point.margin > 0:
            return True
        if point.width <= NO_MARGIN * self.unit:
            return False
        return True if point.settled and point.margin == 0 else None

    def is_feasible(self, point: InteriorPoint) -> bool:
        """Return whether the weights make a metric, up to rounding."""
        short = -NO_MARGIN * self.unit if self.exists(point) is False else 0.0
        return point.margin >= short - self.model.noise(point.weights)

    def step(self, point: InteriorPoint, rows: Floats) -> tuple[InteriorPoint, ViolatedRows | None]:
        """Return weights with a larger margin, and the inequalities that limit the margin.

        Call it again with those among the rows, unless :meth:`is_settled`.
        """
        width = point.width
        if np.isnan(point.margin):
            if self.model.constraint == "simplex":
                x = project_weights(self.start, "simplex")
            else:
                x = self.start / (float(np.abs(self.start) @ self.model.largest) or 1.0)
            violated = self.oracle.separate(x, self.rows_per_round, WIDE * self.unit)
        else:
            x, found = largest_margin(rows, self.model.largest, self.model.constraint)
            width = min(width, found)
            if width <= NO_MARGIN * self.unit and self.model.constraint != "simplex":
                return point._replace(width=width), None
            violated = self.oracle.separate(x, self.rows_per_round, max(width, 0.0))
        margin = 0.0 if abs(violated.margin) <= self.model.noise(x) else violated.margin
        if np.isnan(point.margin) or margin > point.margin:
            return InteriorPoint(x, margin, width, False), violated
        return point._replace(width=width), violated

    def is_settled(self, point: InteriorPoint, new: bool) -> bool:
        """Return whether to end the search: margin large enough, no interior, or no `new` rows.

        On the simplex, where weights 0 are infeasible, it goes on to the boundary of the cone.
        """
        least = NO_MARGIN * self.unit
        at_edge = self.model.constraint == "simplex" and abs(point.width) <= least
        if at_edge and new and not self.is_feasible(point):
            return False
        enough = point.margin >= min(WIDE * self.unit, 0.5 * point.width)
        asked = np.isfinite(point.width)
        return bool(enough or (asked and not new) or (not point.width > least))


def largest_margin(rows: Floats, largest: Floats, constraint: str) -> tuple[Floats, float]:
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
    options: Any = {
        "primal_feasibility_tolerance": 1e-10,
        "dual_feasibility_tolerance": 1e-10,
    }
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

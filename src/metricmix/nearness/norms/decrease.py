"""Entries may only decrease: the shortest-path closure."""

from __future__ import annotations

from typing import Any

import numpy as np

from metricmix.kernels.threads import ThreadPool
from metricmix.nearness.norms.l2 import SquaredNorm
from metricmix.nearness.norms.norm import NORMS
from metricmix.nearness.problem import NearnessProblem
from metricmix.nearness.solver import ClosedForm, NearnessSolver
from metricmix.typing import AnyArray, Floats

__all__ = ["Decrease"]


@NORMS.register(
    "decrease",
    order=3,
    words="sum of squared changes over pairs",
    brief="squared changes that only decrease entries",
    formula="sum of w (x - d)^2, where x <= d",
    how="shortest paths: nearest in every norm",
    directed=True,
)
class Decrease(SquaredNorm):
    """Weighted squares, with D as an upper bound."""

    bytes_per_entry = 120
    bounded_by_d = True

    def bounds(
        self, d: Floats, known: AnyArray, lower: Floats | None, upper: Floats | None
    ) -> tuple[Floats | None, Floats | None]:
        """Return the bounds, with D as an upper one."""
        highest = np.where(known, d, np.inf)
        return lower, highest if upper is None else np.minimum(highest, upper)

    def solver(
        self, problem: NearnessProblem, pool: ThreadPool, tol: float, device: str
    ) -> NearnessSolver[Any]:
        """Return the closure of the bounds: the largest metric below D, nearest in every norm."""
        assert problem.upper is not None
        return ClosedForm(problem, problem.upper)

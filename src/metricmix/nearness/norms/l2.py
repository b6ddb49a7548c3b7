r"""Least squares, by dual ascent.

.. math:: f(x) = \sum_e w_e (x_e - d_e)^2
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from metricmix.cached import cached_property
from metricmix.devices import torch_module
from metricmix.kernels.compile import kernel
from metricmix.kernels.threads import ThreadPool
from metricmix.nearness.constraints import TriangleConstraints
from metricmix.nearness.coordinate_ascent import AcceleratedAscent, AscentState, QuadraticAscent
from metricmix.nearness.dual_ascent import DualAscent
from metricmix.nearness.loss import Loss
from metricmix.nearness.norms.norm import NORMS, Norm
from metricmix.nearness.problem import NearnessProblem
from metricmix.nearness.proximal_ascent import ProximalAscent
from metricmix.nearness.solver import NearnessSolver
from metricmix.typing import Floats

__all__ = ["SquaredLoss", "SquaredNorm", "sum_squares"]


@NORMS.register(
    "l2",
    words="sum of squared changes over pairs",
    brief="squared changes",
    formula="sum of w (x - d)^2",
    how="dual ascent over violated triangles",
    default=True,
    device=True,
)
class SquaredNorm(Norm):
    """Weighted squares."""

    def objective(self, change: Floats, w: Floats) -> float:
        """Return the sum of w (x - d)^2."""
        return float(np.sum(w * change**2))

    def solver(
        self, problem: NearnessProblem, pool: ThreadPool, tol: float, device: str
    ) -> NearnessSolver[Any]:
        """Return dual ascent, on the CPU or on a GPU."""
        if device != "cpu":
            found: NearnessSolver[Any] = torch_module("nearest_metric").DeviceAscent(
                problem, device, tol=tol
            )
            return found
        return DualAscent(SquaredLoss(problem, pool.threads), pool, tol=tol)

    def runs_on_devices(self, problem: NearnessProblem) -> bool:
        """Return whether nothing is bounded or unknown."""
        bounded = problem.lower is not None or problem.upper is not None
        return not bounded and not problem.missing


class SquaredLoss(Loss):
    """Weighted squares."""

    @cached_property
    def ascent(self) -> AcceleratedAscent:
        """Dual ascent: quadratic terms, or proximal ones if there are bounds or missing pairs."""
        problem, (h, d) = self.problem, self.filled
        if self.known.all() and problem.lower is None and problem.upper is None:
            return QuadraticAscent(d, h, problem.even)
        return ProximalAscent(d, h, np.zeros(len(h)), self.low, self.high)

    def centre(self, metric: Floats | None) -> Floats:
        """Return d, and the metric where d is missing."""
        _, d = self.filled
        return d if metric is None else np.where(self.known, d, metric)

    def sweeps(self, state: AscentState) -> tuple[int, int]:
        """Return factors for the number of sweeps."""
        return 1, 8

    def objective_of_rows(self, rows: Floats, low: int) -> float:
        """Return a part of f."""
        return float(sum_squares(rows, low, self.problem.d, self.problem.w))

    def dual_scale(self, constraints: TriangleConstraints) -> float:
        r"""Return the best s >= 0 for the bound :math:`2 s z^T A d - s^2 \|A^T z\|_{1/w}^2`.

        That ignores bounds on the entries, so it is 1 unless the scales are very different.
        """
        u, w = constraints.transposed()[self.known], self.problem.w[self.known]
        square = float(np.sum(u * (u / w)))
        best = constraints.product(self.problem.d) / square if square > 0 else 0.0
        if 0.01 <= best <= 100.0:
            return 1.0
        return best if math.isfinite(best) and best > 0 else 0.0

    def lower_bound(self, constraints: TriangleConstraints, x: Floats) -> tuple[float, float]:
        r"""Return :math:`\|x - d\|_w^2 + 2 z^T A x`, and s = 1.

        No large terms cancel, and an error of x counts squared. A missing pair is at the limit that
        the sign of its coefficient selects.
        """
        bound = self.problem.objective(x) + 2.0 * constraints.product(x)
        missing = ~self.known
        if missing.any():
            u, at = constraints.transposed()[missing], x[missing]
            low, high = self.low[missing], self.high[missing]
            bound += 2.0 * float(np.sum(np.minimum(u * (low - at), u * (high - at))))
        return bound, 1.0

    def recentre(self, state: AscentState, x: Floats, upper: float, lower: float) -> None:
        """Move the centres of missing pairs to x."""
        if isinstance(self.ascent, ProximalAscent) and not self.known.all():
            self.ascent.recentre(state, np.where(self.known, self.problem.d, x))


@kernel
def sum_squares(rows: Floats, low: int, d: Floats, w: Floats) -> float:
    """Return the sum of w (x - d)^2 over rows low, low + 1, ..., left of the diagonal."""
    total = 0.0
    for r in range(rows.shape[0]):
        i = low + r
        x = rows[r]
        first = i * (i - 1) // 2
        for j in range(i):
            apart = x[j] - d[first + j]
            total += w[first + j] * apart * apart
    return total

r"""What an objective of dual ascent is: a sum of convex terms, and its dual bounds.

.. math:: f(x) = \sum_e w_e (x_e - d_e)^2 \qquad \text{or} \qquad f(x) = \sum_e w_e |x_e - d_e|

For any :math:`z \ge 0`, a lower bound of the minimum over metrics is

.. math:: \min_{L \le x \le U} \; f(x) + (A^T z)^T x

with L and U the bounds of the problem, 0, and a length that no entry need exceed. Coordinate ascent
needs strictly convex terms. Where they are not (absolute values, missing entries) the proximal term
:math:`\tfrac{h}{2} (x - c)^2` is added, and the centre c moves to x after every round: the proximal
point method, which converges to a solution of the problem without these terms. Lower bounds leave
them out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from metricmix.cached import cached_property
from metricmix.nearness.constraints import TriangleConstraints
from metricmix.nearness.coordinate_ascent import AcceleratedAscent, AscentState
from metricmix.nearness.problem import NearnessProblem, closure_of
from metricmix.typing import Floats

__all__ = ["Loss"]


class Loss(ABC):
    """An objective f over pairs, a sum of convex terms.

    Parameters
    ----------
    problem : NearnessProblem
    n_jobs : int, optional
        Threads.

    Attributes
    ----------
    known : (pairs,) array of bool
    low, high : (pairs,) arrays
        Bounds that some solution satisfies.
    """

    def __init__(self, problem: NearnessProblem, n_jobs: int | None) -> None:
        self.problem, self.n_jobs = problem, n_jobs
        self.known = problem.w > 0
        pairs = len(problem.d)
        self.low = np.zeros(pairs) if problem.lower is None else problem.lower
        high = np.full(pairs, problem.ceiling)
        self.high = high if problem.upper is None else np.minimum(high, problem.upper)

    @cached_property
    def filled(self) -> tuple[Floats, Floats]:
        """Weights > 0 and dissimilarities: the mean and the closure stand in for missing ones."""
        problem, known = self.problem, self.known
        if known.all():
            return problem.w, problem.d
        unknown = np.inf if problem.upper is None else problem.upper
        closed = closure_of(np.where(known, problem.d, unknown), problem.n, self.n_jobs)
        weights = np.where(known, problem.w, problem.w[known].mean())
        return weights, np.where(known, problem.d, closed)

    @property
    @abstractmethod
    def ascent(self) -> AcceleratedAscent:
        """Dual ascent for the terms."""

    @abstractmethod
    def centre(self, metric: Floats | None) -> Floats:
        """Return the first centre of the proximal terms, given a metric to start from, if any."""

    @abstractmethod
    def sweeps(self, state: AscentState) -> tuple[int, int]:
        """Return how many times the usual number of sweeps a round has, and at most has.

        The second factor applies where it is the sweeps that limit progress.
        """

    @abstractmethod
    def objective_of_rows(self, rows: Floats, low: int) -> float:
        """Return the part of f in rows low, low + 1, ... of a matrix, left of the diagonal."""

    @abstractmethod
    def dual_scale(self, constraints: TriangleConstraints) -> float:
        """Return a factor that fits duals of another problem to this one."""

    @abstractmethod
    def lower_bound(self, constraints: TriangleConstraints, x: Floats) -> tuple[float, float]:
        """Return the lower bound of the duals times s, and s; x is their primal point."""

    @abstractmethod
    def recentre(self, state: AscentState, x: Floats, upper: float, lower: float) -> None:
        """Move the centres of the proximal terms to x, after a round with these bounds."""

    def solve_restricted(self, constraints: TriangleConstraints) -> tuple[Floats, Floats] | None:
        """Return the best x under these constraints only, and their duals; None if too slow."""
        return None

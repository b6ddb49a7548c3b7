r"""The quadratic program over the weights with some of the rows, and a bound from its multipliers.

.. math:: \min_{\alpha \in C} \; f(\alpha) = \lVert F \alpha + h \rVert^2 + q^T \alpha + \kappa
          \quad \text{s.t.} \quad A \alpha \ge 0

With :math:`\alpha = \alpha_0 + B z`, such that f is :math:`\lVert z - p \rVert^2` plus a constant,
it is a nearest point problem. Where the objective does not determine the weights (sources that
coincide, and no ridge), directions in which F is flat get a proximal term :math:`\epsilon^2 \lVert
\alpha - \alpha_{\text{previous}} \rVert^2`, which vanishes as the rounds go on. Weights
are measured by the largest entries of their sources, so that the scale of a source does not matter.

Any multipliers :math:`y \ge 0` give a lower bound of f over all metrics, however they were found:

.. math:: f(\alpha + \delta) \ge f(\alpha) - y^T A \alpha
          + \min_\delta \; (\nabla f(\alpha) - A^T y)^T \delta + \lVert F \delta \rVert^2
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from metricmix.solvers.least_distance import nearest_point
from metricmix.solvers.quadratic import Quadratic

__all__ = ["WeightProgram"]

Floats = NDArray[np.float64]
EPS = float(np.finfo(np.float64).eps)
FLAT = 1e-8
"""Singular values of F, relative to the largest, up to which a direction counts as flat."""
PROXIMAL = 1e-2
"""Curvature given to flat directions, as such a singular value."""
PROXIMAL_STEPS = 30
"""Steps along flat directions in one round: without any, the first is the last."""
REACH = 1e3
"""How far along a flat direction the lower bound holds, in lengths of the weights found, where
nothing bounds them: weights of any sign, no ridge, and pairs without a target."""


class WeightProgram:
    """Minimise a quadratic function of the weights over given rows.

    Parameters
    ----------
    quadratic : Quadratic
    constraint : {"none", "nonnegative", "simplex"}
    largest : (R,) array
        Largest entry of every source.
    """

    def __init__(self, quadratic: Quadratic, constraint: str, largest: Floats) -> None:
        R = len(quadratic.slope)
        self.quadratic, self.constraint, self.largest = quadratic, constraint, largest
        self.origin = np.full(R, 1.0 / R) if constraint == "simplex" else np.zeros(R)
        basis = np.eye(R)
        if constraint == "simplex":  # what leaves the sum of the weights alone
            basis = np.linalg.svd(1.0 / largest[None])[2][1:].T
        scaled = quadratic.factor / largest
        _, values, directions = np.linalg.svd(scaled @ basis, full_matrices=True)
        self.curvature = np.zeros(basis.shape[1])
        self.curvature[: len(values)] = values[: len(self.curvature)]
        self.directions = basis @ directions.T  # in weights times `largest`
        steepest = float(self.curvature.max(initial=0.0)) or 1.0
        self.flat = self.curvature <= FLAT * steepest
        self.proximal = PROXIMAL * steepest
        self.stiffness = np.where(
            self.flat, np.hypot(self.curvature, self.proximal), self.curvature
        )
        self.into = self.directions / self.stiffness / largest[:, None]
        self.signs = np.eye(R) if constraint != "none" else np.empty((0, R))

    def solve(self, rows: Floats, previous: Floats) -> tuple[Floats, Floats] | None:
        """Return the best weights under ``rows α >= 0`` and the multipliers, or None without any.

        The multipliers are those of the constraint's own rows, α >= 0, and then of `rows`.
        """
        A = np.concatenate([self.signs, rows])
        reduced = A @ self.into
        norms = np.linalg.norm(reduced, axis=1)
        # A row that is as good as 0 here is a constant, and has been looked at in phase 1.
        matter = norms > 1e-13 * (np.abs(A) @ np.abs(self.into).sum(axis=1))
        norms = norms[matter]
        bounds = -(A[matter] @ self.origin) / norms
        reduced = reduced[matter] / norms[:, None]
        flat, stiffness = self.flat, self.stiffness[self.flat]
        there = (((previous - self.origin) * self.largest) @ self.directions)[flat]
        z, of_rows = np.zeros(len(self.curvature)), np.zeros(len(norms))
        for _ in range(PROXIMAL_STEPS):
            point = -0.5 * (self.quadratic.gradient(self.origin) @ self.into)
            point[flat] += self.proximal**2 * there / stiffness
            found = nearest_point(point, reduced, bounds)
            if found is None:
                return None
            z, of_rows = found
            before, there = there, z[flat] / stiffness
            size = np.abs(there).max(initial=0.0)
            if np.abs(there - before).max(initial=0.0) <= 1e-14 * size:
                break
        multipliers = np.zeros(len(A))
        multipliers[matter] = 2.0 * of_rows / norms
        return self._kept(self.origin + self.into @ z), multipliers

    @cached_property
    def free(self) -> Floats:
        """The best weights without any row, and without α >= 0."""
        step = self.into @ (self.quadratic.gradient(self.origin) @ self.into)
        return np.asarray(self.origin - 0.5 * step)

    def lower_bound(self, weights: Floats, rows: Floats, multipliers: Floats) -> float:
        """Return a number that f is never below where all of the rows hold."""
        quadratic = self.quadratic
        A = np.concatenate([self.signs, rows])
        slack = float(multipliers @ (A @ weights))
        slope = ((quadratic.gradient(weights) - multipliers @ A) / self.largest) @ self.directions
        reach = self._reach(weights)
        steepness, square = np.abs(slope), self.curvature**2
        steps = np.full(len(square), reach)
        within = steepness < 2.0 * square * reach
        steps[within] = steepness[within] / (2.0 * square[within])
        lost = float((steepness * steps - square * steps**2).sum())
        value = quadratic.value(weights)
        size = abs(value) + abs(quadratic.constant) + abs(float(quadratic.slope @ weights))
        bound = value - slack - lost - 32.0 * EPS * (size + abs(slack))
        # Squares are not negative, which may say more where the objective is flat.
        return bound if quadratic.slope.any() else max(bound, quadratic.constant)

    def _reach(self, weights: Floats) -> float:
        """Return how far from these weights the best may be; only matters where F is flat."""
        if self.constraint == "simplex":
            return float(np.sqrt(2.0) * self.largest.max())
        columns = np.linalg.norm(self.quadratic.factor, axis=0)
        if self.constraint == "nonnegative" and columns.all() and not self.quadratic.slope.any():
            # Sources and weights are not negative, so |F α| >= α_r |F_r|; and weights 0 are not
            # worse than the best, so |F α + h| <= |h|.
            most = 2.0 * np.linalg.norm(self.quadratic.shift) / columns
            return float(np.linalg.norm(most * self.largest))
        sizes = [np.linalg.norm(at * self.largest) for at in (weights, self.free)]
        return REACH * max(float(max(sizes)), EPS)

    def _kept(self, weights: Floats) -> Floats:
        """Return the weights with what rounding did to their own constraint undone."""
        if self.constraint != "none":
            weights = np.maximum(weights, 0.0)
        return weights / weights.sum() if self.constraint == "simplex" else weights

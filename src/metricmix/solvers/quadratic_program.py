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

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from metricmix.cached import cached_property
from metricmix.kernels.process_settings import blas_threads
from metricmix.kernels.threads import in_threads, threads_for
from metricmix.solvers.linear_model import LinearModel, SeparationOracle, ViolatedRows
from metricmix.solvers.problem import project_weights
from metricmix.typing import Floats, Indices

__all__ = [
    "InteriorPoint",
    "InteriorSearch",
    "Quadratic",
    "QuadraticProgram",
    "largest_margin",
    "nearest_point",
    "quadratic_of",
]


EPS = float(np.finfo(np.float64).eps)


class QuadraticProgram:
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
        self.flat = self.curvature <= 1e-8 * steepest
        # Curvature given to flat directions, as a singular value.
        self.proximal = 1e-2 * steepest
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
        # A row that vanishes here is a constant; phase 1 has checked it.
        matter = norms > 1e-13 * (np.abs(A) @ np.abs(self.into).sum(axis=1))
        norms = norms[matter]
        bounds = -(A[matter] @ self.origin) / norms
        reduced = reduced[matter] / norms[:, None]
        flat, stiffness = self.flat, self.stiffness[self.flat]
        there = (((previous - self.origin) * self.largest) @ self.directions)[flat]
        z, of_rows = np.zeros(len(self.curvature)), np.zeros(len(norms))
        for _ in range(30):  # steps along flat directions; without any, the first is the last
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
        weights = self.origin + self.into @ z
        if self.constraint != "none":  # undo the rounding
            weights = np.maximum(weights, 0.0)
        return weights / weights.sum() if self.constraint == "simplex" else weights, multipliers

    @cached_property
    def free(self) -> Floats:
        """The best weights without any row, and without α >= 0."""
        step = self.into @ (self.quadratic.gradient(self.origin) @ self.into)
        return np.asarray(self.origin - 0.5 * step)

    def lower_bound(self, weights: Floats, rows: Floats, multipliers: Floats) -> float:
        """Return a lower bound on f over all weights that satisfy the rows."""
        quadratic = self.quadratic
        A = np.concatenate([self.signs, rows])
        slack = float(multipliers @ (A @ weights))
        slope = ((quadratic.gradient(weights) - multipliers @ A) / self.largest) @ self.directions
        reach = self.reach(weights)
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

    def reach(self, weights: Floats) -> float:
        """Bound the distance from these weights to the optimum; used where F is flat."""
        if self.constraint == "simplex":
            return float(np.sqrt(2.0) * self.largest.max())
        columns = np.linalg.norm(self.quadratic.factor, axis=0)
        if self.constraint == "nonnegative" and columns.all() and not self.quadratic.slope.any():
            # Sources and weights are not negative, so |F α| >= α_r |F_r|; and weights 0 are not
            # worse than the best, so |F α + h| <= |h|.
            most = 2.0 * np.linalg.norm(self.quadratic.shift) / columns
            return float(np.linalg.norm(most * self.largest))
        # Nothing bounds them: the bound holds this far along a flat direction.
        sizes = [np.linalg.norm(at * self.largest) for at in (weights, self.free)]
        return 1e3 * max(float(max(sizes)), EPS)


# -- projection onto a polyhedron, by non-negative least squares ---------------------------------


def nearest_point(point: Floats, rows: Floats, bounds: Floats) -> tuple[Floats, Floats] | None:
    """Return the z nearest to `point` with ``rows z >= bounds``, and multipliers of the rows.

    ``z - point`` is ``rows.T @ multipliers``, up to rounding; the rows should have norm 1. None if
    no z satisfies them.

    Examples
    --------
    >>> import numpy as np
    >>> z, multipliers = nearest_point(np.array([-1.0, 2.0]), np.eye(2), np.zeros(2))
    >>> z, multipliers
    (array([0., 2.]), array([1., 0.]))
    """
    ahead = bounds - rows @ point
    if (ahead <= 0).all():
        return point.copy(), np.zeros(len(rows))
    if not bounds.any():
        multipliers = nonnegative_least_squares(rows.T, -point)
    else:
        size = float(np.abs(ahead).max())
        system = np.concatenate([rows, ahead[:, None] / size], axis=1).T
        unit = np.zeros(len(system))
        unit[-1] = 1.0
        found = nonnegative_least_squares(system, unit)
        left = unit - system @ found
        if left[-1] <= 1e-14:
            return None
        multipliers = size * found / left[-1]
    z = point + rows.T @ multipliers
    # Rounding in z is of the size of `point`, which may be far away. Solve the tight rows for a
    # point that meets them as exactly as its own size allows, and move along them only.
    slack = rows @ z - bounds
    tight = (multipliers > 0) | (slack <= 64.0 * EPS * (1.0 + float(np.linalg.norm(point))))
    _, values, directions = np.linalg.svd(rows[tight])
    rank = int((values > 1e-10 * values[0]).sum())
    along = directions[rank:].T
    there = np.linalg.lstsq(rows[tight], bounds[tight], rcond=1e-10)[0]
    better = there + along @ ((point - there) @ along)
    rounding = 8.0 * EPS * (1.0 + float(np.linalg.norm(better)))
    improved = (rows @ better - bounds).min() >= min(float(slack.min()), -rounding)
    return better if improved else z, multipliers


def nonnegative_least_squares(A: Floats, b: Floats) -> Floats:
    """Return the x >= 0 that minimises ``||A x - b||``."""
    from scipy.optimize import lsq_linear, nnls

    A = np.ascontiguousarray(A)
    try:
        solution, _ = nnls(A, b, maxiter=30 * max(A.shape))
    except RuntimeError:  # too many exchanges: ties may make the active set cycle
        solution = np.maximum(lsq_linear(A, b, bounds=(0.0, np.inf), tol=1e-14).x, 0.0)
    return np.asarray(solution, dtype=np.float64)


# -- the objective as a quadratic function of the weights ----------------------------------------


@dataclass(frozen=True)
class Quadratic:
    """``||factor α + shift||² + slope·α + constant``."""

    factor: Floats
    shift: Floats
    slope: Floats
    constant: float

    def value(self, weights: Floats) -> float:
        """Return f."""
        residual = self.factor @ weights + self.shift
        return float(residual @ residual + self.slope @ weights) + self.constant

    def gradient(self, weights: Floats) -> Floats:
        """Return the derivatives of f."""
        residual = self.factor @ weights + self.shift
        return np.asarray(2.0 * (residual @ self.factor) + self.slope)


def quadratic_of(model: LinearModel) -> Quadratic:
    """Return the objective of the model as a function of the weights, ridge and all.

    One pass over the terms, O(R) memory beside the stack, O(R² T) operations for T terms.
    """
    R = model.n_weights
    # Values of sources per QR decomposition: they stay in the second-level cache.
    values_at_once = 1 << 16
    step = max(4 * R, values_at_once // (R + 1))
    threads = 1 if model.stack.block is None else threads_for(model.n, model.n_jobs)
    ridge = np.sqrt(model.objective.rho) * np.eye(R)
    centre = np.zeros(R) if model.centre is None else model.centre
    factor: Any = np.column_stack([ridge, -(ridge @ centre)])
    slope, constant = np.zeros(R), 0.0
    for terms in model.pieces():
        pieces = [terms[start : start + step] for start in range(0, len(terms), step)]
        # Small decompositions, each on one thread: BLAS would get in its own way.
        with blas_threads(1):
            parts = in_threads(lambda piece: quadratic_part(model, piece), pieces, threads)
        factor = np.linalg.qr(np.concatenate([factor, *(part[0] for part in parts)]), mode="r")
        slope += sum((part[1] for part in parts), np.zeros(R))
        constant += float(np.sum([part[2] for part in parts]))
    return Quadratic(factor[:, :-1].copy(), factor[:, -1].copy(), slope, constant)


def quadratic_part(model: LinearModel, terms: Indices) -> tuple[Floats, Floats, float]:
    """Return the triangular [F, h], q and the constant of some terms."""
    a, b, c = model.quadratic(terms)
    i, j = (side[:, 0] for side in model.objective.pairs(terms, model.n))
    S = model.sources_at(i, j)
    S[i == j] = 0.0
    curved = a > 0
    root = np.sqrt(a[curved])
    # a m² + b m = (√a m + b / 2√a)² - b² / 4a
    shift = b[curved] / (2.0 * root)
    triangle: Any = np.linalg.qr(np.column_stack([root[:, None] * S[curved], shift]), mode="r")
    # What is left of c is 0 for squares, up to rounding of each: no sum of large terms cancels.
    c[curved] -= shift**2
    return triangle, np.asarray(b[~curved] @ S[~curved]), float(c.sum())


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

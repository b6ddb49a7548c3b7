r"""The paper's baseline: all triangle inequalities handed to a convex solver at once.

.. math:: \min_{\alpha \in C} \; \sum_t p_t (a_t m_t^2 + b_t m_t + c_t)
          + \rho \lVert\alpha\rVert^2 \quad \text{s.t.} \quad m = \sum_r \alpha_r M_r
          \text{ is a metric}

In the form "matrix", the paper's, every entry of m is a variable: of order :math:`n^2` variables
tied to the weights by :math:`m = S \alpha`, and a sparse A with :math:`n^3` rows for
:math:`A m \ge 0`. In the form "weights" the rows are reduced to the R weights,
:math:`(A S) \alpha \ge 0`: a dense matrix with as many rows. Both have the same solution, and
neither goes beyond a few hundred items.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from metricmix.exceptions import InputError, MissingPackageError
from metricmix.memory import check_fits
from metricmix.solvers.linear_model import (
    LinearModel,
    constraint_matrix,
    dense_bytes,
    n_constraints,
    pair_positions,
)
from metricmix.solvers.problem import project_weights
from metricmix.solvers.result import SolveResult, Status
from metricmix.typing import Floats
from metricmix.validation import check_choice, check_number

__all__ = ["Direct", "TrustConstr", "constraint_matrix", "dense_bytes", "direct_bytes"]


FORMS = ("weights", "matrix")
BYTES_PER_ROW = {"weights": (430, 170), "matrix": (1150, 4)}
"""Peak memory of a solve by Clarabel, per row: a constant, and so much per source (measured)."""


def direct_bytes(n: int, R: int, form: str = "weights", *, directed: bool = False) -> int:
    """Estimate the memory that assembly and solve take together."""
    constant, per_source = BYTES_PER_ROW[form]
    pairs = n * (n - 1) // (1 if directed else 2)
    factor = 8 * pairs**2 if form == "matrix" else 0  # dense once pairs are eliminated
    return n_constraints(n, directed=directed) * (constant + per_source * R) + factor


@dataclass(frozen=True)
class Direct:
    """All constraints at once, by cvxpy.

    Parameters
    ----------
    model : LinearModel
    form : {"weights", "matrix"}
        Whether the variables are the R weights, or (as in the paper) also all entries of the
        mixture.
    solver : str
        Any of cvxpy's solvers for quadratic programs: "CLARABEL", "OSQP", "PIQP", …
    solver_options : dict, optional
        Passed on to the solver, such as its tolerances.
    """

    model: LinearModel
    form: str = "weights"
    solver: str = "CLARABEL"
    solver_options: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        check_choice(self.form, FORMS, name="form")

    def solve(self) -> SolveResult:
        """Check that it fits, assemble, solve."""
        model = self.model
        cp = _import_cvxpy(self.solver)
        model.check_quadratic("direct", "method='trust-constr' takes any, for few items")
        directed = model.stack.directed
        check_fits(
            lambda n: direct_bytes(n, model.stack.n_sources, self.form, directed=directed),
            model.n,
            what=f"method='direct' with form={self.form!r}",
            instead="take fewer items, or method='cutting-plane', which stores few of the rows",
        )
        started = time.perf_counter()
        alpha = cp.Variable(model.stack.n_sources)
        objective, constraints = self._assemble(cp, alpha)
        assembled = time.perf_counter()
        problem = cp.Problem(cp.Minimize(objective), constraints)
        try:
            with warnings.catch_warnings():
                # The status says so too, and this library warns of it in its own words.
                warnings.filterwarnings("ignore", "Solution may be inaccurate")
                problem.solve(solver=self.solver, **(self.solver_options or {}))
        except cp.error.SolverError as error:
            raise InputError(
                f"{self.solver} failed on these {model.n} items ({error})",
                argument="solver",
                remedy="try another one",
            ) from error
        solved = time.perf_counter()
        if problem.status in (cp.INFEASIBLE, cp.INFEASIBLE_INACCURATE):
            raise model.infeasible()
        if problem.status in (cp.UNBOUNDED, cp.UNBOUNDED_INACCURATE) or alpha.value is None:
            raise InputError(
                argument="objective",
                expected=f"one with a minimum, {self.solver} says {problem.status!r}",
                remedy="add a ridge rho",
            )
        stats = problem.solver_stats
        return model.result(
            np.asarray(alpha.value, dtype=np.float64),
            Status.CONVERGED if problem.status == cp.OPTIMAL else Status.INACCURATE,
            n_iter=int(stats.num_iters or 0),
            seconds={
                "assembly": assembled - started,
                "solve": solved - assembled,
                "solver": float(stats.solve_time or 0.0),
            },
        )

    def _assemble(self, cp: Any, alpha: Any) -> tuple[Any, list[Any]]:
        """Return objective and constraints."""
        model = self.model
        i, j, column = pair_positions(model.n, directed=model.stack.directed)
        S = model.sources_at(i, j)
        a, b, constant = model.pair_coefficients(column)
        # a m² + b m = (√a m + b / 2√a)² - b² / 4a: a sum of squares keeps the small differences.
        curved = a > 0
        root = np.sqrt(a[curved])
        shift = b[curved] / (2.0 * root)
        constant -= float(shift @ shift)
        if self.form == "matrix":
            m = cp.Variable(len(i))
            A = constraint_matrix(model.n, directed=model.stack.directed)
            constraints = [m == S @ alpha, A @ m >= 0]
            residual = cp.multiply(root, m[np.flatnonzero(curved)]) + shift
            linear = b[~curved] @ m[np.flatnonzero(~curved)]
        else:
            rows = model.all_rows(S)
            constraints = [rows @ alpha >= 0] if len(rows) else []
            # The same norm from R + 1 rows.
            stacked = np.column_stack([root[:, None] * S[curved], shift])
            factor: Any = np.linalg.qr(stacked, mode="r")
            residual = factor[:, :-1] @ alpha + factor[:, -1]
            linear = (b[~curved] @ S[~curved]) @ alpha
        objective = constant + linear
        if curved.any():
            objective = objective + cp.sum_squares(residual)
        if model.objective.rho:
            apart = alpha if model.centre is None else alpha - model.centre
            objective = objective + model.objective.rho * cp.sum_squares(apart)
        if model.constraint != "none":
            constraints.append(alpha >= 0)
        if model.constraint == "simplex":
            constraints.append(cp.sum(alpha) == 1)
        # A mean has small coefficients beside those of the rows; Clarabel fails on some as it is.
        usual = float(a.max(initial=0.0)) if self.form == "matrix" and curved.any() else 1.0
        return objective / usual, constraints


def _import_cvxpy(solver: str) -> Any:
    try:
        cp: Any = import_module("cvxpy")
    except ImportError:
        raise MissingPackageError(
            "method='direct' needs cvxpy: pip install 'metricmix[exact]'"
        ) from None
    check_choice(solver, tuple(cp.installed_solvers()), name="solver")
    return cp


# -- any smooth objective of the mixture under all triangle inequalities, by scipy's trust region

INFEASIBLE = 1e-6
"""Violations beyond this mean that no weights were found that satisfy the constraints."""


def trust_constr_bytes(n: int, *, directed: bool = False) -> int:
    """Estimate the memory of scipy's factorisation: rows by rows, a few times."""
    return 3 * 8 * n_constraints(n, directed=directed) ** 2


@dataclass(frozen=True)
class TrustConstr:
    """All constraints at once, by a trust-region method.

    Parameters
    ----------
    model : LinearModel
    start : (R,) array
    max_iter : int
    tol : float
        On the trust radius and the barrier: both have to fall below it.
    """

    model: LinearModel
    start: Floats
    max_iter: int = 1000
    tol: float = 1e-8

    def __post_init__(self) -> None:
        check_number(self.tol, name="tol", low=0)

    def solve(self) -> SolveResult:
        """Check that it fits, assemble, solve."""
        from scipy.optimize import Bounds, LinearConstraint, minimize

        model = self.model
        check_fits(
            lambda n: trust_constr_bytes(n, directed=model.stack.directed),
            model.n,
            what="method='trust-constr'",
            instead="take fewer items, or method='full', which has no constraints to store",
        )
        started = time.perf_counter()
        i, j, _ = pair_positions(model.n, directed=model.stack.directed)
        rows = model.all_rows(model.sources_at(i, j))
        constraints: list[Any] = [LinearConstraint(rows, 0.0, np.inf)] if len(rows) else []
        if model.constraint == "simplex":
            constraints.append(LinearConstraint(np.ones((1, len(self.start))), 1.0, 1.0))
        assembled = time.perf_counter()
        with warnings.catch_warnings():  # where a step changes nothing, its Hessian stays as it is
            warnings.filterwarnings("ignore", message="delta_grad == 0.0")
            found = minimize(
                model.value_and_gradient,
                project_weights(self.start, model.constraint),
                jac=True,
                method="trust-constr",
                constraints=constraints,
                bounds=None if model.constraint == "none" else Bounds(0.0, np.inf),
                options={
                    "maxiter": self.max_iter,
                    # Its test of the gradient forgets complementarity, and ends far off.
                    "gtol": 0.0,
                    "xtol": self.tol,
                    "barrier_tol": self.tol,
                },
            )
        status = Status.CONVERGED if found.status in (1, 2) else Status.MAX_ITER
        return model.result(
            np.asarray(found.x, dtype=np.float64),
            Status.INACCURATE if found.constr_violation > INFEASIBLE else status,
            n_iter=int(found.nit),
            seconds={"assembly": assembled - started, "solve": time.perf_counter() - assembled},
        )

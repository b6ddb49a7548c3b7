r"""Solvers that take all triangle inequalities at once: cvxpy (the paper's baseline) and scipy.

.. math:: \min_{\alpha \in C} \; \sum_t p_t (a_t m_t^2 + b_t m_t + c_t)
          + \rho \lVert\alpha\rVert^2 \quad \text{s.t.} \quad m = \sum_r \alpha_r M_r
          \text{ is a metric}

In the form "matrix", the paper's, every entry of m is a variable: of order :math:`n^2` variables
tied to the weights by :math:`m = S \alpha`, and a sparse A with :math:`n^3` rows for
:math:`A m \ge 0`. In the form "weights" the rows are reduced to the R weights,
:math:`(A S) \alpha \ge 0`: a dense matrix with as many rows. Both have the same solution, and
neither goes beyond a few hundred items. scipy's trust-region method takes any smooth objective in
the form "weights".
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar, Unpack

import numpy as np
from scipy import sparse

from metricmix.exceptions import InputError, MissingPackageError
from metricmix.kernels.process_settings import blas_threads, ignored_warnings
from metricmix.memory import check_fits
from metricmix.solvers.linear_model import LinearModel
from metricmix.solvers.loop import RunOptions
from metricmix.solvers.minimize import METHODS, WeightSolver
from metricmix.solvers.problem import project_weights
from metricmix.solvers.result import SolveResult, Status, Trace
from metricmix.state import stored
from metricmix.typing import Floats, Indices
from metricmix.validation import check_choice, check_number

__all__ = [
    "Direct",
    "TrustConstr",
    "constraint_matrix",
    "dense_bytes",
    "direct_bytes",
    "n_constraints",
    "pair_positions",
    "trust_constr_bytes",
]


def n_constraints(n: int, *, directed: bool = False) -> int:
    """Return the number of rows: one per pair, and one per pair and third item."""
    pairs = n * (n - 1) // (1 if directed else 2)
    return int(pairs * (1 + max(0, n - 2)))


def dense_bytes(n: int) -> int:
    """Return the bytes of the paper's matrix of n³ triangles by n² pairs, dense, in float64.

    >>> f"{dense_bytes(100) / 2**30:.1f} GiB"
    '74.5 GiB'
    """
    return 8 * n**5


def pair_positions(n: int, *, directed: bool = False) -> tuple[Indices, Indices, Indices]:
    """Return the pairs (i, j) behind the columns, and the (n, n) columns of pairs; -1 for i = j."""
    i, j = np.nonzero(~np.eye(n, dtype=bool)) if directed else np.triu_indices(n, 1)
    column = np.full((n, n), -1)
    column[i, j] = np.arange(len(i))
    if not directed:
        column[j, i] = column[i, j]
    return i, j, column


def constraint_matrix(n: int, *, directed: bool = False) -> sparse.csr_array[Any]:
    r"""Return the sparse A, entries in {-1, 0, 1}, such that m is a metric when A m >= 0.

    Columns are pairs i < j (all ordered pairs, if `directed`) in the order of
    :func:`pair_positions`; first come the n (n - 1) / 2 rows of :math:`m_{ij} \ge 0`, then the
    n (n - 1) (n - 2) / 2 rows of :math:`m_{ik} + m_{kj} \ge m_{ij}`, pair by pair (twice as many of
    either, if `directed`).

    Examples
    --------
    >>> constraint_matrix(3).toarray().astype(int)
    array([[ 1,  0,  0],
           [ 0,  1,  0],
           [ 0,  0,  1],
           [-1,  1,  1],
           [ 1, -1,  1],
           [ 1,  1, -1]])
    """
    i, j, column = pair_positions(n, directed=directed)
    count = len(i)
    everyone = np.arange(n)
    apart = (everyone != i[:, None]) & (everyone != j[:, None])
    pair, k = np.nonzero(apart)
    legs = np.stack([pair, column[i[pair], k], column[k, j[pair]]], axis=1)
    indices = np.concatenate([np.arange(count), legs.ravel()])
    signs = np.tile([-1.0, 1.0, 1.0], len(pair))
    data = np.concatenate([np.ones(count), signs])
    starts = np.concatenate([np.arange(count), count + 3 * np.arange(len(pair) + 1)])
    return sparse.csr_array((data, indices, starts), shape=(count + len(pair), count))


def reduced_rows(model: LinearModel, S: Floats) -> Floats:
    """Return A S, dense: the rows over the weights where ``m = S @ weights``, but for zero rows.

    Entries within rounding of 0 are set to 0: a solver that scales its rows would enlarge them.
    """
    A = constraint_matrix(model.n, directed=model.stack.directed)
    rows: Floats = np.asarray(A @ S)
    rows[np.abs(rows) <= 4.0 * model.rounding * (abs(A) @ np.abs(S))] = 0.0
    return rows[rows.any(axis=1)]


# -- solvers --------------------------------------------------------------------------------------

FORMS = ("weights", "matrix")
BYTES_PER_ROW = {"weights": (430, 170), "matrix": (1150, 4)}
"""Peak memory of a solve by Clarabel, per row: a constant, and so much per source (measured)."""


def direct_bytes(n: int, R: int, form: str = "weights", *, directed: bool = False) -> int:
    """Estimate the memory that assembly and solve take together."""
    constant, per_source = BYTES_PER_ROW[form]
    pairs = n * (n - 1) // (1 if directed else 2)
    factor = 8 * pairs**2 if form == "matrix" else 0  # dense once pairs are eliminated
    return n_constraints(n, directed=directed) * (constant + per_source * R) + factor


@dataclass(frozen=True, kw_only=True)
class SingleCallSolver(WeightSolver):
    """Base of the solvers that are one call to another library."""

    linear: ClassVar[bool] = True
    takes: ClassVar[tuple[str, ...]] = ("verbose",)
    """Options of a run that it takes."""

    problem: LinearModel = field(init=False, repr=False, compare=False)

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Raise InputError for options of iterative solvers."""
        for name, value in options.items():
            if value is not None and name not in self.takes:
                raise InputError(
                    f"not an argument of method={self.method!r}, which is one call to a solver",
                    argument=name,
                )

    def result(
        self, weights: Floats, status: Status, *, n_iter: int, seconds: dict[str, float]
    ) -> SolveResult:
        """Return the result, with a trace of one entry; warn if it did not converge."""
        objective = self.problem.value(weights)
        return SolveResult(
            objective=objective,
            status=status,
            n_iter=n_iter,
            trace=Trace([n_iter], [objective], [seconds["assembly"] + seconds["solve"]], [weights]),
            mixture=self.problem.mixture(weights),
            violation=self.problem.violation(weights),
            seconds=seconds,
        ).warn_unless_converged()


@METHODS.register(
    "direct",
    order=4,
    words="the paper's baseline for the same, by cvxpy, up to a few hundred items",
)
@stored("Direct")
@dataclass(frozen=True, kw_only=True)
class Direct(SingleCallSolver):
    """All constraints at once, by cvxpy: ``method="direct"``.

    Parameters
    ----------
    form : {"weights", "matrix"}
        Whether the variables are the R weights, or (as in the paper) also all entries of the
        mixture.
    solver : str
        Any of cvxpy's solvers for quadratic programs: "CLARABEL", "OSQP", "PIQP", …
    solver_options : dict, optional
        Passed on to the solver, such as its tolerances.
    """

    form: str = "weights"
    solver: str = "CLARABEL"
    solver_options: dict[str, Any] | None = None

    takes_start: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_choice(self.form, FORMS, name="form")

    def solve(
        self, rng: np.random.Generator, seed: int | None = None, **options: Unpack[RunOptions]
    ) -> SolveResult:
        """Check that the problem fits into memory, assemble it, solve it."""
        self.check_options(options)
        model = self.problem
        try:
            cp: Any = import_module("cvxpy")
        except ImportError:
            raise MissingPackageError(
                "method='direct' needs cvxpy: pip install 'metricmix[exact]'"
            ) from None
        check_choice(self.solver, tuple(cp.installed_solvers()), name="solver")
        model.check_quadratic("direct", "method='trust-constr' takes any, for few items")
        directed = model.stack.directed
        check_fits(
            lambda n: direct_bytes(n, model.n_weights, self.form, directed=directed),
            model.n,
            what=f"method='direct' with form={self.form!r}",
            instead="take fewer items, or method='cutting-plane', which stores few of the rows",
        )
        started = time.perf_counter()
        alpha = cp.Variable(model.n_weights)
        objective, constraints = self.assemble(cp, alpha)
        assembled = time.perf_counter()
        problem = cp.Problem(cp.Minimize(objective), constraints)
        try:
            # The status says so too, and this library warns of it in its own words.
            with ignored_warnings("Solution may be inaccurate"):
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
        return self.result(
            np.asarray(alpha.value, dtype=np.float64),
            Status.CONVERGED if problem.status == cp.OPTIMAL else Status.INACCURATE,
            n_iter=int(stats.num_iters or 0),
            seconds={
                "assembly": assembled - started,
                "solve": solved - assembled,
                "solver": float(stats.solve_time or 0.0),
            },
        )

    def assemble(self, cp: Any, alpha: Any) -> tuple[Any, list[Any]]:
        """Return objective and constraints, as expressions of cvxpy."""
        model = self.problem
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
            rows = reduced_rows(model, S)
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
        # The coefficients of a mean are small beside those of the rows; Clarabel may fail on that.
        usual = float(a.max(initial=0.0)) if self.form == "matrix" and curved.any() else 1.0
        return objective / usual, constraints


def trust_constr_bytes(n: int, R: int, *, directed: bool = False) -> int:
    """Estimate the memory of scipy's sparse factorisation, by the peak per row (measured)."""
    return n_constraints(n, directed=directed) * (8000 + 500 * R)


@METHODS.register(
    "trust-constr",
    order=5,
    words="any smooth objective, for a few dozen items",
)
@stored("TrustConstr")
@dataclass(frozen=True, kw_only=True)
class TrustConstr(SingleCallSolver):
    """All constraints at once, by scipy's trust-region method: ``method="trust-constr"``.

    Parameters
    ----------
    tol : float
        On the trust radius and the barrier: both have to fall below it.
    """

    tol: float = 1e-8

    takes: ClassVar[tuple[str, ...]] = ("max_iter", "verbose")

    def __post_init__(self) -> None:
        check_number(self.tol, name="tol", low=0)

    def solve(
        self, rng: np.random.Generator, seed: int | None = None, **options: Unpack[RunOptions]
    ) -> SolveResult:
        """Check that the problem fits into memory, assemble it, solve it."""
        from scipy.optimize import Bounds, LinearConstraint, minimize

        self.check_options(options)
        max_iter = options.get("max_iter")
        model = self.problem
        check_fits(
            lambda n: trust_constr_bytes(n, model.n_weights, directed=model.stack.directed),
            model.n,
            what="method='trust-constr'",
            instead="take fewer items, or method='full', which has no constraints to store",
        )
        started = time.perf_counter()
        i, j, _ = pair_positions(model.n, directed=model.stack.directed)
        rows = reduced_rows(model, model.sources_at(i, j))
        constraints: list[Any] = [LinearConstraint(rows, 0.0, np.inf)] if len(rows) else []
        if model.constraint == "simplex":
            constraints.append(LinearConstraint(np.ones((1, len(self.start))), 1.0, 1.0))
        assembled = time.perf_counter()
        # Several BLAS threads make its many small products slower, most of all on a busy machine.
        # Where a step changes nothing, its Hessian stays as it is.
        with ignored_warnings("delta_grad == 0.0"), blas_threads(1):
            found = minimize(
                model.value_and_gradient,
                project_weights(self.start, model.constraint),
                jac=True,
                method="trust-constr",
                constraints=constraints,
                bounds=None if model.constraint == "none" else Bounds(0.0, np.inf),
                options={
                    "maxiter": 1000 if max_iter is None else max_iter,
                    # Dense, the slacks alone would be a matrix of rows by rows.
                    "sparse_jacobian": True,
                    # Its test of the gradient ignores complementarity, and ends far off.
                    "gtol": 0.0,
                    "xtol": self.tol,
                    "barrier_tol": self.tol,
                },
            )
        status = Status.CONVERGED if found.status in (1, 2) else Status.MAX_ITER
        # Violations of the constraints from which on scipy did not find feasible weights.
        infeasible = 1e-6
        return self.result(
            np.asarray(found.x, dtype=np.float64),
            Status.INACCURATE if found.constr_violation > infeasible else status,
            n_iter=int(found.nit),
            seconds={"assembly": assembled - started, "solve": time.perf_counter() - assembled},
        )

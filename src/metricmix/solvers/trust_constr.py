r"""Any smooth objective of the mixture under all triangle inequalities, by scipy's trust region.

.. math:: \min_{\alpha \in C} \; \sum_t p_t \, g_t\big(m(\alpha)\big) + \rho \lVert\alpha\rVert^2
          \quad \text{s.t.} \quad (A S) \, \alpha \ge 0, \qquad m = S \alpha

with the rows of :mod:`metricmix.solvers.triangle_rows`: ``scipy.optimize.minimize`` with
``method="trust-constr"``, a barrier method with a slack variable for each of the :math:`n^3` rows.
For a few dozen items at most; the result is a local minimum where g is not convex.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.memory import check_fits
from metricmix.solvers.constraint import project_weights
from metricmix.solvers.linear_model import LinearModel
from metricmix.solvers.result import SolveResult, Status
from metricmix.solvers.triangle_rows import n_constraints, pair_positions
from metricmix.validation import check_number

__all__ = ["TrustConstr"]

Floats = NDArray[np.float64]
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

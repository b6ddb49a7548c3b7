r"""Rounds with fixed paths: search all shortest paths, then improve the weights along them.

While the paths :math:`\gamma_{ij}` stay as they are, the objective over

.. math:: d_{ij}(\alpha) = \sum_{(u, v) \in \gamma_{ij}} \mathrm{link}_\beta\big(m_{uv}(\alpha)\big)

is a smooth function of the weights that touches a few edges only. A round searches the shortest
paths at the present weights, minimises that function by L-BFGS, and takes the new weights if the
true objective, over the new shortest paths, is smaller; else it goes half of the way, and so on.
Value and gradient agree with those of the true objective where the round starts, so that a short
enough way descends unless paths tie there.

A search per labelled item and round is all that grows with the number of items: the choice over
sparse edges, where a few rounds take the place of dozens of full sub-gradients.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from threadpoolctl import threadpool_limits

from metricmix.exceptions import InputError
from metricmix.kernels.threads import check_time
from metricmix.mixture.linear import link, link_derivative
from metricmix.paths.pair import PathBundle, bundle_paths
from metricmix.solvers.lbfgs import LBFGS
from metricmix.solvers.problem import Problem, project_weights
from metricmix.solvers.result import Status
from metricmix.solvers.weight_solver import IterativeSolver
from metricmix.typing import Floats, Indices, Ints
from metricmix.validation import check_integer, check_number

__all__ = ["FixedPathProblem", "FixedPaths", "FixedPathsState"]

HALVINGS = 6
"""How often a round goes half of the way to the minimum along fixed paths, if need be."""


@dataclass(frozen=True)
class FixedPathProblem(Problem):
    """An objective over the lengths of paths that do not change with the weights."""

    indptr: Indices = None  # type: ignore[assignment]
    nodes: Ints = None  # type: ignore[assignment]

    @cached_property
    def _edges(self) -> tuple[Any, Floats]:
        """The (P, E) counts of edges on paths, and the scaled sources on these edges, (R, E)."""
        from scipy.sparse import csr_array

        lengths = np.empty(len(self.indptr) - 1)
        paths = PathBundle(lengths, self.indptr, self.nodes, np.empty(0, np.int32))
        number, u, v = paths.edges()
        if not self.stack.directed:
            u, v = np.minimum(u, v), np.maximum(u, v)
        keys, edge = np.unique(u * self.n + v, return_inverse=True)
        counts = csr_array((np.ones(len(edge)), (number, edge)), shape=(len(paths), len(keys)))
        raw = self.stack.raw_pairs(*np.divmod(keys, self.n))
        return counts, np.asarray(raw / self.stack.scales[:, None], dtype=np.float64)

    def value(self, weights: Floats) -> float:
        """Return the objective over all terms."""
        return self.value_and_gradient(weights)[0]

    def value_and_gradient(
        self, weights: Floats, temperature: float | None = None
    ) -> tuple[float, Floats]:
        """Return the objective over all terms and its gradient."""
        counts, sources = self._edges
        m = weights @ sources
        d = counts @ link(m, self.beta, self.link)
        value, demand = self.pair_demand(d)
        flow = counts.T @ demand
        gradient = sources @ (flow * link_derivative(m, self.beta, self.link))
        return value + self.ridge(weights), gradient + self.ridge_gradient(weights)


@dataclass
class FixedPathsState:
    """Weights and objective; the shortest paths at these weights; the gain of the last round."""

    weights: Floats
    objective: float
    indptr: Indices
    nodes: Ints
    gain: float
    halvings: int


@dataclass(frozen=True, kw_only=True)
class FixedPaths(IterativeSolver[FixedPathsState]):
    """Rounds with fixed paths: ``method="fixed-paths"``.

    Parameters
    ----------
    tol : float
        Stop when a round gains less than this times ``max(1, abs(f))``.
    inner_iter : int
        Steps of L-BFGS along fixed paths in each round, at most.
    """

    tol: float = 1e-4
    inner_iter: int = 100

    method: ClassVar[str] = "fixed-paths"
    state_type = FixedPathsState
    default_max_iter = 100

    def __post_init__(self) -> None:
        check_number(self.tol, name="tol", low=0)
        check_integer(self.inner_iter, name="inner_iter", low=1)

    def init(self, rng: np.random.Generator) -> FixedPathsState:
        """Search the shortest paths at the start."""
        start = project_weights(self.start, self.problem.constraint)
        objective, paths = self.search(start)
        return FixedPathsState(start, objective, paths.indptr, paths.nodes, np.inf, 0)

    def step(
        self, state: FixedPathsState, iteration: int, rng: np.random.Generator
    ) -> FixedPathsState:
        """Minimise along the present paths, and search the paths at the new weights."""
        target = self.minimum(state)
        for halvings in range(HALVINGS):
            weights = state.weights + 0.5**halvings * (target - state.weights)
            objective, paths = self.search(weights)
            if objective < state.objective:
                gain = state.objective - objective
                return FixedPathsState(
                    weights, objective, paths.indptr, paths.nodes, gain, halvings
                )
        return replace(state, gain=0.0, halvings=HALVINGS)

    def minimum(self, state: FixedPathsState) -> Floats:
        """Return the weights with the smallest objective along the paths of a state."""
        whole = self.problem
        fixed = FixedPathProblem(
            *(whole.objective, whole.stack, whole.link, whole.beta, whole.constraint),
            *(whole.n_jobs, whole.centre, state.indptr, state.nodes),
        )
        solver = LBFGS().bind(fixed, state.weights)
        rng = np.random.default_rng(0)
        with threadpool_limits(1, user_api="blas"):  # small products, the same on any machine
            inner = solver.init(rng)
            for k in range(self.inner_iter):
                check_time()
                if not solver.is_finite(inner) or solver.status(inner) is not None:
                    break
                inner = solver.step(inner, k, rng)
        return inner.weights if solver.is_finite(inner) else state.weights

    def search(self, weights: Floats) -> tuple[float, PathBundle]:
        """Return the objective, and the shortest paths of all its pairs, at given weights."""
        problem = self.problem
        i, j = np.divmod(problem.all_pairs[0], problem.n)
        paths = bundle_paths(problem.lengths(weights), i, j, n_jobs=problem.n_jobs)
        if np.isinf(paths.lengths).any():
            p = int(np.isinf(paths.lengths).argmax())
            raise InputError(
                argument="stack",
                expected="a path between any two items that the objective compares",
                found=f"none between {i[p]} and {j[p]}",
                remedy="add edges that join the parts",
            )
        return problem.pair_demand(paths.lengths)[0] + problem.ridge(weights), paths

    def check(self, state: FixedPathsState) -> tuple[FixedPathsState, float]:
        """Return the objective, which is exact."""
        return state, state.objective

    def status(self, state: FixedPathsState) -> Status | None:
        """Stop at a negligible gain."""
        if state.gain <= self.tol * max(1.0, abs(state.objective)):
            return Status.CONVERGED
        return None

    def is_finite(self, state: FixedPathsState) -> bool:
        """Return whether objective and weights are finite."""
        return bool(np.isfinite(state.objective) and np.isfinite(state.weights).all())

    def weights(self, state: FixedPathsState) -> Floats:
        """Return the weights."""
        return state.weights

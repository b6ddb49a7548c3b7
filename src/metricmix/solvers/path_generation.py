r"""Path generation: search all shortest paths, then improve the weights along the known ones.

Let :math:`\Gamma_{ij}` be the paths from i to j that were shortest at some earlier weights. The
objective over

.. math:: \bar d_{ij}(\alpha) = \min_{\gamma \in \Gamma_{ij}} \sum_{(u, v) \in \gamma}
          \mathrm{link}_\beta\big(m_{uv}(\alpha)\big) \; \ge \; d_{ij}(\alpha)

touches a few edges only, and is the true one wherever paths were searched. A round minimises it by
L-BFGS, searches the shortest paths at the minimum, and adds them. The new weights are taken if the
true objective is smaller there; else the added paths keep the next round from going there again.
When the model promises no more than a negligible gain, no neighbouring weights are better.

A search per labelled item and round is all that grows with the number of items. A few rounds take
the place of dozens of full sub-gradients: the choice over sparse edges.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from metricmix.cached import cached_property
from metricmix.exceptions import InputError
from metricmix.kernels.deadline import check_time
from metricmix.kernels.process_settings import blas_threads
from metricmix.mixture.linear import link, link_derivative
from metricmix.paths.pair import PathBundle, bundle_paths
from metricmix.paths.trees import grow_trees
from metricmix.solvers.lbfgs import LBFGS
from metricmix.solvers.minimize import METHODS, IterativeSolver
from metricmix.solvers.problem import Problem, project_weights
from metricmix.solvers.result import Status
from metricmix.state import stored
from metricmix.typing import Floats, Indices, Ints
from metricmix.validation import check_integer, check_number

__all__ = ["KnownPathProblem", "KnownPaths", "PathGeneration", "PathGenerationState"]


@dataclass
class KnownPaths:
    """Paths of the pairs of a problem, some pairs with several.

    Attributes
    ----------
    pair : (P,) array
        Number of the pair of each path, increasing; every pair has one at least.
    indptr, nodes : (P + 1,) and (total,) arrays
        Path p goes through ``nodes[indptr[p]:indptr[p + 1]]``.
    """

    pair: Indices
    indptr: Indices
    nodes: Ints

    @classmethod
    def of(cls, paths: PathBundle) -> KnownPaths:
        """Return one path per pair."""
        return cls(np.arange(len(paths)), paths.indptr, paths.nodes)

    def joined(self, other: KnownPaths) -> KnownPaths:
        """Return the paths of both, each once."""
        counts = np.concatenate([np.diff(self.indptr), np.diff(other.indptr)])
        nodes = np.concatenate([self.nodes, other.nodes])
        pair = np.concatenate([self.pair, other.pair])
        starts = np.cumsum(counts) - counts
        place = np.arange(len(nodes)) - np.repeat(starts, counts)
        # Equal paths have equal sums of these 64-bit numbers; different ones practically never.
        mixed = (nodes.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(29))) * (2 * place + 1).astype(np.uint64)
        keys = np.stack([pair.astype(np.uint64), np.add.reduceat(mixed, starts)], axis=1)
        _, kept = np.unique(keys, axis=0, return_index=True)
        kept = kept[np.argsort(pair[kept], kind="stable")]
        bounds = np.append(0, np.cumsum(counts[kept]))
        taken = np.repeat(starts[kept] - bounds[:-1], counts[kept]) + np.arange(bounds[-1])
        return KnownPaths(pair[kept], bounds, nodes[taken])


@dataclass(frozen=True)
class KnownPathProblem(Problem):
    """An objective over the shortest of known paths."""

    known: KnownPaths = None  # type: ignore[assignment]

    @cached_property
    def _edges(self) -> tuple[Any, Any, Floats, Indices]:
        """Edges on paths (P, E) and (E, P), scaled sources (R, E), first paths of pairs."""
        from scipy.sparse import csr_array

        known = self.known
        unknown, none = np.full(len(known.pair), np.nan), np.empty(0, np.int32)
        number, u, v = PathBundle(unknown, known.indptr, known.nodes, none).edges()
        if not self.stack.directed:
            u, v = np.minimum(u, v), np.maximum(u, v)
        keys, edge = np.unique(u * self.n + v, return_inverse=True)
        counts = csr_array((np.ones(len(edge)), (number, edge)), shape=(len(unknown), len(keys)))
        ends = np.divmod(keys, self.n)
        terms = self.parametrisation.terms(self.stack.raw_pairs(*ends), *ends)
        first = np.searchsorted(known.pair, np.arange(known.pair[-1] + 1))
        return counts, counts.T, np.asarray(terms, dtype=np.float64), first

    def value(self, weights: Floats) -> float:
        """Return the objective over all terms."""
        return self.value_and_gradient(weights)[0]

    def value_and_gradient(
        self, weights: Floats, temperature: float | None = None
    ) -> tuple[float, Floats]:
        """Return the objective over all terms and a sub-gradient."""
        counts, transposed, sources, first = self._edges
        m = weights @ sources
        by_path = counts @ link(m, self.beta, self.link)
        d = np.minimum.reduceat(by_path, first)
        value, demand = self.pair_demand(d)
        # The first of the shortest known paths of each pair carries its demand.
        shortest = np.flatnonzero(by_path == d[self.known.pair])
        shortest = shortest[np.diff(self.known.pair[shortest], prepend=-1) > 0]
        on_path = np.zeros(len(by_path))
        on_path[shortest] = demand[self.known.pair[shortest]]
        flow = transposed @ on_path
        gradient = sources @ (flow * link_derivative(m, self.beta, self.link))
        return value + self.ridge(weights), gradient + self.ridge_gradient(weights)


@dataclass
class PathGenerationState:
    """Weights and objective; the known paths; the predicted gain; rounds without progress."""

    weights: Floats
    objective: float
    pair: Indices
    indptr: Indices
    nodes: Ints
    promise: float
    failures: int


@METHODS.register(
    "path-generation",
    order=2,
    words="a few rounds, each with one search from every item that the objective looks at; the "
    "choice over sparse edges, and mostly the quickest elsewhere",
)
@stored("PathGeneration")
@dataclass(frozen=True, kw_only=True)
class PathGeneration(IterativeSolver[PathGenerationState]):
    """Path generation: ``method="path-generation"``.

    Parameters
    ----------
    tol : float
        Stop when a round promises less than this times ``max(1, abs(f))``.
    inner_iter : int
        Steps of L-BFGS along known paths in each round, at most.
    """

    tol: float = 1e-4
    inner_iter: int = 100

    state_type = PathGenerationState
    default_max_iter = 100

    def __post_init__(self) -> None:
        check_number(self.tol, name="tol", low=0)
        check_integer(self.inner_iter, name="inner_iter", low=1)

    def init(self, rng: np.random.Generator) -> PathGenerationState:
        """Search the shortest paths at the start."""
        start = project_weights(self.start, self.problem.constraint)
        objective, paths = self.search(start)
        known = KnownPaths.of(paths)
        return PathGenerationState(
            start, objective, known.pair, known.indptr, known.nodes, np.inf, 0
        )

    def step(
        self, state: PathGenerationState, iteration: int, rng: np.random.Generator
    ) -> PathGenerationState:
        """Minimise along the known paths, and search the paths at the new weights."""
        known = KnownPaths(state.pair, state.indptr, state.nodes)
        weights, expected = self.minimum(state, known)
        promise = state.objective - expected
        if promise <= self.tol * max(1.0, abs(state.objective)):
            return replace(state, promise=promise)
        objective, paths = self.search(weights)
        known = known.joined(KnownPaths.of(paths))
        found = replace(
            state, pair=known.pair, indptr=known.indptr, nodes=known.nodes, promise=promise
        )
        if objective < state.objective:
            return replace(found, weights=weights, objective=objective, failures=0)
        return replace(found, failures=state.failures + 1)

    def minimum(self, state: PathGenerationState, known: KnownPaths) -> tuple[Floats, float]:
        """Return the weights with the smallest objective along known paths, and this objective."""
        whole = self.problem
        fixed = KnownPathProblem(
            *(whole.objective, whole.stack, whole.link, whole.beta, whole.constraint),
            *(whole.n_jobs, whole.centre, whole.weighting, known),
        )
        fixed.__dict__["all_pairs"] = whole.all_pairs
        solver = LBFGS().bind(fixed, state.weights)
        rng = np.random.default_rng(0)
        best = (state.weights, state.objective)
        with blas_threads(1):  # small products, the same on any machine
            inner = solver.init(rng)
            for k in range(self.inner_iter):
                check_time()
                if not solver.is_finite(inner) or solver.status(inner) is not None:
                    break
                inner = solver.step(inner, k, rng)
                if solver.is_finite(inner) and inner.objective < best[1]:
                    best = (inner.weights, inner.objective)
        weights, objective = best
        rounding = 1e-13 * float(np.abs(weights).max())  # what is left of a weight that became 0
        return np.where(np.abs(weights) <= rounding, 0.0, weights), objective

    def search(self, weights: Floats) -> tuple[float, PathBundle]:
        """Return the objective, and the shortest paths of all its pairs, at given weights."""
        problem = self.problem
        i, j = np.divmod(problem.all_pairs[0], problem.n)
        lengths = problem.lengths(weights)
        if problem.by_pairs:
            paths = bundle_paths(lengths, i, j, n_jobs=problem.n_jobs)
        else:
            roots, tree = np.unique(i, return_inverse=True)
            paths = grow_trees(lengths, roots, n_jobs=problem.n_jobs).paths(tree, j)
        if np.isinf(paths.lengths).any():
            p = int(np.isinf(paths.lengths).argmax())
            raise InputError(
                argument="stack",
                expected="a path between any two items that the objective compares",
                found=f"none between {i[p]} and {j[p]}",
                remedy="add edges that join the parts",
            )
        return problem.pair_demand(paths.lengths)[0] + problem.ridge(weights), paths

    def check(self, state: PathGenerationState) -> tuple[PathGenerationState, float]:
        """Return the objective, which is exact."""
        return state, state.objective

    def status(self, state: PathGenerationState) -> Status | None:
        """Stop when the predicted gain is negligible, or is not achieved."""
        if state.promise <= self.tol * max(1.0, abs(state.objective)):
            return Status.CONVERGED
        return Status.STALLED if state.failures >= 8 else None

    def is_finite(self, state: PathGenerationState) -> bool:
        """Return whether objective and weights are finite."""
        return bool(np.isfinite(state.objective) and np.isfinite(state.weights).all())

    def weights(self, state: PathGenerationState) -> Floats:
        """Return the weights."""
        return state.weights

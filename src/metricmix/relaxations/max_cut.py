r"""The maximum cut of a weighted graph, with a certified bound on the weight of all cuts.

.. math:: \max_x \; \sum_e w_e x_e \qquad
          \sum_{e \in C \setminus F} x_e + \sum_{e \in F} (1 - x_e) \ge 1
          \quad \text{for every cycle C, } F \subseteq C \text{ odd}, \qquad 0 \le x \le 1

The points that satisfy all odd-cycle inequalities are exactly those that can be extended to all
pairs such that triangle inequalities and perimeters, :math:`x_{ij} + x_{jk} + x_{ik} \le 2`, hold
(Barahona and Mahjoub): so the problem has m variables only. Searches for violated inequalities
(:mod:`~metricmix.relaxations.odd_cycles`) alternate with steps of the primal-dual method
(:mod:`~metricmix.relaxations.primal_dual`).

Any dual variables bound the maximum from above. A point x with violations up to v is contracted
towards 1/2, where the left-hand sides are at least 3/2:
:math:`\tfrac12 + (x - \tfrac12) / (1 + 2 v)` is feasible.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import chain
from typing import Any, Unpack

import numpy as np

from metricmix.kernels.threads import ThreadPool, row_ranges
from metricmix.memory import check_room
from metricmix.relaxations.cut_rounding import round_max_cut
from metricmix.relaxations.graph_search import PARTS, SLICE, in_slices
from metricmix.relaxations.odd_cycles import find_odd_cycles
from metricmix.relaxations.primal_dual import LinearProgram, PrimalDual
from metricmix.relaxations.solve import (
    FIRST_TRIALS,
    RELATIVE,
    STEPS,
    LinearRelaxation,
    Relaxation,
    solve,
)
from metricmix.relaxations.state import Best, RowGenerationState
from metricmix.relaxations.weighted_graphs import WeightedGraph, read_weighted_graph
from metricmix.solvers.loop import RunOptions
from metricmix.typing import Floats, Ints, Keys

__all__ = ["MaxCut", "MaxCutLP", "max_cut"]


@dataclass(frozen=True, kw_only=True, repr=False)
class MaxCut(Relaxation):
    """A cut of a weighted graph, and a bound on the weight of all cuts.

    Attributes
    ----------
    labels : (n,) array
        The side of every item, 0 or 1; the first item is on side 0.
    objective : float
        The weight of the cut.
    upper_bound : float
        No cut has a larger weight.
    ratio : float
        ``objective / upper_bound``: the cut has at least this share of the maximum.
    lp_objective, gap : float
        Value of the fractional solution, and how far it may be from the optimum, as a share of the
        upper bound (or of a millionth of the total weight, if that is more).
    edges, lengths : (m, 2) and (m,) arrays
        The fractional solution on the edges: from 0 (together) to 1 (apart). It can be extended to
        all pairs such that triangle inequalities and perimeters hold.
    nodes : (n,) array
        Ids of the items.
    n_iter, status, message, converged, trace
        See :class:`~metricmix.relaxations.Relaxation`.
    """

    upper_bound: float
    metric = None

    @property
    def ratio(self) -> float:
        """The weight of the cut over the upper bound; 1 if both are 0."""
        return 1.0 if self.objective >= self.upper_bound else self.objective / self.upper_bound


def max_cut(
    graph: Any,
    *,
    nodes: Any = None,
    tol: float = 1e-4,
    trials: int = 20,
    moves: bool = True,
    random_state: Any = None,
    n_jobs: int | None = None,
    device: str = "cpu",
    **options: Unpack[RunOptions],
) -> MaxCut:
    r"""Find a cut of large weight, and bound the weight of all cuts from above.

    Weights may have any sign:

    .. math:: \max_{S \subseteq V} \; \sum_{i \in S,\; j \notin S} w_{ij}

    A cut is a metric with entries 0 (together) and 1 (apart), and of three items at most two pairs
    are apart. With any entries this is a linear program over the metric polytope,

    .. math:: \max_x \; \sum_{i < j} w_{ij} x_{ij}, \qquad
              x_{ij} \le x_{ik} + x_{kj}, \quad x_{ij} + x_{jk} + x_{ik} \le 2,

    whose dual bounds the weight of all cuts from above. The variables are the edges of the graph
    only, with odd-cycle inequalities, added as they are violated. The solution is rounded to a cut.
    On planar graphs the bound is the weight of the maximum cut.

    Parameters
    ----------
    graph : matrix, networkx or igraph graph, edge table
        As for :func:`~metricmix.dissimilarity.graphs.as_graph`, with weights of any sign (1 if
        there are none). If both directions of a pair are given, their weights must be equal.
    nodes : sequence of ids, or int
        The ids in the order of the items; see there.
    tol : float
        Stop when the gap of the linear program, ``(upper_bound - lp_objective) / upper_bound``, is
        at most this. If the bound is below 1e-6 of the sum of all absolute weights, the gap is
        relative to that instead.
    trials : int
        Roundings, of which the best is kept.
    moves : bool
        Whether to improve each rounding by moving single items.
    random_state : None, int or Generator
        For the rounding.
    n_jobs : int, optional
        Threads; None means all cores. No result depends on it.
    device : {"cpu", "cuda", "auto"}
        "cuda" takes the steps of large linear programs on a GPU, with the same bounds up to
        rounding; "auto" does so if there is one.
    **options
        `max_iter` (default 10 000 rounds; each takes some steps and searches for violated cycles),
        `time_limit`, `check_every`, `callback` and `verbose`, as
        :class:`~metricmix.solvers.RunOptions` describes them.

    Returns
    -------
    MaxCut
        With `labels`, `objective`, `upper_bound`, `ratio`, `lp_objective`, `gap`, `lengths`,
        `status`, `trace`. Bounds and the cut are valid however the run ended, Ctrl-C included.

    Raises
    ------
    InputError
        If an argument is not valid, or the problem does not fit into memory.

    Warns
    -----
    ConvergenceWarning
        If the gap is not reached.

    Examples
    --------
    >>> import networkx as nx, metricmix as mm
    >>> result = mm.nearness.max_cut(nx.cycle_graph(5), random_state=0)
    >>> result.objective, round(result.upper_bound, 3)  # an odd cycle: one edge is not cut
    (4.0, 4.0)
    """
    return solve(
        MaxCutLP,
        lambda: read_weighted_graph(graph, nodes),
        tol=tol,
        trials=trials,
        moves=moves,
        random_state=random_state,
        n_jobs=n_jobs,
        options=options,
        device=device,
    )


# -- the linear program -------------------------------------------------------------------------


class MaxCutLP(LinearRelaxation[RowGenerationState, WeightedGraph, MaxCut]):
    """The linear program of the maximum cut; see the module. Costs are minus the weights."""

    maximise = True
    state_type = RowGenerationState
    result_type = MaxCut

    def __init__(
        self, graph: WeightedGraph, pool: ThreadPool, tol: float, device: str = "cpu"
    ) -> None:
        super().__init__(graph, pool, tol, device)
        self.m, self.size = len(graph.weights), float(np.abs(graph.weights).sum())
        # Memory per edge, with its share of the rows: 700 to 2100 measured, and copies.
        needed = 3000 * self.m
        check_room(needed, what=f"a graph of {self.m} edges", instead="leave out light edges")

    def init(self, rng: np.random.Generator) -> RowGenerationState:
        """Return the state with all items on one side."""
        graph = self.graph
        bound = -float(np.maximum(graph.weights, 0.0).sum())
        best = Best(bound, -0.0, np.zeros(self.m), np.zeros(graph.n, np.int32), -0.0)
        return RowGenerationState(best=best, rng=rng, program=LinearProgram(-graph.weights))

    def start(self, state: RowGenerationState) -> None:
        """Find a first cut, and the cycles that cutting all edges of positive weight violates."""
        weights = self.graph.weights
        x = np.where(weights > 0, 1.0, 0.0)
        self.offer_cut(state, x, FIRST_TRIALS, state.rng)
        self.separate(state, x, state.rng)
        self.separate(state, 2.0 / 3.0 * x, state.rng)  # satisfies triangles of positive weights
        omega = float(np.median(np.abs(weights))) if self.m else 1.0
        state.iterates = PrimalDual.start(x, np.zeros(state.program.n_rows), omega)

    def step(
        self, state: RowGenerationState, iteration: int, rng: np.random.Generator
    ) -> RowGenerationState:
        """Take some steps, and search for violated cycles, unless these are rare."""
        iterates = state.iterates
        assert iterates is not None
        iterates.advance(state.program, STEPS, self.pool, self.device)
        if state.search_is_due():
            new = self.separate(state, iterates.v.image, rng)
            iterates.extend(np.empty(0), new)
            state.searched(new)
        return state

    def separate(self, state: RowGenerationState, x: Floats, rng: np.random.Generator) -> int:
        """Add cycles that x violates, and keep x made feasible; return the number of new rows."""
        tolerance = max(0.1 * self.tol, RELATIVE * state.worst)
        # Searches lengthen each edge by this share of the largest violation: short cycles are
        # stronger inequalities, with sparser rows.
        hop = 0.05
        counts, terms, keys, _ = self.search(x, hop * state.worst, tolerance)
        exact = self.search(x, 0.0, math.inf if len(counts) else tolerance)
        state.worst = exact[3]
        feasible = 0.5 + (x - 0.5) / (1.0 + 2.0 * state.worst)
        state.best.offer(-float(self.graph.weights @ feasible), feasible)
        self.offer_cut(state, x, 1, rng)
        if not len(counts):
            counts, terms, keys, _ = exact
        chosen = state.program.new_rows(keys)
        if len(chosen):
            ends = np.cumsum(counts, dtype=np.int64)
            taken = [terms[ends[k] - counts[k] : ends[k]] for k in chosen]
            starts = np.concatenate([[0], np.cumsum(counts[chosen], dtype=np.int64)])
            state.program.add(np.empty(0), starts, np.concatenate(taken), keys[chosen])
        return len(chosen)

    def search(self, x: Floats, hop: float, tolerance: float) -> tuple[Ints, Ints, Keys, float]:
        """Return the result of :func:`~metricmix.relaxations.odd_cycles.find_odd_cycles`."""
        edges = self.graph.edges

        def search_from(low: int, high: int) -> list[Any]:
            return in_slices(
                lambda i: find_odd_cycles(i, high, edges, x, hop, tolerance, SLICE), low, high
            )

        parts = self.pool.run(lambda r: search_from(*r), row_ranges(self.graph.n, 1, PARTS))
        *lists, worst = zip(*chain.from_iterable(parts), strict=True)
        counts, terms, keys = (np.concatenate(list(parts)) for parts in lists)
        return counts, terms, keys, max(worst)

    def offer_cut(
        self, state: RowGenerationState, x: Floats, trials: int, rng: np.random.Generator
    ) -> None:
        """Round x, and keep the cut if it is the best so far."""
        best = state.best
        labels, cost = self.round(x, rng, trials=trials, moves=True)
        if cost < best.labels_cost:
            best.labels, best.labels_cost = labels, cost
        best.offer(cost, self.lengths_of(labels))

    def dual_bound(self, state: RowGenerationState) -> float:
        """Return the dual objective, less the largest possible rounding error of its sums."""
        assert state.iterates is not None
        z = state.iterates.z.image
        loads = float(z @ np.diff(state.program.rows.starts)) if len(z) else 0.0
        rounding = 8.0 * float(np.finfo(np.float64).eps) * (self.size + loads)
        return state.program.lower_bound(z, self.pool) - rounding

    def gap(self, cost: float, bound: float) -> float:
        """Return the gap relative to the bound, or to a small share of the total weight."""
        # Share of the total weight below which the gap is relative to it instead of to the bound.
        negligible = 1e-6
        least = max(negligible * self.size, float(np.finfo(np.float64).tiny))
        room = cost - bound
        return 0.0 if room <= 0.0 else room / max(abs(bound), least)

    def round(
        self, lengths: Floats, rng: np.random.Generator, *, trials: int, moves: bool
    ) -> tuple[Ints, float]:
        """Return a cut and minus its weight."""
        labels, weight = round_max_cut(
            self.graph, lengths, self.pool, trials=trials, moves=moves, rng=rng
        )
        return labels, -weight

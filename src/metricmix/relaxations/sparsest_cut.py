r"""The sparsest cut of a graph, with a certified bound on the sparsity of all cuts.

.. math:: \min_x \; \sum_e c_e x_e \qquad \sum_{i < j} D_{ij}\, x_{ij} = 1, \quad
          x_{ij} \le x_{ik} + x_{kj}

Given the lengths of the m edges, all other pairs are best as far apart as these allow: lengths
x >= 0 of any size cost :math:`c^T x / \sum D_{ij} d_x(i, j)`, with d the shortest paths, an upper
bound. The dual is a concurrent flow: if every pair sends :math:`D_{ij}` over any paths, and no edge
carries more than t times its capacity, then nothing costs less than 1 / t (Leighton and Rao).

Primal-dual steps for lengths and flows (:mod:`~metricmix.relaxations.concurrent_flow`) alternate
with shortest-path searches from every node, which find missing paths and give the cost of the
lengths.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from metricmix.cached import cached_property
from metricmix.exceptions import InputError
from metricmix.kernels.threads import ThreadPool
from metricmix.memory import check_room
from metricmix.paths.all_pairs import project
from metricmix.relaxations.concurrent_flow import ConcurrentFlow, FlowState
from metricmix.relaxations.cut_rounding import round_sparse_cut
from metricmix.relaxations.solve import (
    STEPS,
    LinearRelaxation,
    Relaxation,
    solve,
)
from metricmix.relaxations.state import Best, RelaxationState
from metricmix.relaxations.weighted_graphs import (
    LARGEST,
    DemandNetwork,
    WeightedGraph,
    read_weighted_graph,
)
from metricmix.solvers.loop import RunOptions
from metricmix.typing import Floats, Ints
from metricmix.validation import as_float_array

__all__ = ["SparsestCut", "SparsestCutLP", "SparsestCutState", "check_network", "sparsest_cut"]


@dataclass(frozen=True, kw_only=True, repr=False)
class SparsestCut(Relaxation):
    """A cut of a graph, and a bound on the sparsity of all cuts.

    Attributes
    ----------
    labels : (n,) array
        The side of every item, 0 or 1; the first item is on side 0.
    objective : float
        The ratio of the cut: its capacity over the product of the demands on both sides.
    lower_bound : float
        No cut, and no metric, has a smaller ratio.
    ratio : float
        ``objective / lower_bound``: the ratio of the cut is at most this times the optimum.
    lp_objective, gap : float
        Cost of the fractional solution, and how far it may be from the optimum, relatively.
    metric : (n, n) array
        The fractional solution: a metric whose sum, over pairs i < j and times their demands, is 1.
        Computed on first access.
    edges, lengths : (m, 2) and (m,) arrays
        Its entries for the edges; all others are the shortest paths over these.
    nodes, demand : (n,) arrays
        Ids and demands of the items.
    n_iter, status, message, converged, trace
        See :class:`~metricmix.relaxations.Relaxation`.
    """

    lower_bound: float
    demand: Floats

    @cached_property  # type: ignore[misc]  # Relaxation declares the field without a value
    def metric(self) -> Floats:
        """The fractional solution."""
        n = len(self.labels)
        check_room(
            8.0 * n * n,
            what=f"the metric of {n} items",
            instead="take `edges` and `lengths`, which say the same",
        )
        if self.objective == 0.0:  # the graph is disconnected
            product = float(np.prod([self.demand[self.labels == side].sum() for side in (0, 1)]))
            return np.where(self.labels[:, None] != self.labels, 1.0 / product, 0.0)
        w = np.full((n, n), np.inf)
        np.fill_diagonal(w, 0.0)
        i, j = self.edges.T
        w[i, j] = w[j, i] = self.lengths
        return np.asarray(project(w))


def sparsest_cut(
    graph: Any,
    *,
    nodes: Any = None,
    demand: ArrayLike | None = None,
    tol: float = 1e-4,
    trials: int = 20,
    moves: bool = True,
    random_state: Any = None,
    n_jobs: int | None = None,
    **options: Unpack[RunOptions],
) -> SparsestCut:
    r"""Find a sparse cut, and bound the sparsity of all cuts from below.

    Edges have capacities :math:`c \ge 0`, items demands :math:`\delta > 0`:

    .. math:: \min_{\emptyset \ne S \ne V} \;
              \frac{\sum_{i \in S,\; j \notin S} c_{ij}}
                   {\sum_{i \in S} \delta_i \; \sum_{j \notin S} \delta_j}

    With demands of 1 this is the uniform sparsest cut, :math:`c(S, \bar S) / (|S|\, |\bar S|)`. Up
    to scale, a cut is a metric with two values. With any metric this is a linear program,

    .. math:: \min_x \; \sum_{i < j} c_{ij} x_{ij}, \qquad
              \sum_{i < j} \delta_i \delta_j\, x_{ij} = 1, \quad x_{ij} \le x_{ik} + x_{kj},

    whose dual, a concurrent flow, bounds the ratio of all cuts from below. The variables are the
    edges only: shortest paths give all other entries. The solution is rounded to a cut.

    Parameters
    ----------
    graph : matrix, networkx or igraph graph, edge table
        As for :func:`~metricmix.dissimilarity.graphs.as_graph`, with weights >= 0 as capacities (1
        if there are none). If both directions of a pair are given, their weights must be equal.
    nodes : sequence of ids, or int
        The ids in the order of the items; see there.
    demand : (n,) array, optional
        Demands of the items, > 0; default 1. With the degrees as demands, the ratio measures
        conductance.
    tol : float
        Stop when the gap of the linear program, ``(lp_objective - lower_bound) / lp_objective``, is
        at most this.
    trials : int
        Random sets of items; the metric is rounded by balls around these and around every item.
    moves : bool
        Whether to improve cuts by moving single items.
    random_state : None, int or Generator
        For the rounding.
    n_jobs : int, optional
        Threads; None means all cores. No result depends on it.
    **options
        `max_iter` (default 10 000 rounds; each takes some steps and searches for shorter paths),
        `time_limit`, `check_every`, `callback` and `verbose`, as
        :class:`~metricmix.solvers.RunOptions` describes them.

    Returns
    -------
    SparsestCut
        With `labels`, `objective`, `lower_bound`, `ratio`, `lp_objective`, `gap`, `metric`,
        `status`, `trace`. Bounds and the cut are valid however the run ended, Ctrl-C included.

    Raises
    ------
    InputError
        If an argument is not valid, or the problem does not fit into memory.

    Warns
    -----
    ConvergenceWarning
        If the gap is not reached.

    Notes
    -----
    Every pair of items has its own paths: time and memory grow with the square of the number of
    items, times the number of edges of a path. A disconnected graph has a cut of ratio 0, found at
    once.

    Examples
    --------
    >>> import networkx as nx, metricmix as mm
    >>> result = mm.nearness.sparsest_cut(nx.barbell_graph(4, 0), random_state=0)
    >>> result.labels.tolist(), result.objective  # two cliques of four, joined by an edge
    ([0, 0, 0, 0, 1, 1, 1, 1], 0.0625)
    >>> round(result.lower_bound, 4), round(result.ratio, 3)
    (0.0625, 1.0)
    """
    return solve(
        SparsestCutLP,
        lambda: check_network(read_weighted_graph(graph, nodes), demand),
        tol=tol,
        trials=trials,
        moves=moves,
        random_state=random_state,
        n_jobs=n_jobs,
        options=options,
    )


def check_network(graph: WeightedGraph, demand: ArrayLike | None) -> DemandNetwork:
    """Return the network; raise InputError if capacities or demands are not valid."""
    if graph.n < 2:
        raise InputError(
            argument="graph", expected="at least two items, one for each side", found=1
        )
    if graph.weights.min(initial=0.0) < 0:
        e = int(graph.weights.argmin())
        i, j = graph.nodes[graph.ends[e]]
        raise InputError(
            argument="graph",
            expected="capacities >= 0",
            found=f"{graph.weights[e]:g} between {i!s} and {j!s}",
            remedy="correlation_clustering and max_cut take weights of any sign",
        )
    if demand is None:
        return DemandNetwork.from_graph(graph, np.ones(graph.n))
    demands = as_float_array(demand, name="demand").astype(np.float64)
    if demands.shape != (graph.n,):
        raise InputError(
            argument="demand",
            expected=f"{graph.n} numbers, one per item",
            found=f"shape {demands.shape}",
        )
    valid = (demands >= 1.0 / LARGEST) & (demands <= LARGEST)
    if not valid.all():
        i = int(valid.argmin())
        raise InputError(
            argument="demand",
            expected=f"numbers > 0, from {1.0 / LARGEST:g} to {LARGEST:g}",
            found=f"{demands[i]:g} at {i}",
        )
    return DemandNetwork.from_graph(graph, demands)


# -- the linear program -------------------------------------------------------------------------


FIRST_PATHS, STRETCH = 4, 2.0
"""Searches at the start: after each, the edge with the largest load gets exp(STRETCH) times the
length of an edge without load."""

PATHS, BYTES = 12, 32
"""Paths per pair that must fit into memory (2 on expanders, 10 on small worlds, were measured), and
the memory of one without its edges."""


@dataclass(kw_only=True)
class SparsestCutState(RelaxationState):
    """State of :class:`SparsestCutLP`.

    `flow` is None before the first check, and for a disconnected graph.
    """

    flow: FlowState | None = None

    @property
    def residual(self) -> float:
        """The residual of the last step."""
        return math.inf if self.flow is None else self.flow.restarts.residual

    def is_whole(self) -> bool:
        """Return whether every path has a flow."""
        if self.flow is None:
            return False
        parts = zip(self.flow.paths, self.flow.flows, strict=True)
        return all(len(paths.starts) == 1 + flows.shape[1] for paths, flows in parts)


class SparsestCutLP(LinearRelaxation[SparsestCutState, DemandNetwork, SparsestCut]):
    """The linear program of the sparsest cut; see the module."""

    min_trials = 0
    state_type = SparsestCutState
    result_type = SparsestCut

    def __init__(
        self, graph: DemandNetwork, pool: ThreadPool, tol: float, device: str = "cpu"
    ) -> None:
        super().__init__(graph, pool, tol, device)
        edges = graph.mean_path_edges() if graph.is_connected else 0.0
        check_room(
            0.5 * graph.n**2 * PATHS * (BYTES + 8.0 * edges) if graph.is_connected else 0.0,
            what=f"a graph of {graph.n} items, with paths between all of them,",
            instead="cut a part of it, or put items together",
        )
        self.flow = ConcurrentFlow(graph, pool)

    def init(self, rng: np.random.Generator) -> SparsestCutState:
        """Return the state with the first item alone on its side."""
        labels = np.minimum(np.arange(self.graph.n, dtype=np.int32), 1)
        ratio = self.graph.cut_ratio(labels)
        best = Best(0.0, ratio, self.lengths_of(labels), labels, ratio)
        return SparsestCutState(best=best, rng=rng)

    def start(self, state: SparsestCutState) -> None:
        """Find a first cut, and some paths of every pair that avoid edges with large loads."""
        network, best = self.graph, state.best
        labels, ratio = self.round(np.ones(network.m), state.rng, trials=0, moves=True)
        if ratio <= best.labels_cost:
            best.labels, best.labels_cost = labels, ratio
        best.offer(ratio, self.lengths_of(labels))
        if not network.is_connected:
            return
        flow = self.flow.init()
        for _ in range(FIRST_PATHS):
            self.search(best, flow, 0.0)
            self.flow.split_evenly(flow)
            congestion, bound = self.congestion(flow)
            best.raise_bound(bound)
            x = np.exp(STRETCH * congestion / congestion.max())
            self.flow.restart(flow, x * (network.m / float(network.capacity @ x)))
        state.flow = flow

    def step(
        self, state: SparsestCutState, iteration: int, rng: np.random.Generator
    ) -> SparsestCutState:
        """Take some steps, and search for shorter paths."""
        best = state.best
        assert state.flow is not None
        self.flow.advance(state.flow, STEPS)
        finer = 0.01  # a path is added if it is shorter than the others by this share of the gap
        self.search(best, state.flow, finer * min(self.gap(best.cost, best.bound), 1.0))
        return state

    def search(self, best: Best, flow: FlowState, tolerance: float) -> None:
        """Add paths, and keep the lengths if they are the best so far."""
        closed, total = self.flow.search(flow, tolerance)
        cost = self.graph.unit * float(self.graph.capacity @ closed)
        best.offer(cost / total if total > 0 else math.inf, closed)

    def congestion(self, flow: FlowState) -> tuple[Floats, float]:
        """Return load over capacity of each edge, and the lower bound that follows."""
        congestion, sent = self.flow.congestion(flow)
        n_paths = sum(len(paths.starts) - 1 for paths in flow.paths)
        # The relative error of a sum of so many terms >= 0 is at most this.
        rounding = (n_paths + self.graph.n) * float(np.finfo(np.float64).eps)
        bound = self.graph.unit * sent / float(congestion.max()) * (1.0 - 2.0 * rounding)
        return congestion, bound

    def dual_bound(self, state: SparsestCutState) -> float:
        """Return the bound of the flow so far."""
        return 0.0 if state.flow is None else self.congestion(state.flow)[1]

    def round(
        self, lengths: Floats, rng: np.random.Generator, *, trials: int, moves: bool
    ) -> tuple[Ints, float]:
        """Return a cut and its ratio."""
        return round_sparse_cut(self.graph, lengths, self.pool, trials=trials, moves=moves, rng=rng)

    def result(self, **fields: Any) -> SparsestCut:
        """Return the result, with the lengths scaled to cost `lp_objective`."""
        network, lengths = self.graph, fields.pop("lengths")
        cost = float(network.graph.weights @ lengths)
        lengths = lengths * (fields["lp_objective"] / cost) if cost > 0 else lengths
        return SparsestCut(lengths=lengths, demand=network.original_demand, **fields)

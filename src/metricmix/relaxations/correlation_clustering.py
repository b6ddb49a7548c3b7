r"""Correlation clustering, with a certified bound on the cost of all clusterings.

.. math:: \min_x \; \sum_{w > 0} w_{ij} x_{ij} + \sum_{w < 0} |w_{ij}| (1 - x_{ij}), \qquad
          x_{ij} \le x_{ik} + x_{kj}, \quad 0 \le x \le 1

Given the lengths of the m attracting pairs, all other pairs are best as far apart as these allow:
:math:`x_{ij} = \min(1, \text{shortest path})`. So the variables are these m lengths and, for each
repelling pair, its slack :math:`y_{ij} = 1 - x_{ij}`; the constraints are

.. math:: y_{ij} + \sum_{e \in \text{path}} x_e \ge 1 \qquad \text{for every path from i to j.}

Few constraints are active, and only pairs in these need a slack. Searches for violated constraints
(:mod:`~metricmix.relaxations.path_constraints`) alternate with steps of the primal-dual method
(:mod:`~metricmix.relaxations.primal_dual`). The dual is a multicommodity flow: every repelling pair
sends up to :math:`|w|` along its paths, over edges of capacity w.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from metricmix.cached import cached_property
from metricmix.kernels.deadline import check_time
from metricmix.kernels.minplus import mirror
from metricmix.kernels.threads import ThreadPool, in_threads, row_ranges, threads_for
from metricmix.memory import check_room
from metricmix.relaxations.cluster_rounding import clustering_cost, round_clusters
from metricmix.relaxations.graph_search import PARTS, SLICE, Adjacency
from metricmix.relaxations.path_constraints import (
    PathProgram,
    fractional_cost,
    paths_per_pair,
    truncated_distances,
)
from metricmix.relaxations.primal_dual import PrimalDual
from metricmix.relaxations.solve import (
    FIRST_TRIALS,
    RELATIVE,
    STEPS,
    LinearRelaxation,
    Relaxation,
    solve,
)
from metricmix.relaxations.state import Best, RowGenerationState
from metricmix.relaxations.weighted_graphs import SignedGraph, read_signed_graph
from metricmix.solvers.loop import RunOptions
from metricmix.typing import Floats, Ints

__all__ = ["ClusteringLP", "ClusteringState", "CorrelationClustering", "correlation_clustering"]


@dataclass(frozen=True, kw_only=True, repr=False)
class CorrelationClustering(Relaxation):
    """Clusters of a signed graph, and a bound on the cost of all clusterings.

    Attributes
    ----------
    labels : (n,) array
        The cluster of every item, numbered by first appearance.
    objective : float
        Cost of the clusters: the attraction between clusters plus the repulsion within.
    lower_bound : float
        No clustering, and no metric with entries up to 1, costs less.
    ratio : float
        ``objective / lower_bound``: the clusters cost at most this times the optimum.
    lp_objective, gap : float
        Cost of the fractional solution, and how far it may be from the optimum, relatively.
    metric : (n, n) array
        The fractional solution: a metric with entries from 0 (together) to 1 (apart). Computed on
        first access.
    edges, lengths : (m, 2) and (m,) arrays
        Its entries for the attracting pairs; all others are the shortest paths over these, or 1.
    nodes : (n,) array
        Ids of the items.
    n_iter, status, message, converged, trace
        See :class:`~metricmix.relaxations.Relaxation`.
    """

    lower_bound: float

    @property
    def n_clusters(self) -> int:
        """The number of clusters."""
        return int(self.labels.max()) + 1

    @cached_property  # type: ignore[misc]  # Relaxation declares the field without a value
    def metric(self) -> Floats:
        """The fractional solution."""
        n = len(self.labels)
        check_room(
            8.0 * n * n,
            what=f"the metric of {n} items",
            instead="take `edges` and `lengths`, which say the same",
        )
        graph = Adjacency.from_edges(n, *self.edges.T)
        out = np.empty((n, n))
        rows, threads = row_ranges(n, 1, 64), threads_for(n)
        in_threads(lambda r: truncated_distances(*r, graph, self.lengths, out), rows, threads)
        in_threads(lambda r: mirror(out, *r), rows, threads)
        return out


def correlation_clustering(
    graph: Any,
    *,
    nodes: Any = None,
    signs: str = "auto",
    resolution: float | None = None,
    tol: float = 1e-4,
    trials: int = 20,
    moves: bool = True,
    random_state: Any = None,
    n_jobs: int | None = None,
    device: str = "cpu",
    **options: Unpack[RunOptions],
) -> CorrelationClustering:
    r"""Cluster the items of a signed graph, and bound the cost of all clusterings from below.

    Pairs with a weight > 0 attract each other and should be together, pairs with a weight < 0 repel
    each other and should be apart:

    .. math:: \min_{\text{clusters}} \;
              \sum_{w_{ij} > 0,\; \text{apart}} w_{ij} +
              \sum_{w_{ij} < 0,\; \text{together}} |w_{ij}|

    A clustering is a metric with entries 0 (together) and 1 (apart). With entries anywhere between
    0 and 1 this is a linear program,

    .. math:: \min_x \; \sum_{w > 0} w_{ij} x_{ij} + \sum_{w < 0} |w_{ij}| (1 - x_{ij}), \qquad
              x_{ij} \le x_{ik} + x_{kj}, \quad 0 \le x \le 1,

    whose dual bounds the cost of all clusterings from below. The variables are the attracting pairs
    only: shortest paths give all other entries. The solution is rounded to clusters.

    Parameters
    ----------
    graph : matrix, networkx or igraph graph, edge table
        As for :func:`~metricmix.dissimilarity.graphs.as_graph`, with weights of any sign. If both
        directions of a pair are given, their weights must be equal.
    nodes : sequence of ids, or int
        The ids in the order of the items; see there.
    signs : {"auto", "given", "edges", "jaccard"}
        How the weights of pairs are derived from the graph.

        - ``"given"``: the weights of the graph. Pairs without one neither attract nor repel.
        - ``"edges"``: the weight of an edge (1 if it has none), and ``-resolution`` (default -1)
          for all other pairs. With 1 this is cluster editing; with :math:`\lambda / (1 -
          \lambda)` it is LambdaCC's objective over :math:`1 - \lambda`.
        - ``"jaccard"``: :math:`\log \frac{1 + J - \delta}{1 - J + \delta}`, with J the Jaccard
          coefficient of the two neighbourhoods and :math:`\delta` the `resolution` (default 0.05);
          weights of the graph are ignored (Wang, Xu, Chen and Hsu, 2013).
        - ``"auto"``: ``"given"`` if some weight is negative, ``"edges"`` if all are 1.
    resolution : float, optional
        See `signs`.
    tol : float
        Stop when the gap of the linear program, ``(lp_objective - lower_bound) / lp_objective``, is
        at most this.
    trials : int
        Roundings, of which the best is kept.
    moves : bool
        Whether to improve each rounding by moving single items.
    random_state : None, int or Generator
        For the rounding, and the choice between paths of similar length.
    n_jobs : int, optional
        Threads; None means all cores. No result depends on it.
    device : {"cpu", "cuda", "auto"}
        "cuda" takes the steps of large linear programs on a GPU, with the same bounds up to
        rounding; "auto" does so if there is one.
    **options
        `max_iter` (default 10 000 rounds; each searches for violated paths and takes some steps),
        `time_limit`, `check_every`, `callback` and `verbose`, as
        :class:`~metricmix.solvers.RunOptions` describes them.

    Returns
    -------
    CorrelationClustering
        With `labels`, `objective`, `lower_bound`, `ratio`, `lp_objective`, `gap`, `metric`,
        `status`, `trace`. Bounds and clusters are valid however the run ended, Ctrl-C included.

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
    Time and memory grow with the number of attracting pairs and of paths of two of them, not with
    the number of all pairs; only `metric` allocates an n × n array.

    Examples
    --------
    >>> import numpy as np, metricmix as mm
    >>> weights = np.array([[0, 2, 2, -1], [2, 0, 1, -1], [2, 1, 0, 1], [-1, -1, 1, 0]])
    >>> result = mm.nearness.correlation_clustering(weights, random_state=0)
    >>> result.labels.tolist(), result.objective  # items 2 and 3 attract each other, but too little
    ([0, 0, 0, 1], 1.0)
    >>> round(result.lower_bound, 3), round(result.ratio, 3)
    (1.0, 1.0)
    """
    return solve(
        ClusteringLP,
        lambda: read_signed_graph(graph, nodes, signs, resolution),
        tol=tol,
        trials=trials,
        moves=moves,
        random_state=random_state,
        n_jobs=n_jobs,
        options=options,
        device=device,
    )


# -- the linear program -------------------------------------------------------------------------


FEW, OFTEN = 0.02, 10
"""The cost of x is computed when the share of new rows is at most FEW, and every OFTEN rounds."""


@dataclass(kw_only=True)
class ClusteringState(RowGenerationState):
    """State of :class:`ClusteringLP`; `new_rows` counts the rows that the last search added."""

    program: PathProgram
    new_rows: int = 0


class ClusteringLP(LinearRelaxation[ClusteringState, SignedGraph, CorrelationClustering]):
    """The linear program of correlation clustering; see the module."""

    state_type = ClusteringState
    result_type = CorrelationClustering

    def __init__(
        self, graph: SignedGraph, pool: ThreadPool, tol: float, device: str = "cpu"
    ) -> None:
        super().__init__(graph, pool, tol, device)
        self.m = len(graph.attraction)
        self.size = float(graph.attraction.sum())
        self.repeats = paths_per_pair(graph)

    def init(self, rng: np.random.Generator) -> ClusteringState:
        """Return the state with every item in its own cluster."""
        labels = np.arange(self.graph.n, dtype=np.int32)
        best = Best(0.0, self.size, np.ones(self.m), labels, self.size)
        return ClusteringState(best=best, rng=rng, program=PathProgram(self.graph))

    def start(self, state: ClusteringState) -> None:
        """Find first clusters, and the constraints of paths of two edges."""
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        # Lengths at the start: paths of two edges violate their constraints, longer ones do not.
        first_length = 0.45
        x, best, program = np.full(self.m, first_length), state.best, state.program
        # If any clusters cost nothing, the components that attraction connects do.
        ones, size = np.ones(self.m), (self.graph.n,) * 2
        attracting = coo_array((ones, (self.graph.ends[:, 0], self.graph.ends[:, 1])), shape=size)
        joined = connected_components(attracting, directed=False)[1].astype(np.int32)
        offers = [(joined, float(clustering_cost(self.graph.weights, joined)))]
        offers.append(self.round(x, state.rng, trials=FIRST_TRIALS, moves=True))
        for labels, cost in offers:
            if cost <= best.labels_cost:
                best.labels, best.labels_cost = labels, cost
            best.offer(cost, self.lengths_of(labels))
        found = program.search(
            *(x, np.zeros(self.m), self.pool), tolerance=RELATIVE, penalty=1.0, repeats=self.repeats
        )
        count, y = program.add_paths(found, x)
        # A feasible flow: every capacity is divided evenly among the paths.
        rows, columns = program.rows, program.columns
        share = columns.cost / np.maximum(1, np.diff(columns.starts))
        z = np.minimum.reduceat(share[rows.terms], rows.starts[:-1]) if count else np.empty(0)
        omega = float(np.median(self.graph.attraction)) if self.m else 1.0
        state.iterates = PrimalDual.start(np.concatenate([x, y]), z, omega)

    def step(
        self, state: ClusteringState, iteration: int, rng: np.random.Generator
    ) -> ClusteringState:
        """Search for violated constraints, unless these are rare, and take some steps."""
        iterates, program = state.iterates, state.program
        assert iterates is not None
        if state.search_is_due():
            # Every second search perturbs the lengths by up to this share of the largest violation.
            share = 0.02
            jitter = share * state.worst * rng.random(self.m) if iteration % 2 else np.zeros(self.m)
            tolerance = max(0.1 * self.tol, RELATIVE * state.worst)
            found = program.search(
                *(iterates.v.image, jitter, self.pool),
                tolerance=tolerance,
                penalty=state.worst,
                repeats=1,
            )
            state.worst = found.worst
            state.new_rows, y = program.add_paths(found, iterates.v.image[: self.m])
            iterates.extend(y, state.new_rows)
            state.searched(state.new_rows)
        iterates.advance(program, STEPS, self.pool, self.device)
        if state.new_rows <= FEW * program.n_rows or iteration % OFTEN == 0:
            self.offer(state)
        return state

    def finish(self, state: ClusteringState) -> None:
        """Compute the cost of the last lengths, if the gap is not reached."""
        best = state.best
        if state.iterates is not None and self.gap(best.cost, best.bound) > self.tol:
            self.offer(state)

    def offer(self, state: ClusteringState) -> None:
        """Compute the cost of the current lengths, and keep them if they are the best so far."""
        assert state.iterates is not None
        graph, x = self.graph, state.iterates.v.image[: self.m]

        def add(low: int, high: int) -> float:
            total = 0.0
            while low < high:
                check_time()
                total, low = fractional_cost(low, high, graph.edges, x, graph.weights, total, SLICE)
            return total

        parts = self.pool.run(lambda r: add(*r), row_ranges(graph.n, 1, PARTS))
        state.best.offer(sum(parts, 0.0), x.copy())

    def dual_bound(self, state: ClusteringState) -> float:
        """Return the value of the flow."""
        assert state.iterates is not None
        return state.program.lower_bound(state.iterates.z.image, self.pool)

    def round(
        self, lengths: Floats, rng: np.random.Generator, *, trials: int, moves: bool
    ) -> tuple[Ints, float]:
        """Return clusters and their cost."""
        return round_clusters(self.graph, lengths, self.pool, trials=trials, moves=moves, rng=rng)

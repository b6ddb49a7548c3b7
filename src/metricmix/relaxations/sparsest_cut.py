"""The sparsest cut of a graph, with a certificate of how sparse any cut can be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricmix.exceptions import InputError
from metricmix.kernels.threads import Crew, threads_for
from metricmix.memory import check_room
from metricmix.relaxations.concurrent_flow import FlowLP
from metricmix.relaxations.local_cuts import CutGraph, sparse_cut
from metricmix.relaxations.result import Relaxation, RelaxationProgress, finished, relax
from metricmix.relaxations.signed_graph import LARGEST, WeightedGraph, read_weighted
from metricmix.solvers.loop import RunOptions, check_run_options
from metricmix.solvers.result import relative_gap
from metricmix.typing import Floats, Ints
from metricmix.validation import (
    as_float_array,
    check_integer,
    check_number,
    check_random_state,
)

__all__ = ["SparsestCut", "sparsest_cut"]


@dataclass(frozen=True)
class SparsestCut(Relaxation):
    """A cut of a graph, and a bound on how sparse any cut can be.

    Attributes
    ----------
    labels : (n,) array
        The side of every item, 0 or 1; the first item is on side 0.
    objective : float
        The ratio of the cut: capacity between its sides over the product of their demands.
    lower_bound : float
        No cut has a smaller ratio; nor does any metric.
    ratio : float
        ``objective / lower_bound``: at most so many times the ratio of the sparsest cut.
    lp_objective, gap : float
        What the fractional solution costs, and how far from the best one it may be, relatively.
    metric : (n, n) array
        The fractional solution: a metric whose sum, over pairs i < j and times their demands, is 1.
        Computed when asked for.
    edges, lengths : (m, 2) and (m,) arrays
        Its entries for the edges; all others are the shortest paths over these.
    nodes, demand : (n,) arrays
        Ids and demands of the items.
    n_iter, status, message, converged, trace
        How the bound came about, as for every :class:`~metricmix.nearness.Relaxation`.
    """

    labels: Ints = field(repr=False)
    objective: float
    lower_bound: float
    edges: Ints = field(repr=False)
    lengths: Floats = field(repr=False)
    nodes: NDArray[Any] = field(repr=False)
    demand: Floats = field(repr=False)

    @property
    def ratio(self) -> float:
        """The ratio of the cut over the lower bound; 1 if both are 0."""
        if self.objective <= self.lower_bound:
            return 1.0
        return self.objective / self.lower_bound if self.lower_bound > 0 else np.inf

    @cached_property
    def metric(self) -> Floats:
        """The fractional solution."""
        n = len(self.labels)
        check_room(
            8.0 * n * n,
            what=f"the metric of {n} items",
            instead="take `edges` and `lengths`, which say the same",
        )
        if self.objective == 0.0:  # the graph falls apart, and so does the metric
            product = float(np.prod([self.demand[self.labels == side].sum() for side in (0, 1)]))
            return np.where(self.labels[:, None] != self.labels, 1.0 / product, 0.0)
        return _path_metric(n, self.edges, self.lengths)


def sparsest_cut(
    graph: Any,
    *,
    nodes: Any = None,
    demand: ArrayLike | None = None,
    tol: float = 1e-4,
    trials: int = 20,
    moves: bool = True,
    random_state: Any = None,
    max_iter: int = 10_000,
    time_limit: float | None = None,
    callback: Callable[[RelaxationProgress], Any] | None = None,
    verbose: bool = False,
    n_jobs: int | None = None,
) -> SparsestCut:
    r"""Cut a graph where it is sparsest, and bound from below how sparse any cut can be.

    Edges have capacities :math:`c \ge 0`, items demands :math:`\delta > 0`:

    .. math:: \min_{\emptyset \ne S \ne V} \;
              \frac{\sum_{i \in S,\; j \notin S} c_{ij}}
                   {\sum_{i \in S} \delta_i \; \sum_{j \notin S} \delta_j}

    With demands of 1 that is the uniform sparsest cut, :math:`c(S, \bar S) / (|S|\, |\bar S|)`.
    Cuts are metrics with two values, up to their size. With any metric this is a linear program,

    .. math:: \min_x \; \sum_{i < j} c_{ij} x_{ij}, \qquad
              \sum_{i < j} \delta_i \delta_j\, x_{ij} = 1, \quad x_{ij} \le x_{ik} + x_{kj},

    whose dual, a concurrent flow, bounds the ratio of all cuts from below. It is solved over the
    edges only, shortest paths standing for all other pairs, and its solution is rounded to a cut.

    Parameters
    ----------
    graph : matrix, networkx or igraph graph, edge table
        As for :func:`~metricmix.dissimilarity.graphs.as_graph`, with weights >= 0 as capacities (1
        where there are none). Both directions of a pair must have the same weight, if both are
        there.
    nodes : sequence of ids, or int
        The ids in the order of the items; see there.
    demand : (n,) array, optional
        Demands of the items, > 0; default 1. Degrees make cuts of small conductance.
    tol : float
        Stop when the gap of the linear program, ``(lp_objective - lower_bound) / lp_objective``, is
        at most this.
    trials : int
        The metric is rounded by balls around every item, and around that many sets of items drawn
        at random.
    moves : bool
        Whether to improve cuts by moving single items.
    random_state : None, int or Generator
        Of the rounding.
    max_iter : int
        Rounds: each does some steps of the linear program and looks for shorter routes.
    time_limit : float, optional
        Seconds, looked at after every round.
    callback : callable, optional
        Called after every round with a :class:`~metricmix.nearness.RelaxationProgress`; stops the
        solver by returning True.
    verbose : bool
        Show progress on a terminal.
    n_jobs : int, optional
        Threads; None means all cores. No result depends on it.

    Returns
    -------
    SparsestCut
        With `labels`, `objective`, `lower_bound`, `ratio`, `lp_objective`, `gap`, `metric`,
        `status`, `trace`. Bounds and the cut hold however the run ended, Ctrl-C included.

    Raises
    ------
    InputError
        If an argument is not as it should be, or the problem does not fit into memory.

    Warns
    -----
    ConvergenceWarning
        If the gap is not reached.

    Notes
    -----
    Every pair of items has routes of its own: work and memory go with the square of the number of
    items, times the edges of a path. A graph that falls apart has a cut of ratio 0, at once.

    Examples
    --------
    >>> import networkx as nx, metricmix as mm
    >>> result = mm.nearness.sparsest_cut(nx.barbell_graph(4, 0), random_state=0)
    >>> result.labels.tolist(), result.objective  # two cliques of four, joined by an edge
    ([0, 0, 0, 0, 1, 1, 1, 1], 0.0625)
    >>> round(result.lower_bound, 4), round(result.ratio, 3)
    (0.0625, 1.0)
    """
    tol = check_number(tol, name="tol", low=0)
    trials = check_integer(trials, name="trials", low=0)
    limits: RunOptions = {"max_iter": max_iter, "time_limit": time_limit}
    check_run_options({**limits, "callback": callback})
    rng, _ = check_random_state(random_state)
    given = read_weighted(graph, nodes)
    demands = _check_demand(given, demand)
    problem = CutGraph.of(given, demands)
    with Crew(threads_for(given.n, n_jobs)) as crew:
        solver = FlowLP(problem, crew, tol=tol)
        status, n_iter, trace = relax(solver, limits, rng, callback=callback, verbose=verbose)
        labels, ratio = sparse_cut(
            problem, solver.lengths, crew, trials=trials, moves=moves, rng=rng
        )
    if solver.ratio <= ratio:
        labels, ratio = solver.labels, solver.ratio
    upper, lengths = solver.upper, solver.lengths
    if ratio < upper:  # a cut is a feasible point too
        upper, lengths = ratio, problem.lengths_of(labels)
    lower = min(solver.lower, upper)
    cost = float(given.weights @ lengths)
    result = SparsestCut(
        lp_objective=upper,
        gap=relative_gap(upper, lower, 0.0),
        n_iter=n_iter,
        status=status,
        trace=trace,
        labels=labels,
        objective=ratio,
        lower_bound=lower,
        edges=given.ends,
        lengths=lengths * (upper / cost) if cost > 0 else lengths,
        nodes=given.nodes,
        demand=demands,
    )
    return finished(result)


def _check_demand(graph: WeightedGraph, demand: ArrayLike | None) -> Floats:
    """Return the demands; raise if they, or the capacities, are not as they should be."""
    if graph.n < 2:
        raise InputError(
            argument="graph", expected="at least two items, one for each side, found 1"
        )
    if graph.weights.min(initial=0.0) < 0:
        e = int(graph.weights.argmin())
        i, j = graph.nodes[graph.ends[e]]
        raise InputError(
            argument="graph",
            expected=f"capacities >= 0, found {graph.weights[e]:g} between {i!s} and {j!s}",
            remedy="correlation_clustering and max_cut take weights of any sign",
        )
    if demand is None:
        return np.ones(graph.n)
    demands = as_float_array(demand, name="demand").astype(np.float64)
    if demands.shape != (graph.n,):
        raise InputError(
            argument="demand",
            expected=f"{graph.n} numbers, one per item",
            found=f"shape {demands.shape}",
        )
    sound = (demands >= 1.0 / LARGEST) & (demands <= LARGEST)
    if not sound.all():
        i = int(sound.argmin())
        raise InputError(
            argument="demand",
            expected=(
                f"numbers > 0, found {demands[i]:g} at {i} ({1.0 / LARGEST:g} to "
                f"{LARGEST:g} will do)"
            ),
        )
    return demands


def _path_metric(n: int, edges: Ints, lengths: Floats) -> Floats:
    """Return all shortest paths over edges with these lengths, which may be 0."""
    from metricmix.paths.all_pairs import project

    w = np.full((n, n), np.inf)
    np.fill_diagonal(w, 0.0)
    i, j = edges.T
    w[i, j] = w[j, i] = lengths
    return np.asarray(project(w))

"""Correlation clustering, with a certificate of how good any clustering can be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.symmetric import mirror
from metricmix.kernels.threads import Crew, in_threads, row_ranges, threads_for
from metricmix.memory import check_room
from metricmix.relaxations.cluster_rounding import lengths_of, round_to_clusters
from metricmix.relaxations.clustering_lp import ClusteringLP
from metricmix.relaxations.result import Relaxation, RelaxationProgress, finished, relax
from metricmix.relaxations.short_paths import fill_within
from metricmix.relaxations.signed_graph import Neighbours, read_signed
from metricmix.solvers.loop import RunOptions, check_run_options
from metricmix.solvers.result import relative_gap
from metricmix.typing import Floats, Ints
from metricmix.validation import check_integer, check_number, check_random_state

__all__ = ["CorrelationClustering", "correlation_clustering"]


@dataclass(frozen=True)
class CorrelationClustering(Relaxation):
    """Clusters of a signed graph, and a bound on what any clusters cost.

    Attributes
    ----------
    labels : (n,) array
        The cluster of every item, numbered in the order in which they appear.
    objective : float
        What the clusters cost: attraction cut and repulsion kept together.
    lower_bound : float
        No clusters cost less; nor does any metric with entries up to 1.
    ratio : float
        ``objective / lower_bound``: at most so many times the cost of the best clusters.
    lp_objective, gap : float
        What the fractional solution costs, and how far from the best one it may be, relatively.
    metric : (n, n) array
        The fractional solution: a metric with entries from 0 (together) to 1 (apart). Computed when
        asked for.
    edges, lengths : (m, 2) and (m,) arrays
        Its entries for the pairs that attract each other; all others are the shortest paths over
        these, or 1.
    nodes : (n,) array
        Ids of the items.
    n_iter, status, message, converged, trace
        How the bound came about, as for every :class:`~metricmix.nearness.Relaxation`.
    """

    labels: Ints = field(repr=False)
    objective: float
    lower_bound: float
    edges: Ints = field(repr=False)
    lengths: Floats = field(repr=False)
    nodes: NDArray[Any] = field(repr=False)

    @property
    def ratio(self) -> float:
        """The cost of the clusters over the lower bound; 1 if both are 0."""
        if self.objective <= self.lower_bound:
            return 1.0
        return self.objective / self.lower_bound if self.lower_bound > 0 else np.inf

    @property
    def n_clusters(self) -> int:
        """The number of clusters."""
        return int(self.labels.max()) + 1

    @cached_property
    def metric(self) -> Floats:
        """The fractional solution."""
        n = len(self.labels)
        check_room(
            8.0 * n * n,
            what=f"the metric of {n} items",
            instead="take `edges` and `lengths`, which say the same",
        )
        edges = Neighbours.of(n, *self.edges.T)
        out = np.empty((n, n))
        rows, threads = row_ranges(n, 1, 64), threads_for(n)
        lists = (edges.starts, edges.ends, edges.pairs, self.lengths)
        in_threads(lambda r: fill_within(*r, *lists, out), rows, threads)
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
    max_iter: int = 10_000,
    time_limit: float | None = None,
    callback: Callable[[RelaxationProgress], Any] | None = None,
    verbose: bool = False,
    n_jobs: int | None = None,
) -> CorrelationClustering:
    r"""Cluster the items of a signed graph, and bound from below what any clusters cost.

    Pairs with a weight > 0 attract each other and had better be together, pairs with a weight < 0
    repel each other and had better be apart:

    .. math:: \min_{\text{clusters}} \;
              \sum_{w_{ij} > 0,\; \text{apart}} w_{ij} +
              \sum_{w_{ij} < 0,\; \text{together}} |w_{ij}|

    Clusters are metrics with entries 0 (together) and 1 (apart). With any entries between 0 and 1
    this is a linear program,

    .. math:: \min_x \; \sum_{w > 0} w_{ij} x_{ij} + \sum_{w < 0} |w_{ij}| (1 - x_{ij}), \qquad
              x_{ij} \le x_{ik} + x_{kj}, \quad 0 \le x \le 1,

    whose duals bound the cost of all clusters from below. It is solved over the attracting pairs
    only, shortest paths standing for all others, and its solution is rounded to clusters.

    Parameters
    ----------
    graph : matrix, networkx or igraph graph, edge table
        As for :func:`~metricmix.dissimilarity.graphs.as_graph`, with weights of any sign. Both
        directions of a pair must have the same weight, if both are there.
    nodes : sequence of ids, or int
        The ids in the order of the items; see there.
    signs : {"auto", "given", "edges", "jaccard"}
        What weights of pairs are made of.

        - ``"given"``: the weights of the graph. Pairs without one neither attract nor repel.
        - ``"edges"``: the weight of an edge (1 where there are none), and ``-resolution`` (default
          -1) for all other pairs. With 1 that is cluster editing; with :math:`\lambda / (1 -
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
        Clusters are rounded that many times, and the best are kept.
    moves : bool
        Whether to improve each of them by moving single items.
    random_state : None, int or Generator
        Of the rounding, and of paths chosen between equals.
    max_iter : int
        Rounds: each looks for paths that are too short and does some steps of the linear program.
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
    CorrelationClustering
        With `labels`, `objective`, `lower_bound`, `ratio`, `lp_objective`, `gap`, `metric`,
        `status`, `trace`. Bounds and clusters hold however the run ended, Ctrl-C included.

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
    Work and memory go with the number of attracting pairs and of paths of two of them, not with all
    pairs; no n × n array is made unless the metric is asked for.

    Examples
    --------
    >>> import numpy as np, metricmix as mm
    >>> weights = np.array([[0, 2, 2, -1], [2, 0, 1, -1], [2, 1, 0, 1], [-1, -1, 1, 0]])
    >>> result = mm.nearness.correlation_clustering(weights, random_state=0)
    >>> result.labels.tolist(), result.objective  # 2 and 3 attract each other, but not enough
    ([0, 0, 0, 1], 1.0)
    >>> round(result.lower_bound, 3), round(result.ratio, 3)
    (1.0, 1.0)
    """
    tol = check_number(tol, name="tol", low=0)
    trials = check_integer(trials, name="trials", low=1)
    limits: RunOptions = {"max_iter": max_iter, "time_limit": time_limit}
    check_run_options({**limits, "callback": callback})
    rng, _ = check_random_state(random_state)
    signed = read_signed(graph, nodes, signs, resolution)
    with Crew(threads_for(signed.n, n_jobs)) as crew:
        solver = ClusteringLP(signed, crew, tol=tol)
        status, n_iter, trace = relax(solver, limits, rng, callback=callback, verbose=verbose)
        lengths = solver.finish()
        labels, cost = round_to_clusters(signed, lengths, crew, trials=trials, moves=moves, rng=rng)
    if solver.cost <= cost:
        labels, cost = solver.labels, solver.cost
    if cost < solver.upper:  # clusters are a feasible point too
        solver.upper, lengths = cost, lengths_of(signed, labels)
    lower = min(solver.lower, solver.upper)
    result = CorrelationClustering(
        lp_objective=solver.upper,
        gap=relative_gap(solver.upper, lower, solver.rounding),
        n_iter=n_iter,
        status=status,
        trace=trace,
        labels=labels,
        objective=cost,
        lower_bound=lower,
        edges=signed.ends,
        lengths=lengths,
        nodes=signed.nodes,
    )
    return finished(result)

"""The maximum cut of a weighted graph, with a certificate of how much any cut can hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from metricmix.kernels.threads import Crew, threads_for
from metricmix.relaxations.max_cut_lp import CutLP, best_two_sides, cut_lengths, gap_of
from metricmix.relaxations.result import Relaxation, RelaxationProgress, finished, relax
from metricmix.relaxations.signed_graph import read_weighted
from metricmix.solvers.loop import RunOptions, check_run_options
from metricmix.typing import Floats, Ints
from metricmix.validation import check_integer, check_number, check_random_state

__all__ = ["MaxCut", "max_cut"]


@dataclass(frozen=True)
class MaxCut(Relaxation):
    """A cut of a weighted graph, and a bound on what any cut holds.

    Attributes
    ----------
    labels : (n,) array
        The side of every item, 0 or 1; the first item is on side 0.
    objective : float
        The weight between the sides.
    upper_bound : float
        No cut holds more.
    ratio : float
        ``objective / upper_bound``: at least this share of the largest cut.
    lp_objective, gap : float
        The value of the fractional solution, and how far from the best one it may be, as a share
        of the upper bound (or of a millionth of all weight, if that is more).
    edges, lengths : (m, 2) and (m,) arrays
        The fractional solution on the edges: from 0 (together) to 1 (apart). It can be extended to
        all pairs such that all triangles and perimeters are kept.
    nodes : (n,) array
        Ids of the items.
    n_iter, status, message, converged, trace
        How the bound came about, as for every :class:`~metricmix.nearness.Relaxation`.
    """

    labels: Ints = field(repr=False)
    objective: float
    upper_bound: float
    edges: Ints = field(repr=False)
    lengths: Floats = field(repr=False)
    nodes: NDArray[Any] = field(repr=False)

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
    max_iter: int = 10_000,
    time_limit: float | None = None,
    callback: Callable[[RelaxationProgress], Any] | None = None,
    verbose: bool = False,
    n_jobs: int | None = None,
) -> MaxCut:
    r"""Cut a weighted graph where it holds most, and bound from above what any cut holds.

    Weights have any sign:

    .. math:: \max_{S \subseteq V} \; \sum_{i \in S,\; j \notin S} w_{ij}

    Cuts are metrics with entries 0 (together) and 1 (apart), and of three items at most two pairs
    are apart. With any entries this is a linear program over the metric polytope,

    .. math:: \max_x \; \sum_{i < j} w_{ij} x_{ij}, \qquad
              x_{ij} \le x_{ik} + x_{kj}, \quad x_{ij} + x_{jk} + x_{ik} \le 2,

    whose duals bound what all cuts hold from above. It is solved over the edges of the graph only,
    with a row for each cycle and odd number of its edges that matters, and its solution is rounded
    to a cut. On planar graphs the bound is the largest cut itself.

    Parameters
    ----------
    graph : matrix, networkx or igraph graph, edge table
        As for :func:`~metricmix.dissimilarity.graphs.as_graph`, with weights of any sign (1 where
        there are none). Both directions of a pair must have the same weight, if both are there.
    nodes : sequence of ids, or int
        The ids in the order of the items; see there.
    tol : float
        Stop when the gap of the linear program, ``(upper_bound - lp_objective) / upper_bound``, is
        at most this.
    trials : int
        Cuts are rounded that many times, and the best is kept.
    moves : bool
        Whether to improve each of them by moving single items.
    random_state : None, int or Generator
        Of the rounding.
    max_iter : int
        Rounds: each does some steps of the linear program and looks for broken cycles.
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
    MaxCut
        With `labels`, `objective`, `upper_bound`, `ratio`, `lp_objective`, `gap`, `lengths`,
        `status`, `trace`. Bounds and the cut hold however the run ended, Ctrl-C included.

    Raises
    ------
    InputError
        If an argument is not as it should be, or the problem does not fit into memory.

    Warns
    -----
    ConvergenceWarning
        If the gap is not reached.

    Examples
    --------
    >>> import networkx as nx, metricmix as mm
    >>> result = mm.nearness.max_cut(nx.cycle_graph(5), random_state=0)
    >>> result.objective, round(result.upper_bound, 3)  # an odd cycle: one edge stays
    (4.0, 4.0)
    """
    tol = check_number(tol, name="tol", low=0)
    trials = check_integer(trials, name="trials", low=1)
    limits: RunOptions = {"max_iter": max_iter, "time_limit": time_limit}
    check_run_options({**limits, "callback": callback})
    rng, _ = check_random_state(random_state)
    given = read_weighted(graph, nodes)
    with Crew(threads_for(given.n, n_jobs)) as crew:
        solver = CutLP(given, crew, tol=tol)
        status, n_iter, trace = relax(
            solver, limits, rng, callback=callback, verbose=verbose, maximise=True
        )
        labels, cut = best_two_sides(given, solver.x, crew, trials=trials, moves=moves, rng=rng)
    if solver.cut >= cut:
        labels, cut = solver.labels, solver.cut
    value, x = -solver.upper, solver.x
    if cut > value:  # a cut is a feasible point too
        value, x = cut, cut_lengths(given, labels)
    bound = max(-solver.lower, value)
    result = MaxCut(
        lp_objective=value,
        gap=gap_of(bound - value, bound, solver.size),
        n_iter=n_iter,
        status=status,
        trace=trace,
        labels=labels,
        objective=cut,
        upper_bound=bound,
        edges=given.ends,
        lengths=x,
        nodes=given.nodes,
    )
    return finished(result, maximise=True)

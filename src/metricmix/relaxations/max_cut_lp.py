r"""The linear relaxation of the maximum cut, over the edges of the graph.

.. math:: \max_x \; \sum_e w_e x_e \qquad
          \sum_{e \in C \setminus F} x_e + \sum_{e \in F} (1 - x_e) \ge 1
          \quad \text{for every cycle C, } F \subseteq C \text{ odd}, \qquad 0 \le x \le 1

What fulfils the rows of all cycles is exactly what can be extended to all pairs such that triangles
and perimeters, :math:`x_{ij} + x_{jk} + x_{ik} \le 2`, are kept (Barahona and Mahjoub): so the
problem has m variables only. Shortest paths in a doubled graph find the rows that matter
(:mod:`metricmix.relaxations.odd_cycles`); between such searches come some steps of the primal-dual
method (:mod:`~metricmix.relaxations.primal_dual`).

Any duals bound the maximum from above. A point x that lacks up to v of some row is drawn towards
1/2, where cycles have 3/2 at least: :math:`\tfrac12 + (x - \tfrac12) / (1 + 2 v)` lacks nothing.
"""

from __future__ import annotations

import math

import numpy as np

from metricmix.kernels.threads import Crew, row_ranges
from metricmix.memory import check_room
from metricmix.relaxations.local_cuts import flip_items, tree_cut
from metricmix.relaxations.odd_cycles import find_odd_cycles
from metricmix.relaxations.primal_dual import Clauses, PrimalDual
from metricmix.relaxations.result import Rounds, RoundState
from metricmix.relaxations.signed_graph import WeightedGraph
from metricmix.typing import Floats, Ints, Keys

__all__ = ["CutLP", "best_two_sides", "cut_lengths"]


STEPS = 40
"""Steps between searches."""

SMALL, HOP = 0.02, 0.05
"""A cycle counts if it is too short by the first share of the worst one; every edge looks longer by
the second, since short cycles are stronger rows and make lighter steps."""

LONGEST_WAIT = 8
"""Most rounds without a search, after searches that found nothing."""

TRIALS = 4
"""Cuts at the start."""

PARTS = 64
"""Ranges of items to search from."""

NEXT_TO_NOTHING = 1e-6
"""Share of all weight; bounds below that are compared with it instead of with each other."""

BYTES = 3000
"""Memory of an edge with its share of the rows, 700 to 2100 measured, and of copies of them."""


class CutLP(Rounds):
    """Rounds of searching and stepping; see the module. It minimises minus what is cut.

    Parameters
    ----------
    graph : WeightedGraph
    crew : Crew
    tol : float
        Gap to reach.

    Attributes
    ----------
    lower, upper : float
        Bounds of minus the largest value of the relaxation.
    x : (m,) array
        The feasible point of value ``-upper``.
    labels, cut : (n,) array, float
        The best cut met so far, and what it holds.
    """

    def __init__(self, graph: WeightedGraph, crew: Crew, *, tol: float) -> None:
        super().__init__(tol, -float(np.maximum(graph.weights, 0.0).sum()), -0.0)
        self.graph, self.crew = graph, crew
        self.m = len(graph.weights)
        check_room(
            BYTES * self.m, what=f"a graph of {self.m} edges", instead="leave out light edges"
        )
        self.size = float(np.abs(graph.weights).sum())
        # Everything on one side, until something better is known.
        self.labels, self.cut = np.zeros(graph.n, np.int32), 0.0
        self.x = np.zeros(self.m)
        self.lp = Clauses(-graph.weights)
        self.steps: PrimalDual | None = None
        self._worst, self._wait, self._waited = 1.0, 1, 0

    @property
    def gap(self) -> float:
        """The gap so far, as a share of the upper bound of what can be cut."""
        return gap_of(self.upper - self.lower, self.lower, self.size)

    @property
    def residual(self) -> float:
        """How far the last steps went."""
        return math.inf if self.steps is None else self.steps.residual

    def step(self, state: RoundState, iteration: int, rng: np.random.Generator) -> RoundState:
        """Do a round."""
        assert self.steps is not None
        self.steps.advance(STEPS)
        self._waited += 1
        if self._waited >= self._wait:
            self._waited = 0
            fresh = self._look(self.steps.v)
            self._wait = 1 if fresh else min(2 * self._wait, LONGEST_WAIT)
            if fresh:
                self.steps.extend(np.empty(0))
        return state

    def _update(self) -> None:
        """Bring the bound up to date."""
        if self.steps is None:
            self._begin()
        assert self.steps is not None
        z = self.steps.z
        # Rounding of sums over all entries, once more than there can be.
        loads = float(z @ np.diff(self.lp.starts)) if len(z) else 0.0
        rounding = 8.0 * float(np.finfo(np.float64).eps) * (self.size + loads)
        self._raise_to(self.lp.lower_bound(z, self.crew) - rounding)

    def _begin(self) -> None:
        """Start with a cut, and with every edge cut as its weight would have it."""
        graph = self.graph
        x = np.where(graph.weights > 0, 1.0, 0.0)
        self._round(x, TRIALS)
        self._look(x)
        self._look(2.0 / 3.0 * x)  # triangles of edges that want to be cut are kept, others not
        omega = float(np.median(np.abs(graph.weights))) if self.m else 1.0
        self.steps = PrimalDual(self.lp, x, np.zeros(len(self.lp)), omega, self.crew)

    def _look(self, x: Floats) -> int:
        """Add rows that x breaks, and keep what it becomes without; return how many are new."""
        tolerance = max(0.1 * self.tol, SMALL * self._worst)
        counts, terms, keys, _ = self._search(x, HOP * self._worst, tolerance)
        exact = self._search(x, 0.0, math.inf if len(counts) else tolerance)
        self._worst = exact[3]
        self._offer(x)
        self._round(x, 1)
        if not len(counts):
            counts, terms, keys, _ = exact
        chosen = self.lp.fresh(keys)
        if len(chosen):
            ends = np.cumsum(counts, dtype=np.int64)
            taken = [terms[ends[k] - counts[k] : ends[k]] for k in chosen]
            starts = np.concatenate([[0], np.cumsum(counts[chosen], dtype=np.int64)])
            self.lp.add(np.empty(0), starts, np.concatenate(taken), keys[chosen])
        return len(chosen)

    def _search(self, x: Floats, hop: float, tolerance: float) -> tuple[Ints, Ints, Keys, float]:
        """Return the odd cycles that x violates; see :mod:`metricmix.relaxations.odd_cycles`."""
        edges = (self.graph.edges.starts, self.graph.edges.ends, self.graph.edges.pairs, x)
        parts = self.crew.run(
            lambda r: find_odd_cycles(*r, *edges, hop, tolerance),
            row_ranges(self.graph.n, 1, PARTS),
        )
        *lists, worst = zip(*parts, strict=True)
        counts, terms, keys = (np.concatenate(list(parts)) for parts in lists)
        return counts, terms, keys, max(worst)

    def _round(self, x: Floats, trials: int) -> None:
        """Keep a cut made of x if it is the best so far; it is a feasible point too."""
        labels, cut = best_two_sides(
            self.graph, x, self.crew, trials=trials, moves=True, rng=self._rng
        )
        if cut > self.cut:
            self.labels, self.cut = labels, cut
        if -cut < self.upper:
            self.upper, self.x = -cut, cut_lengths(self.graph, labels)

    def _offer(self, x: Floats) -> None:
        """Keep x, drawn towards 1/2 until it breaks no row, if it is the best so far."""
        feasible = 0.5 + (x - 0.5) / (1.0 + 2.0 * self._worst)
        value = float(self.graph.weights @ feasible)
        if -value < self.upper:
            self.upper, self.x = -value, feasible


def gap_of(room: float, bound: float, size: float) -> float:
    """Return how far a point may be from the best one, as a share of the bound.

    Or of what is left of all weight, `size`, to speak of, where there is next to nothing to cut.
    """
    least = max(NEXT_TO_NOTHING * size, float(np.finfo(np.float64).tiny))
    return 0.0 if room <= 0.0 else room / max(abs(bound), least)


# -- large cuts of a weighted graph: rounded along trees of sure edges, improved by moving items


NOISE = 0.2
"""How unsure an edge may look at random in all trials but the first."""

PASSES, ROUNDING = 1000, 1e-12
"""Most passes over all items, and the share of all weight that a move must gain."""


def best_two_sides(
    graph: WeightedGraph,
    x: Floats,
    crew: Crew,
    *,
    trials: int,
    moves: bool,
    rng: np.random.Generator,
) -> tuple[Ints, float]:
    """Return the best cut of several trials, and what it cuts.

    Parameters
    ----------
    graph : WeightedGraph
    x : (m,) array
        How much of every edge is cut.
    trials : int
        Spanning trees, each of the edges that look surest.
    moves : bool
        Whether to move single items afterwards, while more is cut then.
    """
    n, m = graph.n, len(x)
    drawn = [
        (rng.permutation(n).astype(np.int32), (NOISE if trial else 0.0) * rng.random(m))
        for trial in range(trials)
    ]
    edges = (graph.edges.starts, graph.edges.ends, graph.edges.pairs)
    least = ROUNDING * float(np.abs(graph.weights).sum())

    def attempt(trial: tuple[Ints, Floats]) -> tuple[float, Ints]:
        order, extra = trial
        labels = np.empty(n, np.int32)
        tree_cut(order, *edges, x, extra, labels)
        for _ in range(PASSES if moves else 0):
            if not flip_items(order, *edges, graph.weights, least, labels):
                break
        return graph.weight_between(labels), labels

    cut, labels = max(crew.run(attempt, drawn), key=lambda found: found[0])
    if cut < 0.0:
        return np.zeros(n, np.int32), 0.0
    return labels if labels[0] == 0 else 1 - labels, cut


def cut_lengths(graph: WeightedGraph, labels: Ints) -> Floats:
    """Return the lengths of the edges that stand for a cut: 1 between its sides."""
    i, j = graph.ends.T
    return np.where(labels[i] != labels[j], 1.0, 0.0)

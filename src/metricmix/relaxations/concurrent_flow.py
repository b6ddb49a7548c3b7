r"""The linear relaxation of the sparsest cut, between lengths and flows.

.. math:: \min_x \; \sum_e c_e x_e \qquad \sum_{i < j} D_{ij}\, x_{ij} = 1, \quad
          x_{ij} \le x_{ik} + x_{kj}

Given lengths of the m edges, all other pairs had best be as far apart as these allow, so that
lengths x >= 0 of any size cost :math:`c^T x / \sum D_{ij} d_x(i, j)`, with d the shortest paths:
an upper bound. The dual is a concurrent flow: if every pair sends :math:`D_{ij}` over routes of any
kind, and no edge has more than t times its capacity to carry, then nothing costs less than 1 / t
(Leighton and Rao).

Lengths and routes play against each other (:mod:`~metricmix.relaxations.concurrent_flow`); between
some steps of theirs, shortest paths from every item find routes that are missing, and tell what the
lengths are worth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from metricmix.kernels.threads import Crew, row_ranges
from metricmix.memory import check_room
from metricmix.relaxations.flow_steps import (
    add_loads,
    find_routes,
    move_lengths,
    move_routes,
    move_times,
    share_evenly,
    weights_of,
    with_routes,
)
from metricmix.relaxations.local_cuts import CutGraph, sparse_cut
from metricmix.relaxations.primal_dual import ENOUGH, LONGEST, SOME
from metricmix.relaxations.result import Rounds, RoundState
from metricmix.relaxations.signed_graph import Neighbours
from metricmix.solvers.result import relative_gap
from metricmix.typing import Floats, Indices, Ints

__all__ = ["FlowLP", "RouteGame"]


STEPS = 40
"""Steps between searches."""

FIRST, STRETCH = 4, 2.0
"""Routes of a pair at the start: an edge with the largest load looks exp(STRETCH) times as long
then as one without any."""

FINER = 0.01
"""A route counts if it is shorter than others by this share of the gap."""

ROUTES, BYTES = 12, 32
"""Routes to have room for, per pair (2 on expanders, 10 on small worlds, were measured), and the
memory of one without its edges."""


class FlowLP(Rounds):
    """Rounds of searching and stepping; see the module.

    Parameters
    ----------
    graph : CutGraph
    crew : Crew
    tol : float
        Gap to reach.

    Attributes
    ----------
    lower, upper : float
        Bounds of the least cost of the relaxation.
    lengths : (m,) array
        Lengths of the edges that cost `upper`, once scaled; all 0 where the graph falls apart.
    labels, ratio : (n,) array, float
        The cut that was the first feasible point.
    """

    def __init__(self, graph: CutGraph, crew: Crew, *, tol: float) -> None:
        check_room(
            0.5 * graph.n**2 * ROUTES * (BYTES + 8.0 * graph.hops) if graph.is_connected else 0.0,
            what=f"a graph of {graph.n} items, with routes between all of them,",
            instead="cut a part of it, or put items together",
        )
        self.graph, self.crew = graph, crew
        # The first item by itself, until something better is known.
        self.labels = np.minimum(np.arange(graph.n, dtype=np.int32), 1)
        self.ratio = graph.ratio_of(self.labels)
        super().__init__(tol, 0.0, self.ratio)
        self.lengths = graph.lengths_of(self.labels)
        self.game: RouteGame | None = None

    @property
    def gap(self) -> float:
        """The gap so far."""
        return relative_gap(self.upper, self.lower, 0.0)

    @property
    def residual(self) -> float:
        """How far the last steps went."""
        return math.inf if self.game is None else self.game.residual

    def step(self, state: RoundState, iteration: int, rng: np.random.Generator) -> RoundState:
        """Do a round."""
        assert self.game is not None
        self.game.advance(STEPS)
        self._look(self.game, FINER * min(self.gap, 1.0))
        return state

    def _update(self) -> None:
        """Bring the lower bound up to date."""
        if self.game is None:
            self._begin()
        if self.game is not None:
            self._bound(self.game)

    def _begin(self) -> None:
        """Start with a cut, and with a few routes for every pair around edges with much load."""
        graph = self.graph
        self.labels, self.ratio = sparse_cut(
            graph, np.ones(graph.m), self.crew, trials=0, moves=True, rng=self._rng
        )
        if self.ratio < self.upper:
            self.upper, self.lengths = self.ratio, graph.lengths_of(self.labels)
        if not graph.is_connected:
            return
        game = RouteGame(graph.edges, graph.c, graph.demand, self.crew)
        for _ in range(FIRST):
            self._look(game, 0.0)
            game.share_evenly()
            congestion = self._bound(game)
            game.x = np.exp(STRETCH * congestion / congestion.max())
            game.x *= graph.m / float(graph.c @ game.x)
        game.restart()
        self.game = game

    def _look(self, game: RouteGame, tolerance: float) -> None:
        """Add routes; keep the lengths if they are the best so far."""
        closed, total = game.search(tolerance)
        cost = self.graph.unit * float(self.graph.c @ closed) / total if total > 0 else math.inf
        if cost < self.upper:
            self.upper, self.lengths = cost, closed

    def _bound(self, game: RouteGame) -> Floats:
        """Raise the lower bound if the flow allows it; return load over capacity."""
        congestion, sent, routes = game.congestion()
        # A sum of so many terms >= 0 is off by this share at most.
        rounding = (routes + self.graph.n) * float(np.finfo(np.float64).eps)
        bound = self.graph.unit * sent / float(congestion.max()) * (1.0 - 2.0 * rounding)
        self._raise_to(bound)
        return congestion


# -- the game of lengths against routes, whose value is the linear program of the sparsest cut --


PARTS, FEW = 16, 128
"""Parts of the pairs; fixed, so that sums do not depend on the threads. One up to FEW items."""

OMEGA = 0.1
"""Size of shares over that of lengths to start with, for demands and capacities of 1."""

Z, ANCHOR, MOVED = 0, 1, 2
"""Rows of the shares: where the steps are, where they are drawn back to, where the last one led."""


@dataclass
class Part:
    """The routes of the pairs (i, j), j < i, low <= i < high; see the kernels."""

    low: int
    high: int
    routes: Indices
    starts: Indices
    path: Ints
    shares: Floats

    @classmethod
    def without_routes(cls, low: int, high: int) -> Part:
        """Return the pairs of some rows."""
        pairs = (high * (high - 1) - low * (low - 1)) // 2
        empty = np.zeros(pairs + 1, np.int64), np.zeros(1, np.int64), np.empty(0, np.int32)
        return cls(low, high, *empty, np.empty((3, 0)))


class RouteGame:
    """The iterates of both sides; see the module.

    Parameters
    ----------
    edges : Neighbours
        A connected graph.
    c : (m,) array
        Capacities, 1 in the mean.
    demand : (n,) array
        What items have to send and to receive, 1 in the mean.
    crew : Crew

    Attributes
    ----------
    x : (m,) array
        Lengths where the last step led.
    """

    def __init__(self, edges: Neighbours, c: Floats, demand: Floats, crew: Crew) -> None:
        self.edges, self.c, self.demand, self.crew = edges, c, demand, crew
        n = len(edges)
        ranges = row_ranges(n, 1, PARTS if n > FEW else 1, triangle=True)
        self.parts = [Part.without_routes(*rows) for rows in ranges]
        self.x = np.ones(len(c))
        self.omega, self.steps, self.residual = OMEGA, 0, math.inf

    def search(self, tolerance: float) -> tuple[Floats, float]:
        """Add routes that are shorter than all a pair has, by a share of its length.

        Return how far the ends of every edge are apart, and the sum of demand times distance.
        """
        closed = np.empty(len(self.x))
        graph = (self.edges.starts, self.edges.ends, self.edges.pairs, self.x, self.demand)

        def look(part: Part) -> float:
            known = (part.routes, part.starts, part.path)
            *found, total = find_routes(part.low, part.high, *graph, *known, tolerance, closed)
            if len(found[0]):
                part.routes, part.starts, part.path, part.shares = with_routes(
                    *known, part.shares, *found
                )
            return float(total)

        return closed, sum(self.crew.run(look, self.parts), 0.0)

    def share_evenly(self) -> None:
        """Share out what pairs send over their routes, and anchor both sides there."""
        for part in self.parts:
            rows = (part.low, part.high, self.demand, part.routes)
            share_evenly(*rows, part.shares[MOVED])
        self.restart()

    def restart(self) -> None:
        """Anchor everything where it is."""
        self._x, self._x_anchor = self.x.copy(), self.x.copy()
        self._ahead = np.empty(len(self.x))
        for part in self.parts:
            part.shares[Z] = part.shares[ANCHOR] = part.shares[MOVED]
        self._since = 0
        self._first: float | None = None

    def congestion(self) -> tuple[Floats, float, int]:
        """Return load over capacity of every edge where the last step led.

        And the least share of its demand that a pair sends, and the number of routes.
        """

        def load(part: Part) -> tuple[Floats, float]:
            out = np.zeros(len(self.c))
            add_loads(part.starts, part.path, part.shares[MOVED], out)
            return out, self._weights(part)[2]

        loads, sent = zip(*self.crew.run(load, self.parts), strict=True)
        return sum(loads) / self.c, min(sent), sum(len(part.starts) - 1 for part in self.parts)

    def advance(self, steps: int) -> None:
        """Do that many steps, and restart if it is time to."""
        first, last = self._since, self._since + steps
        loads, counts = self._begin()
        lengths = (self._x, self._x_anchor, self._ahead, self.x)
        if len(self.parts) == 1:
            (part,) = self.parts
            routes = (part.low, part.high, self.demand, part.routes, part.starts, part.path)
            far_x, far_z = move_times(
                *(*routes, *part.shares, self.c, counts, loads[0], *lengths),
                *(self.omega, first, last),
            )
        else:
            for k in range(first, last):
                a = (k + 1.0) / (k + 2.0)
                far_x = move_lengths(self.c, counts, loads.sum(axis=0), *lengths, self.omega, a)
                far_z = self._step(loads, a)
        self._since, self.steps = last, self.steps + steps
        before, self.residual = self.residual, self.omega * far_x + far_z / self.omega
        if self._first is None:
            self._first = self.residual
        fallen = self.residual <= ENOUGH * self._first
        rising = self.residual <= SOME * self._first and self.residual > before
        if fallen or rising or self._since >= LONGEST * self.steps:
            self._reweigh(counts)
            self.restart()

    def _begin(self) -> tuple[Floats, Floats]:
        """Return loads, part by part, and the sums of demands of routes over every edge."""
        loads = np.zeros((len(self.parts), len(self.c)))
        counts = np.zeros(loads.shape)

        def load(k: int) -> None:
            part = self.parts[k]
            add_loads(part.starts, part.path, part.shares[Z], loads[k])
            add_loads(part.starts, part.path, self._weights(part)[0], counts[k])

        self.crew.run(load, range(len(self.parts)))
        return loads, np.maximum(counts.sum(axis=0), 1.0)  # some edges are on no route yet

    def _step(self, loads: Floats, a: float) -> float:
        def move(k: int) -> float:
            part = self.parts[k]
            routes = (part.low, part.high, self.demand, part.routes, part.starts, part.path)
            far: float = move_routes(*routes, self._ahead, *part.shares, loads[k], self.omega, a)
            return far

        return sum(self.crew.run(move, range(len(self.parts))), 0.0)

    def _weights(self, part: Part) -> tuple[Floats, Floats, float]:
        """Return for every route the demand of its pair and h / D, and the least share sent."""
        amounts, scales = np.empty(part.shares.shape[1]), np.empty(part.shares.shape[1])
        rows = (part.low, part.high, self.demand, part.routes, part.starts)
        least = weights_of(*rows, part.shares[MOVED], amounts, scales)
        return amounts, scales, least

    def _reweigh(self, counts: Floats) -> None:
        """Let both sides go as far, in the mean of what this run says and those before said."""
        far_x = float(np.sum(counts * (self.x - self._x_anchor) ** 2))
        far_z = 0.0
        for part in self.parts:
            change = part.shares[MOVED] - part.shares[ANCHOR]
            far_z += float(np.sum(self._weights(part)[1] * change**2))
        if far_x > 0.0 and far_z > 0.0:
            self.omega = math.sqrt(self.omega * math.sqrt(far_z / far_x))

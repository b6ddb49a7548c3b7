r"""The linear relaxation of the sparsest cut, between lengths and flows.

.. math:: \min_x \; \sum_e c_e x_e \qquad \sum_{i < j} D_{ij}\, x_{ij} = 1, \quad
          x_{ij} \le x_{ik} + x_{kj}

Given lengths of the m edges, all other pairs had best be as far apart as these allow, so that
lengths x >= 0 of any size cost :math:`c^T x / \sum D_{ij} d_x(i, j)`, with d the shortest paths:
an upper bound. The dual is a concurrent flow: if every pair sends :math:`D_{ij}` over routes of any
kind, and no edge has more than t times its capacity to carry, then nothing costs less than 1 / t
(Leighton and Rao).

Lengths and routes play against each other (:mod:`~metricmix.nearness.relaxations.routes`); between
some steps of theirs, shortest paths from every item find routes that are missing, and tell what the
lengths are worth.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.threads import Crew
from metricmix.memory import check_room
from metricmix.nearness.relaxations.cuts import CutGraph, sparse_cut
from metricmix.nearness.relaxations.rounds import Rounds, RoundState
from metricmix.nearness.relaxations.routes import RouteGame
from metricmix.nearness.result import relative_gap

__all__ = ["FlowLP"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

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

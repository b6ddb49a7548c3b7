r"""The game of lengths against routes, whose value is the linear program of the sparsest cut.

.. math:: \max_{x \ge 0,\; c^T x = c^T 1} \;\; \min_{z \ge 0,\; \sum_{P \text{ of } p} z_P = D_p}
          \;\; \sum_P z_P \sum_{e \in P} x_e

Routes are added as shorter ones are found, and forgotten when nothing goes over them. The steps of
:mod:`metricmix.kernels.route_steps` are reflected and drawn back to an anchor, with restarts and a
weight :math:`\omega` between both sides as in :mod:`~metricmix.nearness.relaxations.primal_dual`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.route_steps import (
    add_loads,
    move_lengths,
    move_routes,
    move_times,
    share_evenly,
    weights_of,
)
from metricmix.kernels.routes import find_routes, with_routes
from metricmix.kernels.threads import Crew, row_ranges
from metricmix.nearness.relaxations.primal_dual import ENOUGH, LONGEST, SOME
from metricmix.nearness.relaxations.signed_graph import Neighbours

__all__ = ["RouteGame"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Starts = NDArray[np.int64]

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
    routes: Starts
    starts: Starts
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

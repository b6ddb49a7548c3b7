r"""Maximum concurrent flow over given paths, by restarted primal-dual steps.

Every pair p = (i, j) of nodes sends :math:`D_p = \delta_i \delta_j` over paths P, split by
:math:`z \ge 0`, :math:`\sum_{P \text{ of } p} z_P = D_p`. The dual variables are edge lengths
:math:`x \ge 0` with :math:`\sum_e c_e x_e` given:

.. math:: \max_x \min_z \; \sum_P z_P \sum_{e \in P} x_e

A step from (x, z), with the load :math:`L_e = \sum_{P \ni e} z_P` of each edge, goes to

.. math:: x' = \mathrm{proj}\bigl(x + \tfrac{1}{\omega\, n_e} L\bigr), \qquad
          z' = \mathrm{proj}\bigl(z - \tfrac{\omega D_p}{h_p} (2 x' - x)(P)\bigr)

where :math:`n_e` is the sum of :math:`D_p` over all paths with e and :math:`h_p` the largest number
of edges of a path of p. Steps are reflected, averaged with an anchor and restarted, as in
:mod:`metricmix.relaxations.primal_dual`. Shortest paths for the lengths x give the paths that are
missing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from metricmix.kernels.compile import kernel
from metricmix.kernels.deadline import check_time
from metricmix.kernels.threads import ThreadPool, row_ranges
from metricmix.relaxations.flow_paths import (
    Paths,
    add_loads,
    add_paths,
    find_shorter_paths,
    path_scales,
    split_evenly,
)
from metricmix.relaxations.graph_search import SLICE
from metricmix.relaxations.iterates import DualIterate, PrimalIterate, Restarts
from metricmix.relaxations.weighted_graphs import DemandNetwork
from metricmix.typing import Floats

__all__ = [
    "ConcurrentFlow",
    "FlowState",
    "flow_steps",
    "project_to_simplex",
    "step_flows",
    "step_lengths",
]


# -- kernels: steps -----------------------------------------------------------------------------


@kernel
def project_to_simplex(y: Floats, amount: float, room: Floats) -> None:
    """Replace y by the nearest point with entries >= 0 and this sum; `room` is work space."""
    size = y.shape[0]
    for k in range(size):  # insertion sort, in descending order: pairs have few paths
        value, t = y[k], k
        while t > 0 and room[t - 1] < value:
            room[t] = room[t - 1]
            t -= 1
        room[t] = value
    total, level = 0.0, 0.0
    for k in range(size):
        total += room[k]
        lower = (total - amount) / (k + 1)
        if room[k] <= lower:
            break
        level = lower
    for k in range(size):
        y[k] = max(0.0, y[k] - level)


@kernel
def step_flows(
    paths: Paths,
    demand: Floats,
    x: Floats,
    z: DualIterate,
    loads: Floats,
    omega: float,
    a: float,
) -> float:
    """Step of the flows, with the extrapolated lengths x; `loads` receives the loads of z.

    Return the sum of h_p (z' - z)^2 / D_p.
    """
    loads[:] = 0.0
    room = np.empty(64)
    total = 0.0
    p = 0
    starts, edges = paths.starts, paths.edges
    for i in range(paths.low, paths.high):
        for j in range(i):
            first, last = paths.first[p], paths.first[p + 1]
            p += 1
            amount = demand[i] * demand[j]
            if last == first + 1:
                for t in range(starts[first], starts[last]):
                    loads[edges[t]] += amount
                continue
            hops = 0
            for r in range(first, last):
                hops = max(hops, starts[r + 1] - starts[r])
            for r in range(first, last):
                length = 0.0
                for t in range(starts[r], starts[r + 1]):
                    length += x[edges[t]]
                z.image[r] = z.current[r] - omega * amount * length / hops
            while room.shape[0] < last - first:
                room = np.empty(2 * room.shape[0])
            project_to_simplex(z.image[first:last], amount, room)
            for r in range(first, last):
                y, before = z.image[r], z.current[r]
                total += hops * (y - before) * (y - before) / amount
                after = a * (2.0 * y - before) + (1.0 - a) * z.anchor[r]
                z.current[r] = after
                if after != 0.0:
                    for t in range(starts[r], starts[r + 1]):
                        loads[edges[t]] += after
    return total


@kernel
def step_lengths(
    c: Floats, counts: Floats, loads: Floats, x: PrimalIterate, omega: float, a: float
) -> float:
    """Step of the lengths, which keeps the sum of c x'; return the sum of n_e (x' - x)^2."""
    m = c.shape[0]
    moved = x.image
    for e in range(m):
        moved[e] = x.current[e] + loads[e] / (omega * counts[e])
    # x' = max(0, moved - level c / n). The sum of c x' is convex and decreasing in the level, so
    # Newton's method from below increases the level to the solution and stops there.
    wanted, level, tried = float(np.sum(c)), -np.inf, 0
    while tried < 200:
        total, slope = -wanted, 0.0
        for e in range(m):
            if moved[e] * counts[e] > level * c[e]:
                total += c[e] * moved[e]
                slope += c[e] * c[e] / counts[e]
        higher = total / slope
        if higher <= level:
            break
        level = higher
        tried += 1
    total = 0.0
    for e in range(m):
        y, before = max(0.0, moved[e] - level * c[e] / counts[e]), x.current[e]
        moved[e] = y
        total += counts[e] * (y - before) * (y - before)
        x.extrapolated[e] = 2.0 * y - before
        x.current[e] = a * x.extrapolated[e] + (1.0 - a) * x.anchor[e]
    return total


@kernel
def flow_steps(
    paths: Paths,
    demand: Floats,
    z: DualIterate,
    c: Floats,
    counts: Floats,
    loads: Floats,
    x: PrimalIterate,
    omega: float,
    first: int,
    last: int,
) -> tuple[float, float]:
    """Take the steps first .. last - 1 since the anchor, with one set of paths.

    Return the sums of :func:`step_lengths` and :func:`step_flows` of the last one.
    """
    primal, dual = 0.0, 0.0
    for k in range(first, last):
        a = (k + 1.0) / (k + 2.0)
        primal = step_lengths(c, counts, loads, x, omega, a)
        dual = step_flows(paths, demand, x.extrapolated, z, loads, omega, a)
    return primal, dual


# -- the method ---------------------------------------------------------------------------------


PARTS, SMALL = 16, 128
"""Parts of the pairs, fixed, so that sums do not depend on the threads; one up to SMALL nodes."""

CURRENT, ANCHOR, IMAGE = 0, 1, 2
"""Rows of the flow of a part, in the order of `DualIterate`."""


@dataclass
class FlowState:
    """Lengths and flows; :meth:`ConcurrentFlow.advance` updates them in place.

    Attributes
    ----------
    x : PrimalIterate
        Lengths of the edges; `x.image` is the solution so far.
    paths : list of Paths
        The paths found so far, in parts.
    flows : list of (3, paths) arrays
        Their flows.
    restarts : Restarts
    """

    x: PrimalIterate
    paths: list[Paths]
    flows: list[Floats]
    restarts: Restarts


class ConcurrentFlow:
    """Primal-dual steps for the flow of a connected network; see the module."""

    def __init__(self, network: DemandNetwork, pool: ThreadPool) -> None:
        self.graph, self.pool = network.graph.edges, pool
        self.c, self.demand = network.capacity, network.demand

    def init(self) -> FlowState:
        """Return lengths of 1, without any paths."""
        n = len(self.demand)
        ranges = row_ranges(n, 1, PARTS if n > SMALL else 1, triangle=True)
        paths = [Paths.empty(*rows) for rows in ranges]
        flows = [np.empty((3, 0)) for _ in ranges]
        x = PrimalIterate.anchored(np.ones(len(self.c)))
        omega = 0.1  # primal weight at the start, for demands and capacities with a mean of 1
        return FlowState(x, paths, flows, Restarts(omega))

    def search(self, state: FlowState, tolerance: float) -> tuple[Floats, float]:
        """Add the shortest path of each pair, if it is shorter than all its paths by this share.

        Return the distance between the ends of each edge, and the sum of demand times distance.
        """
        closed = np.empty(len(self.c))
        rows = max(1, SLICE // len(self.demand))

        def search_part(k: int) -> float:
            paths, total = state.paths[k], 0.0
            parts = []
            for low in range(paths.low, paths.high, rows):
                check_time()
                *part, total = find_shorter_paths(
                    *(paths, low, min(low + rows, paths.high), self.graph, state.x.image),
                    *(self.demand, tolerance, closed, total),
                )
                parts.append(part)
            found = [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]
            if len(found[0]):
                *arrays, flow = add_paths(paths, state.flows[k], *found)
                state.paths[k], state.flows[k] = Paths(paths.low, paths.high, *arrays), flow
            return float(total)

        return closed, sum(self.pool.run(search_part, range(len(state.paths))), 0.0)

    def split_evenly(self, state: FlowState) -> None:
        """Split all demands evenly over the paths."""
        for paths, flow in zip(state.paths, state.flows, strict=True):
            split_evenly(paths, self.demand, flow[IMAGE])

    def restart(self, state: FlowState, x: Floats, counts: Floats | None = None) -> None:
        """Set the anchors to x and to the flows so far; update the primal weight with `counts`."""
        primal, dual = 0.0, 0.0
        if counts is not None:
            primal = float(np.sum(counts * (x - state.x.anchor) ** 2))
            for k, flow in enumerate(state.flows):
                change = flow[IMAGE] - flow[ANCHOR]
                dual += float(np.sum(self._scales(state, k)[1] * change**2))
        state.restarts.restart(primal, dual)
        state.x = PrimalIterate.anchored(x)
        for flow in state.flows:
            flow[CURRENT] = flow[ANCHOR] = flow[IMAGE]

    def congestion(self, state: FlowState) -> tuple[Floats, float]:
        """Return load over capacity of each edge, and the least share that a pair sends."""

        def load(k: int) -> tuple[Floats, float]:
            out = np.zeros(len(self.c))
            add_loads(state.paths[k], state.flows[k][IMAGE], out)
            return out, self._scales(state, k)[2]

        loads, sent = zip(*self.pool.run(load, range(len(state.paths))), strict=True)
        return sum(loads) / self.c, min(sent)

    def advance(self, state: FlowState, steps: int) -> None:
        """Take some steps, and restart if that is due."""
        restarts, parts, x = state.restarts, range(len(state.paths)), state.x
        omega, first, last = restarts.omega, restarts.since, restarts.since + steps
        loads, counts = np.zeros((2, len(parts), len(self.c)))
        flows = [DualIterate(*flow) for flow in state.flows]

        def load(k: int) -> None:
            add_loads(state.paths[k], flows[k].current, loads[k])
            add_loads(state.paths[k], self._scales(state, k)[0], counts[k])

        def step(a: float) -> tuple[float, float]:
            primal = step_lengths(self.c, sums, loads.sum(axis=0), x, omega, a)
            dual = self.pool.run(
                lambda k: step_flows(
                    state.paths[k], self.demand, x.extrapolated, flows[k], loads[k], omega, a
                ),
                parts,
            )
            return primal, sum(dual, 0.0)

        self.pool.run(load, parts)
        sums = np.maximum(counts.sum(axis=0), 1.0)  # some edges are not on any path yet
        if len(parts) == 1:
            primal, dual = flow_steps(
                state.paths[0],
                *(self.demand, flows[0], self.c, sums, loads[0], x, omega, first, last),
            )
        else:
            for k in range(first, last):
                primal, dual = step((k + 1.0) / (k + 2.0))
        if restarts.is_due(steps, primal, dual):
            self.restart(state, x.image, sums)

    def _scales(self, state: FlowState, k: int) -> tuple[Floats, Floats, float]:
        """Return D_p and h_p / D_p of every path of a part, and the least share sent."""
        image = state.flows[k][IMAGE]
        amounts, scales = np.empty(len(image)), np.empty(len(image))
        least = path_scales(state.paths[k], self.demand, image, amounts, scales)
        return amounts, scales, least

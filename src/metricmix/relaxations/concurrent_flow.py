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
from typing import NamedTuple

import numpy as np

from metricmix.kernels.compile import kernel
from metricmix.kernels.threads import ThreadPool, check_time, row_ranges
from metricmix.relaxations.graph_search import SLICE, Adjacency, SearchTree, doubled, search_tree
from metricmix.relaxations.primal_dual import DualIterate, PrimalIterate, Restarts
from metricmix.relaxations.weighted_graphs import DemandNetwork
from metricmix.typing import Floats, Indices, Ints

__all__ = [
    "ConcurrentFlow",
    "FlowState",
    "Paths",
    "add_loads",
    "add_paths",
    "find_shorter_paths",
    "flow_steps",
    "path_scales",
    "project_to_simplex",
    "split_evenly",
    "step_flows",
    "step_lengths",
]


# -- kernels: paths -----------------------------------------------------------------------------


class Paths(NamedTuple):
    """The paths of the pairs (i, j), low <= i < high and j < i, pair by pair.

    Attributes
    ----------
    low, high : int
    first : (pairs + 1,) array
        Pair p has the paths ``first[p]`` to ``first[p + 1] - 1``.
    starts, edges : (paths + 1,) and (sum of sizes,) arrays
        Path r has the edges ``edges[starts[r]:starts[r + 1]]``.
    """

    low: int
    high: int
    first: Indices
    starts: Indices
    edges: Ints

    @classmethod
    def empty(cls, low: int, high: int) -> Paths:
        """Return pairs without any path."""
        pairs = (high * (high - 1) - low * (low - 1)) // 2
        first, starts = np.zeros(pairs + 1, np.int64), np.zeros(1, np.int64)
        return cls(low, high, first, starts, np.empty(0, np.int32))


@kernel
def find_shorter_paths(
    paths: Paths,
    low: int,
    high: int,
    graph: Adjacency,
    x: Floats,
    demand: Floats,
    tolerance: float,
    closed: Floats,
    total: float,
) -> tuple[Indices, Ints, Ints, float]:
    """Return the shortest paths of pairs (i, j), low <= i < high, whose paths are all longer.

    They must be shorter by more than the share `tolerance`. `closed` receives the distance between
    the ends of each edge (i, j), low <= i < high and j < i.

    Returns
    -------
    pairs : (T,) array
        The pair of every new path, ascending.
    counts, found : (T,) and (sum of counts,) arrays
        The edges of every new path.
    total : float
        The given total plus the sum of demand times distance over all these pairs.
    """
    n = graph.starts.shape[0] - 1
    tree = SearchTree(
        np.empty(n),
        np.empty(n, np.int32),
        np.full(n, -1, np.int32),
        np.empty(n, np.int32),
        np.empty(n, np.int32),
    )
    pairs, counts = np.empty(256, np.int64), np.empty(256, np.int32)
    found = np.empty(1024, np.int32)
    count, used = 0, 0
    p = (low * (low - 1) - paths.low * (paths.low - 1)) // 2
    for i in range(low, high):
        tree.dist[:] = np.inf
        search_tree(i, graph, x, tree)
        for t in range(graph.starts[i], graph.starts[i + 1]):
            if graph.ends[t] < i:
                closed[graph.edges[t]] = tree.dist[graph.ends[t]]
        row = 0.0
        for j in range(i):
            row += demand[j] * tree.dist[j]
            best = np.inf
            for r in range(paths.first[p], paths.first[p + 1]):
                length = 0.0
                for t in range(paths.starts[r], paths.starts[r + 1]):
                    length += x[paths.edges[t]]
                best = min(best, length)
            if tree.dist[j] < best * (1.0 - tolerance):
                hops, v = 0, j
                while v != i:
                    hops += 1
                    v = tree.parent[v]
                if count == counts.shape[0]:
                    pairs, counts = doubled(pairs), doubled(counts)
                while used + hops > found.shape[0]:
                    found = doubled(found)
                pairs[count], counts[count] = p, hops
                count += 1
                v = j
                while v != i:
                    found[used] = tree.edge[v]
                    used += 1
                    v = tree.parent[v]
            p += 1
        total += demand[i] * row
    return pairs[:count], counts[:count], found[:used], total


@kernel
def add_paths(
    paths: Paths, flow: Floats, pairs: Indices, counts: Ints, found: Ints
) -> tuple[Indices, Indices, Ints, Floats]:
    """Return `first`, `starts`, `edges` and the flow with new paths, each the last of its pair.

    `flow` has a column per path. New columns are 0; old paths whose column is 0 are dropped.
    """
    kept, size = pairs.shape[0], found.shape[0]
    for r in range(flow.shape[1]):
        if flow[:, r].any():
            kept += 1
            size += paths.starts[r + 1] - paths.starts[r]
    first, starts = np.zeros_like(paths.first), np.zeros(kept + 1, np.int64)
    edges, new_flow = np.empty(size, np.int32), np.zeros((flow.shape[0], kept))
    count, used, k, at = 0, 0, 0, 0
    for p in range(first.shape[0] - 1):
        for r in range(paths.first[p], paths.first[p + 1]):
            if not flow[:, r].any():
                continue
            for t in range(paths.starts[r], paths.starts[r + 1]):
                edges[used] = paths.edges[t]
                used += 1
            new_flow[:, count] = flow[:, r]
            count += 1
            starts[count] = used
        if k < pairs.shape[0] and pairs[k] == p:
            for _ in range(counts[k]):
                edges[used] = found[at]
                used += 1
                at += 1
            k += 1
            count += 1
            starts[count] = used
        first[p + 1] = count
    return first, starts, edges, new_flow


@kernel
def add_loads(paths: Paths, z: Floats, loads: Floats) -> None:
    """Add the flow z of every path to the loads of its edges."""
    for r in range(z.shape[0]):
        if z[r] != 0.0:
            for t in range(paths.starts[r], paths.starts[r + 1]):
                loads[paths.edges[t]] += z[r]


@kernel
def split_evenly(paths: Paths, demand: Floats, z: Floats) -> None:
    """Write the flow that splits the demand of each pair evenly over its paths."""
    p = 0
    for i in range(paths.low, paths.high):
        for j in range(i):
            first, last = paths.first[p], paths.first[p + 1]
            for r in range(first, last):
                z[r] = demand[i] * demand[j] / (last - first)
            p += 1


@kernel
def path_scales(paths: Paths, demand: Floats, z: Floats, amounts: Floats, scales: Floats) -> float:
    """Write D_p and h_p / D_p for every path; return the least share of its demand a pair sends."""
    least, p = 1.0, 0
    for i in range(paths.low, paths.high):
        for j in range(i):
            amount, hops, sent = demand[i] * demand[j], 0, 0.0
            for r in range(paths.first[p], paths.first[p + 1]):
                hops = max(hops, paths.starts[r + 1] - paths.starts[r])
                sent += z[r]
            for r in range(paths.first[p], paths.first[p + 1]):
                amounts[r], scales[r] = amount, hops / amount
            least = min(least, sent / amount)
            p += 1
    return least


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

OMEGA = 0.1
"""Primal weight at the start, for demands and capacities with a mean of 1."""

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
        return FlowState(x, paths, flows, Restarts(OMEGA))

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

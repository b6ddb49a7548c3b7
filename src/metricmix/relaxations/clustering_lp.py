r"""The linear relaxation of correlation clustering, over attracting pairs and what is near them.

.. math:: \min_x \; \sum_{w > 0} w_{ij} x_{ij} + \sum_{w < 0} |w_{ij}| (1 - x_{ij}), \qquad
          x_{ij} \le x_{ik} + x_{kj}, \quad 0 \le x \le 1

Given lengths of the m attracting pairs, all other pairs had best be as far apart as these allow:
:math:`x_{ij} = \min(1, \text{shortest path})`. So the problem has m variables and, for each
repelling pair, what it lacks, :math:`y_{ij} = 1 - x_{ij}`; its rows are

.. math:: y_{ij} + \sum_{e \in \text{path}} x_e \ge 1 \qquad \text{for every path from i to j}

Only few of them matter, and only pairs on them need a y: shortest paths from every item, no longer
than 1, find them (:mod:`~metricmix.relaxations.clustering_lp`). Between such searches come
some steps of the primal-dual method (:mod:`~metricmix.relaxations.primal_dual`). The dual
is a flow: every repelling pair sends up to :math:`|w|` along its paths, over edges of capacity w,
and all pairs together as much as they can.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.threads import Crew, row_ranges
from metricmix.memory import check_room
from metricmix.relaxations.cluster_rounding import lengths_of, round_to_clusters
from metricmix.relaxations.primal_dual import Clauses, PrimalDual
from metricmix.relaxations.result import Rounds, RoundState
from metricmix.relaxations.short_paths import find_short, sum_within
from metricmix.relaxations.signed_graph import Neighbours, SignedGraph
from metricmix.solvers.result import relative_gap
from metricmix.typing import Floats, Ints

__all__ = ["PARTS", "ClusteringLP", "Found", "PathRows"]


STEPS = 40
"""Steps between searches."""

FIRST = 0.45
"""Lengths at the start: paths of two edges are too short, longer ones are not."""

SMALL, JITTER = 0.02, 0.02
"""A path counts if it is too short by the first share of the worst one a round ago; lengths vary at
random by the second."""

FEW, OFTEN = 0.02, 10
"""A feasible point is made of x when new rows are few, as a share of all; or after OFTEN rounds."""

LONGEST_WAIT = 8
"""Most rounds without a search, after searches that found nothing."""

TRIALS = 4
"""Roundings at the start."""


class ClusteringLP(Rounds):
    """Rounds of searching and stepping; see the module.

    Parameters
    ----------
    graph : SignedGraph
    crew : Crew
    tol : float
        Gap to reach.

    Attributes
    ----------
    lower, upper : float
        Bounds of the least cost of the relaxation.
    lengths : (m,) array
        Lengths of the attracting pairs that cost `upper`.
    labels : (n,) array
        The clusters that were the first feasible point.
    """

    def __init__(self, graph: SignedGraph, crew: Crew, *, tol: float) -> None:
        self.size = float(graph.attraction.sum())
        self.rounding = 64 * float(np.finfo(np.float64).eps) * self.size
        super().__init__(tol, 0.0, self.size)
        self.graph, self.crew = graph, crew
        self.rows = PathRows(graph, crew)
        self.m = self.rows.m
        # Every item by itself, until something better is known.
        self.lengths = np.ones(self.m)
        self.labels, self.cost = np.arange(graph.n, dtype=np.int32), self.size
        self.steps: PrimalDual | None = None
        self._worst, self._fresh, self._wait, self._waited = 1.0, 0, 1, 0

    @property
    def gap(self) -> float:
        """The gap so far."""
        return relative_gap(self.upper, self.lower, self.rounding)

    @property
    def residual(self) -> float:
        """How far the last steps went."""
        return math.inf if self.steps is None else self.steps.residual

    def step(self, state: RoundState, iteration: int, rng: np.random.Generator) -> RoundState:
        """Do a round."""
        assert self.steps is not None
        self._waited += 1
        if self._waited >= self._wait:
            self._waited = 0
            self._look(self.steps, rng if iteration % 2 else None)
            self._wait = 1 if self._fresh else min(2 * self._wait, LONGEST_WAIT)
        self.steps.advance(STEPS)
        if self._fresh <= FEW * len(self.rows.lp) or iteration % OFTEN == 0:
            self._offer(self.steps.v[: self.m])
        return state

    def _update(self) -> None:
        """Bring the lower bound up to date."""
        if self.steps is None:
            self._begin()
        assert self.steps is not None
        self._raise_to(self.rows.lp.lower_bound(self.steps.z, self.crew))

    def finish(self) -> Floats:
        """Return the best lengths; look at the last ones too, if they may be better."""
        if self.steps is not None and self.gap > self.tol:
            self._offer(self.steps.v[: self.m])
        return self.lengths

    def _begin(self) -> None:
        """Start with clusters, and with rows for paths of two edges."""
        x = np.full(self.m, FIRST)
        self.labels, self.cost = round_to_clusters(
            self.graph, x, self.crew, trials=TRIALS, moves=True, rng=self._rng
        )
        if self.cost < self.upper:
            self.upper, self.lengths = self.cost, lengths_of(self.graph, self.labels)
        rows, lp = self.rows, self.rows.lp
        found = rows.search(x, np.zeros(self.m), SMALL, 1.0, rows.times)
        count, y = rows.add(found, x)
        # Duals that overload nothing: every column is shared out evenly.
        share = lp.c / np.maximum(1, np.diff(lp.column_starts))
        z = np.minimum.reduceat(share[lp.terms], lp.starts[:-1]) if count else np.empty(0)
        omega = float(np.median(self.graph.attraction)) if self.m else 1.0
        self.steps = PrimalDual(lp, np.concatenate([x, y]), z, omega, self.crew)

    def _look(self, steps: PrimalDual, rng: np.random.Generator | None) -> None:
        """Add rows; those that other lengths at random find, if there is a generator."""
        extra = np.zeros(self.m) if rng is None else JITTER * self._worst * rng.random(self.m)
        tolerance = max(0.1 * self.tol, SMALL * self._worst)
        found = self.rows.search(steps.v, extra, tolerance, self._worst, 1)
        self._worst = found.worst
        self._fresh, y = self.rows.add(found, steps.v[: self.m])
        if self._fresh:
            steps.extend(y)

    def _offer(self, x: Floats) -> None:
        """Keep lengths of the attracting pairs if what they stand for is the best so far."""
        graph = self.graph
        edges = (graph.edges.starts, graph.edges.ends, graph.edges.pairs, x)
        listed = (graph.listed.starts, graph.listed.ends, graph.listed.pairs, graph.weights)
        parts = self.crew.run(
            lambda r: sum_within(*r, *edges, *listed, graph.default), row_ranges(graph.n, 1, PARTS)
        )
        cost = max(0.0, self.size - sum(parts, 0.0))
        if cost < self.upper:
            self.upper, self.lengths = cost, x.copy()


# -- the rows of a clustering's linear program: paths between repelling pairs, found as needed --


PARTS = 64
"""Ranges of items to search from; fixed, since paths spread over the edges within a range."""

SPREAD = 0.02
"""How much longer an edge looks once a path goes over it, if the pair could fill it."""

PATHS, ROWS = 8, 4_000_000
"""Paths for a pair at the start; fewer where that would make more than so many rows."""

BYTES = 200
"""Memory of a row and of a column with all that belongs to it; measured."""


@dataclass(frozen=True)
class Found:
    """Paths that are too short; see :func:`metricmix.relaxations.short_paths.find_short`."""

    pairs: Ints
    counts: Ints
    path: Ints
    costs: Floats
    keys: NDArray[np.uint64]
    worst: float


class PathRows:
    """A growing linear program; see the module.

    Attributes
    ----------
    lp : Clauses
    m : int
        The number of attracting pairs.
    pairs : (columns - m, 2) array
        The repelling pairs that have a column, i > j.
    times : int
        Paths to look for between every pair at the start.
    """

    def __init__(self, graph: SignedGraph, crew: Crew) -> None:
        self.graph, self.crew = graph, crew
        self.m = len(graph.attraction)
        degree = np.diff(graph.edges.starts).astype(float)
        ways = float(np.sum(degree * (degree - 1)) / 2)  # of two edges
        pairs = min(ways, 0.5 * graph.n * (graph.n - 1) - self.m)
        self.times = int(np.clip(ROWS / max(pairs, 1.0), 1, PATHS))
        check_room(
            BYTES * (self.m + pairs + min(ways, self.times * pairs)) + 24 * len(graph.weights),
            what=f"a graph of {self.m} attracting pairs and {ways:.3g} paths of two of them",
            instead="leave out edges, or items of very many edges",
        )
        self.lp = Clauses(graph.attraction)
        self.pairs = np.empty((0, 2), np.int32)
        self._known = Neighbours.of(graph.n, *self.pairs.T)

    def search(
        self, v: Floats, extra: Floats, tolerance: float, spread: float, times: int
    ) -> Found:
        """Return paths that are too short at v by more than the tolerance.

        Parameters
        ----------
        v : (columns,) array
        extra : (m,) array
            Added to the lengths, to choose between paths that are about as short.
        tolerance : float
        spread : float
            How much more is added along paths already found, relative to SPREAD.
        times : int
            Searches from every item.
        """
        graph, known = self.graph, self._known
        edges = (graph.edges.starts, graph.edges.ends, graph.edges.pairs, v[: self.m])
        listed = (graph.listed.starts, graph.listed.ends, graph.listed.pairs, graph.weights)
        given = (known.starts, known.ends, known.pairs, v[self.m :])
        options = (tolerance, graph.attraction, SPREAD * spread, times)
        parts = self.crew.run(
            lambda r: find_short(
                *r, *edges, extra.copy(), *listed, graph.default, *given, *options
            ),
            row_ranges(graph.n, 1, PARTS),
        )
        *lists, worst = zip(*parts, strict=True)
        pairs, counts, path, costs, keys = (np.concatenate(list(parts)) for parts in lists)
        return Found(pairs, counts, path, costs, keys, max(worst))

    def add(self, found: Found, x: Floats) -> tuple[int, Floats]:
        """Add paths that are new; return how many, and where columns that are new should start.

        That is at what their paths lack for the lengths x.
        """
        chosen = self.lp.fresh(found.keys)
        counts = found.counts[chosen].astype(np.int64)
        edges = _taken(found.path, found.counts, chosen)
        pairs = found.pairs.reshape(-1, 2)[chosen]
        columns, new = self._columns(pairs)
        starts = np.concatenate([[0], np.cumsum(counts + 1)])
        terms = np.empty(starts[-1], np.int32)
        last = starts[1:] - 1
        inner = np.ones(len(terms), bool)
        inner[last] = False
        terms[inner], terms[last] = edges, self.m + columns
        fresh = columns - len(self.pairs)
        costs, lacking = np.empty(new), np.zeros(new)
        if len(chosen):
            costs[fresh[fresh >= 0]] = found.costs[chosen][fresh >= 0]
            lengths = np.add.reduceat(x[edges], starts[:-1] - np.arange(len(chosen)))
            np.maximum.at(lacking, fresh[fresh >= 0], 1.0 - lengths[fresh >= 0])
            self.lp.add(costs, starts, terms, found.keys[chosen])
        if new:
            first = np.unique(fresh, return_index=True)[1][-new:]
            self.pairs = np.concatenate([self.pairs, pairs[first]])
            self._known = Neighbours.of(self.graph.n, *self.pairs.T)
        return len(chosen), np.clip(lacking, 0.0, 1.0)

    def _columns(self, pairs: Ints) -> tuple[NDArray[np.int64], int]:
        """Return the number of each pair's column among those of pairs, and how many are new."""
        n, count = self.graph.n, len(self.pairs)
        keys = np.concatenate([self.pairs, pairs])
        keys = keys[:, 0].astype(np.int64) * n + keys[:, 1]
        found, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        number = np.empty(len(found), np.int64)
        order = np.argsort(first)  # those that are there come first, in their order
        number[order] = np.arange(len(found))
        return number[inverse[count:]], len(found) - count


def _taken(values: Ints, counts: Ints, chosen: NDArray[np.int64]) -> Ints:
    """Return the lists that are chosen, of lists one after another."""
    ends = np.cumsum(counts)
    sizes = counts[chosen].astype(np.int64)
    begin = np.cumsum(sizes) - sizes
    taken: Ints = values[np.arange(sizes.sum()) + np.repeat(ends[chosen] - sizes - begin, sizes)]
    return taken

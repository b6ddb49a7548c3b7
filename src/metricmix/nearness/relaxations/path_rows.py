r"""The rows of a clustering's linear program: paths between repelling pairs, found as needed.

.. math:: y_{ij} + \sum_{e \in \text{path from i to j}} x_e \ge 1

The first m columns are the lengths x of the attracting pairs, the others what repelling pairs lack,
y. A pair gets its column with the first of its paths.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.short_paths import find_short
from metricmix.kernels.threads import Crew, row_ranges
from metricmix.memory import check_room
from metricmix.nearness.relaxations.clauses import Clauses
from metricmix.nearness.relaxations.signed_graph import Neighbours, SignedGraph

__all__ = ["PARTS", "Found", "PathRows"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

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
    """Paths that are too short; see :func:`metricmix.kernels.short_paths.find_short`."""

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

"""Sparse edge sets: the union of links and nearest items, joined into one component.

An edge set is the union of the links of graphs and of edges from each item to its k nearest by
some tables. A path metric is finite only within a component, so every component but the largest is
joined to it by one *bridging edge*, between near items where there is a table. The report says how
many edges came from where.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from metricmix.dissimilarity.edge_set import EdgeSet
from metricmix.dissimilarity.squared_distances import half_squares
from metricmix.kernels.blocks import BlockJob, Cost, Found, run_blocks
from metricmix.kernels.threads import blas_threads, check_time
from metricmix.state import stored
from metricmix.typing import AnyArray, Floats, Indices, Ints

__all__ = ["SINGLE_FROM", "EdgeReport", "EdgeValues", "bridged", "edge_union", "evaluated"]

EDGES_AT_ONCE = 1 << 18
SINGLE_FROM = 10**6
"""Edges from which on values are kept in single precision."""


@stored("EdgeReport")
@dataclass(frozen=True)
class EdgeReport:
    """Where the edges of a set come from.

    Attributes
    ----------
    n_items, n_edges : int
    by_origin : dict of str to int
        Edges that each graph or table has given, before the union.
    recall : dict of str to float
        Share of the true nearest items that were found for a table (on a sample of 200; 1 if the
        search was exact).
    components : int
        Connected components before bridging edges were added; an item without edges is one.
    bridging : int
        Edges added to join them.
    left_out : dict of str to str
        Sources that were not computed, and why.
    self_loops, duplicates : int
        Entries of the input that were dropped: from an item to itself, and again the same edge.
    """

    n_items: int
    n_edges: int
    by_origin: dict[str, int] = field(default_factory=dict)
    recall: dict[str, float] = field(default_factory=dict)
    components: int = 1
    bridging: int = 0
    left_out: dict[str, str] = field(default_factory=dict)
    self_loops: int = 0
    duplicates: int = 0

    def __str__(self) -> str:
        lines = [f"{self.n_edges} edges over {self.n_items} items"]
        for name, count in self.by_origin.items():
            found = self.recall.get(name, 1.0)
            note = f" ({found:.1%} of the nearest found)" if found < 1 else ""
            lines.append(f"  {count} from {name}{note}")
        if self.components > 1:
            lines.append(f"{self.components} components, joined by {self.bridging} bridging edges")
        dropped = {"self-loop": self.self_loops, "duplicate edge": self.duplicates}
        lines += [f"{n} {what}{'s' * (n > 1)} dropped" for what, n in dropped.items() if n]
        lines += [f"{name} left out: {why}" for name, why in self.left_out.items()]
        return "\n".join(lines)


def edge_union(
    n: int, ends: Mapping[str, tuple[AnyArray, AnyArray]], table: Any = None
) -> tuple[EdgeSet, EdgeReport]:
    """Return the union of undirected edges in one component, and a report.

    Parameters
    ----------
    n : int
        Number of items.
    ends : dict of pairs of arrays
        The two ends of each edge, by the name of the graph or table that they come from.
    table : array or CSR array (n, d), optional
        By which near items are found for bridging edges; else items of neighbouring numbers.

    Examples
    --------
    >>> edges, report = edge_union(4, {"links": ([0, 2], [1, 3])})
    >>> print(report)
    3 edges over 4 items
      2 from links
    2 components, joined by 1 bridging edges
    """
    parts = {name: EdgeSet(n, u, v) for name, (u, v) in ends.items()}
    tails, heads = (
        np.concatenate([np.empty(0, np.int32), *(getattr(part, side) for part in parts.values())])
        for side in ("tails", "heads")
    )
    edges, report = bridged(EdgeSet(n, tails, heads), table)
    return edges, replace(report, by_origin={name: len(part) for name, part in parts.items()})


def bridged(edges: EdgeSet, table: Any = None) -> tuple[EdgeSet, EdgeReport]:
    """Return the edge set with one edge more for each component but the largest, and a report.

    The edge joins the nearest pair of four items of the component and 4096 of the largest, by the
    table; without one, the first item of the component and the item of the largest with the
    nearest number. If directed, it leads both ways. Deterministic.

    >>> joined, report = bridged(EdgeSet(5, [0, 1], [1, 2]))
    >>> joined.tails, joined.heads, report.bridging
    (array([0, 1, 2, 2], dtype=int32), array([1, 2, 3, 4], dtype=int32), 2)
    """
    count, label = edges.components
    report = EdgeReport(edges.n, len(edges), components=count)
    if count == 1:
        return edges, report
    order = np.argsort(label, kind="stable")
    sizes = np.bincount(label)
    first = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    largest = int(sizes.argmax())
    home = order[first[largest] : first[largest + 1]]
    others = np.delete(np.arange(count), largest)
    if table is None:
        u = order[first[others]]
        place = np.clip(np.searchsorted(home, u), 1, max(1, len(home) - 1))
        before, after = home[place - 1], home[np.minimum(place, len(home) - 1)]
        v = np.where(u - before <= np.abs(after - u), before, after)
    else:
        u, v = nearest_pairs(table, order, first, others, home)
    if edges.directed:
        u, v = np.concatenate([u, v]), np.concatenate([v, u])
    whole = edges.with_edges(u, v)
    return whole, replace(report, n_edges=len(whole), bridging=len(whole) - len(edges))


def nearest_pairs(
    table: Any, order: Indices, first: Indices, others: Indices, home: Indices
) -> tuple[Indices, Indices]:
    """Return the nearest pair of 4 items of each component and 4096 of the largest one."""
    shares = np.linspace(0.0, 1.0, 4)
    span = first[others + 1] - first[others] - 1
    chosen = order[first[others][:, None] + np.round(shares * span[:, None]).astype(np.int64)]
    near = home[np.unique(np.linspace(0, len(home) - 1, 4096).astype(np.int64))]
    targets = table[near]
    halves = half_squares(targets)
    u, v = np.empty(len(others), np.int64), np.empty(len(others), np.int64)
    with blas_threads(1):
        for start in range(0, len(others), 256):
            check_time()
            some = chosen[start : start + 256]
            rows = table[some.ravel()]
            product = rows @ targets.T
            inner = product if isinstance(product, np.ndarray) else product.toarray()
            values = (half_squares(rows)[:, None] + halves - inner).reshape(len(some), -1)
            best = values.argmin(axis=1)
            u[start : start + 256] = some[np.arange(len(some)), best // len(near)]
            v[start : start + 256] = near[best % len(near)]
    return u, v


def evaluated(sources: Any, edges: EdgeSet) -> AnyArray:
    """Return the values of sources on every edge, (R, E); float32 from a million edges on."""
    precision = np.float32 if len(edges) > SINGLE_FROM else np.float64
    values: Floats = np.empty((len(sources), len(edges)), precision)
    for row, source in zip(values, sources, strict=True):

        def put(start: int, stop: int, found: Found, row: AnyArray = row) -> None:
            row[start * EDGES_AT_ONCE : stop * EDGES_AT_ONCE] = found[0]

        run_blocks(EdgeValues(source, edges.tails, edges.heads, np.dtype(precision)), put)
    return values


@dataclass(frozen=True, eq=False)
class EdgeValues(BlockJob):
    """The values of a source on edges; a unit is `EDGES_AT_ONCE` of them."""

    source: Any
    tails: Ints
    heads: Ints
    dtype: Any
    what = "source values"
    alone = True  # sources need not support several threads

    @property
    def cost(self) -> Cost:
        """A microsecond per edge; memory for its two ends, and for values in double precision."""
        units = -(-len(self.tails) // EDGES_AT_ONCE)
        result = float(EDGES_AT_ONCE * self.dtype.itemsize)
        return Cost(units, EDGES_AT_ONCE * 1e-6, result, work_bytes=64.0 * EDGES_AT_ONCE)

    def block(self, start: int, stop: int) -> Found:
        """Return the values on some edges."""
        first, last = start * EDGES_AT_ONCE, min(stop * EDGES_AT_ONCE, len(self.tails))
        found = np.empty(last - first, self.dtype)
        for low in range(first, last, EDGES_AT_ONCE):
            check_time()
            some = slice(low, min(low + EDGES_AT_ONCE, last))
            ends = self.tails[some].astype(np.int64), self.heads[some].astype(np.int64)
            found[low - first : low - first + len(ends[0])] = self.source.pairs(*ends)
        return (found,)

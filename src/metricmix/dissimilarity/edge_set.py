"""A sparse set of edges over n items, in compressed rows.

A path metric needs edges, not all pairs: with E edges, memory is O(n + E) and a search from one
item costs O(E log n) at most. Each edge has a number 0 .. E - 1; what a stack knows of the edges
is stored by that number.

An edge set may be the union of the links of graphs and of edges from each item to its k nearest by
some tables. A path metric is finite only within a component, so every component but the largest is
joined to it by one *bridging edge*, between near items where there is a table. The report says how
many edges came from where.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from metricmix.cached import cached_property
from metricmix.dissimilarity.squared_distances import half_squares
from metricmix.exceptions import InputError
from metricmix.kernels.deadline import check_time
from metricmix.kernels.process_settings import blas_threads
from metricmix.state import checked_state, require, stored
from metricmix.typing import AnyArray, Indices, Ints
from metricmix.validation import check_indices, check_integer

__all__ = ["Arcs", "EdgeReport", "EdgeSet", "NearOrder", "bridged", "edge_union"]

SMALL = 1 << 10
"""Up to this many items, a search stays in the cache whatever their order."""


class Arcs(NamedTuple):
    """The edges out of every item (or into it), as kernels read them.

    Attributes
    ----------
    indptr : (n + 1,) array of int64
        Item u has the arcs ``indptr[u] .. indptr[u + 1] - 1``.
    ends : (A,) array of int32
        The other end of each arc, increasing within an item.
    edge : (A,) array of int64
        The number of its edge; both arcs of an undirected edge have the same.
    """

    indptr: Indices
    ends: Ints
    edge: Indices


class NearOrder(NamedTuple):
    """The edges with items renumbered so that most edges join near numbers.

    Attributes
    ----------
    order, rank : (n,) arrays of int32
        Item ``order[k]`` has the new number k; ``rank[order[k]] == k``.
    out, into : pairs (indptr, ends)
        The arcs out of every item and into it, by new numbers. An item has its arcs in the order
        in which `EdgeSet.out` and `EdgeSet.into` have them.
    """

    order: Ints
    rank: Ints
    out: tuple[Indices, Ints]
    into: tuple[Indices, Ints]


@stored("EdgeSet")
class EdgeSet:
    """E different edges over n items; immutable.

    Parameters
    ----------
    n : int
        Number of items.
    u, v : arrays of int
        The two ends of each edge, item numbers. Edges from an item to itself are left out; of
        edges that occur again (either way round, unless `directed`) one is kept.
    directed : bool
        Whether an edge leads from u to v only.

    Attributes
    ----------
    tails, heads : (E,) arrays of int32
        The edges in the order of their numbers: sorted, with tail < head unless directed.

    Examples
    --------
    >>> from metricmix.dissimilarity.edge_set import EdgeSet
    >>> edges = EdgeSet(4, [2, 0, 1, 3], [1, 1, 0, 3])
    >>> edges.tails, edges.heads
    (array([0, 1], dtype=int32), array([1, 2], dtype=int32))
    >>> edges.find([1, 0], [2, 2])
    array([ 1, -1])
    """

    def __init__(self, n: int, u: ArrayLike, v: ArrayLike, *, directed: bool = False) -> None:
        check_integer(n, name="n", low=1)
        if n > np.iinfo(np.int32).max:
            raise InputError(argument="n", expected="fewer than 2**31 items", found=n)
        first = check_indices(u, n, name="u") if np.size(u) else np.empty(0, np.int64)
        second = check_indices(v, n, name="v") if np.size(v) else np.empty(0, np.int64)
        if len(first) != len(second):
            raise InputError(f"u, v: expected as many of each, got {len(first)} and {len(second)}")
        self.n, self.directed = int(n), bool(directed)
        if not directed:
            first, second = np.minimum(first, second), np.maximum(first, second)
        keys = (first * n + second)[first != second]
        keys.sort()  # np.unique hashes numbers first, ten times slower for millions of them
        self.keys = keys[np.flatnonzero(np.diff(keys, prepend=-1))]
        tails, heads = np.divmod(self.keys, n)
        self.tails, self.heads = tails.astype(np.int32), heads.astype(np.int32)
        for part in (self.keys, self.tails, self.heads):
            part.flags.writeable = False

    @classmethod
    def of_sorted(cls, n: int, tails: Ints, heads: Ints, *, directed: bool = False) -> EdgeSet:
        """Return the set of valid edges in the order of their numbers, without copying them."""
        edges = cls.__new__(cls)
        edges.n, edges.directed = int(n), bool(directed)
        edges.tails, edges.heads = tails.view(), heads.view()
        edges.tails.flags.writeable = edges.heads.flags.writeable = False
        return edges

    def to_state(self) -> dict[str, Any]:
        """Return the items and the ends of the edges."""
        check_count(self.n, len(self.tails))
        return {"n": self.n, "tails": self.tails, "heads": self.heads, "directed": self.directed}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> EdgeSet:
        """Return an edge set over stored arrays, which stay where they are.

        All ends are read: compiled code trusts them.
        """
        table = {"n": int, "tails": Ints, "heads": Ints, "directed": bool}
        n, tails, heads, directed = checked_state(state, table, "its edges").values()
        require(1 < n < 2**31, f"expected at least 2 items and fewer than 2**31, found {n}")
        check_count(n, len(tails) if tails.ndim else 0)
        fits = tails.ndim == 1 and tails.shape == heads.shape
        require(fits, "expected as many tails of edges as heads")
        inside = all(
            ends.min(initial=0) >= 0 and ends.max(initial=0) < n for ends in (tails, heads)
        )
        require(inside, f"expected edges between items 0 .. {n - 1}, found other numbers")
        proper = (tails != heads).all() if directed else (tails < heads).all()
        rule = "two different items" if directed else "tail < head"
        require(proper, f"expected every edge to have {rule}")
        edges = cls.of_sorted(n, tails, heads, directed=directed)
        require((np.diff(edges.keys) > 0).all(), "expected its edges sorted, and each of them once")
        return edges

    @cached_property
    def keys(self) -> Indices:
        """The edges as numbers ``tail n + head``, increasing."""
        return np.asarray(self.tails.astype(np.int64) * self.n + self.heads)

    def __len__(self) -> int:
        return len(self.tails)

    def __repr__(self) -> str:
        return f"EdgeSet(n={self.n}, edges={len(self)}{', directed=True' * self.directed})"

    def find(self, u: ArrayLike, v: ArrayLike) -> Indices:
        """Return the numbers of the edges (u[k], v[k]); -1 where there is none."""
        first, second = np.asarray(u, np.int64), np.asarray(v, np.int64)
        if not self.directed:
            first, second = np.minimum(first, second), np.maximum(first, second)
        keys = first * self.n + second
        place = np.searchsorted(self.keys, keys)
        last = len(self.keys) - 1
        if last < 0:
            return np.full(keys.shape, -1)
        known = self.keys[np.minimum(place, last)] == keys
        return np.where(known, place, -1)

    @cached_property
    def out(self) -> Arcs:
        """The arcs out of every item."""
        return self._arcs(self.tails, self.heads)

    @cached_property
    def into(self) -> Arcs:
        """The arcs into every item; those of `out`, unless directed."""
        return self._arcs(self.heads, self.tails) if self.directed else self.out

    def _arcs(self, starts: Ints, ends: Ints) -> Arcs:
        number = np.arange(len(self))
        if not self.directed:
            starts, ends = np.concatenate([starts, ends]), np.concatenate([ends, starts])
            number = np.concatenate([number, number])
        order = np.lexsort((ends, starts))
        counts = np.bincount(starts, minlength=self.n)
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        return Arcs(indptr, ends[order], number[order])

    def with_edges(self, u: ArrayLike, v: ArrayLike) -> EdgeSet:
        """Return the union with other edges."""
        tails = np.concatenate([self.tails, np.asarray(u, np.int64)])
        heads = np.concatenate([self.heads, np.asarray(v, np.int64)])
        return EdgeSet(self.n, tails, heads, directed=self.directed)

    @cached_property
    def near_order(self) -> NearOrder:
        """An order of the items for searches through all of them; the given one if n is small."""
        if self.n <= SMALL:
            given = np.arange(self.n, dtype=np.int32)
            return NearOrder(given, given, self.out[:2], self.into[:2])
        from metricmix.kernels.locality import locality_order, renumber_rows

        order = locality_order(self.out.indptr, self.out.ends)
        rank = np.empty(self.n, np.int32)
        rank[order] = np.arange(self.n, dtype=np.int32)
        sides = []
        for arcs in (self.out, self.into) if self.directed else (self.out,):
            new = np.empty_like(arcs.indptr), np.empty_like(arcs.ends)
            renumber_rows(arcs.indptr, arcs.ends, order, *new)
            sides.append(new)
        return NearOrder(order, rank, sides[0], sides[-1])

    @cached_property
    def components(self) -> tuple[int, Ints]:
        """The number of (weakly) connected components, and that of each item."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

        ones = np.ones(len(self), np.int8)
        graph = csr_array((ones, (self.tails, self.heads)), shape=(self.n, self.n))
        count, label = connected_components(graph, directed=False)
        return int(count), label


def check_count(n: int, n_edges: int) -> None:
    """Raise if far more items have no edge than any use would have.

    A file cannot ask for memory by a number of items alone.
    """
    most = 1 << 20
    few = n <= 2 * n_edges + most
    require(few, f"expected at most {most} items without edges, found {n - 2 * n_edges}")


# -- edges from several places, joined into one component -----------------------------------------


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
    unknown : dict of str to int
        Edges that a source did not know, whose values are estimated
        (:mod:`metricmix.dissimilarity.unknown_pairs`).
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
    unknown: dict[str, int] = field(default_factory=dict)

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
        values = {name: f"{count} value{'s' * (count > 1)}" for name, count in self.unknown.items()}
        lines += [f"{name}: {count} unknown, estimated" for name, count in values.items()]
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

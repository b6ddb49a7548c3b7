"""A sparse set of edges over n items, in compressed rows.

A path metric needs edges, not all pairs: with E edges, memory is O(n + E) and a search from one
item costs O(E log n) at most. Each edge has a number 0 .. E - 1; what a stack knows of the edges
is stored by that number.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from metricmix.dissimilarity.sources import Source
from metricmix.exceptions import InputError
from metricmix.state import checked_state, require, stored
from metricmix.typing import AnyArray, Indices, Ints
from metricmix.validation import check_indices, check_integer

__all__ = ["Arcs", "EdgeSet", "EdgeSource", "NearOrder"]

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

    @property
    def mean_degree(self) -> float:
        """Mean number of edges out of an item."""
        return len(self) * (1 if self.directed else 2) / self.n

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


class EdgeSource(Source):
    """One dissimilarity that is known on the edges of a set, and infinite elsewhere."""

    def __init__(self, edges: EdgeSet, values: AnyArray, name: str | None = None) -> None:
        self.edges, self.values, self.name = edges, values, name
        self.n, self.directed = edges.n, edges.directed

    def rows(self, indices: Indices) -> AnyArray:
        """Return ``M[indices, :]``, inf where there is no edge."""
        return self._rows(indices, self.edges.out)

    def columns(self, indices: Indices) -> AnyArray:
        """Return ``M[:, indices].T``, inf where there is no edge."""
        return self._rows(indices, self.edges.into)

    def _rows(self, indices: Indices, arcs: tuple[AnyArray, AnyArray, AnyArray]) -> AnyArray:
        indptr, ends, edge = arcs
        rows = np.full((len(indices), self.n), np.inf)
        for row, u in zip(rows, indices, strict=True):
            here = slice(indptr[u], indptr[u + 1])
            row[ends[here]] = self.values[edge[here]]
            row[u] = 0.0
        return rows

    def pairs(self, i: Indices, j: Indices) -> AnyArray:
        """Return ``M[i, j]`` elementwise, inf where there is no edge."""
        found = self.edges.find(i, j)
        values = np.full(found.shape, np.inf)
        known = found >= 0
        values[known] = self.values[found[known]]
        values[np.equal(i, j)] = 0.0
        return values


def check_count(n: int, n_edges: int) -> None:
    """Raise if far more items have no edge than any use would have.

    A file cannot ask for memory by a number of items alone.
    """
    most = 1 << 20
    few = n <= 2 * n_edges + most
    require(few, f"expected at most {most} items without edges, found {n - 2 * n_edges}")

r"""Relations between items: graphs, memberships in groups, and precomputed matrices.

Memberships are two-mode edge lists: items and the groups they belong to, such as women and events.
With :math:`H_{it} > 0` where item i belongs to thing t, and :math:`d_t` the number of members of t:

- items are compared by their rows of H: by the share of things that they do not share (Jaccard), or
  by the angle between rows in which things count :math:`1 + \log((1 + n) / (1 + d_t))`;
- for walks, H is *projected* on the items: two of them are joined with the strength
  :math:`\sum_t H_{it} H_{jt} / d_t`, so that a walk goes from an item to one of its things, and
  from there to one of its members.

A file is taken for memberships if most of its edges join an item with something that is no item,
and two items share such a thing. If these things are all in one column, everything in that column
is a thing, also what is called like an item. Otherwise an edge between two items makes each of them
a thing of the other (only the second one of the first, if edges are directed). A file that has
mostly edges between items is a graph, and its other edges are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.cached import cached_property
from metricmix.exceptions import TableFileError
from metricmix.state import require, stored
from metricmix.typing import Floats, Indices

__all__ = [
    "Matrix",
    "Memberships",
    "Relation",
    "are_memberships",
    "column_of_things",
    "memberships_of",
]

MOST_PAIRS = 20_000_000
"""Pairs of members that are joined for walks; the things with most members are left out beyond."""


@stored("Relation")
@dataclass(frozen=True)
class Relation:
    """Edges ``ends[e, 0] -> ends[e, 1]`` between numbered nodes; `ids` are their names, if any.

    `weight` is what `weights` mean: "length", or "similarity", whose length is 1 / similarity
    (zero: no edge). None where all edges have weight 1. `unused` are columns that were not read.
    `header` are the columns of the ends, where only the ids of items tell that they are named.
    """

    source: Path | str
    n_nodes: int
    ids: tuple[str, ...] | None
    ends: Indices
    weights: Floats | None = None
    weight: str | None = None
    directed: bool = False
    unused: tuple[str, ...] = ()
    header: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        inside = not self.ends.size or 0 <= self.ends.min() <= self.ends.max() < self.n_nodes
        named = self.ids is None or len(self.ids) == self.n_nodes
        require(self.ends.shape[1:] == (2,) and inside and named, "expected edges of known nodes")
        w = self.weights
        weighted = w is None or (w.shape == (len(self.ends),) and np.all((w >= 0) & (w < np.inf)))
        require(weighted, "expected a finite weight >= 0 for each edge")

    def numbers_in(self, ids: Sequence[str]) -> Indices:
        """Return the position of every node in `ids`, -1 where it is not among them, (n_nodes,).

        Nodes without names are in the order of `ids`.
        """
        if self.ids is None:
            if self.n_nodes != len(ids):
                raise TableFileError(
                    f"{self.source}: expected {len(ids)} rows, one per item of the table, found "
                    f"{self.n_nodes}; a matrix without ids is in the order of the table"
                )
            return np.arange(len(ids))
        position = {item: k for k, item in enumerate(ids)}
        return np.array([position.get(name, -1) for name in self.ids], dtype=np.int64)

    def named(self, ids: Sequence[str]) -> Relation:
        """Return the same with names of its nodes: `ids`, in their order, if they have none."""
        if self.ids is not None:
            return self
        self.numbers_in(ids)  # raises unless there are as many
        return replace(self, ids=tuple(ids))

    def without(self, ids: Collection[str]) -> Relation:
        """Return the relation without some nodes and their edges."""
        names = self.ids or ()
        kept = np.array([name not in ids for name in names], dtype=bool)
        place = np.cumsum(kept) - 1
        used: NDArray[np.bool_] = np.all(kept[self.ends], axis=1)
        found = self.select(used, place[self.ends], int(kept.sum()))
        return replace(found, ids=tuple(name for name in names if name not in ids))

    def touching(self, ids: Collection[str]) -> Relation:
        """Return the edges with an end among some nodes."""
        mine = np.array([name in ids for name in self.ids or ()], dtype=bool)
        used: NDArray[np.bool_] = np.any(mine[self.ends], axis=1)
        return replace(self.select(used, self.ends, self.n_nodes), ids=self.ids)

    def select(self, edges: NDArray[np.bool_], ends: Indices, n_nodes: int) -> Relation:
        """Return the edges of a mask, with new `ends` (of all edges) among `n_nodes` nodes."""
        weights = None if self.weights is None else self.weights[edges]
        return replace(self, n_nodes=n_nodes, ids=None, ends=ends[edges], weights=weights)


@stored("Matrix")
@dataclass(frozen=True)
class Matrix:
    """A square matrix, NaN where entries are missing, and the names of its items, if any.

    `rounding` is the relative rounding error of the numbers in the file, times a small factor: more
    than that of float64 if it holds float32. `remarks` say how a tree was read.
    """

    values: Floats
    items: tuple[str, ...] | None = None
    rounding: float = 0.0
    remarks: tuple[str, ...] = ()
    source: Path | str = "matrix"
    directed: bool = False
    is_tree: bool = False

    def without(self, ids: Collection[str], everyone: Sequence[str]) -> Matrix:
        """Return the matrix without some items; `everyone` are its items if they have no names."""
        names = everyone if self.items is None else self.items
        kept = np.flatnonzero([name not in ids for name in names])
        items = None if self.items is None else tuple(names[k] for k in kept.tolist())
        return replace(self, values=self.values[np.ix_(kept, kept)], items=items)

    def between(
        self, rows: Sequence[str], columns: Sequence[str], everyone: Sequence[str]
    ) -> Floats:
        """Return the entries from some items to others, NaN where it lacks one of them."""
        names = everyone if self.items is None else self.items
        number = {name: k for k, name in enumerate(names)}
        i, j = (np.array([number.get(name, -1) for name in ids]) for ids in (rows, columns))
        found = np.asarray(self.values[np.ix_(i, j)], dtype=np.float64)
        found[i < 0] = found[:, j < 0] = np.nan
        return found

    def name(self, i: int) -> str:
        """Return the name of item i, or its number, from 0 on."""
        return str(i) if self.items is None else self.items[i]

    def key(self, i: int) -> str | int:
        """Return the name of item i for JSON: a number stays a number."""
        return i if self.items is None else self.items[i]


# -- memberships ---------------------------------------------------------------------------------


@stored("Memberships")
@dataclass(frozen=True)
class Memberships:
    """Which of n items belong to which things.

    Attributes
    ----------
    source : Path
    things : tuple of str
        Names of the T things.
    table : CSR array (n, T)
        Strengths of the memberships, 1 where none were given.
    """

    source: Path | str
    things: tuple[str, ...]
    table: Any

    def __post_init__(self) -> None:
        named = hasattr(self.table, "indptr") and self.table.shape[1] == len(self.things)
        require(named, "expected memberships in known groups")
        strong = np.all((self.table.data > 0) & (self.table.data < np.inf))
        require(strong and self.table.has_canonical_format, "expected memberships > 0, each once")

    @property
    def presence(self) -> Any:
        """The memberships without their strengths: a CSR array (n, T) of ones."""
        ones = self.table.copy()
        ones.data = np.ones_like(ones.data)
        return ones

    @property
    def members(self) -> Floats:
        """The number of members of each thing, (T,)."""
        return np.bincount(self.table.indices, minlength=len(self.things)).astype(np.float64)

    @cached_property
    def projection(self) -> Relation:
        """The edges between items that share a thing."""
        return self.projected()

    def weighted(self, rows: Any) -> Any:
        """Return rows of memberships in which things with few members count more."""
        rarity = 1.0 + np.log((1.0 + self.table.shape[0]) / (1.0 + self.members))
        return rows.multiply(rarity[None, :]).tocsr()

    def projected(self, new: Any = None) -> Relation:
        """Return the strengths between items as edges; those of `new` rows (m, T), if given.

        New items are numbered from n on.
        """
        from scipy.sparse import triu

        members = self.members
        order = np.argsort(-members, kind="stable")
        pairs = np.cumsum(members[order][::-1] ** 2)[::-1]  # without those before
        share = 1.0 / np.maximum(members, 1.0)
        share[order[pairs > MOST_PAIRS]] = 0.0
        n = self.table.shape[0]
        left: Any = self.table if new is None else new
        strengths = (left.multiply(share[None, :]).tocsr() @ self.table.T).tocoo()
        if new is None:
            strengths = triu(strengths, k=1, format="coo")
        kept = strengths.data > 0
        first = strengths.row[kept] + (0 if new is None else n)
        ends = np.column_stack([first, strengths.col[kept]]).astype(np.int64)
        total = n if new is None else n + new.shape[0]
        return Relation(self.source, total, None, ends, strengths.data[kept], "similarity")


def are_memberships(edges: Relation, number: Indices) -> bool:
    """Return whether most edges join an item with a thing, and a thing has two members.

    `number` are the positions of the nodes among the items, -1 for things.
    """
    if edges.ids is None:
        return False
    known = number[edges.ends] >= 0
    across = known[:, 0] != known[:, 1]
    if 2 * across.sum() <= len(edges.ends):
        return False
    things = np.where(known[across, 0], edges.ends[across, 1], edges.ends[across, 0])
    items = np.where(known[across, 0], edges.ends[across, 0], edges.ends[across, 1])
    pairs = np.unique(np.column_stack([things, items]), axis=0)
    return bool((np.unique(pairs[:, 0], return_counts=True)[1] > 1).any())


def column_of_things(edges: Relation, number: Indices) -> int | None:
    """Return the column that holds things, if most edges lead from an item to it; else None."""
    known = number[edges.ends] >= 0
    across = known[:, 0] != known[:, 1]
    first = int((across & known[:, 0]).sum())
    if 2 * across.sum() <= len(across) or first not in (0, across.sum()):
        return None
    return 1 if first else 0


def memberships_of(
    edges: Relation, number: Indices, n: int, things: tuple[str, ...] | None = None
) -> Memberships:
    """Return the memberships of n items in an edge list.

    `number` are the positions of its nodes among the items, -1 for others. With `things`, those of
    a fit, memberships in others are left out; items of the fit may be things, too.
    """
    from scipy.sparse import coo_array

    assert edges.ids is not None
    both, column = edges.ends, column_of_things(edges, number) if things is None else None
    weights = np.ones(len(both)) if edges.weights is None else edges.weights
    if edges.weight == "length":
        weights = 1.0 / np.maximum(weights, np.finfo(float).tiny)
    if column == 0 or (edges.directed and not (number[both[:, 0]] >= 0).any()):
        both = both[:, ::-1]  # things first: they have members
    elif column is None and not edges.directed:
        both = np.concatenate([both, both[:, ::-1]])
        weights = np.concatenate([weights, weights])
    used = (number[both[:, 0]] >= 0) & (weights > 0)
    used &= (both[:, 0] != both[:, 1]) | (column is not None)
    if things is None:
        kept = np.unique(both[used, 1])
        names = tuple(edges.ids[k] for k in kept.tolist())
        place = np.full(len(edges.ids), -1)
        place[kept] = np.arange(len(kept))
    else:
        names, known = things, {name: k for k, name in enumerate(things)}
        place = np.array([known.get(name, -1) for name in edges.ids], dtype=np.int64)
        used &= place[both[:, 1]] >= 0
    ends = number[both[used, 0]], place[both[used, 1]]
    table = coo_array((weights[used], ends), shape=(n, len(names))).tocsr()
    table.sort_indices()
    return Memberships(edges.source, names, table)

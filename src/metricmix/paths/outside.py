r"""New items: paths that start outside a stack and go on through its items.

.. math:: d(x, j) = \min_u \; w(x, u) + d(u, j)

A new item x is joined to the n items of a stack by edges; what it needs to know of them is either a
short search, a table that was made once, or one min-plus product. No all-pairs computation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.kernels.frontier import chunk_count, relax, take_nearest
from metricmix.kernels.minplus import Packed, pack_columns, pack_rows, panel_width, update
from metricmix.kernels.mixing import link_in_place
from metricmix.kernels.outside import enter, nearest_by_table, nearest_wanted
from metricmix.kernels.threads import effective_threads, in_threads
from metricmix.kernels.tile import STRIP
from metricmix.mixture.lengths import EdgeLengths

__all__ = ["NewItems", "min_plus"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
ROUNDING = 1e-12
"""Dissimilarity, relative to the scale of its source, that is taken for 0."""
DEPTH = 512
"""Items that a min-plus product goes through at a time: their panels stay in the cache."""


@dataclass(frozen=True)
class NewItems:
    """M new items, joined by edges to the n items of a stack.

    Attributes
    ----------
    lengths : EdgeLengths
        Of the edges between the items of the stack.
    m : (M, n) array
        Mixture values of the edges from the new items, before the link.
    same : (M,) array
        For a new item that no source tells from an item of the stack, that item: it *is* that
        item, at distance 0 from it. -1 for all others.
    n_jobs : int, optional
        Threads.
    """

    lengths: EdgeLengths
    m: Floats
    same: Indices
    n_jobs: int | None = None

    @classmethod
    def from_rows(
        cls, lengths: EdgeLengths, raw: NDArray[Any], *, n_jobs: int | None = None
    ) -> NewItems:
        """Join new items whose raw dissimilarities to the stack's items are `raw`, (M, n, R)."""
        weights, scales = lengths.raw_weights, lengths.stack.scales
        m = np.asarray(raw @ weights, dtype=np.float64)
        # Where no source tells two items apart, neither does the mixture: few places to look at.
        maybe = np.abs(m) <= ROUNDING * float(np.abs(weights) @ scales)
        item, place = np.nonzero(maybe)
        equal = (np.abs(raw[item, place]) <= ROUNDING * scales).all(axis=1)
        same = np.full(len(raw), -1)
        same[item[equal][::-1]] = place[equal][::-1]  # the first of several
        return cls(lengths, np.ascontiguousarray(m), same, n_jobs)

    def __len__(self) -> int:
        return len(self.m)

    def select(self, chosen: Any) -> NewItems:
        """Return some of the new items, by a mask or by numbers."""
        return replace(self, m=np.ascontiguousarray(self.m[chosen]), same=self.same[chosen])

    def edges(self) -> Floats:
        """Return the lengths of the edges to all items, (M, n)."""
        w = self.m.copy()
        parts = np.array_split(w, 4 * effective_threads(self.n_jobs))
        in_threads(
            lambda part: link_in_place(part, self.lengths.beta, self.lengths.link),
            [part for part in parts if len(part)],
            self.n_jobs,
        )
        w[self.same >= 0, self.same[self.same >= 0]] = 0.0
        return w

    def distances(self, d: Floats) -> Floats:
        """Return the distances to some items, given those from all items to them.

        Parameters
        ----------
        d : (n, T) array
            Distances from every item of the stack to the T items.

        Returns
        -------
        (M, T) array
            One min-plus product, M n T pairs of operations at most.
        """
        return min_plus(self.edges(), d, n_jobs=self.n_jobs)

    def nearest(
        self, wanted: NDArray[np.bool_], k: int, table: tuple[Floats, Indices] | None = None
    ) -> tuple[Floats, Indices]:
        """Return the k nearest wanted items of every new item.

        Parameters
        ----------
        wanted : (n,) mask
            At least k items.
        k : int
        table : pair of (n, k) arrays, optional
            Distances and numbers of the k nearest wanted items of every item of the stack, if known
            (:func:`~metricmix.paths.nearest_labelled`): one pass over the edges is enough then.
            Without it, a search per new item settles items until it has met k wanted ones.

        Returns
        -------
        distances, items : (M, k) arrays
            Nearest first.
        """
        m = self.m
        if (self.same >= 0).any():  # such an item is entered at no cost at all
            m = m.copy()
            known = np.flatnonzero(self.same >= 0)
            m[known, self.same[known]] = -np.inf
        distances = np.empty((len(m), k))
        items = np.empty((len(m), k), np.int64)
        link = (self.lengths.beta, self.lengths.link)
        threads = effective_threads(self.n_jobs)
        ends = np.linspace(0, len(m), min(len(m), 4 * threads) + 1).astype(np.int64)
        shares = list(pairwise(ends.tolist()))
        if table is not None:

            def look_up(share: tuple[int, int]) -> None:
                nearest_by_table(m, *link, *share, *table, distances, items)

            in_threads(look_up, shares, threads)
        elif self.lengths.block is not None:

            def search(share: tuple[int, int]) -> None:
                rows = (self.lengths.block, self.lengths.raw_weights, *link)
                state = _state(self.lengths.n)
                nearest_wanted(
                    *rows, m, *share, wanted, *state, np.empty(self.lengths.n), distances, items
                )

            in_threads(search, shares, threads)
        else:
            self._search_computed(m, wanted, distances, items)
        distances[items == self.same[:, None]] = 0.0
        return distances, items

    def _search_computed(
        self, m: Floats, wanted: NDArray[np.bool_], distances: Floats, items: Indices
    ) -> None:
        """Search likewise, where rows have to be asked for."""
        lengths, k = self.lengths, distances.shape[1]
        state = _state(lengths.n)
        dist, key, least = state[:3]
        for q in range(len(m)):
            enter(m[q], lengths.beta, lengths.link, wanted, k, *state)
            found = 0
            while found < k:
                u = take_nearest(key, least)
                if wanted[u]:
                    distances[q, found], items[q, found] = dist[u], u
                    found += 1
                if found < k:
                    row = lengths.mixed_rows(np.array([u]))[0]
                    relax(u, row, lengths.beta, lengths.link, *state)


def min_plus(A: Floats, B: Floats, *, n_jobs: int | None = None) -> Floats:
    r"""Return the min-plus product :math:`C_{ij} = \min_k A_{ik} + B_{kj}`.

    Parameters
    ----------
    A : (M, n) array
    B : (n, T) array
    n_jobs : int, optional
        Threads; the result does not depend on it.

    Examples
    --------
    >>> min_plus(np.array([[0.0, 2.0]]), np.array([[5.0, 1.0], [1.0, 9.0]]))
    array([[3., 1.]])
    """
    dtype = np.result_type(A, B)
    left, right = np.ascontiguousarray(A, dtype), np.ascontiguousarray(B, dtype)
    C = np.full((len(left), right.shape[1]), np.inf, dtype)
    n, columns = right.shape
    panels = []
    for first in range(0, n, DEPTH):
        part = right[first : first + DEPTH]
        panels.append(Packed.empty(columns, len(part), panel_width(dtype), dtype))
        pack_columns(part, 0, columns, panels[-1])

    def fill(start: int) -> None:
        stop = min(len(left), start + 8 * STRIP)
        rows = left[start:stop]
        highs = np.full((-(-len(rows) // STRIP), len(panels[0].parts)), np.inf, dtype)
        for number, first in enumerate(range(0, n, DEPTH)):
            part = np.ascontiguousarray(rows[:, first : first + DEPTH])
            strips = Packed.empty(len(rows), part.shape[1], STRIP, dtype)
            pack_rows(part, 0, len(rows), strips)
            update(C, start, stop, strips, panels[number], highs)

    in_threads(fill, range(0, len(left), 8 * STRIP), n_jobs)
    return C


def _state(n: int) -> tuple[Any, ...]:
    """Return the arrays of a search: distances, keys, chunk minima, predecessors, roots."""
    return (
        np.empty(n),
        np.empty(n),
        np.empty(chunk_count(n)),
        np.empty(n, np.int32),
        np.empty(n, np.int32),
    )

r"""Graphs over items that new items can be joined to: given ones, near items, and both.

A graph has the strengths A of its edges, the operator :math:`B = D^{-1/2} (A + I) D^{-1/2}`, and
for m new items the strengths of their edges. What walks did for the n items stays as it is; new
items follow from their own rows of B, computed with the degrees of the fit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from metricmix.cached import cached_property
from metricmix.dissimilarity.diffusion import normalised, walk_steps
from metricmix.dissimilarity.item_sources import NewItemData, SourceData, TableSource
from metricmix.dissimilarity.nearest_items import joined
from metricmix.typing import Floats

__all__ = ["ItemGraph", "JointGraph", "NearGraph", "NewSteps", "near_graph"]

LINK_STRENGTH = 10.0
"""Of a given link, in a graph where near items are joined by edges of strength 1."""


class NewSteps(NamedTuple):
    """Rows of B of m new items: steps to the n items (m, n), and among new items (m, m)."""

    across: Any
    among: Any


class ItemGraph(ABC):
    """A graph over n items."""

    n: int
    one_way = False

    @property
    @abstractmethod
    def strengths(self) -> Any:
        """The strengths of the edges, CSR (n, n)."""

    @abstractmethod
    def new_strengths(self, new: NewItemData) -> Any:
        """Return the strengths of the edges of new items, CSR (m, n + m)."""

    @cached_property
    def operator(self) -> Any:
        """The normalised adjacency with self loops, B; the steps of a walk along directed edges."""
        return walk_steps(self.strengths) if self.one_way else normalised(self.strengths)

    def new_steps(self, new: NewItemData) -> NewSteps:
        """Return the rows of B of new items; those of all others stay as they are."""
        from scipy.sparse import eye_array

        n, m = self.n, len(new.items.ids)
        strengths = self.new_strengths(new)
        mine = 1.0 + np.asarray(strengths.sum(axis=1)).ravel()
        if self.one_way:
            left, right_old, right_new = 1.0 / mine, np.ones(n), np.ones(m)
        else:
            old = 1.0 + np.asarray(self.strengths.sum(axis=1)).ravel()
            left = right_new = 1.0 / np.sqrt(mine)
            right_old = 1.0 / np.sqrt(old)
        across = strengths[:, :n].multiply(left[:, None]).multiply(right_old[None, :])
        among = (strengths[:, n:] + eye_array(m)).multiply(left[:, None])
        return NewSteps(across, among.multiply(right_new[None, :]))

    def attached(self, new: NewItemData, restart: float, own: Any, known: Any) -> Floats:
        """Return the smoothed rows of new items, (m, d).

        They solve ``Z = restart own + (1 - restart) (B_new Z + B_old known)``, `own` being the rows
        of the new items (m, d) before, and `known` those of all items (n, d) after smoothing.
        """
        steps = self.new_steps(new)
        return solved(steps, restart, restart * own + (1.0 - restart) * (steps.across @ known))

    def walked(self, new: NewItemData, own: Floats, stages: Iterable[Floats]) -> list[Floats]:
        """Return the rows of new items after each step, given those of all items before it."""
        steps, found = self.new_steps(new), []
        for known in stages:
            own = np.asarray(steps.among @ own + steps.across @ known)
            found.append(own)
        return found


def solved(steps: NewSteps, restart: float, right: Floats) -> Floats:
    """Return Z with ``(I - (1 - restart) B_new) Z = right``, (m, d)."""
    from scipy.sparse import eye_array
    from scipy.sparse.linalg import spsolve

    m = steps.among.shape[0]
    system = (eye_array(m) - (1.0 - restart) * steps.among).tocsc()
    return np.asarray(spsolve(system, right)).reshape(m, -1)


class NearGraph(ItemGraph):
    """Joins each item to its k nearest by a view, with strength 1; new items to fitted ones."""

    def __init__(self, view: TableSource, k: int) -> None:
        self.view, self.k, self.n = view, min(k, view.n - 1), view.n

    @cached_property
    def strengths(self) -> Any:
        """The edges, symmetric: 1 where one item is among the nearest of the other."""
        return joined(self.view.nearest(self.k), self.k)

    def new_strengths(self, new: NewItemData) -> Any:
        """Return 1 for the k items of the fit that are nearest to each new item."""
        from scipy.sparse import csr_array

        m = len(new.items.ids)
        near = np.argsort(self.view.cross(new, None), axis=1, kind="stable")[:, : self.k]
        ends = np.repeat(np.arange(m), near.shape[1]), near.ravel()
        return csr_array((np.ones(near.size), ends), shape=(m, self.n + m))


def near_graph(data: SourceData, view: TableSource, k: int) -> NearGraph:
    """Return the graph that joins each item to its k nearest by a view."""
    graph: NearGraph = data.once(("near", id(view), k), lambda: NearGraph(view, k))
    return graph


class JointGraph(ItemGraph):
    """Given links, ten times as strong, beside those of near items."""

    def __init__(self, links: ItemGraph, near: ItemGraph) -> None:
        self.links, self.near, self.n = links, near, links.n

    @cached_property
    def strengths(self) -> Any:
        """The sums of the strengths."""
        return (LINK_STRENGTH * self.links.strengths + self.near.strengths).tocsr()

    def new_strengths(self, new: NewItemData) -> Any:
        """Return the sums of the strengths of new items."""
        given, near = self.links.new_strengths(new), self.near.new_strengths(new)
        return (LINK_STRENGTH * given + near).tocsr()

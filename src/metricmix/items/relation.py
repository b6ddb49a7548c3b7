"""Relations between items, and precomputed matrices, as they were given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from metricmix.exceptions import TableFileError
from metricmix.typing import Floats, Indices

__all__ = ["Matrix", "Relation"]


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

    def select(self, edges: NDArray[np.bool_], ends: Indices, n_nodes: int) -> Relation:
        """Return the edges of a mask, with new `ends` (of all edges) among `n_nodes` nodes."""
        weights = None if self.weights is None else self.weights[edges]
        return replace(self, n_nodes=n_nodes, ids=None, ends=ends[edges], weights=weights)


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

    def name(self, i: int) -> str:
        """Return the name of item i, or its number, from 0 on."""
        return str(i) if self.items is None else self.items[i]

    def key(self, i: int) -> str | int:
        """Return the name of item i for JSON: a number stays a number."""
        return i if self.items is None else self.items[i]

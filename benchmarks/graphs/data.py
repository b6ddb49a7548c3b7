"""The graphs to choose by and to report on, how labels are drawn, and the folder of all graphs.

Defaults were chosen by looking at the graphs of `CHOICE`, among others. Those of `REPORT` were
listed before any method was fitted on any of them, and nothing was chosen on them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import coo_array, csr_array

from benchmarks.accuracy.data import Indices, Split, network
from metricmix.exceptions import DatasetNotFoundError

LARGE, SAMPLED = 4000, 2500
"""Of graphs with more items than the first, so many of the second are taken."""
NEIGHBOURS = 10
"""Of each item of a sample, at most so many neighbours are followed."""
RARE = 10
"""Classes with fewer items are unknown labels."""
LABELS, DRAWS = (1, 3, 5, 10, 20), 5
N_VALIDATION, SHARE = 500, 1 / 3
FOLDER = "METRICMIX_GRAPHS"
"""The environment variable that names a folder which ``--export`` wrote."""


@dataclass(frozen=True, eq=False)
class Graph:
    """Items with a class, attributes and relations.

    Attributes
    ----------
    name : str
    labels : (n,) array
        Class numbers; -1: unknown.
    relations : mapping of names to sparse matrices of ones
        (n, n): links, directed if the matrix is asymmetric; (n, g): what the items have.
    words : (n, d) sparse array or None
        Counts of words.
    table : DataFrame
        Other attributes: numbers, categories and texts; perhaps no column.
    texts : tuple of str
        The columns that are texts.
    """

    name: str
    labels: Indices
    relations: dict[str, Any]
    words: Any = None
    table: pd.DataFrame = field(default_factory=pd.DataFrame)
    texts: tuple[str, ...] = ()

    @property
    def n(self) -> int:
        """Number of items."""
        return len(self.labels)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.labels.max()) + 1

    def take(self, items: Indices) -> Graph:
        """Return the sub-graph of some items."""
        relations = {}
        for name, matrix in self.relations.items():
            part = csr_array(matrix)[items]
            if matrix.shape[0] == matrix.shape[1]:
                part = part[:, items]
            else:
                part = part[:, np.flatnonzero(np.asarray(part.sum(axis=0)).ravel() > 1)]
            relations[name] = csr_array(part)
        words = None if self.words is None else csr_array(self.words)[items]
        table = self.table.iloc[items].reset_index(drop=True) if len(self.table) else self.table
        return Graph(self.name, self.labels[items], relations, words, table, self.texts)


def links(n: int, pairs: Any, *, directed: bool = False) -> Any:
    """Return a relation between n items from pairs of their numbers; without loops."""
    i, j = np.asarray(list(pairs), np.int64).reshape(-1, 2).T
    i, j = i[i != j], j[i != j]
    if not directed:
        i, j = np.concatenate([i, j]), np.concatenate([j, i])
    return _ones(i, j, (n, n))


def memberships(n: int, pairs: Sequence[tuple[int, Any]], most: float = np.inf) -> Any:
    """Return what n items have, of pairs (item, thing): things that 2 to `most` items have."""
    frame = pd.DataFrame(sorted(set(pairs)), columns=["item", "thing"])
    sizes = frame["thing"].map(frame["thing"].value_counts())
    frame = frame[(sizes > 1) & (sizes <= most)]
    j, things = pd.factorize(frame["thing"])
    return _ones(frame["item"].to_numpy(), j, (n, len(things)))


def _ones(i: Any, j: Any, shape: tuple[int, int]) -> Any:
    found = csr_array(coo_array((np.ones(len(i)), (i, j)), shape=shape))
    found.data[:] = 1.0
    return found


def union(graph: Graph) -> Any:
    """Return all relations as one symmetric matrix of ones; items that share a thing are linked."""
    total: Any = csr_array((graph.n, graph.n))
    for matrix in graph.relations.values():
        total = total + (matrix if matrix.shape[0] == matrix.shape[1] else matrix @ matrix.T)
    total = coo_array(total + total.T)
    off = total.row != total.col
    return _ones(total.row[off], total.col[off], total.shape)


def numbered(classes: Sequence[Any]) -> Indices:
    """Return class numbers, from the names in order; rare and missing ones are -1."""
    names = pd.Series(list(classes))
    counts = names.value_counts()
    kept = sorted(counts.index[counts >= RARE])
    return names.map({name: k for k, name in enumerate(kept)}).fillna(-1).to_numpy(np.int64)


def sampled(graph: Graph, seed: int = 0, most: int = SAMPLED) -> Graph:
    """Return a sub-graph of `most` items: those found first from random items on.

    From a random item, at most ten random neighbours of each item found are followed, first found,
    first followed; then from another random item, until there are enough.
    """
    rng = np.random.default_rng(seed)
    A = union(graph)
    seen = np.zeros(graph.n, dtype=bool)
    found: list[int] = []
    for start in rng.permutation(graph.n):
        queue = [start] if not seen[start] else []
        seen[start] = True
        while queue and len(found) < most:
            item = queue.pop(0)
            found.append(int(item))
            near = A.indices[A.indptr[item] : A.indptr[item + 1]]
            near = rng.permutation(near[~seen[near]])[:NEIGHBOURS]
            seen[near] = True
            queue += list(near)
        if len(found) >= most:
            break
    part = graph.take(np.sort(np.array(found)))
    return Graph(
        part.name, numbered(part.labels), part.relations, part.words, part.table, part.texts
    )


def shared(name: str) -> Graph:
    """Return a graph of METRICMIX_DATA: words, and undirected links."""
    if name in ("citeseer", "cora", "pubmed"):
        found = network(name)
        labels, words, edges = found.target, csr_array(found.data), found.edges
    else:
        path = Path(os.environ.get("METRICMIX_DATA", "."), "attributed", f"{name}.npz")
        if not path.exists():
            raise DatasetNotFoundError(f"{path}: expected a file of attributes and links")
        with np.load(path, allow_pickle=False) as part:
            words = _from_arrays(part, "features")
            labels, edges = part["labels"], part["edges"]
    labels = numbered([None if one < 0 else int(one) for one in labels])
    return Graph(name, labels, {"links": links(len(labels), edges)}, words)


# -- the lists -------------------------------------------------------------------------------------

CHOICE = {
    "citeseer": "papers, Citeseer",
    "cora": "papers, Cora",
    "pubmed": "papers, Pubmed",
    "texas": "web pages, Texas",
    "wisconsin": "web pages, Wisconsin",
    "film": "actors",
    "uai": "articles, UAI",
}
"""Graphs that were looked at while defaults were chosen."""
REPORT = {
    "neurons": "neurons of a worm",
    "metabolites": "metabolites of a bacterium",
    "cells": "blood cells",
    "grid": "buses of a power grid",
    "pupils": "pupils of a school",
    "teams": "football teams",
    "artists": "musicians",
    "airports": "airports",
    "houses": "houses",
    "movies": "movies",
    "synsets": "synsets of WordNet",
    "debian": "Debian packages",
    "manuals": "manual pages",
    "languages": "programming languages",
    "modules": "modules of SymPy",
    "pokemon": "Pokémon",
}
"""Graphs on which nothing was chosen."""
GRAPHS = {**CHOICE, **REPORT}


@cache
def load(name: str) -> Graph:
    """Return a graph: from the exported folder if there is one, else from its package.

    Raises
    ------
    DatasetNotFoundError
        If its files are missing; nothing is downloaded.
    """
    if os.environ.get(FOLDER):
        return read(Path(os.environ[FOLDER], f"{name}.npz"))
    if name in CHOICE:
        graph = shared(name)
    else:
        from benchmarks.graphs import packaged

        loader: Callable[[], Graph] = getattr(packaged, name)
        graph = loader()
    return sampled(graph) if graph.n > LARGE else graph


# -- files -----------------------------------------------------------------------------------------


def export(graph: Graph, folder: Path) -> None:
    """Write a graph as a file of plain arrays."""
    arrays: dict[str, Any] = {"labels": graph.labels, "texts": np.array(graph.texts, dtype=str)}
    arrays["relations"] = np.array(list(graph.relations), dtype=str)
    arrays["columns"] = np.array(list(graph.table.columns), dtype=str)
    for name, matrix in graph.relations.items():
        arrays |= _as_arrays(matrix, f"relation {name}")
    if graph.words is not None:
        arrays |= _as_arrays(graph.words, "words")
    for name in graph.table:
        column = graph.table[name]
        numeric = pd.api.types.is_numeric_dtype(column)
        values = column.to_numpy(np.float64) if numeric else column.fillna("").to_numpy(str)
        arrays[f"column {name}"] = values
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / f"{graph.name}.npz", **arrays)


def read(path: Path) -> Graph:
    """Return a graph that :func:`export` wrote."""
    if not path.exists():
        raise DatasetNotFoundError(f"{path}: expected a file that --export writes")
    with np.load(path, allow_pickle=False) as part:
        table = pd.DataFrame({str(name): part[f"column {name}"] for name in part["columns"]})
        relations = {
            str(name): _from_arrays(part, f"relation {name}") for name in part["relations"]
        }
        words = _from_arrays(part, "words") if "words_indptr" in part else None
        texts = tuple(str(name) for name in part["texts"])
        return Graph(path.stem, part["labels"], relations, words, table, texts)


def _as_arrays(matrix: Any, name: str) -> dict[str, Any]:
    M = csr_array(matrix)
    return {
        f"{name}_data": M.data.astype(np.float32),
        f"{name}_indices": M.indices.astype(np.int32),
        f"{name}_indptr": M.indptr.astype(np.int32),
        f"{name}_shape": np.array(M.shape),
    }


def _from_arrays(arrays: Any, name: str) -> Any:
    parts = [arrays[f"{name}_{part}"] for part in ("data", "indices", "indptr")]
    return csr_array(
        (parts[0].astype(np.float64), *parts[1:]), shape=tuple(arrays[f"{name}_shape"])
    )


# -- labels ----------------------------------------------------------------------------------------


def split(labels: Indices, per_class: int, draw: int) -> Split:
    """Return items with a label, items to validate on, and items to test on.

    Of each class `per_class` items have a label, and at most a third of the class (but one); 500 of
    the others are for validation, or a third of them if that is less. Draws with more labels
    have those of draws with fewer, too.
    """
    order = np.random.default_rng(draw).permutation(np.flatnonzero(labels >= 0))
    of = labels[order]
    parts = []
    for c in range(labels.max() + 1):
        members = order[of == c]
        parts.append(members[: max(1, min(per_class, int(SHARE * len(members))))])
    train = np.concatenate(parts)
    rest = order[~np.isin(order, train)]
    count = min(N_VALIDATION, int(SHARE * len(rest)))
    return train, rest[:count], rest[count:]

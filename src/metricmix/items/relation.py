"""Relations between items, and precomputed matrices: what was given, from any library."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.exceptions import InputError, TableFileError
from metricmix.items.cells import quoted
from metricmix.items.tables import text_of, texts_of
from metricmix.state import require, stored
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import as_float_array, check_choice

__all__ = ["Matrix", "Relation", "as_matrix", "as_relation", "numbered"]

WEIGHT_NAMES = ("length", "similarity", "weight")
ENDS = (("source", "target"), ("from", "to"))
ROW, GROUP = "row ", "group "
"""What rows and columns of a matrix of memberships are called, before the ids are known."""


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

    def name(self, i: int) -> str:
        """Return the name of item i, or its number, from 0 on."""
        return str(i) if self.items is None else self.items[i]

    def key(self, i: int) -> str | int:
        """Return the name of item i for JSON: a number stays a number."""
        return i if self.items is None else self.items[i]


# -- relations in memory ---------------------------------------------------------------------------


def as_relation(graph: Any, *, weight: str | None = None, directed: bool = False) -> Relation:
    """Return a graph, or memberships, as edges between ids.

    Parameters
    ----------
    graph : networkx or igraph graph, sparse or dense matrix, edge table, pairs, or Relation
        Edge tables have columns ``source`` and ``target`` (or ``from`` and ``to``), or two or three
        columns in this order. A matrix has a row per item, in their order: (n, n) is a graph,
        (n, g) are memberships. Dense arrays of two or three columns of numbers are edges, of
        truth values memberships. A frame with the same ids in its index and its columns is the
        matrix of a graph between these.
    weight : {None, "length", "similarity", "ignore"}
        What weights mean; None: what they are called.
    directed : bool
        Whether edges have a direction, as those of directed networkx and igraph graphs and of
        asymmetric matrices have. Shared neighbours and walks are then computed along and against
        the edges, too; the metric stays symmetric.

    Examples
    --------
    >>> as_relation([("a", "b", 2.0), ("b", "c", 1.0)], weight="length").weights
    array([2., 1.])
    """
    if weight is not None:
        check_choice(weight, ("length", "similarity", "ignore"), name="weight")
    if isinstance(graph, Relation):
        return graph
    graph, names = as_sparse(graph)
    n_nodes, ids, ends, weights, name = read_graph(graph)
    ids = names or ids
    directed = directed or has_directions(graph)
    if weights is not None and not np.all(np.isfinite(weights) & (weights >= 0)):
        wrong = weights[~(np.isfinite(weights) & (weights >= 0))]
        raise InputError(
            argument="edges", expected="finite weights >= 0 for all edges", found=f"{wrong[0]:g}"
        )
    relation = Relation("edges", n_nodes, ids, ends, weights, name, directed)
    meaning = weight or name
    if weights is None or meaning == "ignore" or (weight is None and np.all(weights == 1)):
        return replace(relation, weights=None, weight=None)
    if meaning == "weight":
        raise InputError(
            argument="edges",
            expected="to know what weights mean",
            found=f"{weights[weights != 1][0]:g} among them",
            remedy="pass mm.as_relation(graph, weight='length'), 'similarity' or 'ignore'",
        )
    return replace(relation, weight=meaning)


Read = tuple[int, tuple[str, ...] | None, AnyArray, Floats | None, str]
"""How many nodes there are, their names, ends of the edges, weights, and what these are called."""


def as_sparse(graph: Any) -> tuple[Any, tuple[str, ...] | None]:
    """Return a dense matrix as a sparse one, with the ids of a frame; any other graph as it is."""
    from scipy.sparse import coo_array

    if any(hasattr(graph, name) for name in ("nodes", "get_edgelist", "tocoo")):
        return graph, None
    if hasattr(graph, "to_pandas"):
        graph = graph.to_pandas()
    if hasattr(graph, "columns") and hasattr(graph, "iloc"):
        n, d = graph.shape
        if n != d or set(texts_of(list(graph.index))) != set(texts_of(list(graph.columns))):
            return graph, None
        matrix, ids = aligned(graph)
        few = ids is None and n <= 3  # as many edges as columns
        return (graph, None) if few else (coo_array(as_float_array(matrix, name="edges")), ids)
    array = np.asarray(graph, dtype=None if isinstance(graph, np.ndarray) else object)
    if array.ndim == 2 and (array.shape[1] > 3 or array.dtype.kind == "b"):
        return coo_array(as_float_array(array, name="edges")), None
    return graph, None


def read_graph(graph: Any) -> Read:
    """Return the edges of a graph of any kind."""
    if isinstance(graph, str | Path):
        raise InputError(
            argument="edges",
            expected="a graph in memory, found the name of a file",
            remedy="read it first, as with pandas.read_csv, or run metricmix fit",
        )
    if hasattr(graph, "nodes") and hasattr(graph, "edges"):
        data = list(graph.edges(data=True))
        name = next((w for w in WEIGHT_NAMES if any(w in about for *_, about in data)), None)
        weights = None if name is None else [about.get(name, np.nan) for *_, about in data]
        return of_pairs([(u, v) for u, v, _ in data], weights, name, nodes=graph.nodes)
    if hasattr(graph, "get_edgelist"):
        name = next((w for w in WEIGHT_NAMES if w in graph.es.attributes()), None)
        lengths = None if name is None else as_float_array(graph.es[name], name="weights")
        ends: AnyArray = np.array(graph.get_edgelist(), dtype=np.int64).reshape(-1, 2)
        ids = texts_of(graph.vs["name"]) if "name" in graph.vs.attributes() else None
        return int(graph.vcount()), ids, ends, lengths, name or "weight"
    if hasattr(graph, "tocoo"):
        return of_matrix(graph.tocoo())
    if hasattr(graph, "columns") and hasattr(graph, "iloc"):
        return of_table(graph)
    array = np.asarray(graph, dtype=None if isinstance(graph, np.ndarray) else object)
    if array.ndim != 2 or array.shape[1] not in (2, 3):
        raise InputError(
            argument="edges",
            expected="a graph, a matrix, an edge table or pairs of ids",
            found=f"{type(graph).__name__} of shape {array.shape}",
        )
    weights = array[:, 2].tolist() if array.shape[1] == 3 else None
    if array.dtype.kind in "iu" and weights is None:
        names, ends = np.unique(array, return_inverse=True)
        return len(names), texts_of(names.tolist()), ends.reshape(-1, 2), None, "weight"
    return of_pairs(array[:, :2].tolist(), weights, "weight")


def has_directions(graph: Any) -> bool:
    """Return whether edges have a direction: those of directed graphs and asymmetric matrices."""
    if callable(getattr(graph, "is_directed", None)):
        return bool(graph.is_directed())
    if hasattr(graph, "tocoo") and graph.shape[0] == graph.shape[1]:
        return bool((graph != graph.T).nnz)
    return False


def of_table(table: Any) -> Read:
    """Return the edges of a frame."""
    lowered = {str(name).lower(): name for name in table.columns}
    ends = next(([lowered[a], lowered[b]] for a, b in ENDS if {a, b} <= set(lowered)), None)
    name = next((w for w in WEIGHT_NAMES if w in lowered), None)
    if ends is None:
        if table.shape[1] not in (2, 3):
            raise InputError(
                argument="edges",
                expected="columns source and target, or two or three columns",
                found=quoted([str(column) for column in table.columns], 10),
            )
        ends = list(table.columns[:2])
        if table.shape[1] == 3:
            column = table.columns[2]
            name = name or "weight"
            lowered[name] = column
    weights = None if name is None else table[lowered[name]].tolist()
    pairs = list(zip(table[ends[0]].tolist(), table[ends[1]].tolist(), strict=True))
    return of_pairs(pairs, weights, name)


def of_pairs(
    pairs: Sequence[Any], weights: Any, name: str | None, nodes: Iterable[Any] = ()
) -> Read:
    """Return edges between named nodes; `nodes` come first, isolated ones among them."""
    number = {text: k for k, text in enumerate(dict.fromkeys(text_of(node) for node in nodes))}
    ends = np.empty((len(pairs), 2), dtype=np.int64)
    for e, pair in enumerate(pairs):
        for side in (0, 1):
            text = text_of(pair[side])
            if not text:
                raise InputError(
                    argument="edges", expected=f"two ids in every edge, found {pair!r}"
                )
            ends[e, side] = number.setdefault(text, len(number))
    values = None if weights is None else as_float_array(list(weights), name="weights")
    return len(number), tuple(number), ends, values, name or "weight"


def of_matrix(matrix: Any) -> Read:
    """Return the entries of a sparse matrix as edges: between rows, or of rows with columns."""
    keep = matrix.data != 0
    ends = np.column_stack([matrix.row[keep], matrix.col[keep]]).astype(np.int64)
    weights = np.asarray(matrix.data[keep], dtype=np.float64)
    n, m = matrix.shape
    if n == m:
        return n, None, ends, weights, "weight"
    names = (*(f"{ROW}{k}" for k in range(n)), *(f"{GROUP}{g}" for g in range(m)))
    ends[:, 1] += n
    return n + m, names, ends, weights, "similarity"


def numbered(relation: Relation, ids: Sequence[str], source: str) -> Relation:
    """Return a relation whose nodes are rows, or row numbers, with the ids of these rows."""
    relation = replace(relation, source=source)
    names, n = relation.ids, len(ids)
    if names is None:
        if relation.n_nodes != n:
            raise InputError(
                argument=source, expected=f"{n} nodes, one per item", found=relation.n_nodes
            )
        return relation
    if names and names[0] == f"{ROW}0":
        rows = sum(name.startswith(ROW) for name in names)
        if rows != n:
            raise InputError(argument=source, expected=f"{n} rows, one per item", found=rows)
        return replace(relation, ids=(*ids, *names[n:]))
    by_row = all(name.isdecimal() and int(name) < n for name in names)
    if not by_row or set(names) & set(ids):
        return relation
    return replace(relation, ids=tuple(ids[int(name)] for name in names))


# -- matrices in memory ----------------------------------------------------------------------------


def as_matrix(given: Any) -> Matrix:
    """Return a precomputed matrix; the index of a frame has the ids of its items."""
    if isinstance(given, Matrix):
        return given
    items = None
    if hasattr(given, "columns") and hasattr(given, "index"):
        given, items = aligned(given)
    else:
        items = getattr(given, "items", None)
        items = None if items is None or callable(items) else texts_of(list(items))
    values = as_float_array(given, name="matrices")
    if values.ndim != 2 or values.shape[0] != values.shape[1]:
        raise InputError(
            argument="matrices", expected="a square matrix", found=f"shape {values.shape}"
        )
    return Matrix(np.asarray(values, dtype=np.float64), items)


def aligned(frame: Any) -> tuple[Any, tuple[str, ...] | None]:
    """Return a square frame with its columns in the order of its index, and the ids in this.

    Ids are None where rows and columns are only numbered. InputError if the two differ.
    """
    rows, columns = texts_of(list(frame.index)), texts_of(list(frame.columns))
    if rows == columns == tuple(str(k) for k in range(len(rows))):
        return frame, None
    if sorted(rows) != sorted(columns) or len(set(rows)) < len(rows):
        other = next((row for row in rows if row not in columns or rows.count(row) > 1), columns[0])
        raise InputError(
            argument="matrices",
            expected="the same ids in the index and the columns of a frame, each once",
            found=f"{other!r} in one of them only, or twice",
        )
    place = {name: k for k, name in enumerate(columns)}
    return frame.iloc[:, [place[row] for row in rows]], rows

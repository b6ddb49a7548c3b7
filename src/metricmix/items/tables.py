"""Tables, graphs and matrices in memory, from any library: columns of values, and relations.

Values keep their types. A column of numbers is a column of numbers; texts are typed as those of
files are (:mod:`metricmix.items.columns`), so that the same values mean the same from either door.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from metricmix.exceptions import InputError
from metricmix.items.cells import MANY_COLUMNS, MOSTLY_ZERO, quoted
from metricmix.items.relation import Relation
from metricmix.labels import is_missing
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import as_float_array, check_choice, check_table, unmasked

if TYPE_CHECKING:
    import pandas as pd

    from metricmix.items.items import Values

__all__ = [
    "aligned",
    "as_frame",
    "as_relation",
    "count_table",
    "library_edges",
    "of_pairs",
    "texts_of",
    "values_of",
]

WEIGHT_NAMES = ("length", "similarity", "weight")
ENDS = (("source", "target"), ("from", "to"))
ROW, GROUP = "row ", "group "
"""What rows and columns of a matrix of memberships are called, before the ids are known."""

PLAIN = (str, Real, np.bool_, Decimal, date, timedelta, np.datetime64, np.timedelta64)
"""What a cell may hold."""


def as_frame(data: Any) -> pd.DataFrame:
    """Return a table as a pandas DataFrame whose columns have texts as names, each its own.

    A sparse table of counts has no columns there; see :func:`count_table`.
    """
    import pandas as pd

    counts = count_table(data)
    if counts is not None:
        return pd.DataFrame(index=range(counts.shape[0]))
    frame = data if isinstance(data, pd.DataFrame) else read_frame(data)
    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        twice = next(name for k, name in enumerate(names) if name in names[:k])
        raise InputError(argument="data", expected="every column once", found=f"{twice!r} twice")
    return frame.set_axis(names, axis=1)


def count_table(data: Any) -> Any:
    """Return a sparse table of counts as CSR; None for other data.

    Counts are not negative, and most are zero. A sparse table of others, or of few columns, is read
    as an array is.
    """
    if not hasattr(data, "tocsr"):
        return None
    from scipy.sparse import csr_array

    table = csr_array(check_table(data, allow_nan=True), copy=True)
    table.data = np.nan_to_num(table.data)  # a missing count is 0
    table.eliminate_zeros()
    entries = table.shape[0] * table.shape[1]
    if table.shape[1] < MANY_COLUMNS or table.nnz > (1 - MOSTLY_ZERO) * entries:
        return None
    return table if table.data.min(initial=0.0) >= 0 else None


def read_frame(data: Any) -> pd.DataFrame:
    """Return an array, a mapping of columns, a list of records, or a frame of another library."""
    import pandas as pd

    if isinstance(data, str | PathLike):
        raise InputError(
            argument="data",
            expected="a table in memory, found the name of a file",
            remedy="read it first, as with pandas.read_csv, or run metricmix fit",
        )
    if hasattr(data, "to_pandas"):  # polars, pyarrow
        return pd.DataFrame(data.to_pandas())
    if hasattr(data, "toarray"):
        data = data.toarray()
    ragged = InputError(argument="data", expected="rows of equal length, found ragged ones")
    if isinstance(data, Mapping):
        try:
            return pd.DataFrame(dict(data))
        except ValueError:
            raise ragged.replace(expected="columns of equal length, found ragged ones") from None
    if isinstance(data, list) and data and all(isinstance(row, Mapping) for row in data):
        return pd.DataFrame(data)
    try:
        array = np.asarray(unmasked(data))
    except ValueError:
        raise ragged from None
    if array.dtype.kind not in "biufmMc":
        array = np.array(data, dtype=object)
    if array.ndim > 2:
        array = array.reshape(len(array), -1)
    if array.ndim != 2:
        raise InputError(
            argument="data", expected="a table, a row per item", found=f"shape {array.shape}"
        )
    return pd.DataFrame(array)


def values_of(series: pd.Series[Any], name: str) -> tuple[Values, str]:
    """Return the values of a column, and the kind that its type states ("" for none)."""
    kind = getattr(series.dtype, "kind", "O")
    if kind in "iuf":
        return finite(series.to_numpy(dtype=np.float64, na_value=np.nan), name), ""
    if kind == "M":
        return days_of(series.to_numpy(dtype="datetime64[ns]")), "date"
    if kind == "m":
        return days_of(series.to_numpy(dtype="timedelta64[ns]")), ""
    if kind == "c":
        raise InputError(
            argument="data", expected=f"real numbers in column {name!r}, found complex ones"
        )
    cells = series.astype(object).tolist()
    if str(series.dtype) == "category":
        return texts_of(cells), "category"
    return objects_of(cells, name)


def objects_of(cells: list[Any], name: str) -> tuple[Values, str]:
    """Return the values of a column of Python objects."""
    import pandas as pd

    known = [k for k, cell in enumerate(cells) if not is_missing(cell)]
    for k in known:
        if not isinstance(cells[k], (*PLAIN, bytes)):
            raise InputError(
                argument="data",
                expected=f"numbers, texts or dates in column {name!r}",
                found=f"{type(cells[k]).__name__} in row {k}",
            )
    some = [cells[k] for k in known]
    values = np.full(len(cells), np.nan)
    if some and all(isinstance(cell, date | np.datetime64) for cell in some):
        times = [pd.Timestamp(cell) for cell in some]
        times = [time.tz_convert(None) if time.tzinfo else time for time in times]
        values[known] = days_of(np.array(times, "datetime64[ns]"))
        return values, "date"
    if some and all(isinstance(cell, timedelta | np.timedelta64) for cell in some):
        values[known] = days_of(np.array(some, "timedelta64[ns]"))
        return values, ""
    numbers = all(isinstance(cell, Real | Decimal) and not isinstance(cell, bool) for cell in some)
    if some and numbers:
        values[known] = [float(cell) for cell in some]
        return finite(values, name), ""
    return texts_of(cells), ""


def finite(values: Floats, name: str) -> Floats:
    """Return numbers; InputError if one is infinite."""
    if np.isinf(values).any():
        row = int(np.isinf(values).argmax())
        raise InputError(
            argument="data", expected=f"finite numbers, found infinity in row {row} of {name!r}"
        )
    return values


def days_of(times: AnyArray) -> Floats:
    """Return times since 1970, or durations, in days; NaN where they are missing."""
    days = times.view(np.int64) / 86400e9
    return np.where(np.isnat(times), np.nan, days)


def texts_of(values: list[Any]) -> tuple[str, ...]:
    """Return ids or labels as texts: whole numbers without a point, "" where missing."""
    return tuple(text_of(value) for value in values)


def text_of(value: Any) -> str:
    """Return an id or a label as text."""
    if is_missing(value):
        return ""
    if isinstance(value, bytes):
        return value.decode(errors="replace").strip()
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value).strip()


# -- relations -----------------------------------------------------------------------------------


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
    relation = read_graph(graph)
    relation = replace(relation, directed=directed or relation.directed)
    weights, meaning = relation.weights, weight or relation.weight
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


def read_graph(graph: Any) -> Relation:
    """Return the edges of a graph of any kind; their `weight` is what weights are called."""
    from scipy.sparse import coo_array

    if isinstance(graph, str | Path):
        raise InputError(
            argument="edges",
            expected="a graph in memory, found the name of a file",
            remedy="read it first, as with pandas.read_csv, or run metricmix fit",
        )
    if hasattr(graph, "get_edgelist") or (hasattr(graph, "nodes") and hasattr(graph, "edges")):
        nodes, ends, weights, name = library_edges(graph, WEIGHT_NAMES)
        if weights is not None:
            weights = [np.nan if one is None else one for one in weights]
        directed = graph.is_directed()
        if hasattr(graph, "get_edgelist"):
            ids = None if nodes is None else texts_of(nodes)
            return edges_between(int(graph.vcount()), ids, ends, weights, name, directed)
        assert nodes is not None
        pairs = [(nodes[u], nodes[v]) for u, v in ends.tolist()]
        return of_pairs(pairs, weights, name, nodes=nodes, directed=directed)
    if hasattr(graph, "tocoo"):
        return of_matrix(graph.tocoo())
    if hasattr(graph, "to_pandas"):
        graph = graph.to_pandas()
    if hasattr(graph, "columns") and hasattr(graph, "iloc"):
        n, d = graph.shape
        if n == d and set(texts_of(list(graph.index))) == set(texts_of(list(graph.columns))):
            matrix, ids = aligned(graph)
            if ids is not None or n > 3:  # else as many edges as columns
                return of_matrix(coo_array(as_float_array(matrix, name="edges")), ids)
        return of_table(graph)
    array = np.asarray(graph, dtype=None if isinstance(graph, np.ndarray) else object)
    if array.ndim == 2 and (array.shape[1] > 3 or array.dtype.kind == "b"):
        return of_matrix(coo_array(as_float_array(array, name="edges")))
    if array.ndim != 2 or array.shape[1] not in (2, 3):
        raise InputError(
            argument="edges",
            expected="a graph, a matrix, an edge table or pairs of ids",
            found=f"{type(graph).__name__} of shape {array.shape}",
        )
    weights = array[:, 2].tolist() if array.shape[1] == 3 else None
    if array.dtype.kind in "iu" and weights is None:
        names, ends = np.unique(array, return_inverse=True)
        return edges_between(len(names), texts_of(names.tolist()), ends.reshape(-1, 2))
    return of_pairs(array[:, :2].tolist(), weights, "weight")


def library_edges(
    graph: Any, names: Sequence[str]
) -> tuple[list[Any] | None, Indices, list[Any] | None, str | None]:
    """Return the nodes of a networkx or igraph graph, its edges by number (E, 2), and weights.

    Nodes are None in igraph without the vertex attribute `name`. Weights are the first of the edge
    attributes `names` that any edge has, None on edges without it; its name comes last.
    """
    if hasattr(graph, "get_edgelist"):
        nodes = graph.vs["name"] if "name" in graph.vs.attributes() else None
        ends = graph.get_edgelist()
        name = next((w for w in names if w in graph.es.attributes()), None)
        weights = None if name is None else graph.es[name]
    else:
        nodes, data = list(graph.nodes), list(graph.edges(data=True))
        number = {node: k for k, node in enumerate(nodes)}
        ends = [(number[u], number[v]) for u, v, _ in data]
        name = next((w for w in names if any(e.get(w) is not None for *_, e in data)), None)
        weights = None if name is None else [about.get(name) for *_, about in data]
    return nodes, np.array(ends, dtype=np.int64).reshape(-1, 2), weights, name


def edges_between(
    n_nodes: int,
    ids: tuple[str, ...] | None,
    ends: AnyArray,
    weights: Any = None,
    name: str | None = None,
    directed: bool = False,
) -> Relation:
    """Return edges between nodes; InputError unless weights are finite and >= 0."""
    values = None if weights is None else as_float_array(weights, name="weights")
    if values is not None:
        values = np.asarray(values, dtype=np.float64)
        wrong = values[~(np.isfinite(values) & (values >= 0))]
        if len(wrong):
            expected = "finite weights >= 0 for all edges"
            raise InputError(argument="edges", expected=expected, found=f"{wrong[0]:g}")
    return Relation("edges", n_nodes, ids, ends, values, name or "weight", bool(directed))


def of_table(table: Any) -> Relation:
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
    pairs: Sequence[Any],
    weights: Any,
    name: str | None,
    nodes: Iterable[Any] = (),
    directed: bool = False,
) -> Relation:
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
    return edges_between(len(number), tuple(number), ends, weights, name, directed)


def of_matrix(matrix: Any, ids: tuple[str, ...] | None = None) -> Relation:
    """Return the entries of a sparse matrix as edges: between rows, or of rows with columns.

    Edges between rows are directed if it is asymmetric.
    """
    keep = matrix.data != 0
    ends = np.column_stack([matrix.row[keep], matrix.col[keep]]).astype(np.int64)
    n, m = matrix.shape
    if n == m:
        directed = bool((matrix != matrix.T).nnz)
        return edges_between(n, ids, ends, matrix.data[keep], "weight", directed)
    names = (*(f"{ROW}{k}" for k in range(n)), *(f"{GROUP}{g}" for g in range(m)))
    ends[:, 1] += n
    return edges_between(n + m, names, ends, matrix.data[keep], "similarity")


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

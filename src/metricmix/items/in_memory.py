"""Items from data in memory: frames, arrays, graphs and matrices.

Values keep their types. A column of numbers is a column of numbers; texts are typed as those of
files are (:mod:`metricmix.items.columns`), so that the same values mean the same from either door.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from metricmix.exceptions import InputError
from metricmix.items.cells import did_you_mean, is_known, quoted
from metricmix.items.items import Items, Origin, Values
from metricmix.items.number_formats import CellFormat, number_reading
from metricmix.items.relation import Matrix, Relation
from metricmix.labels import check_label_order, check_targets, is_missing
from metricmix.typing import AnyArray, Floats
from metricmix.validation import as_float_array, check_choice, unmasked

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["as_items", "as_relation"]

WEIGHT_NAMES = ("length", "similarity", "weight")
ENDS = (("source", "target"), ("from", "to"))
ROW, GROUP = "row ", "group "
"""What rows and columns of a matrix of memberships are called, before the ids are known."""
PLAIN = (str, Real, np.bool_, Decimal, date, timedelta, np.datetime64, np.timedelta64)
"""What a cell may hold."""


def as_items(
    data: Any,
    label: Any = None,
    *,
    target: Any = None,
    id: str | None = None,
    edges: Any = None,
    matrices: Any = None,
) -> Items:
    """Return what is known of n items.

    Parameters
    ----------
    data : DataFrame (pandas or polars), array (n, d), images (n, height, width), or Items
        A row per item. Missing values are NaN, None, NA or NaT; in texts also "", "NA" and so on.
    label : column name or array of n labels, optional
        -1 and whatever is missing is unlabelled.
    target : column name or array of n numbers, optional
        In place of labels: numbers to predict, NaN where unknown.
    id : str, optional
        The column of ids. Default: the index of a frame; if that only numbers the rows, the first
        column that shares most of its ids with the relations, or theirs with it; else the first
        column if it is called id or names the items (:func:`holds_ids`), else row numbers, from 0.
        Where relations name row numbers, only the first column may hold them.
    edges : graph or mapping of names to graphs, optional
        Relations: networkx and igraph graphs, sparse matrices, edge tables and lists of pairs, or
        what :func:`as_relation` returns. A sparse (n, g) matrix, or edges between items and other
        ids, are memberships.
    matrices : array, DataFrame, or mapping of names to these, optional
        Precomputed dissimilarities; a frame is aligned by its index.

    Examples
    --------
    >>> import pandas as pd
    >>> towns = pd.DataFrame({"town": ["Aa", "Bo", "Cu"], "people": [300, 41, 7]})
    >>> items = as_items(towns, edges={"roads": [("Aa", "Bo"), ("Bo", "Cu")]})
    >>> items.ids, list(items.columns), list(items.relations)
    (('Aa', 'Bo', 'Cu'), ['people'], ['roads'])
    """
    if isinstance(data, Items):
        return data
    if label is not None and target is not None:
        raise InputError("label, target: expected one of them, found both")
    frame = as_frame(data)
    if len(frame) < 2:
        raise InputError(argument="data", expected="at least two items", found=len(frame))
    relations = named("edges", edges, as_relation)
    argument = "label" if target is None else "target"
    frame, given, label_column = with_answers(frame, argument, label if target is None else target)
    frame, ids, id_column = with_ids(frame, id, relations)
    columns: dict[str, Values] = {}
    dtypes: dict[str, str] = {}
    for name in frame.columns:
        columns[name], kind = values_of(frame[name], name)
        if kind:
            dtypes[name] = kind
    found = named("matrices", matrices, as_matrix)
    items = Items(
        ids,
        columns,
        relations={name: numbered(relation, ids, name) for name, relation in relations.items()},
        matrices={name: replace(matrix, source=name) for name, matrix in found.items()},
        origin=Origin("data"),
        dtypes=dtypes,
        id_column=id_column,
        first_row=0,
        label_column=label_column,
    )
    if given is None:
        return items
    if argument == "target":
        return replace(items, targets=target_numbers(given, len(ids)))
    return replace(items, labels=label_texts(given, len(ids)))


def new_items_like(fitted: Items, data: Any, edges: Any = None) -> tuple[Items, pd.Index[Any]]:
    """Return new items with the ids and columns of those of a fit, and the index of a result.

    Where ids are row numbers, those of new items go on from the last one.
    """
    import pandas as pd

    frame = as_frame(data)
    frame = frame.drop(columns=[name for name in [fitted.label_column] if name in frame.columns])
    column, n = fitted.id_column, len(fitted.ids)
    if column and column not in frame.columns:
        raise InputError(argument="new", expected=f"a column {column!r} of ids, found none")
    if column is None:
        frame = frame.set_axis(pd.Index([str(n + k) for k in range(len(frame))]), axis=0)
    index = pd.Index(frame[column]) if column else as_frame(data).index
    relations = {
        name: replace(relation, source=name)
        for name, relation in named("edges", edges, as_relation).items()
    }
    frame, ids, _ = with_ids(frame, column or None, {})
    again = sorted(set(ids) & set(fitted.ids))
    if again:
        raise InputError(
            argument="new", expected="new items", found=f"{again[0]!r}, which was in the fit"
        )
    columns = {name: values_of(frame[name], name)[0] for name in frame.columns}
    items = Items(
        ids,
        columns,
        relations=relations,
        origin=Origin("new"),
        id_column=column,
        label_column=fitted.label_column,
    )
    return items, index


def as_frame(data: Any) -> pd.DataFrame:
    """Return a table as a pandas DataFrame whose columns have texts as names, each its own."""
    import pandas as pd

    frame = data if isinstance(data, pd.DataFrame) else read_frame(data)
    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        twice = next(name for k, name in enumerate(names) if name in names[:k])
        raise InputError(argument="data", expected="every column once", found=f"{twice!r} twice")
    return frame.set_axis(names, axis=1)


def read_frame(data: Any) -> pd.DataFrame:
    """Return an array, a mapping of columns, a list of records, or a frame of another library."""
    import pandas as pd

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


def named(argument: str, given: Any, read: Any) -> dict[str, Any]:
    """Return one thing or several by name, each as `read` returns it."""
    if given is None:
        return {}
    several = given if isinstance(given, Mapping) else {argument: given}
    found = {}
    for name, one in several.items():
        try:
            found[str(name)] = read(one)
        except InputError as error:
            raise error.replace(argument=f"{argument}[{name!r}]") from None
    return found


# -- ids and labels ------------------------------------------------------------------------------


def with_ids(
    frame: pd.DataFrame, id: str | None, relations: Mapping[str, Relation]
) -> tuple[pd.DataFrame, tuple[str, ...], str | None]:
    """Return the frame without its column of ids, the ids, and the name of that column.

    It is "" for the index, and None for row numbers.
    """
    if id is not None:
        id = known_column(frame, "id", id)
        return frame.drop(columns=id), checked_ids(frame[id].tolist(), id), id
    index: Any = frame.index
    n = len(frame)
    numbers = type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1
    if not numbers:
        return frame, checked_ids(index.tolist(), "index"), ""
    theirs = {name for relation in relations.values() for name in relation.ids or ()}
    by_row = all(name.isdecimal() and int(name) < n for name in theirs)
    for k, column in enumerate(frame.columns if theirs else ()):
        if frame[column].dtype.kind not in "OUTiu" or (by_row and k > 0):
            continue
        cells = texts_of(frame[column].tolist())
        if len(set(cells)) == n and 2 * len(theirs & set(cells)) > min(len(theirs), n):
            return frame.drop(columns=column), checked_ids(cells, column), column
    first = frame.columns[0] if frame.shape[1] > 1 else "0"
    if not first.isdecimal() and holds_ids(frame[first], first):  # columns of arrays are numbered
        return frame.drop(columns=first), checked_ids(frame[first].tolist(), first), first
    return frame, tuple(str(k) for k in range(n)), None


def holds_ids(series: pd.Series[Any], name: str) -> bool:
    """Return whether the first column of a frame holds ids: it is called id, or names the items.

    Names are texts, all different, most of them without spaces: as an attribute, such a column
    would say nothing about two items.
    """
    if name.casefold() == "id":
        return True
    cells = texts_of(series.tolist())
    if series.dtype.kind not in "OUT" or "" in cells or len(set(cells)) < len(cells):
        return False
    return 2 * sum(" " in cell for cell in cells) <= len(cells)


def known_column(frame: pd.DataFrame, argument: str, name: Any) -> str:
    """Return the name of a column; InputError if there is none."""
    if str(name) not in frame.columns:
        raise InputError(argument=argument, expected=did_you_mean(list(frame.columns), str(name)))
    return str(name)


def with_answers(
    frame: pd.DataFrame, argument: str, wanted: Any
) -> tuple[pd.DataFrame, Any, str | None]:
    """Return the frame without labels or targets, these, and what their column is called."""
    if wanted is None:
        return frame, None, None
    if isinstance(wanted, str | int):
        column = known_column(frame, argument, wanted)
        return frame.drop(columns=column), frame[column], column
    try:
        check_label_order(frame, wanted)
    except InputError as error:
        raise error.replace(argument=argument) from None
    if np.ndim(wanted) != 1:
        raise InputError(
            argument=argument, expected=f"a column, or one {argument} per item", found=repr(wanted)
        )
    return frame, wanted, argument


def checked_ids(values: Iterable[Any], name: str) -> tuple[str, ...]:
    """Return ids as texts; InputError if one is missing, or occurs twice."""
    ids = texts_of(list(values))
    if "" in ids:
        raise InputError(
            argument="id",
            expected=f"an id in every row of {name!r}, found none in row {ids.index('')}",
        )
    if len(set(ids)) < len(ids):
        twice = next(item for k, item in enumerate(ids) if item in ids[:k])
        raise InputError(
            argument="id", expected=f"every id of {name!r} once", found=f"{twice!r} twice"
        )
    return ids


def texts_of(values: list[Any]) -> tuple[str, ...]:
    """Return ids or labels as texts: whole numbers without a point, "" where missing."""
    return tuple(text_of(value) for value in values)


def text_of(value: Any) -> str:
    if is_missing(value):
        return ""
    if isinstance(value, bytes):
        return value.decode(errors="replace").strip()
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value).strip()


def label_texts(given: Any, n: int) -> tuple[str, ...]:
    """Return labels as texts, "" where unlabelled: missing, or -1."""
    listed = listed_answers(given, n, "label")
    return tuple("" if text == "-1" or not is_known(text) else text for text in texts_of(listed))


def target_numbers(given: Any, n: int) -> Floats:
    """Return targets as numbers, NaN where they are unknown; of texts, what is known of them."""
    listed = listed_answers(given, n, "target")
    if any(isinstance(one, str) for one in listed):
        texts = texts_of(listed)
        reading = number_reading(Counter(filter(is_known, texts)), least=0.5)
        parse = CellFormat().parse if reading is None else reading.format.parse
        listed = [parse(text) if is_known(text) else None for text in texts]
        wrong = [k for k, one in enumerate(listed) if one is None and is_known(texts[k])]
        if wrong:
            raise InputError(
                argument="target",
                expected="numbers",
                found=f"{texts[wrong[0]]!r} in row {wrong[0]}",
                remedy="classes are passed as label",
            )
    plain = [float(one) if isinstance(one, Decimal) else one for one in listed]
    return check_targets(plain, n=n, name="target")


def listed_answers(given: Any, n: int, argument: str) -> list[Any]:
    """Return labels or targets as a list of n."""
    listed = list(given.tolist() if hasattr(given, "tolist") else given)
    if len(listed) != n:
        raise InputError(
            argument=argument, expected=f"{n} {argument}s, one per item", found=len(listed)
        )
    return listed


# -- columns -------------------------------------------------------------------------------------


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


# -- relations and matrices ----------------------------------------------------------------------


def as_relation(graph: Any, *, weight: str | None = None, directed: bool = False) -> Relation:
    """Return a graph, or memberships, as edges between ids.

    Parameters
    ----------
    graph : networkx or igraph graph, sparse or dense matrix, edge table, pairs, or Relation
        Edge tables have columns ``source`` and ``target`` (or ``from`` and ``to``), or two or three
        columns in this order. A matrix has a row per item, in their order: (n, n) is a graph,
        (n, g) are memberships. Dense arrays of two or three columns of numbers are edges, of
        truth values memberships.
    weight : {None, "length", "similarity", "ignore"}
        What weights mean; None: what they are called.
    directed : bool
        Whether the metric may differ between directions.

    Examples
    --------
    >>> as_relation([("a", "b", 2.0), ("b", "c", 1.0)], weight="length").weights
    array([2., 1.])
    """
    if weight is not None:
        check_choice(weight, ("length", "similarity", "ignore"), name="weight")
    if isinstance(graph, Relation):
        return graph
    n_nodes, ids, ends, weights, name = read_graph(graph)
    relation = Relation("edges", n_nodes, ids, ends, weights, name, directed)
    if weights is not None and not np.all(np.isfinite(weights) & (weights >= 0)):
        wrong = weights[~(np.isfinite(weights) & (weights >= 0))]
        raise InputError(
            argument="edges", expected="finite weights >= 0 for all edges", found=f"{wrong[0]:g}"
        )
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


def read_graph(graph: Any) -> Read:
    """Return the edges of a graph of any kind."""
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
    if hasattr(graph, "to_pandas"):
        graph = graph.to_pandas()
    if hasattr(graph, "columns") and hasattr(graph, "iloc"):
        return of_table(graph)
    array = np.asarray(graph, dtype=None if isinstance(graph, np.ndarray) else object)
    wide = array.ndim == 2 and array.shape[1] > 3
    if wide or (array.ndim == 2 and array.dtype.kind == "b"):
        from scipy.sparse import coo_array

        return of_matrix(coo_array(as_float_array(array, name="edges")))
    if array.ndim != 2 or array.shape[1] not in (2, 3):
        raise InputError(
            argument="edges",
            expected="a graph, a matrix, an edge table or pairs of ids",
            found=f"{type(graph).__name__} of shape {array.shape}",
        )
    weights = array[:, 2].tolist() if array.shape[1] == 3 else None
    return of_pairs(array[:, :2].tolist(), weights, "weight")


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

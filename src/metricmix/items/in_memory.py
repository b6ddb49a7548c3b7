"""Items from data in memory: which column has the ids, which the labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from metricmix.exceptions import InputError, errors_of_arguments
from metricmix.items.cells import did_you_mean, is_known
from metricmix.items.columns import order_values
from metricmix.items.items import Items, Origin, Values
from metricmix.items.number_formats import CellFormat, number_reading
from metricmix.items.relation import Matrix, Relation
from metricmix.items.tables import (
    ROW,
    aligned,
    as_frame,
    as_relation,
    count_table,
    texts_of,
    values_of,
)
from metricmix.labels import check_label_order, check_targets, is_missing
from metricmix.typing import AnyArray, Floats
from metricmix.validation import as_float_array, check_table

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "as_items",
    "groups_of",
    "labels_of_type",
    "new_items_like",
    "order_of",
    "relabelled_items",
]

COUNTS = "attributes"
"""What a sparse table of counts is called among the columns."""


def as_items(
    data: Any,
    label: Any = None,
    *,
    target: Any = None,
    id: str | Sequence[Any] | None = None,
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
    id : str or sequence of n ids, optional
        The column of ids, or the ids. Default: the index of a frame; if that only numbers the rows
        of this frame, or of a larger one that they were chosen from, the first column that shares
        most of its ids with relations and matrices, or theirs with it; else the first column if it
        is called id or names the items (:func:`holds_ids`), else the numbers of the rows. A single
        column that is not called id is an attribute, unless there are relations or matrices.
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
    found = named("matrices", matrices, as_matrix)
    theirs = {name for one in relations.values() for name in one.ids or ()}
    theirs |= {name for one in found.values() for name in one.items or ()}
    whole = frame
    frame, ids, id_column = with_ids(frame, id, theirs, bool(relations or found))
    named_by: Any = whole[id_column] if id_column else whole.index
    if id is not None and not isinstance(id, str):
        named_by = id
    columns: dict[str, Values] = {}
    dtypes: dict[str, str] = {}
    for name in frame.columns:
        columns[name], kind = values_of(frame[name], name)
        if kind:
            dtypes[name] = kind
    counts = count_table(data)
    if counts is not None:
        columns[COUNTS] = counts
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
        id_type=label_type_of(list(named_by)),
    )
    if given is None:
        return items
    if argument == "target":
        return replace(items, targets=target_numbers(given, len(ids)))
    listed = listed_answers(given, len(ids), "label")
    return replace(items, labels=label_texts(listed), label_type=label_type_of(listed))


def groups_of(given: Any, n: int) -> tuple[str, ...]:
    """Return the groups of n items as texts, "" where missing; InputError unless one for each."""
    listed = list(given) if np.ndim(given) == 1 else []
    if len(listed) != n:
        raise InputError(
            argument="groups",
            expected=f"a group for each of {n} items",
            found=f"shape {np.shape(given)}",
        )
    return texts_of(listed)


def order_of(given: Any, n: int) -> Floats:
    """Return numbers, dates or texts of these as numbers; InputError unless one for each item.

    >>> order_of(np.array(["2024-05-31", "2024-06-01"], dtype="datetime64[D]"), 2).tolist()
    [19874.0, 19875.0]
    """
    import pandas as pd

    if np.shape(given) != (n,):
        raise InputError(
            argument="order",
            expected=f"a number or date for each of {n} items",
            found=f"shape {np.shape(given)}",
        )
    values, kind = values_of(pd.Series(np.asarray(given)), "order")
    about = {"order": kind} if kind else {}
    items = Items(tuple(map(str, range(n))), {"order": values}, dtypes=about)
    with errors_of_arguments():
        return order_values(items, "order")


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
    frame, ids, _ = with_ids(frame, column or None, set())
    columns = {name: values_of(frame[name], name)[0] for name in frame.columns}
    if hasattr(fitted.columns.get(COUNTS), "indptr"):
        columns = {COUNTS: counts_like(fitted.columns[COUNTS], data)}
    items = Items(
        ids,
        columns,
        relations=relations,
        origin=Origin("new"),
        id_column=column,
        label_column=fitted.label_column,
    )
    return items, index


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


def counts_like(fitted: Any, data: Any) -> Any:
    """Return counts of new items with the columns of the fit, CSR (m, d)."""
    from scipy.sparse import csr_array

    table = csr_array(check_table(data, allow_nan=True, name="new"), copy=True)
    table.data = np.nan_to_num(table.data)  # a missing count is 0, as in the fit
    table.eliminate_zeros()
    if table.shape[1] != fitted.shape[1]:
        raise InputError(
            argument="new", expected=f"{fitted.shape[1]} columns", found=table.shape[1]
        )
    if table.data.min(initial=0.0) < 0:
        raise InputError(
            argument="new", expected="counts, as in the fit", found=f"{table.data.min():g}"
        )
    return table


def relabelled_items(items: Items, labels: Any) -> Items:
    """Return items with other labels or targets of some of them, as if they had been read so.

    Parameters
    ----------
    items : Items
        Of a fit: labels that count as unlabelled there are given again.
    labels : mapping, Series, or DataFrame of one column
        Labels, or numbers, by id; None, and whatever is missing, takes a label away. Texts such as
        "1" are numbers where labels are.

    >>> items = Items(("a", "b", "c"), {}, ("1", "", "2"), label_type="int")
    >>> relabelled_items(items, {"b": 2, "a": None}).labels
    ('', '2', '2')
    """
    if hasattr(labels, "iloc") and np.ndim(labels) == 2:
        if labels.shape[1] != 1:
            raise InputError(
                argument="labels",
                expected="one column of labels, by id",
                found=f"{labels.shape[1]} columns",
                remedy="pass one of them, such as frame['label']",
            )
        labels = labels.iloc[:, 0]
    if not hasattr(labels, "keys") or not hasattr(labels, "items"):
        raise InputError(
            argument="labels",
            expected="a dictionary of ids and labels, or a Series by id",
            found=type(labels).__name__,
        )
    place = {item: k for k, item in enumerate(items.ids)}
    ids, given = texts_of(list(labels.keys())), [one for _, one in labels.items()]
    for item in ids:
        if item not in place:
            raise InputError(argument="labels", expected=did_you_mean(list(items.ids), item))
    if len(set(ids)) < len(ids):
        twice = next(item for k, item in enumerate(ids) if item in ids[:k])
        raise InputError(argument="labels", expected="every id once", found=f"{twice!r} twice")
    chosen = [place[item] for item in ids]
    if items.labels is None:
        assert items.targets is not None
        targets = items.targets.copy()
        targets[chosen] = target_numbers([np.nan if is_missing(x) else x for x in given], len(ids))
        return replace(items, targets=targets)
    given = [label_like(label, items.label_type) for label in given]
    texts = list(items.labels)
    for label, item in items.labels_left_out:
        texts[place[item]] = label
    known = [k for k, text in enumerate(texts) if text]
    listed: list[Any] = [None] * len(texts)
    typed = labels_of_type([texts[k] for k in known], items.label_type).tolist()
    for k, label in [*zip(known, typed, strict=True), *zip(chosen, given, strict=True)]:
        listed[k] = label
    return replace(
        items,
        labels=label_texts(listed),
        label_type=label_type_of(listed),
        labels_left_out=(),
        targets=None,
    )


# -- ids and labels ------------------------------------------------------------------------------


def with_ids(
    frame: pd.DataFrame, id: str | Sequence[Any] | None, theirs: set[str], others: bool = False
) -> tuple[pd.DataFrame, tuple[str, ...], str | None]:
    """Return the frame without its column of ids, the ids, and the name of that column.

    It is "" for the index, and None for row numbers. `theirs` are the ids in edges and matrices;
    `others` says whether there are any of these, with ids or without.
    """
    if id is not None and not isinstance(id, str):
        if len(id) != len(frame):
            raise InputError(argument="id", expected=f"{len(frame)} ids", found=len(id))
        return frame, checked_ids(id, "id"), ""
    if id is not None:
        id = known_column(frame, "id", id)
        return frame.drop(columns=id), checked_ids(frame[id].tolist(), id), id
    index: Any = frame.index
    n = len(frame)
    numbers = type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1
    of_some = index.name is None and index.dtype.kind in "iu"  # rows of a frame that was numbered
    if not numbers and not (of_some and not theirs & set(map(str, index.tolist()))):
        return frame, checked_ids(index.tolist(), "index"), ""
    by_row = all(name.isdecimal() and int(name) < n for name in theirs)
    for k, column in enumerate(frame.columns if theirs else ()):
        if frame[column].dtype.kind not in "OUTiu" or (by_row and k > 0):
            continue
        cells = texts_of(frame[column].tolist())
        few_repeats = 10 * len(set(cells)) >= 9 * n  # which are then reported
        if few_repeats and 2 * len(theirs & set(cells)) > min(len(theirs), n):
            return frame.drop(columns=column), checked_ids(cells, column), column
    first = frame.columns[0] if frame.shape[1] else "0"
    if frame.shape[1] == 1 and not others and first.casefold() != "id":
        first = "0"  # all that is known of the items is an attribute
    if not first.isdecimal() and holds_ids(frame[first], first):  # columns of arrays are numbered
        return frame.drop(columns=first), checked_ids(frame[first].tolist(), first), first
    if not numbers:
        return frame, checked_ids(index.tolist(), "index"), ""
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


def label_type_of(labels: list[Any]) -> str:
    """Return the one type of labels: "bool", "int" (also whole floats), "float"; else "".

    >>> [label_type_of(labels) for labels in ([1.0, float("nan")], [True, None], [1, "a"])]
    ['int', 'bool', '']
    """
    known = [label for label in labels if not is_missing(label)]
    if known and all(isinstance(label, bool | np.bool_) for label in known):
        return "bool"
    numbers = all(
        isinstance(label, int | float | np.integer | np.floating) and not isinstance(label, bool)
        for label in known
    )
    if not known or not numbers:
        return ""
    return "int" if all(float(label).is_integer() for label in known) else "float"


def labels_of_type(texts: Sequence[str], label_type: str) -> AnyArray:
    """Return labels as they were given, from their texts.

    >>> labels_of_type(["True", "False"], "bool").tolist(), labels_of_type(["7"], "int").tolist()
    ([True, False], [7])
    """
    if label_type == "bool":
        return np.array([text == "True" for text in texts], dtype=bool)
    if label_type in ("int", "float"):
        return np.array(list(map(int if label_type == "int" else float, texts)))
    return np.array(texts, dtype=object)


def label_like(label: Any, label_type: str) -> Any:
    """Return a text as a label of a type, if it is one; else what was given.

    >>> label_like("1", "int"), label_like("nine", "int"), label_like("1", "")
    (1, 'nine', '1')
    """
    wanted = isinstance(label, str) and (label_type != "bool" or label in ("True", "False"))
    try:
        return labels_of_type([label], label_type).tolist()[0] if wanted else label
    except ValueError:
        return label


def label_texts(listed: list[Any]) -> tuple[str, ...]:
    """Return labels as texts, "" where unlabelled: missing, or -1."""
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

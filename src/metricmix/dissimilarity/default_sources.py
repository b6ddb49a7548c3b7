"""The default sources of a table, of graphs and matrices, as a stack."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from metricmix.dissimilarity.item_ids import check_ids, is_frame, is_numbering, table_items
from metricmix.dissimilarity.plan import JoinReport, plan_sources
from metricmix.dissimilarity.specs import SourceSpec
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.dissimilarity.value_storage import ValueStorage, choose_storage
from metricmix.exceptions import InputError, errors_of_arguments, warn_caller
from metricmix.items.cells import shorten
from metricmix.items.in_memory import as_items
from metricmix.items.items import Items
from metricmix.items.relation import Relation
from metricmix.items.tables import as_frame, as_relation
from metricmix.labels import check_label_order, check_labels, check_targets
from metricmix.typing import AnyArray
from metricmix.validation import check_integer

__all__ = ["sources_for", "stated_specs"]

DENSE_UP_TO, DENSE_LABELLED_UP_TO = 8000, 2000
"""Items up to which sources are computed beforehand, without and with labels."""


def sources_for(
    X: Any,
    graph: Any = None,
    *,
    labels: Any = None,
    target: Any = None,
    nodes: Any = None,
    weight: str | None = None,
    matrices: Any = None,
    dense: bool | None = None,
    edges_per_item: int | None = None,
) -> DissimilarityStack:
    """Return the default sources of a table, of graphs, memberships and matrices, as a stack.

    They are those of :func:`~metricmix.fit` and of ``metricmix fit``
    (:mod:`metricmix.dissimilarity.default_specs`).

    Parameters
    ----------
    X : array, scipy sparse or DataFrame (n, d), images (n, height, width), or None
        Numbers, categories, texts and dates; NaN, None, NA and NaT are missing. How columns are
        typed: :func:`~metricmix.items.columns.infer_columns`. None for items of which only graphs
        or matrices are known; `nodes`, `labels` or `target` then say how many there are.
    graph : graph, or mapping of names to graphs and memberships, optional
        See :func:`~metricmix.items.in_memory.as_items`. Directed edges are followed in both
        directions, and in each of them where a kind of source can.
    labels : array of n labels, optional
        -1 (among texts: "" or "-1") marks items without a label. With labels there are supervised
        sources as well. An estimator computes them again from the labels that it is given.
    target : array of n numbers, optional
        In place of labels, a numeric target; NaN where it is unknown.
    nodes : sequence of n ids, or n, optional
        The ids of the rows, by which graphs and matrices are matched. Default: the index of a
        DataFrame (unless an id occurs twice), else row numbers from 0.
    weight : {None, "length", "similarity", "ignore"}
        What the weights of a single graph mean.
    matrices : (n, n) array, or mapping of names to these, optional
        Precomputed dissimilarities.
    dense : bool, optional
        Whether to compute the matrices of the unsupervised sources beforehand, or rows as they are
        needed. Default: up to 8000 items, and up to 2000 with labels. Learning and predicting with
        metrics and weights >= 0 need the rows of the labelled items only.
    edges_per_item : int, optional
        If given, an :class:`~metricmix.EdgeStack`: values on the links and on edges from each item
        to so many nearest ones per table (before the union) in place of all pairs. For more than
        about 20 000 items; 10 to 20 are usual.

    Returns
    -------
    DissimilarityStack
        At most 20 sources, each divided by its mean. With `edges_per_item`, an EdgeStack whose
        `report` says where the edges come from, and whose `origin` has the same sources between
        any two items.

    Raises
    ------
    InputError
        If X has fewer than two rows, or values that are no numbers, texts or dates; if all columns
        are constant and there is no graph; if `labels` are not one per row, or fewer than two
        classes; if there are both `labels` and a `target`; if a graph or a matrix has no id of X.

    Warns
    -----
    UserWarning
        If edges are dropped, since an id is not in X; if columns are not used: those without a
        value, and short texts that no two rows share.

    Examples
    --------
    >>> import pandas as pd, metricmix as mm
    >>> wines = pd.DataFrame(
    ...     {
    ...         "alcohol": [13.5, 12.9, None, 14.1],
    ...         "sugar": [2.1, 9.5, 8.8, 1.9],
    ...         "colour": ["red", "white", "white", "red"],
    ...         "note": ["dark fruit, oak", "fresh apple", "apple and pear", "oak, dark cherry"],
    ...     },
    ...     index=["a", "b", "c", "d"],
    ... )
    >>> mm.sources_for(wines).names
    ('numbers', 'raw', 'direction', 'colour', 'note', 'gower', 'near', 'near direction')
    >>> mm.sources_for(wines, {"vineyard": [("a", "d"), ("b", "c")]}).names[-2:]
    ('vineyard joint', 'vineyard joint smoothed')
    >>> mm.sources_for(None, [("a", "d"), ("b", "c")], nodes=["a", "b", "c", "d"]).names
    ('links', 'links shared', 'links reach', 'links walks')
    """
    if labels is not None and target is not None:
        raise InputError("labels, target: expected one of them, found both")
    given = {} if graph is None else graph if isinstance(graph, Mapping) else {"links": graph}
    arguments = argument_names(graph, nodes, matrices)
    if X is None:
        X = without_columns(given, matrices, nodes, labels if target is None else target)
    with errors_of_arguments(WORDS, arguments):
        n = n_rows(X)
        check_order(X, labels, "labels")
        check_order(X, target, "target")
        codes = None if labels is None else check_labels(labels, n=n, name="labels")
        if codes is not None:  # numbers of equal length sort as texts do
            labels = np.array(["" if code < 0 else f"{code:09d}" for code in codes.tolist()])
        y = None if target is None else check_targets(target, n=n, name="target")
        own = row_ids(X, nodes, n)
        items = as_items(
            X.set_axis(range(n)) if own is None and is_frame(X) else X,
            labels,
            target=y,
            id=None if own is None else own.tolist(),
            edges={
                name: relation_of(one, weight, arguments[str(name)]) for name, one in given.items()
            },
            matrices=matrices,
        )
        plan = plan_sources(items, stated_specs(items))
    most = DENSE_UP_TO if codes is None and y is None else DENSE_LABELLED_UP_TO
    if edges_per_item is not None:
        k = check_integer(edges_per_item, name="edges_per_item", low=1)
        if dense:
            raise InputError(
                argument="dense",
                expected="dense=False with edges_per_item, which replaces all pairs by edges",
                found=True,
            )
        storage = choose_storage(plan.sizes, edges_per_item=k)
    elif dense or (dense is None and len(items) <= most):
        storage = choose_storage(plan.sizes, dense=True)
    else:
        storage = ValueStorage("rows", "as they are needed")
    with errors_of_arguments(WORDS, arguments):
        stack = replace(plan, ids=own).build(storage).stack.rescaled("mean")
    for message in dropped(plan.report, arguments):
        warn_caller(message, UserWarning)
    return stack


def stated_specs(items: Items, directed: Collection[str] = ()) -> list[SourceSpec]:
    """Return the sources that relations and matrices state: path lengths, and entries.

    `directed` are the names of those that make the metric directed.
    """
    return [
        *(
            SourceSpec(name, "paths", name, directed=name in directed or None)
            for name in items.relations
        ),
        *(
            SourceSpec(name, "matrix", name, directed=name in directed or None)
            for name in items.matrices
        ),
    ]


# -- arguments, and messages about them ------------------------------------------------------------

COLUMN_NEEDED = "expected a column with at least two different values, found none"
WORDS = {
    r"expected a column of attributes .*": f"{COLUMN_NEEDED}; add one, or pass a graph or matrices",
    r" of data\b": " of X",
    r"; are the ids in another column\?": "; pass their ids as nodes, in the order of X",
    r"pass --id ('?)(.+?)\1, the column": r"pass nodes=X['\2'], the column",
    r"; if these are row numbers, pass --id \w+": "; leave nodes out if these are row numbers",
    r"add :directed to its name, or (symmetrise it) .*": r"\1",
    r", as metricmix repair does": "",
    r"; rename a file with .*": "; rename the graph, the matrix or the column",
    r"pass --edges-per-item ": "pass dense=False, or edges_per_item=",
    r"--edges-per-item": "edges_per_item=",
    r"--dense\b": "dense=True",
}
"""What messages say of files and options, and what that is here."""


def argument_names(graph: Any, nodes: Any, matrices: Any) -> dict[str, str]:
    """Return the argument of :func:`sources_for` that each part of the items is given by."""
    names = {"data": "X", "id": "X.index" if nodes is None else "nodes", "links": "graph"}
    names |= {"matrices": "matrices", "matrices['matrices']": "matrices"}
    for argument, given in (("graph", graph), ("matrices", matrices)):
        for name in given if isinstance(given, Mapping) else ():
            names[str(name)] = names[f"{argument}[{str(name)!r}]"] = f"{argument}[{str(name)!r}]"
    return names


def relation_of(graph: Any, weight: str | None, argument: str) -> Relation:
    """Return a graph as a relation; InputError that names the argument."""
    try:
        return as_relation(graph, weight=weight)
    except InputError as error:
        if error.argument == "weight":
            raise
        remedy = error.remedy
        if argument == "graph":  # the only one, whose weights an argument explains
            remedy = remedy.replace("mm.as_relation(graph, weight='length')", "weight='length'")
        raise error.replace(argument=argument, remedy=remedy) from None


def without_columns(graphs: Mapping[str, Any], matrices: Any, nodes: Any, values: Any) -> Any:
    """Return a frame without columns, of as many items as there are nodes, labels or targets."""
    import pandas as pd

    counts = nodes if nodes is not None else values
    if counts is None or (not graphs and matrices is None):
        raise InputError(
            argument="X",
            expected="a table, or None with a graph or matrices and nodes, the ids or their number",
            found="None",
        )
    n = counts if np.isscalar(counts) and not isinstance(counts, str) else len(counts)
    return pd.DataFrame(index=range(check_integer(n, name="nodes", low=0)))


def n_rows(X: Any) -> int:
    """Return the number of rows of a table."""
    return int(X.shape[0]) if getattr(X, "shape", ()) else len(as_frame(X))


def check_order(X: Any, values: Any, argument: str) -> None:
    """Raise if labels or targets are indexed by the ids of X, in another order."""
    try:
        check_label_order(X, values)
    except InputError as error:
        raise error.replace(argument=argument, remedy=f"pass {argument}.loc[X.index]") from None


def row_ids(X: Any, nodes: Any, n: int) -> AnyArray | None:
    """Return the ids of the rows: `nodes`, or the index of a frame; None where rows are numbered.

    `nodes` may also be their number.
    """
    own = table_items(X)
    if nodes is None:
        return own
    counted = np.isscalar(nodes) and not isinstance(nodes, str)
    if counted and nodes != n:
        raise InputError(argument="nodes", expected=f"{n}, one per row of X", found=repr(nodes))
    if counted:
        return own
    stated = check_ids(nodes, n, name="nodes")
    if own is not None and own.tolist() != stated.tolist():
        raise InputError(
            argument="nodes",
            expected="the ids of X, in its order, found others",
            remedy="leave nodes out, since X has an index of ids",
        )
    return None if is_numbering(nodes) else stated


def dropped(report: JoinReport, arguments: Mapping[str, str]) -> Iterator[str]:
    """Yield which edges of unknown ids, and which columns without a shared value, are not used."""
    for source in {one.file: one for one in report.sources if one.n_edges_left_out}.values():
        edges, of = source.n_edges_left_out, arguments.get(source.file, source.file)
        ids = f"ids such as {shorten(source.foreign)} are" if source.foreign else "their ids are"
        yield f"{of}: {edges:,} edge{'s' * (edges > 1)} dropped: {ids} not in X"
    for column in report.columns:
        if column.kind == "ignore" and not column.why.startswith("one value"):
            yield f"X: column {column.name!r} is not used: {column.why}"

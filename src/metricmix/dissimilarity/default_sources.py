"""The default sources of a table, of graphs and matrices, as a stack."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from metricmix.dissimilarity.item_ids import as_ids, examples, is_numbering, table_items
from metricmix.dissimilarity.plan import plan_sources
from metricmix.dissimilarity.specs import SourceSpec
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.dissimilarity.value_storage import ValueStorage, choose_storage
from metricmix.exceptions import FileError, InputError
from metricmix.items.in_memory import as_items
from metricmix.items.items import Items, Origin
from metricmix.items.relation import as_relation
from metricmix.labels import check_labels, check_targets
from metricmix.typing import AnyArray
from metricmix.validation import check_integer

__all__ = ["sources_for", "stated_specs"]

DENSE_UP_TO = 8000
"""Items up to which sources without labels are computed beforehand."""


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
    X : array, scipy sparse or DataFrame (n, d), or images (n, height, width)
        Numbers, categories, texts and dates; NaN, None, NA and NaT are missing. How columns are
        typed: :func:`~metricmix.items.columns.infer_columns`.
    graph : graph, or mapping of names to graphs and memberships, optional
        See :func:`~metricmix.items.in_memory.as_items`. Directed edges are followed in both
        directions, and in each of them where a kind of source can.
    labels : array of n labels, optional
        -1 (among texts: "" or "-1") marks items without a label. With labels there are supervised
        sources as well. An estimator computes them again from the labels that it is given.
    target : array of n numbers, optional
        In place of labels, a numeric target; NaN where it is unknown.
    nodes : sequence of n ids, optional
        The ids of the rows, by which graphs and matrices are matched. Default: the index of a
        DataFrame, else row numbers from 0.
    weight : {None, "length", "similarity", "ignore"}
        What the weights of a single graph mean.
    matrices : (n, n) array, or mapping of names to these, optional
        Precomputed dissimilarities.
    dense : bool, optional
        Whether to compute the matrices of the unsupervised sources beforehand, or rows as they are
        needed. Default: up to 8000 items without labels. Learning and predicting with metrics and
        weights >= 0 need the rows of the labelled items only.
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
        classes; if there are both `labels` and a `target`.

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
    """
    if labels is not None and target is not None:
        raise InputError("labels, target: expected one of them, found both")
    codes = None if labels is None else check_labels(labels, n=len_of(X), name="labels")
    if codes is not None:  # numbers of equal length sort as texts do
        labels = np.array(["" if code < 0 else f"{code:09d}" for code in codes.tolist()])
    y = None if target is None else check_targets(target, n=len_of(X), name="target")
    own = row_ids(X, nodes)
    relations = {} if graph is None else graph if isinstance(graph, Mapping) else {"links": graph}
    try:
        items = as_items(
            X,
            labels,
            target=y,
            id=None if own is None else own.tolist(),
            edges={name: as_relation(one, weight=weight) for name, one in relations.items()},
            matrices=matrices,
        )
        items = replace(items, origin=Origin("X"))
        plan = plan_sources(items, stated_specs(items))
    except FileError as error:
        raise InputError(str(error)) from None
    except InputError as error:
        raise error.replace(argument="X" if error.argument == "data" else error.argument) from None
    labelled = codes is not None or y is not None
    if edges_per_item is not None:
        k = check_integer(edges_per_item, name="edges_per_item", low=1)
        if dense:
            raise InputError(
                argument="dense",
                expected="dense=False with edges_per_item, which replaces all pairs by edges",
                found=True,
            )
        storage = choose_storage(plan.sizes, edges_per_item=k)
    elif dense or (dense is None and not labelled and len(items) <= DENSE_UP_TO):
        storage = choose_storage(plan.sizes, dense=True)
    else:
        storage = ValueStorage("rows", "as they are needed")
    return replace(plan, ids=own).build(storage).stack.rescaled("mean")


def row_ids(X: Any, nodes: Any) -> AnyArray | None:
    """Return the ids of the rows of a table, from its index or from `nodes`; None: row numbers."""
    own = table_items(X)
    if nodes is None or np.isscalar(nodes) or is_numbering(nodes):
        return own
    ids = as_ids(nodes)
    given = ids.tolist()
    if own is not None and [str(one) for one in given] != [str(one) for one in own]:
        raise InputError(
            argument="nodes",
            expected="the ids of the table, those of its index, in the same order",
            found=f"{examples(given)} for {examples(own.tolist())}",
        )
    return ids if own is None else own


def len_of(X: Any) -> int:
    """Return the number of rows of a table."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


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

"""A default set of sources: for a table, for a graph with attributes, with or without labels.

They are listed in :mod:`metricmix.dissimilarity.table_sources` and in
:mod:`metricmix.dissimilarity.graph_sources`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from metricmix.dissimilarity.diffusion import (
    strengths_of,
)
from metricmix.dissimilarity.edge_building import edge_union
from metricmix.dissimilarity.edge_stack import EdgeStack
from metricmix.dissimilarity.encoded_table import encode_table
from metricmix.dissimilarity.graph_sources import aligned, graph_sources
from metricmix.dissimilarity.item_data import ItemData
from metricmix.dissimilarity.item_ids import is_frame, table_items
from metricmix.dissimilarity.known import Known, item_keys
from metricmix.dissimilarity.sources import DenseSource, Source
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.dissimilarity.supervised import SupervisedSource
from metricmix.dissimilarity.table_sources import (
    table_sources,
)
from metricmix.exceptions import InputError
from metricmix.kernels.minplus import fold, mirror
from metricmix.labels import check_labels, check_targets
from metricmix.validation import check_choice, check_integer, check_square_fits

__all__ = ["sources_for"]


def sources_for(
    X: Any,
    graph: Any = None,
    *,
    labels: Any = None,
    target: Any = None,
    weighting: str = "tfidf",
    nodes: Any = None,
    weight: str | None = None,
    dense: bool | None = None,
    edges_per_item: int | None = None,
) -> DissimilarityStack:
    """Return a default set of sources of a table, or of a graph with attributes, as a stack.

    Parameters
    ----------
    X : array, scipy sparse or pandas DataFrame (n, d), or images (n, height, width)
        Numbers, categories, texts and dates; NaN, None, NA and NaT are missing. What a column is
        taken for is said in :mod:`metricmix.dissimilarity.encoded_table`. A DataFrame with an index
        of ids is aligned with the graph by them; else `nodes` says what the rows are, or row k is
        node k.
    graph, nodes, weight
        See :func:`~metricmix.dissimilarity.as_graph`. Directions are dropped. Without a graph, X is
        a plain table.
    labels : array of n labels, optional
        -1 (among texts: "" or "-1") marks items without a label. With labels there are supervised
        sources as well. An estimator computes them again from the labels that it is given.
    target : array of n numbers, optional
        In place of labels, a numeric target; NaN where it is unknown. The supervised sources are
        then differences between what regressors say
        (:mod:`metricmix.dissimilarity.supervised`): ridge regressions, linear and with a Gaussian
        kernel, a forest, and the target spread over the graph.
    weighting : {"tfidf", "plain"}
        Whether attributes of a graph that few items have count more, by
        ``1 + log((1 + n) / (1 + number of items that have it))``. Attributes that are no counts
        have their columns scaled instead.
    dense : bool, optional
        Whether to compute the matrices of the unsupervised sources beforehand, or rows as they are
        asked for. Default: for a graph without labels up to 8000 items, otherwise not: learning and
        predicting with metrics and weights >= 0 need the rows of the labelled items only.
    edges_per_item : int, optional
        If given, an :class:`~metricmix.EdgeStack`: values on the links and on edges from each item
        to so many nearest ones per table (before the union) in place of all pairs. For more than
        about 20 000 items; 10 to 20 are usual.

    Returns
    -------
    DissimilarityStack
        At most 20 sources. What they are is said in :mod:`metricmix.dissimilarity.graph_sources`
        and :mod:`metricmix.dissimilarity.table_sources`. Its items have the ids of the table or of
        the graph. Each source is divided by its mean. With `edges_per_item`, an EdgeStack whose
        `report` says where the edges come from, and whose `origin` has the same sources between
        any two items.

    Raises
    ------
    InputError
        If X has fewer than two rows, no columns, only constant columns (unless there is a graph),
        infinite or complex numbers, or other objects than numbers, texts and dates; if `labels`
        are not one per row, or fewer than two classes; if there are both `labels` and a `target`.

    Warns
    -----
    UserWarning
        If columns are dropped: those without a value, and short texts that no two rows share.

    Examples
    --------
    >>> import numpy as np, metricmix as mm
    >>> words = np.array([[1, 0, 1], [1, 1, 0], [0, 1, 1], [0, 0, 1]])
    >>> stack = mm.sources_for(words, [(0, 1), (1, 2)], nodes=4)
    >>> stack.n_sources, stack.names[0], stack.names[-1]
    (7, 'attributes', 'joint_pagerank')
    >>> mm.sources_for(words, [(0, 1), (1, 2)], nodes=4, labels=[0, 1, -1, 1]).supervised[:2]
    ('learned_attributes', 'learned_diffusion_2')

    A table:

    >>> import pandas as pd
    >>> wines = pd.DataFrame(
    ...     {
    ...         "alcohol": [13.5, 12.9, None, 14.1],
    ...         "sugar": [2.1, 9.5, 8.8, 1.9],
    ...         "colour": ["red", "white", "white", "red"],
    ...         "note": ["dark fruit, oak", "fresh apple", "apple and pear", "oak, dark cherry"],
    ...     },
    ...     index=["a", "b", "c", "d"],
    ... )
    >>> stack = mm.sources_for(wines, labels=["old", "young", None, "old"])
    >>> stack.names[:6]
    ('columns', 'numbers', 'raw', 'direction', 'categories', 'texts')
    >>> stack.supervised[:3]
    ('learned_columns', 'learned_raw', 'learned_texts')
    """
    check_choice(weighting, ("plain", "tfidf"), name="weighting")
    n = len(X) if is_frame(X) or not hasattr(X, "shape") else X.shape[0] if X.shape else 0
    if n == 1:
        raise InputError(argument="X", expected="at least two rows", found=1)
    codes = None if labels is None or not n else check_labels(labels, n=n, name="labels")
    y = None if target is None or not n else check_targets(target, n=n, name="target")
    if codes is not None and y is not None:
        raise InputError("labels, target: expected one of them, found both")
    labelled = codes is not None or y is not None
    items = table_items(X)
    k = edges_per_item
    if k is not None:
        k = check_integer(k, name="edges_per_item", low=1)
        if dense:
            raise InputError(
                argument="dense",
                expected="dense=False with edges_per_item, which replaces all pairs by edges",
                found=True,
            )
    links: dict[str, Any] = {}
    if graph is None:
        encoded = encode_table(X)
        found = table_sources(encoded, k)
        data = ItemData(encoded)
    else:
        table, lengths, items = aligned(X, graph, nodes, weight, items)
        listed = lengths.edges()
        links["links"] = listed.sources, listed.targets
        found = graph_sources(table, lengths, weighting, labelled, k)
        data = ItemData(found.table, strengths_of(lengths))
        if dense is None:
            up_to = 8000  # more items: rows are computed on demand
            dense = not labelled and n <= up_to and k is None
    sources = computed(found.sources, n) if dense else found.sources
    known = None if y is None else Known(y)
    if codes is not None:
        known = Known(codes, int(codes.max()) + 1)
    for source in sources.values():
        source.made_from = data
    if known is not None and found.predictors:
        plain = DissimilarityStack(sources, items=items, validate=False) if sources else None
        keys = None if plain is None else item_keys(plain, known)
        for name, predictor in found.predictors.items():
            sources[name] = SupervisedSource(predictor, name, replace(known, keys=keys))
            sources[name].made_from = data
    stack = DissimilarityStack(sources, items=items, scaling="mean", validate=False)
    if k is None:
        return stack.with_links(np.stack(links["links"], axis=1)) if links else stack
    ends = {name: near.ends(k) for name, near in found.nearest.items()}
    edges, report = edge_union(n, {**links, **ends}, found.table)
    recall = {name: near.recall for name, near in found.nearest.items()}
    report = replace(report, recall=recall, left_out=found.left_out)
    return EdgeStack.of(stack, edges, report=report)


def computed(sources: dict[str, Source], n: int) -> dict[str, Source]:
    """Return the sources as matrices (float32), exactly symmetric."""
    instead = "take fewer items, or dense=False"
    check_square_fits(n, 4 * len(sources), what="the stack", argument="X", instead=instead)
    matrices: dict[str, Source] = {}
    for name, source in sources.items():
        layer = np.empty((n, n), np.float32)
        for start in range(0, n, 512):
            stop = min(n, start + 512)
            layer[start:stop] = source.rows(np.arange(start, stop))
        fold(layer, 0, n)  # rows and columns may differ by rounding
        mirror(layer, 0, n)
        matrices[name] = DenseSource(layer, like=source)
    return matrices

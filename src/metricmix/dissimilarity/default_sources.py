r"""A default set of sources: for a table, for a graph with attributes, with or without labels.

**A graph.** With F the attributes by tf-idf, each row at length 1, A the graph,
:math:`B(A) = D^{-1/2} (A + I) D^{-1/2}`, PageRank smoothing
:math:`P_r(A) = r\,(I - (1 - r) B(A))^{-1}` and S the attributes as shares of their row:

====================  ============================================================================
``attributes``        cosine distance of the rows of F: the attributes of the items
``diffusion_2``       of :math:`B(A)^2 F`: attributes averaged over two steps
``pagerank_0.2``      of :math:`P_{0.2}(A) F`: attributes averaged over about five steps
``pagerank_0.1``      of :math:`P_{0.1}(A) F`: attributes averaged over about ten steps
``log_pagerank``      :math:`-\log(P_{0.1}(A) + 10^{-6})`: the graph alone
``joint_attributes``  of :math:`P_{0.1}(10 A + K) F`, K joining each item to the 5 most similar F
``joint_pagerank``    the same, K joining each item to the 10 most similar :math:`P_{0.2}(A) F`
====================  ============================================================================

The joint ones bring similar but unlinked items close together, which helps where links are missing.
The set was chosen on validation items of citation networks (docs/accuracy.md).

**A graph and labels.** The same, but with the angle in place of the cosine distance: then every
source is a metric (up to items at distance 0), and so is every mixture with weights >= 0. Beside
them

====================  ============================================================================
``shares_pagerank``   Euclidean distance of :math:`P_{0.1}(A) S`: unlike an angle, it sees how far
                      the words of an item are spread
``shares_walks``      of :math:`0.05\,S + \frac{0.95}{16} \sum_{t \le 16} B(A)^t S`
====================  ============================================================================

and supervised sources (:mod:`metricmix.dissimilarity.supervised`), the Hellinger distance of what
classifiers say: logistic regressions on these tables (``learned_...``) and on the attributes beside
the mean of the neighbours' (``learned_neighbours``), and labels spread over the graph
(``spread_links``).

Attributes may also be real numbers, categories and texts, and miss values
(:mod:`metricmix.dissimilarity.encoded_table`). If they are no counts (some are negative, less than
a quarter is zero, or columns are of very different size), F are the scaled columns instead of
tf-idf.

**Wide attributes** (more than 256 columns, and 67 million entries) are smoothed by their 256
leading singular vectors; ``attributes`` and ``learned_attributes`` keep all columns.

**Sparse edges** (`edges_per_item`). An edge joins linked items, and each item to the nearest by
``attributes`` and by ``pagerank_0.2``. The value of a pair must not cost a row of all items, so
``log_pagerank`` is left out. In its place are

====================  ============================================================================
``path_length``       :math:`\min(\text{links between two items}, 4)`
``jaccard``           how many neighbours two linked or near items share, themselves included
====================  ============================================================================

With more than 500 000 items, or tables of more than 67 million entries, ``pagerank_0.1``, the joint
sources, shares and ``learned_neighbours`` are left out as well; the report of the stack names them.

**A table.** See :mod:`metricmix.dissimilarity.table_sources`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from metricmix.dissimilarity.diffusion import (
    RESTART,
    LogPageRank,
    normalised,
    pagerank_smoothed,
    smoothing_operator,
    strengths_of,
)
from metricmix.dissimilarity.edge_building import edge_union
from metricmix.dissimilarity.edge_stack import EdgeStack
from metricmix.dissimilarity.encoded_table import are_counts, as_array, encode_table
from metricmix.dissimilarity.graphs import Graph, as_graph
from metricmix.dissimilarity.item_data import ItemData
from metricmix.dissimilarity.kernel_ridge import KernelPredictor
from metricmix.dissimilarity.known import Known, item_keys
from metricmix.dissimilarity.matrix import (
    facts,
    graph_items,
    is_frame,
    plain_list,
    table_items,
)
from metricmix.dissimilarity.nearest_items import joined
from metricmix.dissimilarity.neighbour_overlap import SharedNeighbours
from metricmix.dissimilarity.propagation import LabelPropagation
from metricmix.dissimilarity.sources import ComputedSource, DenseSource, GraphSource, Source
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.dissimilarity.supervised import SupervisedSource
from metricmix.dissimilarity.table_sources import (
    NEEDS_ROWS,
    SourceSet,
    joint_columns,
    table_source,
    table_sources,
    unit_mean_square,
    unit_rows,
)
from metricmix.exceptions import InputError
from metricmix.kernels.minplus import fold, mirror
from metricmix.kernels.threads import blas_threads
from metricmix.typing import Floats
from metricmix.validation import (
    check_choice,
    check_integer,
    check_labels,
    check_square_fits,
    check_table,
    check_targets,
)

__all__ = ["sources_for"]

NEAR_RESTART = 0.2
LINK_STRENGTH = 10.0
"""Strength of a link of the graph, where one of similarity has 1."""
PRECISION = 1e-4
"""To which smoothed attributes are computed: far below what their words are worth."""
WALKS, STAY = 16, 0.05
"""Steps that ``shares_walks`` averages over, and the share of the item itself."""
DENSE_UP_TO = 8000
"""Largest n for which the matrices are computed beforehand; else rows are computed on demand."""
WIDE_FROM, DIRECTIONS = 1 << 26, 256
"""Entries from which on attributes are smoothed by their leading singular vectors, and how many.
With 256 of them, citation networks lost no accuracy (Citeseer 71.8 and 72.3 %, 71.4 and 71.6 with
all words; Cora 80.5 and 80.1) and took half the time."""
FEW_TABLES_FROM, MANY_ITEMS = 1 << 26, 500_000
"""Entries of a smoothed table, and items, from which on few tables are made for sparse edges."""
LARGE_TABLES = "too expensive beyond 67 million entries or 500 000 items"
FAR_APART = 4
"""Links from which on two items are equally far apart on sparse edges."""
SOME_ZEROS = 0.25
"""Share of zeros from which on attributes of a graph may be counts."""


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
        At most 20 sources. What they are is said in :mod:`metricmix.dissimilarity.default_sources`
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
            dense = not labelled and n <= DENSE_UP_TO and k is None
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


def aligned(X: Any, graph: Any, nodes: Any, weight: Any, ids: Any) -> tuple[Any, Graph, Any]:
    """Return the table and the graph over the same items, in the same order, and their ids."""
    if nodes is None:
        nodes = ids
    elif ids is not None and not np.isscalar(nodes) and plain_list(nodes) != plain_list(ids):
        raise InputError(
            argument="nodes",
            expected="the ids of the table, in its order, found others",
            remedy="leave nodes out, since the table has ids of its own",
        )
    lengths = as_graph(graph, nodes=nodes, weight=weight)
    own = graph_items(graph, nodes, lengths.nodes)
    if nodes is None and own is not None:
        if own.dtype.kind != "i" or not np.array_equal(np.sort(own), np.arange(len(own))):
            raise InputError(
                argument="X",
                expected="ids to line it up with the nodes of the graph, found none",
                remedy=("pass nodes= with the id of each row, or a DataFrame with an index of ids"),
            )
        lengths = as_graph(graph, nodes=len(own), weight=weight)  # numbers are places
    table = attributes_of(X)
    if table.shape[0] != lengths.n:
        raise InputError(
            argument="X",
            expected=f"{lengths.n} rows, one per node of the graph",
            found=table.shape[0],
            remedy="pass nodes= with the ids of the rows, isolated ones included",
        )
    return table, lengths, ids if ids is not None else None if nodes is None else own


def attributes_of(X: Any) -> Any:
    """Return the attributes of the nodes of a graph as a table of numbers (n, d).

    Counts are taken as they are, 0 where they are missing; all other columns are scaled. Where
    nothing differs, all nodes have the same attribute.
    """
    table = X if is_frame(X) else as_array(X)
    dtypes = table.dtypes if is_frame(X) else [table.dtype]
    if all(getattr(dtype, "kind", "O") in "biuf" for dtype in dtypes):
        table = check_table(table, allow_nan=True)
        if are_counts(table, SOME_ZEROS):
            if isinstance(table, np.ndarray):
                return np.nan_to_num(table) if np.isnan(table).any() else table
            table.data = np.nan_to_num(table.data)
            return table
    columns = joint_columns(encode_table(X))
    return columns if (columns != columns[:1]).any() else np.ones((len(columns), 1))


def graph_sources(
    table: Any, lengths: Graph, weighting: str, labelled: bool, edges_per_item: int | None = None
) -> SourceSet:
    """Return the sources of an attributed graph, and the predictors of the supervised ones.

    With `edges_per_item`, only those whose value for a pair can be found without a row, and at
    least as many nearest items.
    """
    angle, precision = ("angular", PRECISION) if labelled else ("cosine", 1e-14)
    precise: Any = np.float32 if labelled else np.float64
    B = smoothing_operator(lengths)
    links = strengths_of(lengths)
    weighted = weighted_rows(table, weighting if table.min() >= 0 else "plain")
    weighted = weighted.astype(precise, copy=False)
    F = narrow(weighted)
    near = unit_rows(pagerank_smoothed(B, F, NEAR_RESTART, precision))
    b: Any = B.astype(precise)
    tables = {
        "attributes": weighted,
        "diffusion_2": unit_rows(b @ (b @ F)),
        f"pagerank_{NEAR_RESTART}": near,
    }
    k = edges_per_item or 0
    large = F.size > FEW_TABLES_FROM or lengths.n > MANY_ITEMS
    few = edges_per_item is not None and large
    names = f"pagerank_{RESTART}", "joint_attributes", "joint_pagerank"
    found = SourceSet({}, {}, {}, weighted)
    by_attributes = found.search("attributes", weighted, max(5, k), "cosine")
    by_pagerank = found.search(f"pagerank_{NEAR_RESTART}", near, max(10, k), "cosine")
    if few:
        found.left_out |= dict.fromkeys(names, LARGE_TABLES)
    else:
        tables[names[0]] = unit_rows(pagerank_smoothed(B, F, RESTART, precision))
        for name, some, n_nearest in zip(
            names[1:], (by_attributes, by_pagerank), (5, 10), strict=True
        ):
            joint = normalised(LINK_STRENGTH * links + joined(some, n_nearest))
            tables[name] = unit_rows(pagerank_smoothed(joint, F, RESTART, precision))
    sources = {name: table_source(Z, angle, name) for name, Z in tables.items()}
    if edges_per_item is None:
        rank, known = LogPageRank(B), facts("log_pagerank")
        source = ComputedSource(lengths.n, rank, columns=rank, name="log_pagerank", facts=known)
        joint_ones = {name: sources.pop(name) for name in names[1:]}
        found.sources = {**sources, "log_pagerank": source, **joint_ones}
    else:
        found.left_out["log_pagerank"] = NEEDS_ROWS
        path_length = GraphSource(lengths, unreachable=FAR_APART, clipped=True)
        found.sources = {**sources, "path_length": path_length}
        found.sources["jaccard"] = SharedNeighbours(lengths, closed=True)
    if not labelled:
        return found
    views = {"attributes": weighted, "diffusion_2": tables["diffusion_2"]}
    if few:
        views["pagerank"] = near
        left_out = "shares_pagerank", "shares_walks", "learned_neighbours"
        found.left_out |= dict.fromkeys(left_out, LARGE_TABLES)
    else:
        shares = table / np.maximum(np.abs(table).sum(axis=1), 1e-300).reshape(-1, 1)
        S = narrow(shares if isinstance(shares, np.ndarray) else shares.tocsr())
        S = S.astype(precise, copy=False)
        walks, stage = precise(STAY) * S, S
        for _ in range(WALKS):
            stage = b @ stage
            walks += precise((1 - STAY) / WALKS) * stage
        lengthwise = {
            "shares_pagerank": unit_mean_square(pagerank_smoothed(B, S, RESTART, PRECISION)),
            "shares_walks": unit_mean_square(walks),
        }
        found.sources |= {
            name: table_source(Z, "euclidean", name) for name, Z in lengthwise.items()
        }
        degrees = np.asarray(links.sum(axis=1)).ravel()
        means: Any = links.multiply(1 / np.maximum(degrees, 1e-300)[:, None]).tocsr()
        views["pagerank"] = tables[names[0]]
        views |= lengthwise
        views["neighbours"] = np.hstack([F, unit_rows(means.astype(precise) @ F)])
    found.predictors = {f"learned_{name}": KernelPredictor(Z) for name, Z in views.items()}
    found.predictors["spread_links"] = LabelPropagation(B)
    return found


def narrow(table: Any) -> Floats:
    """Return a table as a dense one; of wide ones the 256 leading singular vectors, scaled.

    Distances become smaller by what the others hold; smoothing, which is linear, keeps to them.
    """
    if is_wide(table):
        from sklearn.decomposition import TruncatedSVD

        with blas_threads(1):
            svd = TruncatedSVD(DIRECTIONS, n_iter=2, random_state=0)
            return np.asarray(svd.fit_transform(table), dtype=table.dtype)
    return table if isinstance(table, np.ndarray) else np.asarray(table.toarray())


def is_wide(table: Any) -> bool:
    """Return whether all columns of a table are too many to be smoothed."""
    return bool(table.shape[1] > DIRECTIONS and float(np.prod(table.shape)) > WIDE_FROM)


def weighted_rows(table: Any, weighting: str) -> Any:
    """Return the weighted rows of the table, scaled to length 1 (or 0); wide ones stay sparse."""
    if weighting == "tfidf":
        n = table.shape[0]
        having = np.asarray((table != 0).sum(axis=0)).ravel()
        rarity = 1.0 + np.log((1.0 + n) / (1.0 + having))
        table = table * rarity if isinstance(table, np.ndarray) else table.multiply(rarity)
    if not isinstance(table, np.ndarray) and is_wide(table):
        from sklearn.preprocessing import normalize

        return normalize(table.tocsr())
    return unit_rows(table if isinstance(table, np.ndarray) else table.toarray())

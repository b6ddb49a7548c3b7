r"""The default sources of a graph with attributes.

With F the attributes by tf-idf, each row at length 1, A the graph,
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

**With labels.** The same, but with the angle in place of the cosine distance: then every
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
"""

from __future__ import annotations

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
from metricmix.dissimilarity.encoded_table import are_counts, as_array, encode_table
from metricmix.dissimilarity.graphs import Graph, as_graph
from metricmix.dissimilarity.item_ids import graph_items, is_frame, plain_list
from metricmix.dissimilarity.kernel_ridge import KernelPredictor
from metricmix.dissimilarity.matrix import facts
from metricmix.dissimilarity.nearest_items import joined
from metricmix.dissimilarity.neighbour_overlap import SharedNeighbours
from metricmix.dissimilarity.propagation import LabelPropagation
from metricmix.dissimilarity.sources import ComputedSource, GraphSource
from metricmix.dissimilarity.table_sources import (
    NEEDS_ROWS,
    SourceSet,
    joint_columns,
    table_source,
    unit_mean_square,
    unit_rows,
)
from metricmix.exceptions import InputError
from metricmix.kernels.threads import blas_threads
from metricmix.typing import Floats
from metricmix.validation import check_table

__all__ = ["DIRECTIONS", "WIDE_FROM", "aligned", "graph_sources"]

WALKS, STAY = 16, 0.05
"""Steps that ``shares_walks`` averages over, and the share of the item itself."""
WIDE_FROM, DIRECTIONS = 1 << 26, 256
"""Entries from which on attributes are smoothed by their leading singular vectors, and how many.
With 256 of them, citation networks lost no accuracy (Citeseer 71.8 and 72.3 %, 71.4 and 71.6 with
all words; Cora 80.5 and 80.1) and took half the time."""
FEW_TABLES_FROM, MANY_ITEMS = 1 << 26, 500_000
"""Entries of a smoothed table, and items, from which on few tables are made for sparse edges."""
LARGE_TABLES = "too expensive beyond 67 million entries or 500 000 items"


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
        some_zeros = 0.25
        if are_counts(table, some_zeros):
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
    coarse = 1e-4  # far below what the words of smoothed attributes are worth
    near_restart, link_strength = 0.2, 10.0  # of a link of the graph; one of similarity has 1
    far_apart = 4  # links from which on two items are equally far apart on sparse edges
    angle, precision = ("angular", coarse) if labelled else ("cosine", 1e-14)
    precise: Any = np.float32 if labelled else np.float64
    B = smoothing_operator(lengths)
    links = strengths_of(lengths)
    weighted = weighted_rows(table, weighting if table.min() >= 0 else "plain")
    weighted = weighted.astype(precise, copy=False)
    F = narrow(weighted)
    near = unit_rows(pagerank_smoothed(B, F, near_restart, precision))
    b: Any = B.astype(precise)
    tables = {
        "attributes": weighted,
        "diffusion_2": unit_rows(b @ (b @ F)),
        f"pagerank_{near_restart}": near,
    }
    k = edges_per_item or 0
    large = F.size > FEW_TABLES_FROM or lengths.n > MANY_ITEMS
    few = edges_per_item is not None and large
    names = f"pagerank_{RESTART}", "joint_attributes", "joint_pagerank"
    found = SourceSet({}, {}, {}, weighted)
    by_attributes = found.search("attributes", weighted, max(5, k), "cosine")
    by_pagerank = found.search(f"pagerank_{near_restart}", near, max(10, k), "cosine")
    if few:
        found.left_out |= dict.fromkeys(names, LARGE_TABLES)
    else:
        tables[names[0]] = unit_rows(pagerank_smoothed(B, F, RESTART, precision))
        for name, some, n_nearest in zip(
            names[1:], (by_attributes, by_pagerank), (5, 10), strict=True
        ):
            joint = normalised(link_strength * links + joined(some, n_nearest))
            tables[name] = unit_rows(pagerank_smoothed(joint, F, RESTART, precision))
    sources = {name: table_source(Z, angle, name) for name, Z in tables.items()}
    if edges_per_item is None:
        rank, known = LogPageRank(B), facts("log_pagerank")
        source = ComputedSource(lengths.n, rank, columns=rank, name="log_pagerank", facts=known)
        joint_ones = {name: sources.pop(name) for name in names[1:]}
        found.sources = {**sources, "log_pagerank": source, **joint_ones}
    else:
        found.left_out["log_pagerank"] = NEEDS_ROWS
        path_length = GraphSource(lengths, unreachable=far_apart, clipped=True)
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
            "shares_pagerank": unit_mean_square(pagerank_smoothed(B, S, RESTART, coarse)),
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

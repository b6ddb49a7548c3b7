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

**A table.** With the columns centred at their median, divided by their spread, and cut off at 3, so
that one far value stretches nothing:

====================  ============================================================================
``columns``           Euclidean distance of the scaled columns
``raw``               Euclidean distance of the columns as they are
``direction``         angle between rows, as they are if no entry is negative, else scaled
``near_columns``      :math:`-\log(P_{0.1}(K) + 10^{-6})`, K joining each item to the 10 nearest in
                      ``columns``: how well chains of near items lead from one to the other
``near_direction``    the same for ``direction``
====================  ============================================================================

With labels follow supervised sources: logistic regressions on these tables (``learned_...``) and in
the feature space of a Gaussian kernel (``kernel_...``), and labels spread over the graphs of near
items (``spread_...``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from metricmix.dissimilarity.diffusion import (
    normalised,
    pagerank_smoothed,
    smoothing_operator,
    strengths_of,
)
from metricmix.dissimilarity.features import FeatureRows
from metricmix.dissimilarity.graphs import Graph, as_graph
from metricmix.dissimilarity.matrix import (
    SourceFacts,
    as_dissimilarity,
    facts,
    graph_items,
    plain_list,
    states,
    table_items,
)
from metricmix.dissimilarity.sources import ComputedSource, FeatureSource
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.dissimilarity.supervised import (
    CrossFittedClassifier,
    LabelPropagation,
    Predictor,
    SupervisedSource,
    regularisation_path,
)
from metricmix.exceptions import InputError
from metricmix.kernels.minplus import fold, mirror
from metricmix.typing import Floats, Indices
from metricmix.validation import (
    check_choice,
    check_labels,
    check_square_fits,
    check_table,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["sources_for"]

RESTART, NEAR_RESTART = 0.1, 0.2
LINK_STRENGTH = 10.0
"""Strength of a link of the graph, where one of similarity has 1."""
FLOOR = 1e-6
"""Share of a walk below which two items count as not connected."""
PRECISION = 1e-4
"""To which smoothed attributes are computed: far below what their words are worth."""
WALKS, STAY = 16, 0.05
"""Steps that ``shares_walks`` averages over, and the share of the item itself."""
CUT = 3.0
"""Standard deviations at which a scaled column is cut off."""
DENSE_UP_TO = 8000
"""Largest n for which the matrices are computed beforehand; else rows are computed on demand."""
NEIGHBOURS = 10
"""Nearest items that a table is made a graph by."""


def sources_for(
    X: Any,
    graph: Any = None,
    *,
    labels: Any = None,
    weighting: str = "tfidf",
    nodes: Any = None,
    weight: str | None = None,
    dense: bool | None = None,
) -> DissimilarityStack:
    """Return a default set of sources of a table, or of a graph with attributes, as a stack.

    Parameters
    ----------
    X : array, scipy sparse or pandas DataFrame (n, d)
        Numbers: attributes such as counts of words, measurements, pixels. A DataFrame with an index
        of ids is aligned with the graph by them; else `nodes` says what the rows are, or row k is
        node k.
    graph, nodes, weight
        See :func:`~metricmix.dissimilarity.as_graph`. Directions are dropped. Without a graph, X is
        a plain table.
    labels : array of n labels, optional
        -1 (among texts: "" or "-1") marks items without a label. With labels there are supervised
        sources as well. An estimator computes them again from the labels that it is given.
    weighting : {"tfidf", "plain"}
        Whether attributes that few items have count more, by
        ``1 + log((1 + n) / (1 + number of items that have it))``. Attributes with negative values
        are no counts, and are taken as they are.
    dense : bool, optional
        Whether to compute the matrices of the unsupervised sources beforehand, or rows as they are
        asked for. Default: for a graph without labels up to 8000 items, otherwise not: learning and
        predicting with metrics and weights >= 0 need the rows of the labelled items only.

    Returns
    -------
    DissimilarityStack
        What the sources are is said in :mod:`metricmix.dissimilarity.default_sources`. Its items
        have the ids of the table or of the graph. Each is divided by its mean.

    Examples
    --------
    >>> import numpy as np, metricmix as mm
    >>> words = np.array([[1, 0, 1], [1, 1, 0], [0, 1, 1], [0, 0, 1]])
    >>> stack = mm.sources_for(words, [(0, 1), (1, 2)], nodes=4)
    >>> stack.n_sources, stack.names[0], stack.names[-1]
    (7, 'attributes', 'joint_pagerank')
    >>> mm.sources_for(words, [(0, 1), (1, 2)], nodes=4, labels=[0, 1, -1, 1]).supervised[:2]
    ('learned_attributes', 'learned_diffusion_2')
    >>> mm.sources_for(np.arange(12.0).reshape(6, 2)).names
    ('columns', 'raw', 'direction', 'near_columns', 'near_direction')
    """
    check_choice(weighting, ("plain", "tfidf"), name="weighting")
    ids = table_items(X)
    if graph is None:
        table = check_table(X)
        sources, predictors = table_sources(table)
        items = ids
    else:
        table, lengths, items = aligned(X, graph, nodes, weight, ids)
        sources, predictors = graph_sources(table, lengths, weighting, labels is not None)
        if dense is None:
            dense = labels is None and lengths.n <= DENSE_UP_TO
    if dense:
        sources = computed(sources, table.shape[0])
    if labels is not None:
        codes = check_labels(labels, n=table.shape[0], name="labels")
        n_classes = int(codes.max()) + 1
        for name, predictor in predictors.items():
            sources[name] = SupervisedSource(predictor, name, codes, n_classes)
    return DissimilarityStack(sources, items=items, scaling="mean", validate=False)


def computed(sources: dict[str, Any], n: int) -> dict[str, Any]:
    """Return the sources as matrices (float32), exactly symmetric."""
    instead = "take fewer items, or dense=False"
    check_square_fits(n, 4 * len(sources), what="the stack", argument="X", instead=instead)
    matrices = {}
    for name, source in sources.items():
        layer = np.empty((n, n), np.float32)
        for start in range(0, n, 512):
            stop = min(n, start + 512)
            layer[start:stop] = source.rows(np.arange(start, stop))
        fold(layer, 0, n)  # rows and columns may differ by rounding
        mirror(layer, 0, n)
        matrices[name] = as_dissimilarity(layer, name, facts=source.facts)
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
    table = check_table(X)
    if table.shape[0] != lengths.n:
        raise InputError(
            argument="X",
            expected=f"{lengths.n} rows, one per node of the graph",
            found=table.shape[0],
            remedy="pass nodes= with the ids of the rows, isolated ones included",
        )
    return table, lengths, ids if ids is not None else None if nodes is None else own


def graph_sources(
    table: Any, lengths: Graph, weighting: str, labelled: bool
) -> tuple[dict[str, Any], dict[str, Predictor]]:
    """Return the sources of an attributed graph, and the predictors of the supervised ones."""
    angle, precision = ("angular", PRECISION) if labelled else ("cosine", 1e-14)
    precise: Any = np.float32 if labelled else np.float64
    B = smoothing_operator(lengths)
    links = strengths_of(lengths)
    counts = (table.data if not isinstance(table, np.ndarray) else table).min(initial=0.0) >= 0
    F = unit_rows(table, weighting if counts else "plain").astype(precise, copy=False)
    near = normalize(pagerank_smoothed(B, F, NEAR_RESTART, precision))
    b: Any = B.astype(precise)
    tables = {
        "attributes": F,
        "diffusion_2": normalize(b @ (b @ F)),
        f"pagerank_{NEAR_RESTART}": near,
        f"pagerank_{RESTART}": normalize(pagerank_smoothed(B, F, RESTART, precision)),
    }
    joint = {
        f"joint_{name}": normalize(
            pagerank_smoothed(
                normalised(LINK_STRENGTH * links + similarity_graph(Z, k)), F, RESTART, precision
            )
        )
        for name, Z, k in (("attributes", F, 5), ("pagerank", near, 10))
    }
    rank = LogPageRank(B)
    sources: dict[str, Any] = {
        **{name: table_source(Z, angle, name) for name, Z in tables.items()},
        "log_pagerank": ComputedSource(
            lengths.n, rank, columns=rank, name="log_pagerank", facts=facts("log_pagerank")
        ),
        **{name: table_source(Z, angle, name) for name, Z in joint.items()},
    }
    if not labelled:
        return sources, {}
    shares = table / np.maximum(np.abs(table).sum(axis=1), 1e-300).reshape(-1, 1)
    S = np.asarray(shares if isinstance(shares, np.ndarray) else shares.toarray(), dtype=precise)
    walks, stage = precise(STAY) * S, S
    for _ in range(WALKS):
        stage = b @ stage
        walks += precise((1 - STAY) / WALKS) * stage
    lengthwise = {
        "shares_pagerank": unit_mean_square(pagerank_smoothed(B, S, RESTART, PRECISION)),
        "shares_walks": unit_mean_square(walks),
    }
    sources |= {name: table_source(Z, "euclidean", name) for name, Z in lengthwise.items()}
    degrees = np.asarray(links.sum(axis=1)).ravel()
    means: Any = links.multiply(1 / np.maximum(degrees, 1e-300)[:, None]).tocsr().astype(precise)
    views = {
        "attributes": F,
        "diffusion_2": tables["diffusion_2"],
        "pagerank": tables[f"pagerank_{RESTART}"],
        **lengthwise,
        "neighbours": np.hstack([F, normalize(means @ F)]),
    }
    predictors: dict[str, Predictor] = {
        f"learned_{name}": CrossFittedClassifier(Z) for name, Z in views.items()
    }
    predictors["spread_links"] = LabelPropagation(B)
    return sources, predictors


def table_sources(table: Any) -> tuple[dict[str, Any], dict[str, Predictor]]:
    """Return the sources of a plain table, and the predictors of the supervised ones."""
    values = np.asarray(table if isinstance(table, np.ndarray) else table.toarray())
    columns, raw = unit_mean_square(scaled_columns(values)), unit_mean_square(centred(values))
    directions = normalize(values if values.min(initial=0.0) >= 0 else columns)
    graphs = {
        name: normalised(neighbour_graph(Z, NEIGHBOURS))
        for name, Z in (("columns", columns), ("direction", directions))
    }
    sources: dict[str, Any] = {
        "columns": FeatureSource(columns, name="columns"),
        "raw": FeatureSource(raw, name="raw"),
        "direction": FeatureSource(directions, "angular", name="direction"),
    }
    for name, B in graphs.items():
        rank, title = LogPageRank(B), f"near_{name}"
        sources[title] = ComputedSource(
            len(values), rank, columns=rank, name=title, facts=facts("log_pagerank")
        )
    smooth = pagerank_smoothed(graphs["direction"], directions, NEAR_RESTART, PRECISION)
    predictors: dict[str, Predictor] = {
        "learned_columns": CrossFittedClassifier(columns),
        "learned_raw": CrossFittedClassifier(raw),
        "learned_smoothed": CrossFittedClassifier(normalize(smooth)),
        "kernel_columns": CrossFittedClassifier(columns, regularisation_path("rbf")),
        "kernel_direction": CrossFittedClassifier(directions, regularisation_path("rbf")),
        "spread_columns": LabelPropagation(graphs["columns"]),
        "spread_direction": LabelPropagation(graphs["direction"]),
    }
    return sources, predictors


def scaled_columns(X: Floats) -> Floats:
    """Return the columns centred at their median and divided by their spread, cut off at 3.

    The spread is the distance between quartiles, as a multiple of that of the normal distribution;
    where half of the values are equal, the standard deviation of what lies within the cut.
    """
    middle = np.median(X, axis=0)
    low, high = np.percentile(X, [25, 75], axis=0)
    spread = (high - low) / 1.349
    flat = spread == 0
    if flat.any():
        spread[flat] = X[:, flat].std(axis=0)
        for _ in range(3):  # a single far value must not set the spread of the others
            part = X[:, flat]
            far = np.abs(part - middle[flat]) > CUT * spread[flat]
            rest = np.where(far, middle[flat], part).std(axis=0)
            spread[flat] = np.where(rest > 0, rest, spread[flat])
    spread[spread == 0] = 1.0
    return np.asarray(np.clip((X - middle) / spread, -CUT, CUT))


def centred(X: Floats) -> Floats:
    """Return the columns less their means."""
    return np.asarray(X - X.mean(axis=0))


def table_source(Z: Floats, metric: str, name: str) -> FeatureSource:
    """Return the distances between the rows of a table, in its own precision."""
    return FeatureSource.of(FeatureRows(Z, metric, {}), name)


def unit_mean_square(Z: Floats) -> Floats:
    """Return a table divided by the root mean square length of its rows."""
    length = np.sqrt(np.einsum("ij,ij->", Z, Z) / max(1, len(Z)))
    return np.asarray(Z / length) if length > 0 else Z


def normalize(Z: Floats) -> Floats:
    """Return the rows at length 1 (or 0)."""
    from sklearn.preprocessing import normalize as unit

    return np.asarray(unit(Z))


def neighbour_graph(Z: Floats, k: int) -> csr_array[Any, Any]:
    """Return the graph that joins each item to its k nearest in Euclidean distance."""
    from scipy.sparse import csr_array
    from sklearn.neighbors import NearestNeighbors

    n = len(Z)
    k = min(k, n - 1)
    neighbours = NearestNeighbors(n_neighbors=k).fit(Z).kneighbors(return_distance=False)
    joined = csr_array(
        (np.ones(n * k), (np.repeat(np.arange(n), k), neighbours.ravel())), shape=(n, n)
    )
    return csr_array(joined.maximum(joined.T))


def unit_rows(table: Any, weighting: str) -> Floats:
    """Return the weighted rows of the table, scaled to length 1 (or 0)."""
    from sklearn.preprocessing import normalize

    if weighting == "tfidf":
        n = table.shape[0]
        having = np.asarray((table != 0).sum(axis=0)).ravel()
        rarity = 1.0 + np.log((1.0 + n) / (1.0 + having))
        table = table * rarity if isinstance(table, np.ndarray) else table.multiply(rarity)
    F = table if isinstance(table, np.ndarray) else table.toarray()
    return np.asarray(normalize(F))


def similarity_graph(Z: Floats, k: int) -> csr_array[Any, Any]:
    """Return the graph that joins each item to the k with the most similar rows (cosine > 0)."""
    from scipy.sparse import csr_array
    from sklearn.neighbors import NearestNeighbors

    n = len(Z)
    k = min(k, n - 1)
    search = NearestNeighbors(n_neighbors=k, metric="cosine", algorithm="brute").fit(Z)
    distances, neighbours = search.kneighbors()
    close = distances < 1.0
    source = np.repeat(np.arange(n), k)[close.ravel()]
    ones = np.ones(len(source))
    joined = csr_array((ones, (source, neighbours.ravel()[close.ravel()])), shape=(n, n))
    return csr_array(joined.maximum(joined.T))


@states(
    SourceFacts("metric", bound=-np.log(FLOOR), row_cost="O(E / sqrt(restart))"), "log_pagerank"
)
@dataclass(frozen=True)
class LogPageRank:
    r"""Rows of ``-log(P + 1e-6)``, one run of PageRank per item.

    A metric: P is a sum over walks, so that :math:`P_{ik} P_{kj} \le P_{kk} P_{ij} \le P_{ij}`, and
    its eigenvalues are at most 1, so that :math:`P_{ik}^2 + P_{kj}^2 \le P_{kk} - P_{kk}^2 \le 1/4`
    and therefore :math:`P_{ik} + P_{kj} + 10^{-6} \le 1`. Together,
    :math:`(P_{ik} + 10^{-6}) (P_{kj} + 10^{-6}) \le P_{ij} + 10^{-6}`.
    """

    B: Any

    def __call__(self, items: Indices) -> Floats:
        """Return the rows of some items."""
        start = np.zeros((self.B.shape[0], len(items)))
        start[items, np.arange(len(items))] = 1.0
        share = pagerank_smoothed(self.B, start, RESTART, FLOOR / 1000).T
        values = np.maximum(-np.log(np.maximum(share, 0.0) + FLOOR), 0.0)
        values[np.arange(len(items)), items] = 0.0
        return values

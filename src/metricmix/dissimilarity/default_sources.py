r"""A default set of sources for items with attributes and a graph over them.

With F the attributes, each row at length 1, A the graph, :math:`B(A) = D^{-1/2} (A + I) D^{-1/2}`
and PageRank smoothing :math:`P_r(A) = r\,(I - (1 - r) B(A))^{-1}`:

====================  ============================================================================
``attributes``        cosine distance of F: the attributes of the items
``diffusion_2``       of :math:`B(A)^2 F`: attributes averaged over two steps
``pagerank_0.2``      of :math:`P_{0.2}(A) F`: attributes averaged over about five steps
``pagerank_0.1``      of :math:`P_{0.1}(A) F`: attributes averaged over about ten steps
``log_pagerank``      :math:`-\log(P_{0.1}(A) + 10^{-6})`: the graph alone
``joint_attributes``  of :math:`P_{0.1}(10 A + K) F`, K joining each item to the 5 most similar F
``joint_pagerank``    the same, K joining each item to the 10 most similar :math:`P_{0.2}(A) F`
====================  ============================================================================

The last two bring similar but unlinked items close together, which helps where links are missing.
The set was chosen on validation items of citation networks (docs/accuracy.md).
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
from metricmix.dissimilarity.graphs import as_graph
from metricmix.dissimilarity.matrix import (
    SourceFacts,
    facts,
    graph_items,
    plain_list,
    states,
    table_items,
)
from metricmix.dissimilarity.sources import ComputedSource, FeatureSource
from metricmix.dissimilarity.stack import DissimilarityStack
from metricmix.exceptions import InputError
from metricmix.kernels.minplus import fold, mirror
from metricmix.typing import Floats, Indices
from metricmix.validation import check_choice, check_square_fits, check_table

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["sources_for"]

RESTART, NEAR_RESTART = 0.1, 0.2
LINK_STRENGTH = 10.0
"""Strength of a link of the graph, where one of similarity has 1."""
FLOOR = 1e-6
"""Share of a walk below which two items count as not connected."""
DENSE_UP_TO = 8000
"""Largest n for which the matrices are computed beforehand; else rows are computed on demand."""


def sources_for(
    X: Any,
    graph: Any,
    *,
    weighting: str = "tfidf",
    nodes: Any = None,
    weight: str | None = None,
    dense: bool | None = None,
) -> DissimilarityStack:
    """Return seven sources of an attributed graph, as a stack scaled to a common mean.

    Parameters
    ----------
    X : array, scipy sparse or pandas DataFrame (n, d)
        Attributes, such as counts of words. A DataFrame with an index of ids is aligned with the
        graph by them; else `nodes` says what the rows are, or row k is node k.
    graph, nodes, weight
        See :func:`~metricmix.dissimilarity.as_graph`. Directions are dropped.
    weighting : {"tfidf", "plain"}
        Whether attributes that few items have count more, by
        ``1 + log((1 + n) / (1 + number of items that have it))``.
    dense : bool, optional
        Whether to compute the matrices (float32) or rows as they are asked for; default: up to
        8000 items.

    Returns
    -------
    DissimilarityStack
        What the sources are is said in :mod:`metricmix.dissimilarity.default_sources`. Its items
        have the ids of the table or of the graph.

    Examples
    --------
    >>> import numpy as np, metricmix as mm
    >>> words = np.array([[1, 0, 1], [1, 1, 0], [0, 1, 1], [0, 0, 1]])
    >>> stack = mm.sources_for(words, [(0, 1), (1, 2)], nodes=4)
    >>> stack.n_sources, stack.names[0], stack.names[-1]
    (7, 'attributes', 'joint_pagerank')
    """
    check_choice(weighting, ("plain", "tfidf"), name="weighting")
    ids = table_items(X)
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
    n = lengths.n
    if table.shape[0] != n:
        raise InputError(
            argument="X",
            expected=f"{n} rows, one per node of the graph",
            found=table.shape[0],
            remedy="pass nodes= with the ids of the rows, isolated ones included",
        )
    F = unit_rows(table, weighting)
    B = smoothing_operator(lengths)
    links = strengths_of(lengths)
    near = pagerank_smoothed(B, F, NEAR_RESTART)
    tables = {
        "attributes": F,
        "diffusion_2": B @ (B @ F),
        f"pagerank_{NEAR_RESTART}": near,
        f"pagerank_{RESTART}": pagerank_smoothed(B, F, RESTART),
    }
    joint = {
        f"joint_{name}": pagerank_smoothed(
            normalised(LINK_STRENGTH * links + similarity_graph(Z, k)), F, RESTART
        )
        for name, Z, k in (("attributes", F, 5), ("pagerank", near, 10))
    }
    rank = LogPageRank(B)
    sources: dict[str, Any] = {
        **{name: FeatureSource(Z, "cosine", name=name) for name, Z in tables.items()},
        "log_pagerank": ComputedSource(
            n, rank, columns=rank, name="log_pagerank", facts=facts("log_pagerank")
        ),
        **{name: FeatureSource(Z, "cosine", name=name) for name, Z in joint.items()},
    }
    items = ids if ids is not None else None if nodes is None else own
    if not (dense if dense is not None else n <= DENSE_UP_TO):
        return DissimilarityStack(sources, items=items, scaling="mean", validate=False)
    instead = "take fewer items, or dense=False"
    check_square_fits(n, 4 * len(sources), what="the stack", argument="X", instead=instead)
    block = np.empty((len(sources), n, n), np.float32)
    for layer, source in zip(block, sources.values(), strict=True):
        for start in range(0, n, 512):
            stop = min(n, start + 512)
            layer[start:stop] = source.rows(np.arange(start, stop))
        fold(layer, 0, n)  # rows and columns may differ by rounding
        mirror(layer, 0, n)
    return DissimilarityStack.from_block(
        block,
        list(sources),
        items=items,
        scaling="mean",
        facts=[source.facts for source in sources.values()],
    )


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

"""Distances between features that have been smoothed over a graph."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from metricmix.dissimilarity.feature_metrics import Metric, feature_facts
from metricmix.dissimilarity.features import features
from metricmix.dissimilarity.graphs import Graph, as_graph
from metricmix.dissimilarity.item_ids import graph_items
from metricmix.dissimilarity.matrix import (
    DissimilarityMatrix,
    SourceFacts,
    as_dissimilarity,
    facts,
    states,
)
from metricmix.dissimilarity.smoothing import LARGE, pagerank_smoothed
from metricmix.exceptions import InputError
from metricmix.typing import Floats, Indices
from metricmix.validation import check_integer, check_number, check_square_fits, check_table

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = [
    "LogPageRank",
    "diffusion",
    "normalised",
    "smoothing_operator",
    "strengths_of",
]

RESTART, FLOOR = 0.1, 1e-6
"""Of :class:`LogPageRank`; a smaller share of a walk counts as not connected."""


@states(SourceFacts("no", bound=2.0, row_cost="O(n d), after O(steps E d)"))
def diffusion(
    graph: Any,
    X: Any = None,
    steps: int = 2,
    *,
    restart: float | None = None,
    metric: Metric = "cosine",
    nodes: Any = None,
    weight: str | None = None,
) -> DissimilarityMatrix:
    """Distance of smoothed features: ``M[i, j] = metric(z_i, z_j)``, z the rows of ``Z = S X``.

    With ``B = D^(-1/2) (A + I) D^(-1/2)``, the symmetrically normalised adjacency with self loops::

        S = B^steps                                          by default
        S = restart (I - (1 - restart) B)^(-1)               personalised PageRank, if `restart`
        Z = sqrt(S), entry by entry, if X is None

    A row of S says where a walk from a node ends up, so without features two nodes are compared by
    where their walks lead; the square root keeps the few largest entries from deciding alone.

    Parameters
    ----------
    graph, nodes, weight
        See :func:`~metricmix.dissimilarity.graphs.as_graph`. Directions are dropped. An edge of
        length l enters A as 1 / l, which is the similarity itself where that was given.
    X : None, array, scipy sparse or pandas DataFrame (n, d)
        Features in the order of the nodes, used as they are: counts, such as words, are best
        divided by their row sums first.
    steps : int
        How often to smooth, 0 for not at all; without meaning if `restart` is given.
    restart : float in ]0, 1]
        Probability that the walk goes back to its start; 0.1 looks about ten steps far.
    metric
        See :func:`~metricmix.dissimilarity.features.features`.

    Returns
    -------
    DissimilarityMatrix (n, n)
        Named "diffusion_<steps>", "pagerank" or, with features, "pagerank_features", with the ids
        of the nodes in `items`, by which a stack lines it up (None for numbered rows). Costs
        O(steps E d), for PageRank O(E d / sqrt(restart)) or O(n^2 (n + d)), whichever is
        less, and n^2 d / 2 for the distances.

    Raises
    ------
    InputError
        If X does not have one row per node, steps or restart are out of range, or an edge has
        length zero.

    >>> diffusion([(0, 1), (2, 3)], [[1, 0], [0, 1], [1, 0], [1, 0]], steps=1, nodes=4).round(3)
    array([[0.   , 0.   , 0.293, 0.293],
           [0.   , 0.   , 0.293, 0.293],
           [0.293, 0.293, 0.   , 0.   ],
           [0.293, 0.293, 0.   , 0.   ]])
    """
    check_integer(steps, name="steps")
    if restart is not None:
        restart = check_number(restart, name="restart", low=0.0, high=1.0, open_low=True)
    lengths = as_graph(graph, nodes=nodes, weight=weight)
    operator = smoothing_operator(lengths)
    n = operator.shape[0]
    needed = 8 if X is not None else 16 if restart is None else 32
    check_square_fits(n, needed, what="the matrix", argument="graph", instead="take fewer items")
    table: Any
    smoothed: Any
    if X is None:
        from scipy.sparse import eye_array

        table = eye_array(n, format="csr")
    else:
        table = check_table(X)
    if table.shape[0] != n:
        raise InputError(
            argument="X", expected=f"{n} rows, one per node of the graph", found=table.shape[0]
        )
    if restart is None:
        smoothed, name = table, f"diffusion_{steps}"
        for _ in range(int(steps)):
            smoothed = operator @ smoothed
            if not isinstance(smoothed, np.ndarray) and 10 * smoothed.nnz > n * table.shape[1]:
                smoothed = smoothed.toarray()  # a sparse product no longer pays
    else:
        smoothed = pagerank_smoothed(operator, table, restart)
        name = "pagerank" if X is None else "pagerank_features"
    if X is None:  # no entry is negative except by rounding
        dense = isinstance(smoothed, np.ndarray)
        smoothed = np.sqrt(np.maximum(smoothed, 0.0)) if dense else smoothed.sqrt()
    distances = features(smoothed, metric)
    base = feature_facts(metric, {})
    law = "pseudo-metric" if base.triangle_inequality else "no"
    known = replace(facts("diffusion"), metric=law, bound=base.bound)
    items = graph_items(graph, nodes, lengths.nodes)
    return as_dissimilarity(distances, name, items=items, facts=known)


def smoothing_operator(graph: Graph) -> csr_array[Any, Any]:
    """Return ``D^(-1/2) (A + I) D^(-1/2)``, (n, n), D the row sums of A + I.

    >>> smoothing_operator(as_graph([(0, 1)], nodes=3)).toarray()
    array([[0.5, 0.5, 0. ],
           [0.5, 0.5, 0. ],
           [0. , 0. , 1. ]])
    """
    return normalised(strengths_of(graph))


def strengths_of(graph: Graph) -> csr_array[Any, Any]:
    """Return one over the length of every edge, (n, n)."""
    from scipy.sparse import csr_array

    lengths = graph.adjacency
    if graph.weighted and not lengths.data.all():
        raise InputError(
            argument="graph",
            expected="positive edge lengths, since an edge conducts 1 / length, found 0",
            remedy="pass weight='ignore', or merge the nodes at distance zero",
        )
    return csr_array((1 / lengths.data, lengths.indices, lengths.indptr), shape=lengths.shape)


def walk_steps(strengths: Any) -> csr_array[Any, Any]:
    """Return ``D^(-1) (A + I)``: the steps of a walk that follows directed edges, (n, n)."""
    from scipy.sparse import csr_array, eye_array

    looped = (strengths + eye_array(strengths.shape[0])).tocsr()
    return csr_array(looped.multiply(1.0 / np.asarray(looped.sum(axis=1)).ravel()[:, None]))


def normalised(strengths: Any) -> csr_array[Any, Any]:
    """Return ``D^(-1/2) (A + I) D^(-1/2)`` for the strengths A of the edges, (n, n)."""
    from scipy.sparse import csr_array, eye_array

    looped = (strengths + eye_array(strengths.shape[0])).tocsr()
    scale = 1 / np.sqrt(np.asarray(looped.sum(axis=1)).ravel())
    return csr_array(looped.multiply(scale[:, None]).multiply(scale[None, :]))


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

    P is known to :math:`10^{-9}`; where all rows have more than 2 million entries, it is computed
    in single precision, in half the time.
    """

    B: Any

    def __call__(self, items: Indices) -> Floats:
        """Return the rows of some items."""
        n = self.B.shape[0]
        start = np.zeros((n, len(items)), np.float32 if n**2 > LARGE else np.float64)
        start[items, np.arange(len(items))] = 1.0
        share = pagerank_smoothed(self.B, start, RESTART, FLOOR / 1000).T
        values = np.maximum(-np.log(np.maximum(share, 0.0) + FLOOR), 0.0)
        values[np.arange(len(items)), items] = 0.0
        return values

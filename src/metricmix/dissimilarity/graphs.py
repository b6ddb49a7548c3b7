"""Graphs: what is accepted, and the one form the library works with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from metricmix.dissimilarity.breadth_first import adjacency_lists
from metricmix.dissimilarity.graph_formats import EdgeList, read_edges, realigned
from metricmix.exceptions import InputError
from metricmix.typing import AnyArray, Floats
from metricmix.validation import check_choice

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["EdgeList", "Graph", "as_graph", "build_graph", "read_edges", "realigned"]


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph on n items: edge lengths ``adjacency[i, j] >= 0``, no self loops, no double edges.

    Attributes
    ----------
    adjacency : csr_array (n, n), float64
        Every stored entry is an edge, zeros included: these are edges of length zero. Symmetric
        unless `directed`.
    nodes : array (n,)
        Ids, in the order of the rows.
    directed : bool
    weighted : bool
        False if every edge counts 1.
    """

    adjacency: csr_array[Any, Any]
    nodes: AnyArray
    directed: bool
    weighted: bool

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self.nodes)

    def edges(self) -> EdgeList:
        """Return the edges as a list; their weights are lengths."""
        entries = self.adjacency.tocoo()
        ends = entries.row.astype(np.int64), entries.col.astype(np.int64)
        return EdgeList(self.nodes, *ends, entries.data if self.weighted else None)


def as_graph(
    graph: Any, *, nodes: Any = None, weight: str | None = None, directed: bool = False
) -> Graph:
    """Return any graph as edge lengths: ``1``, or ``weight``, or ``1 / weight``.

    Whether a weight says how far apart or how close two nodes are is for the caller to state.

    Parameters
    ----------
    graph : matrix, networkx or igraph graph, edge table, or Graph
        - *Adjacency matrix*: scipy sparse, a square array, or a square DataFrame whose index
          equals its columns. Zero means "no edge"; in dense matrices NaN and inf do too. Lengths
          may be zero, so under ``weight="length"`` a zero *stored* in a sparse matrix (in CSR, CSC
          or COO form) is an edge of length zero, and so is a zero in a dense matrix that marks its
          missing edges with inf or NaN; in a dense matrix without such marks it is an error.
        - *networkx, igraph*: weights are the edge attribute ``weight``; ids are the nodes, in
          igraph the vertex attribute ``name`` where there is one.
        - *Edge table*: a DataFrame with columns ``source``, ``target`` and perhaps ``weight``, or
          two or three columns in this order; or an array (E, 2) or (E, 3), which needs `nodes`.
          A square array is a matrix, unless the number of `nodes` differs from its size or it is
          a list of tuples, which are edges.
    nodes : sequence of ids, or int
        The ids in the order of the items; an integer n stands for 0 .. n-1. Every id of the graph
        must be among them; an id without edges is an isolated node. For a sparse matrix or an
        array, which have no ids, they name the rows. Default: the order of the graph itself; for a
        DataFrame of edges, the sorted ids.
    weight : None, "length", "similarity" or "ignore"
        What weights mean. None: there are none, or all are 1. "similarity": the length is one over
        it, and zero is no edge. "ignore": every edge counts 1.
    directed : bool
        If False, directions are dropped, so that one triangle of a matrix is enough.

    Returns
    -------
    Graph
        Without self loops; of parallel edges, or of two directions made one, the shortest is kept.
        Costs O(E log E), for a dense matrix O(n^2 log n).

    Raises
    ------
    InputError
        If there are weights but their meaning is not stated, or some are negative or NaN; if an id
        is unknown, not whole or out of range; if the format is not one of the above.

    >>> graph = as_graph([("a", "b"), ("b", "c")], nodes=["c", "b", "a", "d"])
    >>> graph.adjacency.toarray()
    array([[0., 1., 0., 0.],
           [1., 0., 1., 0.],
           [0., 1., 0., 0.],
           [0., 0., 0., 0.]])
    """
    if weight is not None:
        check_choice(weight, ("length", "similarity", "ignore"), name="weight")
    if isinstance(graph, Graph):
        edges = graph.edges()
        if weight == "similarity":
            raise InputError(
                "a Graph holds lengths",
                argument="weight",
                remedy="state similarities when it is made",
            )
        lengths = None if weight == "ignore" else edges.weights
        edges = edges if nodes is None else realigned(edges, graph.nodes, nodes)
    else:
        edges = read_edges(graph, nodes, weight)
        edges, lengths = lengths_from_weights(edges, weight)
    return build_graph(edges, lengths, directed)


def lengths_from_weights(edges: EdgeList, weight: str | None) -> tuple[EdgeList, Floats | None]:
    """Return the edges that exist, and their lengths; None where every edge counts 1."""
    weights = edges.weights
    if weight == "ignore" or (weight is None and weights is None):
        return edges, None
    if weights is None:
        raise InputError(
            f"weight={weight!r} was stated, but its edges have no weights", argument="graph"
        )
    if weight is None:
        other = weights[weights != 1]
        if len(other):
            raise InputError(
                f"{len(other)} edges have weights other than 1, such as {other[0]:g}",
                argument="graph",
                remedy=(
                    "state what they are: weight='length', 'similarity', or 'ignore' to "
                    "count every edge 1"
                ),
            )
        return edges, None
    bad = ~(weights >= 0)
    if weight == "similarity":
        bad |= np.isinf(weights)
    if bad.any():
        e = int(np.argmax(bad))
        u, v = edges.nodes[edges.sources[e]], edges.nodes[edges.targets[e]]
        raise InputError(
            argument="graph",
            expected=(
                f"a {weight} >= 0 on every edge, found {weights[e]:g} between {u!s} and {v!s}"
            ),
        )
    # One over a subnormal similarity would overflow: no edge, as for zero.
    tiny = np.finfo(np.float64).tiny
    keep = weights >= tiny if weight == "similarity" else np.isfinite(weights)
    weights = weights[keep]
    kept = EdgeList(edges.nodes, edges.sources[keep], edges.targets[keep], None, edges.both_ways)
    return kept, 1 / weights if weight == "similarity" else weights


def build_graph(edges: EdgeList, lengths: Floats | None, directed: bool) -> Graph:
    """Drop self loops, add the reverse of undirected edges, keep the shortest of parallel edges."""
    from scipy.sparse import csr_array

    n = len(edges.nodes)
    apart = edges.sources != edges.targets
    sources, targets = edges.sources[apart], edges.targets[apart]
    weighted = lengths is not None
    values = np.ones(len(sources)) if lengths is None else lengths[apart]
    if not directed or edges.both_ways:
        sources, targets = np.r_[sources, targets], np.r_[targets, sources]
        values = np.r_[values, values]
    # scipy would add parallel edges up; the shortest is the one that paths take.
    if not weighted and 8 * len(sources) > n * n:  # many edges: marking them beats sorting them
        mask = np.zeros((n, n), dtype=bool)
        mask[sources, targets] = True
        indptr, columns = adjacency_lists(mask)
        values = np.ones(len(columns))
    else:
        keys = sources * n + targets
        order = np.argsort(keys, kind="stable")
        keys, values = keys[order], values[order]
        starts = np.flatnonzero(np.diff(keys, prepend=-1))
        values = np.minimum.reduceat(values, starts) if len(starts) else values
        columns = keys[starts] % n
        indptr = np.searchsorted(keys[starts], np.arange(n + 1) * n)
    index = np.int32 if len(columns) < 2**31 else np.int64
    adjacency = csr_array((values, columns.astype(index), indptr.astype(index)), shape=(n, n))
    return Graph(adjacency, edges.nodes, directed, weighted)

"""Graphs: the formats that are accepted, and the one form the library works with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from metricmix.dissimilarity.breadth_first import adjacency_lists
from metricmix.dissimilarity.item_ids import as_ids, places, plain_list, sorted_ids
from metricmix.exceptions import InputError
from metricmix.items.tables import library_edges
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import check_choice, unmasked

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["EdgeList", "Graph", "as_graph", "build_graph", "read_edges"]


@dataclass(frozen=True)
class EdgeList:
    """Edges ``sources[e] -> targets[e]`` between the rows 0 .. n-1 of `nodes`.

    `weights` is None where the input has none. `both_ways` says that the input calls itself
    undirected: an edge then stands for both directions even in a directed graph.
    """

    nodes: AnyArray
    sources: Indices
    targets: Indices
    weights: Floats | None
    both_ways: bool = False


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
        found = f"weight={weight!r} was stated, but its edges have no weights"
        raise InputError(found, argument="graph")
    if weight is None:
        other = weights[weights != 1]
        if len(other):
            raise InputError(
                f"{len(other)} edges have weights other than 1, such as {other[0]:g}",
                argument="graph",
                remedy="state what they are: weight='length', 'similarity', or 'ignore' to count "
                "every edge 1",
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
            expected=f"a {weight} >= 0 on every edge, found {weights[e]:g} between {u!s} and {v!s}",
        )
    tiny = np.finfo(np.float64).tiny  # one over a subnormal similarity would overflow: no edge
    keep = weights >= tiny if weight == "similarity" else np.isfinite(weights)
    weights = weights[keep]
    kept = replace(edges, sources=edges.sources[keep], targets=edges.targets[keep], weights=None)
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


# -- formats: each becomes numbered nodes and a list of edges -------------------------------------


def read_edges(graph: Any, nodes: Any, weight: str | None) -> EdgeList:
    """Return the edges of `graph`, their ids aligned to `nodes`.

    `weight` matters to matrices only, where it decides whether a zero is an edge.
    """
    if _is_from(graph, "networkx") or _is_from(graph, "igraph"):
        return read_library_graph(graph, nodes)
    if hasattr(graph, "tocoo"):
        return read_sparse(graph, nodes, weight)
    if _is_from(graph, "pandas") and hasattr(graph, "columns"):
        if {"source", "target"} <= set(graph.columns):
            with_weight = ["weight"] if "weight" in graph.columns else []
            return read_table(graph[["source", "target", *with_weight]], nodes)
        if not graph.index.equals(graph.columns):
            return read_table(graph, nodes)
        by_row = read_dense(graph.to_numpy(), None, weight)
        return realigned(by_row, plain_list(graph.index), nodes)
    return read_array(graph, nodes, weight)


def realigned(edges: EdgeList, ids: Any, nodes: Any) -> EdgeList:
    """Return edges between the rows of `ids` as edges between those of `nodes`, if given."""
    if nodes is None:
        return replace(edges, nodes=as_ids(ids))
    row = places(ids, nodes)
    sources, targets = row[edges.sources], row[edges.targets]
    return replace(edges, nodes=as_ids(nodes), sources=sources, targets=targets)


def _is_from(value: Any, package: str) -> bool:
    """Tell whether `value` is of a class of `package`, without importing it."""
    return any(base.__module__.partition(".")[0] == package for base in type(value).__mro__)


def read_library_graph(graph: Any, nodes: Any) -> EdgeList:
    """Read a networkx or igraph graph; weights are the edge attribute `weight`.

    Ids are the nodes of networkx, and the vertex attribute `name` of igraph where there is one.
    """
    nodes_of, pairs, weights, _ = library_edges(graph, ("weight",))
    own: Any = range(graph.vcount()) if nodes_of is None else nodes_of
    numbers = None
    if weights is not None:
        numbers = _numbers(weights, [(own[u], own[v]) for u, v in pairs])
    u, v = pairs.T
    edges = EdgeList(np.arange(len(own)), u, v, numbers, not graph.is_directed())
    return realigned(edges, list(own), nodes)


def read_table(table: Any, nodes: Any) -> EdgeList:
    """Read the columns source, target and perhaps weight of a DataFrame."""
    if table.shape[1] not in (2, 3):
        raise InputError(
            argument="graph",
            expected="a table with columns source, target and perhaps weight, or two or three "
            "columns in this order",
            found=[str(name) for name in table.columns],
        )
    columns = [table.iloc[:, k].to_numpy() for k in range(table.shape[1])]
    if nodes is None:
        nodes = sorted_ids([*plain_list(columns[0]), *plain_list(columns[1])])
    return _columns(columns, nodes)


def _columns(columns: list[AnyArray], nodes: Any) -> EdgeList:
    sources, targets = places(columns[0], nodes), places(columns[1], nodes)
    weights = None
    if len(columns) == 3:
        ends = list(zip(plain_list(columns[0]), plain_list(columns[1]), strict=True))
        weights = _numbers(plain_list(columns[2]), ends)
    return EdgeList(as_ids(nodes), sources, targets, weights)


def check_no_edges(array: AnyArray) -> None:
    """Raise if a 2 x 2 matrix may be two edges: node numbers, 0 and 1 not on a diagonal."""
    whole = array.dtype.kind in "iu"
    if whole and array.diagonal().any() and array.max() > 1 and array.min() >= 0:
        raise InputError(
            argument="graph",
            expected="a graph that can be read in one way only",
            found="whole numbers of shape (2, 2), two edges or the matrix of two nodes",
            remedy="pass edges as tuples with nodes=, or a matrix with a zero diagonal",
        )


def read_array(graph: Any, nodes: Any, weight: str | None) -> EdgeList:
    """Read an array: a square matrix, or rows of source, target and perhaps weight."""
    graph = unmasked(graph)
    array = np.asarray(graph)
    if array.dtype.kind in "USf" and not isinstance(graph, np.ndarray) and array.ndim == 2:
        array = np.array(graph, dtype=object)  # a list of (id, id, number) keeps its ids
    size = None if nodes is None else len(as_ids(nodes))
    is_square = array.ndim == 2 and array.shape[0] == array.shape[1]
    rows = graph if isinstance(graph, (list, tuple)) else ()
    are_edges = bool(rows) and all(isinstance(row, tuple) and len(row) in (2, 3) for row in rows)
    if array.shape == (2, 2) and size is None and not are_edges:
        check_no_edges(array)
    has_text = array.dtype.kind in "US" or any(isinstance(x, str) for x in array.ravel()[:3])
    if is_square and size in (None, len(array)) and not (has_text or are_edges):
        return read_dense(array, nodes, weight)
    if array.ndim != 2 or array.shape[1] not in (2, 3):
        raise InputError(
            "graph: expected a sparse or square matrix, a networkx or igraph graph, or edges of "
            f"shape (E, 2) or (E, 3), got {type(graph).__name__} of shape {array.shape}"
            + (f" for {size} nodes" if size is not None else "")
        )
    if nodes is None:
        raise InputError(
            f"edges of shape {array.shape} need nodes=, the ids in the order of your items or "
            "their number, so that rows line up with items and isolated nodes are kept",
            argument="graph",
        )
    return _columns([array[:, k] for k in range(array.shape[1])], nodes)


def read_dense(array: AnyArray, nodes: Any, weight: str | None) -> EdgeList:
    """Read a dense adjacency matrix; :func:`as_graph` says which entries are edges."""
    try:
        values = array.astype(np.float64)
    except (TypeError, ValueError):
        found = f"dtype {array.dtype}"
        raise InputError(argument="graph", expected="a matrix of numbers", found=found) from None
    ids = _row_ids(nodes, len(values))
    present = ~np.isnan(values)
    if weight != "similarity":
        present &= ~np.isposinf(values)
    np.fill_diagonal(present, True)
    zero = values == 0
    np.fill_diagonal(zero, False)
    if weight != "length":
        present &= ~zero
    elif zero.any() and present.all():
        i, j = np.argwhere(zero)[0]
        raise InputError(
            f"a dense matrix of lengths with 0 at ({i}, {j}) is ambiguous, since 0 may be a length "
            "or a missing edge",
            argument="graph",
            remedy="mark missing edges with inf, or pass a sparse matrix",
        )
    np.fill_diagonal(present, False)
    sources, targets = np.nonzero(present)
    return EdgeList(ids, sources, targets, values[present])


def read_sparse(graph: Any, nodes: Any, weight: str | None) -> EdgeList:
    """Read a scipy sparse adjacency matrix; stored zeros are edges where weights are lengths."""
    if graph.ndim != 2 or graph.shape[0] != graph.shape[1]:
        found = f"shape {graph.shape}"
        raise InputError(argument="graph", expected="a square matrix (n, n)", found=found)
    ids = _row_ids(nodes, graph.shape[0])
    # Not summed: a pair stored twice is two parallel edges.
    stored = graph.tocoo()
    values = np.asarray(stored.data).astype(np.float64)
    keep = stored.row != stored.col
    # Block and diagonal formats store zeros that stand for missing edges.
    if weight != "length" or graph.format in ("bsr", "dia"):
        keep &= values != 0
    sources, targets = stored.row[keep], stored.col[keep]
    return EdgeList(ids, sources.astype(np.int64), targets.astype(np.int64), values[keep])


def _row_ids(nodes: Any, n: int) -> AnyArray:
    ids, expected = as_ids(n if nodes is None else nodes), f"{n}, one per row of the matrix"
    if len(ids) != n:
        raise InputError(argument="nodes", expected=expected, found=len(ids))
    return ids


def _numbers(values: list[Any], ends: Sequence[Any]) -> Floats:
    """Return weights as numbers, or name the first edge that has none."""
    numbers = np.empty(len(values))
    for k, value in enumerate(values):
        try:
            numbers[k] = float(value)
        except (TypeError, ValueError):
            where = f"{value!r} on the edge {ends[k][0]!r} - {ends[k][1]!r}"
            raise InputError(
                argument="graph", expected=f"a number as weight of every edge, found {where}"
            ) from None
    return numbers

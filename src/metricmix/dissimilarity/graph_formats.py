"""The formats of graphs: each becomes numbered nodes and a list of edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from metricmix.dissimilarity.item_ids import as_ids, places, plain_list, sorted_ids
from metricmix.exceptions import InputError
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import unmasked

__all__ = ["EdgeList", "read_edges", "realigned"]


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


def read_edges(graph: Any, nodes: Any, weight: str | None) -> EdgeList:
    """Return the edges of `graph`, their ids aligned to `nodes`.

    `weight` matters to matrices only, where it decides whether a zero is an edge.
    """
    if _is_from(graph, "networkx"):
        return read_networkx(graph, nodes)
    if _is_from(graph, "igraph"):
        return read_igraph(graph, nodes)
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
        return EdgeList(as_ids(ids), edges.sources, edges.targets, edges.weights, edges.both_ways)
    row = places(ids, nodes)
    return EdgeList(
        as_ids(nodes), row[edges.sources], row[edges.targets], edges.weights, edges.both_ways
    )


def _is_from(value: Any, package: str) -> bool:
    """Tell whether `value` is of a class of `package`, without importing it."""
    return any(base.__module__.partition(".")[0] == package for base in type(value).__mro__)


def read_networkx(graph: Any, nodes: Any) -> EdgeList:
    """Read a networkx graph; weights are the edge attribute `weight`."""
    own = list(graph.nodes)
    row = {node: k for k, node in enumerate(own)}
    edges = list(graph.edges(data="weight"))
    sources = np.array([row[u] for u, _, _ in edges], dtype=np.int64)
    targets = np.array([row[v] for _, v, _ in edges], dtype=np.int64)
    found = [weight for _, _, weight in edges]
    weights = None if all(value is None for value in found) else _numbers(found, edges)
    return realigned(
        EdgeList(np.arange(len(own)), sources, targets, weights, not graph.is_directed()),
        own,
        nodes,
    )


def read_igraph(graph: Any, nodes: Any) -> EdgeList:
    """Read an igraph graph; ids are the vertex attribute `name` where there is one."""
    own = graph.vs["name"] if "name" in graph.vs.attributes() else list(range(graph.vcount()))
    ends = np.array(graph.get_edgelist(), dtype=np.int64).reshape(-1, 2)
    weights = None
    if "weight" in graph.es.attributes():
        weights = _numbers(graph.es["weight"], [(own[u], own[v]) for u, v in ends])
    return realigned(
        EdgeList(np.arange(len(own)), ends[:, 0], ends[:, 1], weights, not graph.is_directed()),
        own,
        nodes,
    )


def read_table(table: Any, nodes: Any) -> EdgeList:
    """Read the columns source, target and perhaps weight of a DataFrame."""
    if table.shape[1] not in (2, 3):
        raise InputError(
            argument="graph",
            expected=(
                "a table with columns source, target and perhaps weight, or two or "
                "three columns in this order"
            ),
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
    """Raise if a 2 x 2 matrix may be meant as two edges: node numbers, 0 and 1 not on a diagonal.

    >>> check_no_edges(np.array([[1.0, 0.5], [0.5, 1.0]]))
    """
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
            (
                f"edges of shape {array.shape} need nodes=, the ids in the order of "
                "your items or their number, so that rows line up with items and "
                "isolated nodes are kept"
            ),
            argument="graph",
        )
    return _columns([array[:, k] for k in range(array.shape[1])], nodes)


def read_dense(array: AnyArray, nodes: Any, weight: str | None) -> EdgeList:
    """Read a dense adjacency matrix; :func:`as_graph` says which entries are edges."""
    try:
        values = array.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(
            argument="graph", expected="a matrix of numbers", found=f"dtype {array.dtype}"
        ) from None
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
            (
                f"a dense matrix of lengths with 0 at ({i}, {j}) is ambiguous, since "
                "0 may be a length or a missing edge"
            ),
            argument="graph",
            remedy="mark missing edges with inf, or pass a sparse matrix",
        )
    np.fill_diagonal(present, False)
    sources, targets = np.nonzero(present)
    return EdgeList(ids, sources, targets, values[present])


def read_sparse(graph: Any, nodes: Any, weight: str | None) -> EdgeList:
    """Read a scipy sparse adjacency matrix; stored zeros are edges where weights are lengths."""
    if graph.ndim != 2 or graph.shape[0] != graph.shape[1]:
        raise InputError(
            argument="graph", expected="a square matrix (n, n)", found=f"shape {graph.shape}"
        )
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
    ids = as_ids(n if nodes is None else nodes)
    if len(ids) != n:
        raise InputError(
            argument="nodes", expected=f"{n}, one per row of the matrix", found=len(ids)
        )
    return ids


def _numbers(values: list[Any], ends: Sequence[Any]) -> Floats:
    """Return weights as numbers, or name the first edge that has none."""
    numbers = np.empty(len(values))
    for k, value in enumerate(values):
        try:
            numbers[k] = float(value)
        except (TypeError, ValueError):
            raise InputError(
                argument="graph",
                expected=(
                    f"a number as weight of every edge, found {value!r} on the edge "
                    f"{ends[k][0]!r} - {ends[k][1]!r}"
                ),
            ) from None
    return numbers

"""Reading graphs of every format as one thing: numbered nodes and a list of edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.dissimilarity.node_ids import as_ids, places, plain_list, sorted_ids
from metricmix.exceptions import InputError

__all__ = ["EdgeList", "read_edges", "realigned"]


@dataclass(frozen=True)
class EdgeList:
    """Edges ``sources[e] -> targets[e]`` between the rows 0 .. n-1 of `nodes`.

    `weights` is None where the input has none. `both_ways` says that the input calls itself
    undirected: an edge then stands for both directions even in a directed graph.
    """

    nodes: NDArray[Any]
    sources: NDArray[np.int64]
    targets: NDArray[np.int64]
    weights: NDArray[np.float64] | None
    both_ways: bool = False


def read_edges(graph: Any, nodes: Any, weight: str | None) -> EdgeList:
    """Return the edges of `graph`, their ids aligned to `nodes`.

    `weight` matters to matrices only, where it decides whether a zero is an edge.
    """
    if _is_from(graph, "networkx"):
        return _networkx(graph, nodes)
    if _is_from(graph, "igraph"):
        return _igraph(graph, nodes)
    if hasattr(graph, "tocoo"):
        return _sparse(graph, nodes, weight)
    if _is_from(graph, "pandas") and hasattr(graph, "columns"):
        if {"source", "target"} <= set(graph.columns):
            with_weight = ["weight"] if "weight" in graph.columns else []
            return _table(graph[["source", "target", *with_weight]], nodes)
        if not graph.index.equals(graph.columns):
            return _table(graph, nodes)
        by_row = _dense(graph.to_numpy(), None, weight)
        return realigned(by_row, plain_list(graph.index), nodes)
    return _array(graph, nodes, weight)


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


def _networkx(graph: Any, nodes: Any) -> EdgeList:
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


def _igraph(graph: Any, nodes: Any) -> EdgeList:
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


def _table(table: Any, nodes: Any) -> EdgeList:
    """Read the columns source, target and perhaps weight of a DataFrame."""
    if table.shape[1] not in (2, 3):
        raise InputError(
            "graph: expected a table with columns source, target and perhaps weight, or two or "
            f"three columns in this order, got {[str(name) for name in table.columns]}"
        )
    columns = [table.iloc[:, k].to_numpy() for k in range(table.shape[1])]
    if nodes is None:
        nodes = sorted_ids([*plain_list(columns[0]), *plain_list(columns[1])])
    return _columns(columns, nodes)


def _columns(columns: list[NDArray[Any]], nodes: Any) -> EdgeList:
    sources, targets = places(columns[0], nodes), places(columns[1], nodes)
    weights = None
    if len(columns) == 3:
        ends = list(zip(plain_list(columns[0]), plain_list(columns[1]), strict=True))
        weights = _numbers(plain_list(columns[2]), ends)
    return EdgeList(as_ids(nodes), sources, targets, weights)


def _array(graph: Any, nodes: Any, weight: str | None) -> EdgeList:
    array = np.asarray(graph)
    if array.dtype.kind in "USf" and not isinstance(graph, np.ndarray) and array.ndim == 2:
        array = np.array(graph, dtype=object)  # a list of (id, id, number) keeps its ids
    size = None if nodes is None else len(as_ids(nodes))
    is_square = array.ndim == 2 and array.shape[0] == array.shape[1]
    if is_square and size in (None, len(array)) and not _has_text(array):
        return _dense(array, nodes, weight)
    if array.ndim != 2 or array.shape[1] not in (2, 3):
        raise InputError(
            "graph: expected a sparse or square matrix, a networkx or igraph graph, or edges of "
            f"shape (E, 2) or (E, 3), got {type(graph).__name__} of shape {array.shape}"
            + (f" for {size} nodes" if size is not None else "")
        )
    if nodes is None:
        raise InputError(
            f"graph: edges of shape {array.shape} need nodes=, the ids in the order of your items "
            "or their number, so that rows line up with items and isolated nodes are kept"
        )
    return _columns([array[:, k] for k in range(array.shape[1])], nodes)


def _has_text(array: NDArray[Any]) -> bool:
    return array.dtype.kind in "US" or any(isinstance(entry, str) for entry in array.ravel()[:3])


def _dense(array: NDArray[Any], nodes: Any, weight: str | None) -> EdgeList:
    try:
        values = array.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(f"graph: expected a matrix of numbers, got dtype {array.dtype}") from None
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
            f"graph: a dense matrix of lengths with 0 at ({i}, {j}) is ambiguous, since 0 may be a "
            "length or a missing edge; mark missing edges with inf, or pass a sparse matrix"
        )
    np.fill_diagonal(present, False)
    sources, targets = np.nonzero(present)
    return EdgeList(ids, sources, targets, values[present])


def _sparse(graph: Any, nodes: Any, weight: str | None) -> EdgeList:
    if graph.ndim != 2 or graph.shape[0] != graph.shape[1]:
        raise InputError(f"graph: expected a square matrix (n, n), got shape {graph.shape}")
    ids = _row_ids(nodes, graph.shape[0])
    # Not summed: a pair stored twice is two parallel edges.
    stored = graph.tocoo()
    values = np.asarray(stored.data).astype(np.float64)
    keep = stored.row != stored.col
    # Block and diagonal formats fill up with zeros that nobody stored on purpose.
    if weight != "length" or graph.format in ("bsr", "dia"):
        keep &= values != 0
    sources, targets = stored.row[keep], stored.col[keep]
    return EdgeList(ids, sources.astype(np.int64), targets.astype(np.int64), values[keep])


def _row_ids(nodes: Any, n: int) -> NDArray[Any]:
    ids = as_ids(n if nodes is None else nodes)
    if len(ids) != n:
        raise InputError(f"nodes: expected {n}, one per row of the matrix, got {len(ids)}")
    return ids


def _numbers(values: list[Any], ends: Sequence[Any]) -> NDArray[np.float64]:
    """Return weights as numbers, or name the first edge that has none."""
    numbers = np.empty(len(values))
    for k, value in enumerate(values):
        try:
            numbers[k] = float(value)
        except (TypeError, ValueError):
            raise InputError(
                f"graph: expected a number as weight of every edge, found {value!r} on the edge "
                f"{ends[k][0]!r} - {ends[k][1]!r}"
            ) from None
    return numbers

"""Dissimilarities from features and graphs: rows, pairs and new items against the matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

import metricmix as mm
from fuzz.cases import Area, Instance, ask
from fuzz.instances import chance, pick, size, table
from metricmix.dissimilarity import (
    FeatureSource,
    GraphSource,
    as_spec,
    diffusion,
    facts,
    features,
    jaccard,
    knn_path_length,
    path_length,
    resource_allocation,
    threshold_graphs,
)

METRICS = (
    *("euclidean", "sqeuclidean", "cityblock", "chebyshev", "cosine", "correlation"),
    *("braycurtis", "canberra", "hamming", "jaccard"),
)
KINDS = ("features", "features", "knn", "graph", "thresholds", "overlap", "stack")


def make(rng: np.random.Generator) -> Instance:
    n = size(rng, 10, least=2)
    edges = rng.integers(n, size=(int(rng.integers(1, 3 * n)), 2))
    return {
        "n": n,
        "kind": pick(rng, *KINDS),
        "metric": pick(rng, *METRICS),
        "X": table(rng, n, int(rng.integers(1, 4)), span=pick(rng, 1.0, 3.0, 6.0)).tolist(),
        "edges": [[int(a), int(b)] for a, b in edges],
        "lengths": rng.integers(0, 5, len(edges)).tolist() if chance(rng, 0.4) else None,
        "directed": chance(rng, 0.3),
        "unreachable": pick(rng, "bridge", "max", 50.0),
        "k": int(rng.integers(1, 4)),
    }


def check(instance: Instance) -> None:
    X = np.array(instance["X"], float)
    kind = instance["kind"]
    if kind == "features":
        check_features(X, instance["metric"])
    elif kind == "knn":
        check_knn(X, min(int(instance["k"]), len(X) - 1), instance["unreachable"])
    elif kind == "graph":
        check_graph(instance)
    elif kind == "thresholds":
        D = features(X)
        if np.max(D) > 0:
            for M in threshold_graphs(D, 3, unreachable="bridge"):
                check_matrix(M, facts("threshold_graphs"))
    elif kind == "overlap":
        check_overlap(instance)
    else:
        check_stack(X)


def check_matrix(M: Any, stated: Any) -> None:
    """Compare a matrix with the facts that it declares."""
    values = np.asarray(M)
    ask(np.isfinite(values).all() and (values >= 0).all(), "dissimilarities are finite and >= 0")
    ask((np.diagonal(values) == 0).all(), "dissimilarities have a zero diagonal")
    scale = float(values.max(initial=0.0))
    ask(scale <= stated.bound * (1 + 1e-9), "the declared bound holds", f"{scale!r}")
    if not stated.directed:
        apart = np.abs(values - values.T).max(initial=0.0)
        ask(apart <= 1e-9 * scale, "dissimilarities are symmetric", f"{apart!r}")
    if stated.triangle_inequality:
        report = mm.metric_violations(values, directed=stated.directed)
        ask(
            report.triangle <= 1e-7 * scale,
            "the declared triangle inequality holds",
            f"{report.triangle!r} of {scale!r}",
        )


def refused(call: Any) -> Any:
    """Return what a call returns, or None if it raises an InputError."""
    try:
        return call()
    except mm.InputError:
        return None


def check_features(X: Any, metric: str) -> None:
    n = len(X)
    M = refused(lambda: features(X, metric))
    rows = refused(lambda: FeatureSource(X, metric).rows(np.arange(n)))
    ask((M is None) == (rows is None), "features and FeatureSource refuse the same tables")
    if M is None or rows is None:
        return
    check_matrix(M, M.facts)
    values, source = np.asarray(M), FeatureSource(X, metric)
    slack = 1e-9 * values.max(initial=0.0)
    ask(np.abs(rows - values).max() <= slack, "rows are those of the matrix")
    i, j = (a.ravel() for a in np.indices((n, n)))
    ask(np.abs(source.pairs(i, j) - values[i, j]).max() <= slack, "pairs are those of the matrix")
    applied = as_spec(metric).bind(X)
    cross = applied.cross(X)
    off = np.abs(cross - values).max()
    ask(off <= max(1e-7 * values.max(), 1e-12), "new items are those of the matrix", f"{off!r}")
    if metric in ("euclidean", "sqeuclidean", "cityblock", "chebyshev"):
        from scipy.spatial.distance import cdist

        expected = cdist(X, X, metric)  # type: ignore[call-overload]
        largest = float(np.abs(X).max()) * (float(np.abs(X).max()) if metric[0] == "s" else 1.0)
        off = np.abs(expected - values).max()
        ask(off <= 1e-7 * largest, "distances are those of scipy", f"{off!r}")


def check_knn(X: Any, k: int, unreachable: Any) -> None:
    if k < 1:
        return
    M = refused(lambda: knn_path_length(X, k, unreachable=unreachable))
    if M is None:
        return
    check_matrix(M, M.facts)
    applied = knn_path_length(k=k, unreachable=unreachable).bind(X)
    ask(
        np.array_equal(np.asarray(applied.matrix()), np.asarray(M)),
        "a source of a table gives the matrix",
    )


def check_graph(instance: Instance) -> None:
    import networkx as nx

    n, directed = int(instance["n"]), bool(instance["directed"])
    graph = nx.DiGraph() if directed else nx.Graph()
    graph.add_nodes_from(range(n))
    given = instance["lengths"]
    for number, (a, b) in enumerate(instance["edges"] or ()):
        graph.add_edge(a, b, weight=1.0 if given is None else float(given[number]))
    weight = "ignore" if given is None else "length"
    options: dict[str, Any] = {"nodes": list(range(n)), "weight": weight, "directed": directed}
    M = refused(lambda: path_length(graph, unreachable=instance["unreachable"], **options))
    if M is None:
        return
    check_matrix(M, M.facts)
    known = dict(nx.all_pairs_dijkstra_path_length(graph))
    for i in range(n):
        for j in range(n):
            if j in known[i]:
                same = abs(M[i, j] - known[i][j]) <= 1e-12 * known[i][j]
                ask(same, "path_length is that of networkx", f"{M[i, j]!r}, {known[i][j]!r}")
    if given is None:
        source = GraphSource(graph, unreachable=50.0, nodes=list(range(n)), directed=directed)
        whole = path_length(graph, unreachable=50.0, **options)
        rows, columns = source.rows(np.arange(n)), source.columns(np.arange(n))
        ask(np.array_equal(rows, np.asarray(whole)), "GraphSource: rows are those of the matrix")
        ask(np.array_equal(columns, np.asarray(whole).T), "GraphSource: columns likewise")


def check_overlap(instance: Instance) -> None:
    n = int(instance["n"])
    edges = [(a, b) for a, b in instance["edges"] or () if a != b]
    if not edges:
        return
    for name, M in (
        ("jaccard", jaccard(edges, nodes=n)),
        ("jaccard", jaccard(edges, nodes=n, closed=True)),
        ("resource_allocation", resource_allocation(edges, nodes=n)),
        ("diffusion", diffusion(edges, nodes=n, restart=0.2)),
    ):
        check_matrix(M, facts(name))


def check_stack(X: Any) -> None:
    """Check that a stack hands out its sources, whole, sliced and scaled."""
    sources = {m: np.asarray(features(X, m)) for m in ("euclidean", "cityblock")}
    n = len(X)
    if any(M.max() == 0 for M in sources.values()):
        return
    stack = mm.DissimilarityStack(sources, scaling="max", items=[f"i{k}" for k in range(n)])
    expected = np.stack([M / M.max() for M in sources.values()], axis=-1)
    rows = stack.rows(np.arange(n))
    ask(np.allclose(rows, expected, rtol=1e-12, atol=0), "a stack divides by its scales")
    some = np.arange(n)[::-1][: max(1, n // 2)]
    part: Any = stack[np.ix_(some, some)]
    ask(
        np.array_equal(part.rows(np.arange(len(some))), rows[np.ix_(some, some)]),
        "a slice of a stack has the same values",
    )
    ask(list(part.items) == [f"i{k}" for k in some], "a slice of a stack keeps its ids")


AREA = Area(
    "sources",
    make,
    check,
    tried="Distances of feature tables in ten metrics, path lengths of graphs, nearest-neighbour "
    "graphs, threshold graphs, neighbour overlap, diffusion and stacks: the matrix, its rows and "
    "pairs, and new items against each other, scipy and networkx.",
    promised="Rows, pairs and new items agree with the matrix, and the declared properties of a "
    "source (metric, bound, symmetry) hold.",
    per_item=("X",),
    positions=("edges",),
    lists=("edges",),
)

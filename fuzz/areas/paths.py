"""Shortest paths over mixtures and matrices: all-pairs loops and networkx as references."""

from __future__ import annotations

from typing import Any

import numpy as np

import metricmix
from fuzz.cases import Area, Instance, ask
from fuzz.instances import chance, lengths, numbers, pick, size
from metricmix.mixture import edge_lengths
from metricmix.paths.out_of_sample import NewItems

mm: Any = metricmix  # its arguments are known at run time only

EPS = float(np.finfo(np.float64).eps)
TINY = float(np.finfo(np.float64).tiny)


def make(rng: np.random.Generator) -> Instance:
    n = size(rng)
    directed = chance(rng, 0.3)
    plain = chance(rng, 0.4)
    R = 1 if plain else int(rng.integers(1, 4))
    labelled = rng.permutation(n)[: int(rng.integers(1, n + 1))]
    return {
        "n": n,
        "directed": directed,
        "plain": plain,
        "sources": [lengths(rng, n, directed=directed).tolist() for _ in range(R)],
        "weights": (rng.normal(size=R) * 10.0 ** rng.integers(-2, 3)).round(3).tolist(),
        "beta": pick(rng, 1.0, 1.0, 0.1, 10.0, 100.0),
        "scaling": pick(rng, None, "mean", "max"),
        "computed": not plain and chance(rng, 0.2),
        "pairs": rng.integers(n, size=(int(rng.integers(1, 40)), 2)).tolist(),
        "labelled": [int(v) for v in labelled],
        "roots": rng.integers(n, size=int(rng.integers(1, 5))).tolist(),
        "k": int(rng.integers(1, max(n, 2))),
        "new": numbers(rng, (2, n, R)).tolist(),
    }


def check(instance: Instance) -> None:
    directed, plain = bool(instance["directed"]), bool(instance["plain"])
    sources = [np.array(M, float) for M in instance["sources"]]
    if plain:
        stack, mixture = sources[0], None
        w, options = sources[0], {"directed": directed}
    else:
        given: list[Any] = list(sources)
        if instance["computed"]:
            given[0] = computed(sources[0], directed)
        stack = mm.DissimilarityStack(given, directed=directed, scaling=instance["scaling"])
        weights = (instance["weights"] or [1.0] * len(sources))[: len(sources)]
        mixture = mm.Mixture(weights, beta=instance["beta"])
        w, options = edge_lengths(stack, mixture).matrix(), {}
        check_lengths(w, sources, mixture, stack)
    d = closure(w)
    found = mm.path_metric(stack, mixture, **options)
    same(found, d, "path_metric")
    call = (stack, mixture)
    check_pairs(call, options, w, d, instance["pairs"])
    check_neighbours(call, options, d, min(int(instance["k"]), len(w) - 1))
    check_labelled(call, options, d, instance["labelled"], int(instance["k"]))
    check_trees(call, options, w, d, instance["roots"])
    check_object(mm.Metric(*call, **options), d, instance["roots"], instance["labelled"])
    if plain:
        check_networkx(w, d, directed)
        check_soft(w, directed)
    else:
        check_new(edge_lengths(stack, mixture), np.array(instance["new"], float), w, d)


def computed(M: Any, directed: bool) -> Any:
    """Return a source that computes its rows on demand."""
    columns = (lambda i: M[:, i].T) if directed else None
    return mm.dissimilarity.ComputedSource(len(M), lambda i: M[i], columns=columns)


def closure(w: Any) -> Any:
    """Return all shortest-path lengths, by the three loops of the textbook."""
    d = w.copy()
    for k in range(len(d)):
        d = np.minimum(d, d[:, k, None] + d[None, k])
    np.fill_diagonal(d, 0.0)
    return d


def same(found: Any, expected: Any, what: str, rounding: float = 100 * EPS) -> None:
    """Raise a Failure unless distances agree, each up to a share of itself."""
    slack = rounding * np.abs(expected) + 64 * TINY
    apart = np.abs(found - expected)
    ask((apart <= slack).all(), f"{what}: distances", f"off by up to {np.max(apart)!r}")


def check_lengths(w: Any, sources: Any, mixture: Any, stack: Any) -> None:
    """Compare edge lengths with the formula, up to the rounding of the mixture."""
    raw = mixture.raw_weights(stack)
    m = sum(a * M for a, M in zip(raw, sources, strict=True))
    error = 8 * EPS * sum(abs(a) * M for a, M in zip(raw, sources, strict=True))
    off = ~np.eye(len(w), dtype=bool)
    low, high = (mm.mixture.link(m + s * error, mixture.beta) for s in (-1, 1))
    # exp(-beta m) has the relative rounding error of its exponent.
    slack = 8 * EPS * (1 + mixture.beta * np.abs(m))
    within = (w >= low * (1 - slack) - TINY) & (w <= high * (1 + slack) + TINY)
    ask(within[off].all(), "edge_lengths follow the formula")
    ask((w[off] > 0).all() and (np.diagonal(w) == 0).all(), "edge_lengths are positive")


def check_pairs(call: Any, options: Any, w: Any, d: Any, pairs: Any) -> None:
    if not pairs:
        return
    i, j = np.array(pairs).T
    bundle = mm.paths.shortest_paths(*call, i, j, **options)
    same(bundle.lengths, d[i, j], "shortest_paths")
    single = mm.shortest_path(*call, int(i[0]), int(j[0]), **options)
    same(np.array(single.length), d[i[0], j[0]], "shortest_path")
    for (a, b), path in zip([*pairs, pairs[0]], [*bundle, single], strict=True):
        nodes = path.nodes
        ask(nodes[0] == a and nodes[-1] == b, "shortest_path joins its ends", f"{nodes}")
        ask(len(set(nodes)) == len(nodes), "shortest_path visits an item once", f"{nodes}")
        along = sum(w[u, v] for u, v in path.edges)
        same(np.array(path.length), along, "shortest_path: nodes")
        if a != b and path.length == w[a, b] and np.isfinite(w[a, b]):
            ask(len(nodes) == 2, "an edge as short as any detour is taken", f"{nodes}")


def check_neighbours(call: Any, options: Any, d: Any, k: int) -> None:
    n = len(d)
    if n < 2:
        return
    k = max(k, 1)
    distances, items = mm.kneighbors(*call, k, **options)
    others = np.where(np.eye(n, dtype=bool), np.inf, d)
    same(distances, np.sort(others, axis=1)[:, :k], "kneighbors")
    same(distances, np.take_along_axis(d, items, axis=1), "kneighbors: items")
    for v in range(n):
        ask(len({*items[v], v}) == k + 1, "kneighbors are different other items", f"{items[v]}")
    whole = (d == np.round(d)).all() and d.max() < 2**40
    if whole:  # exact arithmetic: ties are ties
        first = np.argsort(others, axis=1, kind="stable")[:, :k]
        ask(np.array_equal(items, first), "kneighbors: ties by item number")
    graph = mm.kneighbors_graph(*call, k, **options).toarray()
    expected = np.zeros((n, n))
    np.put_along_axis(expected, items, distances, axis=1)
    ask(np.array_equal(graph, expected), "kneighbors_graph holds the neighbours")


def check_labelled(call: Any, options: Any, d: Any, labelled: Any, k: int) -> None:
    if not labelled:
        return
    k = max(1, min(k, len(labelled)))
    distances, items = mm.nearest_labelled(*call, labelled, k, **options)
    same(distances, np.sort(d[:, labelled], axis=1)[:, :k], "nearest_labelled")
    same(distances, np.take_along_axis(d, items, axis=1), "nearest_labelled: items")
    ask(set(items.ravel().tolist()) <= set(labelled), "nearest_labelled are labelled")
    for v, row in enumerate(items):
        ask(len(set(row.tolist())) == k, "nearest_labelled are different", f"{row}")
        if v in labelled:
            ask(distances[v, 0] == 0 and v in row, "a labelled item is its own nearest", f"{row}")


def check_trees(call: Any, options: Any, w: Any, d: Any, roots: Any) -> None:
    if not roots:
        return
    for chosen in (roots, None):
        trees = mm.paths.shortest_path_trees(*call, chosen, **options)
        start = trees.roots
        same(trees.distances, d[start], "shortest_path_trees")
        for s, root in enumerate(start):
            for j in range(len(w)):
                path = trees.path(s, j)
                ask(path.nodes[0] == root and path.nodes[-1] == j, "trees: paths join their ends")
                along = sum(w[u, v] for u, v in path.edges)
                # Edges that fit the distances up to 1e-12 may be on a path.
                same(np.array(path.length), along, "shortest_path_trees: nodes", 1.5e-11)
        demand = np.random.default_rng(0).normal(size=trees.distances.shape)
        flow = trees.edge_flow(demand)
        edges = [
            flow[s, j] * w[trees.predecessors[s, j], j]
            for s, root in enumerate(start)
            for j in range(len(w))
            if j != root
        ]
        total, size = (demand * trees.distances).sum(), np.abs(edges).sum()
        size += (np.abs(demand) * trees.distances).sum()
        ask(abs(sum(edges) - total) <= 1e-10 * size, "edge_flow carries the demand")


def check_networkx(w: Any, d: Any, directed: bool) -> None:
    import networkx as nx

    graph = nx.DiGraph() if directed else nx.Graph()
    n = len(w)
    graph.add_nodes_from(range(n))
    graph.add_weighted_edges_from(
        (i, j, float(w[i, j])) for i in range(n) for j in range(n) if i != j
    )
    lengths_ = dict(nx.all_pairs_dijkstra_path_length(graph))
    same(np.array([[lengths_[i][j] for j in range(n)] for i in range(n)]), d, "networkx agrees")


def check_soft(w: Any, directed: bool) -> None:
    """Compare soft distances with the inverse matrix, where that is accurate."""
    off = ~np.eye(len(w), dtype=bool)
    if len(w) < 2 or directed or w[off].min() == 0 or w.max() > 1e3 * w[off].min():
        return
    T = 4.0 * len(w) / float(w[off].min())
    if T * w.max() > 20:
        return
    K = np.exp(-T * w) * off
    Z = np.linalg.inv(np.eye(len(w)) - K)
    root = np.sqrt(np.diagonal(Z))
    expected = -np.log(Z / np.outer(root, root)) / T
    found = mm.paths.soft_paths(w, T).distances
    apart = np.abs(found - expected).max()
    ask(apart <= 1e-6 * w.max(), "soft_paths follow the formula", f"off by {apart!r}")
    ask(mm.is_metric(found), "soft_paths are a metric")


def check_object(metric: Any, d: Any, roots: Any, labelled: Any) -> None:
    """Compare the methods of a metric that are more than a call of one function."""
    same(np.asarray(metric), d, "Metric is its matrix")
    same(metric.distance(0, range(len(d))), d[0], "Metric.distance")
    same(metric.rows(list(roots)), d[roots], "Metric.rows")
    same(metric.columns(list(roots)), d[:, roots].T, "Metric.columns")
    if labelled:
        mask = np.isin(np.arange(len(d)), labelled)
        others = np.where(mask & ~np.eye(len(d), dtype=bool), d, np.inf)
        found, nearest = metric.nearest_labelled(mask, others=True)[0][:, 0], others.min(axis=1)
        there = np.isfinite(nearest)  # the only labelled item has no other
        ask(np.array_equal(np.isfinite(found), there), "Metric.nearest_labelled: others")
        found, nearest = np.where(there, found, 0.0), np.where(there, nearest, 0.0)
        same(found, nearest, "Metric.nearest_labelled: others")


def check_new(lengths_: Any, raw: Any, w: Any, d: Any) -> None:
    """Compare distances of new items with a minimum over their first edges."""
    if raw.shape[1:] != (len(w), lengths_.stack.n_sources):
        return
    new = NewItems.from_rows(lengths_, raw)
    edges = new.edges()
    expected = (edges[:, :, None] + d[None]).min(axis=1)
    same(new.distances(d), expected, "new items: distances")
    wanted = np.ones(len(w), bool)
    nearest, items = new.nearest(wanted, min(2, len(w)))
    same(nearest, np.sort(expected, axis=1)[:, : min(2, len(w))], "new items: nearest")
    same(nearest, np.take_along_axis(expected, items, axis=1), "new items: nearest items")
    joined = mm.Metric(lengths_).join(raw)
    same(joined.distances(), expected, "Metric.join: distances")
    if new.same[0] < 0:  # a row that is nearly that of an item has the paths of that item
        same(np.array(joined.path(0, 0).length), expected[0, 0], "Metric.join: path")


AREA = Area(
    "paths",
    make,
    check,
    tried="`shortest_path`, `shortest_paths`, `path_metric`, `kneighbors`, `kneighbors_graph`, "
    "`nearest_labelled`, shortest-path trees and their flows, soft paths and new items, over "
    "matrices and over mixtures of sources (dense and computed, directed and not, weights of any "
    "sign), with ties, zeros and spans of 1e24, against all-pairs loops and networkx.",
    promised="Every distance is correct up to a few rounding errors, every path has the stated "
    "length, and ties are broken as documented.",
    per_item=("sources", "new"),
    positions=("pairs", "labelled", "roots"),
    lists=("sources", "pairs", "roots"),
)

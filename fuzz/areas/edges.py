"""Sparse edges: stacks and new items on some pairs, against matrices that are inf elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np

import metricmix
from fuzz.areas.paths import check_labelled, check_neighbours, check_pairs, check_trees, same
from fuzz.cases import Area, Instance, ask
from fuzz.instances import chance, lengths, numbers, pick, size
from metricmix.dissimilarity import CrossEdges, EdgeSet
from metricmix.dissimilarity.edge_set import bridged
from metricmix.mixture import edge_lengths
from metricmix.paths.out_of_sample import NewItems
from metricmix.paths.sparse_rows import distances_in_blocks

mm: Any = metricmix  # its arguments are known at run time only


def make(rng: np.random.Generator) -> Instance:
    n = size(rng, 14)
    directed = chance(rng, 0.3)
    R = int(rng.integers(1, 4))
    count = int(rng.integers(0, pick(rng, 2, n, n * n) + 1))
    return {
        "n": n,
        "directed": directed,
        "sources": [lengths(rng, n, directed=directed).tolist() for _ in range(R)],
        "edges": rng.integers(n, size=(count, 2)).tolist(),  # some twice, reversed, from i to i
        "bridged": chance(rng, 0.7),
        "weights": (rng.normal(size=R) * 10.0 ** rng.integers(-2, 3)).round(3).tolist(),
        "beta": pick(rng, 1.0, 1.0, 0.1, 10.0, 100.0),
        "scaling": pick(rng, None, "mean", "max"),
        "pairs": rng.integers(n, size=(int(rng.integers(1, 40)), 2)).tolist(),
        "labelled": [int(v) for v in rng.permutation(n)[: int(rng.integers(1, n + 1))]],
        "roots": rng.integers(n, size=int(rng.integers(1, 12))).tolist(),
        "k": int(rng.integers(1, max(n, 2))),
        "rows": rng.integers(n, size=int(rng.integers(1, 6))).tolist(),
        "columns": [int(v) for v in rng.permutation(n)[: int(rng.integers(1, n + 1))]],
        "new": numbers(rng, (3, n, R)).tolist(),
        "joined": (rng.random((3, n)) < pick(rng, 0.1, 0.5, 1.0)).astype(int).tolist(),
        "unknown": (rng.random((R, n, n)) < pick(rng, 0.1, 0.5, 0.9)).astype(int).tolist(),
    }


def check(instance: Instance) -> None:
    directed, n = bool(instance["directed"]), int(instance["n"])
    sources = [np.array(M, float).reshape(n, n) for M in instance["sources"]]
    dense = mm.DissimilarityStack(sources, directed=directed, scaling=instance["scaling"])
    edges = check_edges(n, np.array(instance["edges"], int).reshape(-1, 2), directed)
    if instance["bridged"]:
        edges = bridged(edges)[0]
        ask(edges.components[0] == 1, "bridging edges join all components")
    weights = (instance["weights"] or [1.0] * len(sources))[: len(sources)]
    mixture = mm.Mixture(weights, beta=instance["beta"])
    stack = mm.EdgeStack.of(dense, edges)
    there = np.zeros((n, n), bool)
    there[edges.tails, edges.heads] = True
    there |= there.T & (not directed)
    w = np.where(there, edge_lengths(dense, mixture).matrix(), np.inf)
    np.fill_diagonal(w, 0.0)
    d = closure(w)
    check_distances(stack, mixture, w, d, instance)
    check_complete(dense, mixture)
    check_cross(stack, sources, there, instance)
    check_new(stack, mixture, d, instance)
    check_unknown(stack, instance)


def check_edges(n: int, ends: Any, directed: bool) -> Any:
    """Compare an edge set with a set of pairs."""
    edges = EdgeSet(n, *ends.T, directed=directed)
    pairs = {(int(u), int(v)) for u, v in ends if u != v}
    if not directed:
        pairs = {(min(pair), max(pair)) for pair in pairs}
    found = list(zip(edges.tails.tolist(), edges.heads.tolist(), strict=True))
    ask(len(found) == len(pairs) and set(found) == pairs, "an edge set has each edge once")
    i, j = (a.ravel() for a in np.indices((n, n)))
    number = edges.find(i, j).tolist()
    place = {pair: e for e, pair in enumerate(found)}
    if not directed:
        place |= {(v, u): e for (u, v), e in place.items()}
    expected = [place.get((u, v), -1) for u, v in zip(i.tolist(), j.tolist(), strict=True)]
    ask(number == expected, "EdgeSet.find gives the number of an edge")
    return edges


def closure(w: Any) -> Any:
    """Return all shortest-path lengths, inf without a path."""
    d = w.copy()
    for k in range(len(d)):
        d = np.minimum(d, d[:, k, None] + d[None, k])
    return d


def agree(found: Any, expected: Any, what: str) -> None:
    """Raise a Failure unless distances agree, infinite ones included."""
    reached = np.isfinite(expected)
    ask(np.array_equal(np.isfinite(found), reached), f"{what}: which items are reached")
    same(np.where(reached, found, 0.0), np.where(reached, expected, 0.0), what)


def check_distances(stack: Any, mixture: Any, w: Any, d: Any, instance: Instance) -> None:
    """Compare all searches with the closure."""
    call = (stack, mixture)
    lengths_ = edge_lengths(*call)
    ask(np.array_equal(lengths_.matrix(), w), "lengths of edges are those over all pairs")
    agree(mm.path_metric(*call), d, "path_metric over edges")
    roots = np.array(instance["roots"] or [0])
    for reverse, expected in ((False, d), (True, d.T)):
        found = np.empty((len(roots), len(d)))
        for some, rows in distances_in_blocks(lengths_, roots, reverse=reverse):
            found[some] = rows
        agree(found, expected[roots], "distances in blocks")
    if instance["pairs"]:
        i, j = np.array(instance["pairs"]).T
        agree(mm.paths.shortest_paths(*call, i, j).lengths, d[i, j], "shortest_paths over edges")
    if np.isfinite(d).all():
        check_pairs(call, {}, w, d, instance["pairs"])
        check_neighbours(call, {}, d, min(int(instance["k"]), len(w) - 1))
        check_labelled(call, {}, d, instance["labelled"], int(instance["k"]))
        check_trees(call, {}, w, d, instance["roots"])
        report = mm.sampled_violations(*call, n_items=len(d) + 1)
        rounding = 1e-9 * report.scale
        ask(report.triangle <= rounding, "the path metric over edges is a metric", str(report))


def check_complete(dense: Any, mixture: Any) -> None:
    """Compare the edges between all items with matrices."""
    whole = mm.EdgeStack.complete(dense)
    same(mm.path_metric(whole, mixture), mm.path_metric(dense, mixture), "all edges: path_metric")


def check_cross(stack: Any, sources: Any, there: Any, instance: Instance) -> None:
    """Compare the edges from some items to others with matrices."""
    n = len(there)
    rows = np.array([v for v in instance["rows"] if v < n] or [0])
    columns = np.array([v for v in instance["columns"] if v < n] or [0])
    expected = np.stack(sources)[:, rows[:, None], columns].astype(float)
    known = there[np.ix_(rows, columns)] | (rows[:, None] == columns)
    expected[:, ~known] = np.inf
    found = stack[np.ix_(rows, columns)]
    if not isinstance(found, CrossEdges):  # the same items: a stack
        pairs = (a.ravel() for a in np.indices(known.shape))
        values = found.raw_pairs(*pairs).reshape(expected.shape)
        ask(np.array_equal(values, expected), "a part of an EdgeStack has its edges")
        return
    for q in range(len(rows)):
        ask(np.array_equal(found.dense_row(q), expected[:, q]), "CrossEdges: rows")
    ask((np.diff(found.indptr) == known.sum(axis=1)).all(), "CrossEdges: edges of a row")
    again = CrossEdges.from_array(expected.transpose(1, 2, 0), stack.names)
    reverse = np.arange(len(columns))[::-1]
    turned = found.arranged(stack.names[::-1], reverse.tolist())
    some = np.arange(len(rows))[::-2]
    for part, values in (
        (again, expected),
        (found.rows(some), expected[:, some]),
        (turned, expected[::-1, :, reverse]),
    ):
        dense = [part.dense_row(q) for q in range(len(part))]
        ask(np.array_equal(np.stack(dense, axis=1), values), "CrossEdges: parts and orders")


def check_new(stack: Any, mixture: Any, d: Any, instance: Instance) -> None:
    """Compare distances of new items with a minimum over their edges."""
    n, R = len(d), stack.n_sources
    new = np.array(instance["new"], float)
    joined = np.array(instance["joined"], bool)
    if new.shape[1:] != (n, R) or joined.shape != new.shape[:2]:
        return
    new[~joined] = np.inf
    rows = CrossEdges.from_array(new, stack.names)
    items = NewItems.from_rows(edge_lengths(stack, mixture), rows)
    first = np.full((len(new), n), np.inf)
    for q in range(len(new)):
        ends, w = items.edges_of(q)
        first[q, ends] = w
    ask(np.array_equal(np.isfinite(first), joined), "new items have the edges that were given")
    expected = (first[:, :, None] + d[None]).min(axis=1)
    agree(items.distances(d), expected, "new items over edges")
    k = min(2, n)
    nearest, found = items.nearest(np.ones(n, bool), k)
    agree(nearest, np.sort(expected, axis=1)[:, :k], "new items over edges: nearest")
    reached = np.isfinite(nearest)
    at = np.take_along_axis(expected, np.where(reached, found, 0), axis=1)
    agree(np.where(reached, nearest, at), at, "new items over edges: nearest items")


def check_unknown(stack: Any, instance: Instance) -> None:
    """Compare estimates of unknown values with a minimum over all items."""
    edges, values, n = stack.edges, stack.values.copy(), stack.n_items
    unknown = np.array(instance.get("unknown", ()), bool)
    if unknown.shape != (len(values), n, n):
        return
    values[unknown[:, edges.tails, edges.heads]] = np.nan
    if np.isnan(values).all(axis=1).any():
        return
    found = mm.EdgeStack(edges, values).values
    known = ~np.isnan(values)
    ask(np.array_equal(found[known], values[known]), "known values on edges stay")
    for r, own in enumerate(values):
        M = np.full((n, n), np.nan)
        M[edges.tails, edges.heads] = own
        M = M if edges.directed else np.where(np.isnan(M), M.T, M)
        sums = np.full((len(values), 2), np.nan)
        for q, other in enumerate(values):
            both = known[r] & known[q]
            sums[q] = own[both].sum(), other[both].sum()
        sums[sums[:, 1] <= 0] = np.nan
        said = values * (sums[:, 0] / sums[:, 1])[:, None]
        said[r] = np.nan
        count = (~np.isnan(said)).sum(axis=0)
        mean = np.where(count, np.nansum(said, axis=0) / np.maximum(count, 1), np.nanmax(own))
        for e in np.flatnonzero(~known[r]):
            u, v = edges.tails[e], edges.heads[e]
            upper = np.fmin.reduce(M[u] + M[:, v], initial=np.inf)
            low = np.fmax.reduce([M[u] - M[v], M[:, v] - M[:, u]], axis=None, initial=0.0)
            expected = min(max(mean[e], min(low, upper)), upper)
            close = np.isclose(found[r, e], expected, rtol=1e-9, atol=1e-12 * np.nanmax(own))
            ask(bool(close), "unknown values on edges", f"{found[r, e]} and {expected}")


AREA = Area(
    "edges",
    make,
    check,
    tried="`EdgeSet`, `EdgeStack` and `CrossEdges`: random, duplicate, reversed and missing edges, "
    "components joined or not, directed and not, with ties, zeros and spans of 1e24; distances, "
    "paths, trees, nearest items and labels, parts of stacks, new items and estimates of unknown "
    "values, against matrices that are infinite where there is no edge.",
    promised="Every distance is correct up to a few rounding errors, infinite exactly where there "
    "is no path, and the edges between all items give the distances of full matrices.",
    per_item=("sources",),
    positions=("edges", "pairs", "labelled", "roots", "rows", "columns"),
    lists=("sources", "edges", "pairs", "roots"),
)

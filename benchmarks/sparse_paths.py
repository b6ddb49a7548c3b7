"""Shortest paths over sparse edges, per root and per pair, against scipy, igraph and networkx."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree

from benchmarks.measure import headline, table
from metricmix.dissimilarity.edge_set import EdgeSet
from metricmix.dissimilarity.edge_stack import EdgeStack
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.mixture.linear import Mixture
from metricmix.paths import nearest_labelled
from metricmix.paths.pair import bundle_paths
from metricmix.paths.sparse_rows import distances_in_blocks, search_all

TITLE = "Shortest paths over sparse edges, n = 10 000 … 1 000 000, about ten edges an item"
SIZES = (10_000, 100_000, 1_000_000)
ROOTS, PAIRS, LABELLED = 32, 16, 200
NETWORKX_UP_TO, IGRAPH_UP_TO = 10_000, 1_000_000


def nearest_neighbours(n: int, dimensions: int, k: int = 14) -> tuple[EdgeSet, np.ndarray]:
    """Join clustered points to their k nearest, and a hundredth as many random pairs."""
    rng = np.random.default_rng(0)
    centres = 3 * rng.normal(size=(max(10, n // 2000), dimensions))
    spread = rng.uniform(0.2, 1, size=(n, 1))
    points = centres[rng.integers(len(centres), size=n)] + spread * rng.normal(size=(n, dimensions))
    distances, nearest = cKDTree(points).query(points, k + 1)
    extra = n * k // 100
    u = np.append(np.repeat(np.arange(n), k), rng.integers(n, size=extra))
    v = np.append(nearest[:, 1:], rng.integers(n, size=extra))
    w = np.append(distances[:, 1:], rng.uniform(1, 3, extra) * np.median(distances[:, 1:]))
    return with_lengths(n, u, v, w)


def geometric(n: int, degree: int = 20) -> tuple[EdgeSet, np.ndarray]:
    """Join uniform points of the unit square within a radius."""
    points = np.random.default_rng(0).random((n, 2))
    radius = np.sqrt(degree / (np.pi * n))
    u, v = cKDTree(points).query_pairs(radius, output_type="ndarray").T
    return with_lengths(n, u, v, np.linalg.norm(points[u] - points[v], axis=1))


def preferential(n: int, m: int = 10) -> tuple[EdgeSet, np.ndarray]:
    """Join each item to m ends of earlier edges, drawn at random; items in random order."""
    rng = np.random.default_rng(0)
    tails = np.repeat(np.arange(m, n), m)
    heads = np.arange(len(tails)) % m  # the first item's
    drawn = (rng.random(len(tails)) * 2 * (np.arange(len(tails)) // m * m)).astype(np.int64)
    for start in range(m, len(tails), m):  # all ends of the edges before it are equally likely
        ends = drawn[start : start + m]
        heads[start : start + m] = np.where(ends % 2, tails[ends // 2], heads[ends // 2])
    place = rng.permutation(n)
    return with_lengths(n, place[tails], place[heads], rng.uniform(0.2, 1, len(tails)))


def with_lengths(n: int, u: Any, v: Any, w: Any) -> tuple[EdgeSet, np.ndarray]:
    """Return the edges and their lengths in single precision."""
    edges = EdgeSet(n, u, v)
    lengths = np.empty(len(edges), np.float32)
    number = edges.find(u, v)
    lengths[number[number >= 0]] = w[number >= 0]
    return edges, lengths


GRAPHS: dict[str, Callable[[int], tuple[EdgeSet, np.ndarray]]] = {
    "14 nearest, 2 dimensions": lambda n: nearest_neighbours(n, 2),
    "14 nearest, 6 dimensions": lambda n: nearest_neighbours(n, 6),
    "within a radius": geometric,
    "preferential attachment": preferential,
}


def seconds(function: Callable[[], Any]) -> float:
    """Return the processor time of one call on this thread: other work does not count."""
    started = time.thread_time()
    function()
    return time.thread_time() - started


def run(sizes: tuple[int, ...] = SIZES) -> str:
    """Return the table."""
    rows = []
    for label, make in GRAPHS.items():
        for n in sizes:
            edges, values = make(n)
            rows.append([label, f"{n:,}", f"{len(edges):,}", *measured(edges, values)])
    ours, ratio = rows[len(sizes) - 1][7].split(", ")
    headline(
        f"distances from each of {ROOTS} items to {sizes[-1]:,} others over sparse edges",
        ours,
        f"{ratio.strip('*')} scipy's Dijkstra, on one thread each",
    )
    header = [
        "edges join",
        "n",
        "edges",
        "scipy, a root",
        "igraph",
        "networkx",
        "one root, tree",
        f"each of {ROOTS} roots",
        f"nearest of {LABELLED} labelled",
        "a pair, new mixture",
        "items settled",
        "order and lengths, once",
    ]
    return table(header, rows) + (
        "\n\nProcessor time on one thread, lengths in single precision; bold: how many times "
        "faster than scipy per root. A pair is searched from both ends with lengths mixed as edges "
        "are met. The last column is what a first search from roots pays: the order of the items "
        "(once per edge set) and their lengths in this order (once per mixture)."
    )


def measured(edges: EdgeSet, values: np.ndarray) -> list[str]:
    """Return the cells of one graph."""
    n, rng = edges.n, np.random.default_rng(1)
    stack = EdgeStack(edges, values[None])
    mixture = Mixture([1.0], link="identity")
    roots = rng.integers(n, size=ROOTS)
    i, j = rng.integers(n, size=(2, PAIRS))
    lengths = EdgeLengths(stack, mixture)
    once = seconds(lengths.arcs) + seconds(lambda: lengths.arcs(near=True))
    search_all(lengths, roots[:1])  # compiles
    list(distances_in_blocks(lengths, roots[:8], n_jobs=1))
    bundle_paths(EdgeLengths(stack, mixture), i[:1], j[:1], n_jobs=1)
    nearest_labelled(lengths, labelled=[0])
    matrix = csr_array((lengths.arcs().lengths.astype(float), *lengths.arcs()[1::-1]), (n, n))
    scipy = min(seconds(lambda r=r: dijkstra(matrix, indices=r)) for r in roots[:2])
    one = min(seconds(lambda r=r: search_all(lengths, np.array([r]))) for r in roots[:3])
    many = seconds(lambda: list(distances_in_blocks(lengths, roots, n_jobs=1))) / ROOTS
    labelled = np.unique(rng.integers(n, size=LABELLED))
    nearest = seconds(lambda: nearest_labelled(lengths, labelled=labelled))
    fresh = [EdgeLengths(stack, mixture) for _ in i]
    found = []
    pair = seconds(
        lambda: found.extend(
            bundle_paths(fresh[p], i[p : p + 1], j[p : p + 1], n_jobs=1) for p in range(PAIRS)
        )
    )
    settled = np.mean([bundle.rows_touched[0] for bundle in found])
    return [
        f"{scipy * 1e3:.0f} ms",
        igraph_time(edges, values, int(roots[0])),
        networkx_time(edges, values, int(roots[0])),
        f"{one * 1e3:.0f} ms, **{scipy / one:.1f}x**",
        f"{many * 1e3:.1f} ms, **{scipy / many:.1f}x**",
        f"{nearest * 1e3:.0f} ms",
        f"{pair / PAIRS * 1e3:.1f} ms",
        f"{settled:.0f}",
        f"{once:.2f} s",
    ]


def igraph_time(edges: EdgeSet, values: np.ndarray, root: int) -> str:
    """Return the time of igraph's search from one root, if it is installed."""
    try:
        import igraph
    except ImportError:
        return ""
    if edges.n > IGRAPH_UP_TO:
        return ""
    graph = igraph.Graph(n=edges.n, edges=np.stack([edges.tails, edges.heads], axis=1))
    graph.es["length"] = values.astype(float)
    return f"{seconds(lambda: graph.distances(root, weights='length')) * 1e3:.0f} ms"


def networkx_time(edges: EdgeSet, values: np.ndarray, root: int) -> str:
    """Return the time of networkx' search from one root, if it is installed and n is small."""
    try:
        import networkx as nx
    except ImportError:
        return ""
    if edges.n > NETWORKX_UP_TO:
        return ""
    graph = nx.Graph()
    graph.add_weighted_edges_from(zip(edges.tails, edges.heads, values.astype(float), strict=True))
    return f"{seconds(lambda: nx.single_source_dijkstra_path_length(graph, root)) * 1e3:.0f} ms"

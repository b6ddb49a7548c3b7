"""All shortest paths and the metric check, against scipy and against the processor."""

from __future__ import annotations

import time
from collections.abc import Callable
from unittest import mock

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.sparse import csr_array
from scipy.sparse.csgraph import floyd_warshall
from scipy.spatial.distance import squareform
from sklearn.datasets import load_digits
from sklearn.metrics import pairwise_distances

from benchmarks.ceiling import ceiling
from benchmarks.measure import best_time, headline, real_data, table
from metricmix.dissimilarity import DissimilarityStack, features, path_length
from metricmix.kernels import locality
from metricmix.kernels.threads import effective_threads
from metricmix.metric import metric_violations
from metricmix.mixture import edge_lengths
from metricmix.objectives import LabelContrast
from metricmix.paths import project
from metricmix.paths.floyd_warshall import close_in_place
from metricmix.solvers import minimize

TITLE = "All shortest paths and the metric check, n = 2000"
N = 2000
DTYPES = (np.dtype(np.float32), np.dtype(np.float64))


def run() -> str:
    return f"{closures()}\n\n{checks()}\n\n{left_out()}"


def random_lengths(n: int) -> np.ndarray:
    """Symmetric lengths, all of them positive: scipy reads a dense 0 as no edge."""
    W = np.random.default_rng(0).random((n, n)) + 0.01
    W = (W + W.T) / 2
    np.fill_diagonal(W, 0.0)
    return W


def closing(W: np.ndarray, n_jobs: int | None = None) -> Callable[[], np.ndarray]:
    """Return a job that closes a copy of `W`, in memory that is there already."""
    d = np.empty_like(W)

    def job() -> np.ndarray:
        d[...] = W
        return close_in_place(d, symmetric=True, n_jobs=n_jobs)

    return job


def closures() -> str:
    W = random_lengths(N)
    expected = floyd_warshall(W)
    theirs = best_time(lambda: floyd_warshall(W), repeats=2)
    rows = [["scipy `floyd_warshall`", f"{theirs:.2f} s", "1", f"{N**3 / theirs / 1e9:.1f}", ""]]
    notes = []
    for dtype in DTYPES:
        lengths = W.astype(dtype)
        if not np.allclose(project(lengths), expected, rtol=1e-5):
            raise AssertionError("the two disagree")
        plain, fused = ceiling(dtype, fused=False), ceiling(dtype, fused=True)
        for threads in sorted({1, effective_threads()}):
            ours = best_time(closing(lengths, threads), repeats=9)
            done = N**3 / 2 / threads / ours
            rows.append(
                [
                    f"metricmix, {dtype}, {threads} thread{'s' if threads > 1 else ''}",
                    f"{1e3 * ours:.0f} ms",
                    f"{theirs / ours:.0f}",
                    f"{N**3 / ours / 1e9:.0f}",
                    f"{100 * done / max(plain, fused):.0f} %",
                ]
            )
        headline(
            f"all shortest paths, n = {N}, {dtype}",
            f"{1e3 * ours:.0f} ms",
            f"{theirs / ours:.0f}x scipy's Floyd–Warshall",
        )
        whole = best_time(lambda lengths=lengths: project(lengths), repeats=5)
        notes.append(
            f"{dtype}: {plain / 1e9:.1f} G pairs/s with a plain addition, {fused / 1e9:.1f} with "
            f"the fused a · 1 + b; `project`, which also validates and copies: {1e3 * whole:.0f} ms"
        )
    return (
        "Random symmetric lengths, the worst case: hardly any work can be skipped. G pairs/s "
        "counts n³ additions with minima, as in scipy; the last column counts the n³ / 2 of the "
        "symmetric form per core, relative to the peak rate of a core on registers.\n\n"
        + table(["", "time", "ratio", "G pairs/s", "of the ceiling"], rows)
        + "\n\nThat ceiling, in "
        + ". In ".join(notes)
        + ". Additions and minima compete for the same units; the fused form runs on others."
    )


def checks() -> str:
    X = np.random.default_rng(0).normal(size=(N, 10))
    rows = []
    for name, D in {
        "Euclidean distances in 10 dimensions": pairwise_distances(X),
        "random numbers": random_lengths(N),
    }.items():
        for dtype in DTYPES:
            given = D.astype(dtype)
            taken = best_time(lambda given=given: metric_violations(given), repeats=5)
            broken = metric_violations(given).n_triangle_violations
            rows.append([name, str(dtype), f"{1e3 * taken:.0f} ms", str(broken)])
    headline(f"is it a metric? n = {N}, float64", rows[1][2], "")
    header = ["matrix", "dtype", "`metric_violations`", "pairs with a shorter path"]
    return f"The metric check, n = {N}, all threads.\n\n" + table(header, rows)


def left_out() -> str:
    """Measure what the bounds, and an order of the items, add on a real metric."""
    name, W = real_lengths()
    n = len(W)

    def share(order: np.ndarray) -> str:
        return f"{100 * locality.fraction_computed(W, order):.0f} %"

    def in_leaf_order() -> np.ndarray:
        order = leaf_order(W)
        d = W[np.ix_(order, order)]
        close_in_place(d, symmetric=True)
        back = np.argsort(order)
        return d[np.ix_(back, back)]

    given, walk = np.arange(n), locality.nearest_neighbour_tour(W)
    started = time.perf_counter()
    leaves = leaf_order(W)
    linking = time.perf_counter() - started
    close = closing(W)
    expected = close().copy()
    everything = best_time(closing(random_lengths(n).astype(W.dtype)))
    rows = [["random lengths, where nothing can be skipped", "100 %", everything]]
    with mock.patch.object(locality, "TOUR_COST", np.inf):  # the order stays as it is
        rows.append(["bounds, items as given", share(given), best_time(close)])
        rows.append(
            ["bounds, leaf order of average linkage", share(leaves), best_time(in_leaf_order)]
        )
    with mock.patch.object(locality, "TOUR_COST", -np.inf):
        rows.append(["bounds, walk to the nearest item", share(walk), best_time(close)])
    rows.append(["`close_in_place` as it decides", "", best_time(close)])
    if not np.allclose(in_leaf_order(), expected, rtol=1e-5):
        raise AssertionError("the orders disagree")
    cells = [[what, done, f"{1e3 * t:.0f} ms", f"{everything / t:.1f}"] for what, done, t in rows]
    return (
        f"Work that can be skipped: {name}, n = {n}, float32, all threads. A chunk of the product "
        "is skipped if the smallest entries of its two factors sum to at least the largest entry "
        "of its tile; the result is exact. Times include reordering the matrix and "
        f"back (average linkage alone: {1e3 * linking:.0f} ms).\n\n"
        + table(["", "tiles computed (sample)", "time", "ratio"], cells)
        + "\n\nThe bounds are therefore always used; items are reordered by the walk if a sample "
        "of tiles shows that it pays off."
    )


def leaf_order(W: np.ndarray) -> np.ndarray:
    return leaves_list(linkage(squareform(W, checks=False), "average"))


def real_lengths() -> tuple[str, np.ndarray]:
    """Return edge lengths learned on Citeseer, or on digits where it is not at hand."""
    path = real_data("citeseer.npz")
    if path is None:
        digits = load_digits()
        known = np.where(np.arange(len(digits.target)) < 200, digits.target, -1)
        sources = [features(digits.data, "cosine"), features(digits.data)]
        return "a mixture learned on digits", learned(sources, known)
    with np.load(path, allow_pickle=False) as data:
        X = csr_array(
            (data["features_data"], data["features_indices"], data["features_indptr"]),
            shape=tuple(data["features_shape"]),
        )
        labels, train = data["labels"], data["train_index"]
        graph = path_length(data["edges"], nodes=len(labels), unreachable="bridge")
    known = np.full(len(labels), -1)
    known[train] = labels[train]
    name = "words (cosine) and citations (path length) of Citeseer, mixed with learned weights"
    return name, learned([features(X, "cosine"), graph], known)


def learned(sources: list[np.ndarray], known: np.ndarray) -> np.ndarray:
    """Return the edge lengths of the mixture that tells the known labels apart."""
    stack = DissimilarityStack(sources, scaling="mean")
    result = minimize(LabelContrast(known, rho=0.1, balanced=True), stack, method="full")
    return edge_lengths(stack, result).matrix().astype(np.float32)

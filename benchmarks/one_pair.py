"""One shortest path: rows mixed when settled, against scipy on the formed matrix."""

from __future__ import annotations

import time

import numpy as np
from scipy.sparse.csgraph import dijkstra
from sklearn.datasets import load_digits

from benchmarks.measure import best_time, headline, table
from metricmix.dissimilarity import DissimilarityStack, features, threshold_graphs
from metricmix.mixture import edge_lengths
from metricmix.paths import shortest_path, shortest_paths

TITLE = "One shortest path, R = 8, n = 1500 (threshold graphs of digits)"
N, R, PAIRS = 1500, 8, 50


def run() -> str:
    rng = np.random.default_rng(0)
    images = load_digits().data[:N] + 1.0
    stack = DissimilarityStack(threshold_graphs(features(images, "normalized-euclidean"), R))
    i, j = rng.integers(N, size=PAIRS), rng.integers(N, size=PAIRS)
    rows = []
    for label, weights in {
        "uniform, 1/8 each": np.full(R, 1 / R),
        "mixed signs": np.array([0.4, 0.1, 0.1, 0.4, 0.45, 0.2, -0.3, -0.4]),
        "mostly negative: many detours": rng.normal(-0.6, 0.5, R),
    }.items():
        found = shortest_paths(stack, weights, i, j)

        def peer(weights: np.ndarray = weights) -> np.ndarray:
            # What a user without this library would write: form all lengths, search from i.
            m = np.tensordot(weights, stack.block, axes=1)
            w = np.logaddexp(0.0, m)
            np.fill_diagonal(w, 0.0)
            return dijkstra(w, directed=False, indices=int(i[0]))

        ours = (
            best_time(lambda w=weights: shortest_paths(stack, w, i, j, n_jobs=1), repeats=5) / PAIRS
        )
        one_call = best_time(
            lambda w=weights: [shortest_path(stack, w, a, b) for a, b in zip(i, j, strict=True)]
        )
        theirs = best_time(peer, repeats=2)
        w = edge_lengths(stack, weights).matrix()
        search_only = best_time(
            lambda w=w: dijkstra(w, directed=False, indices=int(i[0])), repeats=2
        )
        touched = found.rows_touched
        rows.append(
            [
                label,
                f"{ours * 1e6:.0f} µs",
                f"{one_call / PAIRS * 1e6:.0f} µs",
                f"{theirs * 1e3:.0f} ms",
                f"{search_only * 1e3:.0f} ms",
                f"**{theirs / ours:.0f}x**, {theirs / one_call * PAIRS:.0f}x",
                f"{touched.mean():.1f} ({touched.max()})",
            ]
        )
    header = [
        "weights",
        f"{PAIRS} pairs together, each",
        "one `shortest_path` call",
        "scipy Dijkstra, forming included",
        "the search alone",
        "ratios",
        "rows touched: mean (max)",
    ]
    headline(
        f"one shortest path in a mixture, R = {R}, n = {N}",
        rows[0][1],
        f"{rows[0][5].split('*')[2].strip('x')}x scipy's Dijkstra, forming the matrix included",
    )
    started = time.perf_counter()
    DissimilarityStack.from_block(stack.block).raw_range()
    once = time.perf_counter() - started
    return table(header, rows) + (
        f"\n\nMean over {PAIRS} random pairs, one thread. A row is R·n numbers; the matrix has {N} "
        "of them. A call by itself takes longer for checking its arguments in Python. Bounds on "
        f"the rows of a stack are looked up once, in {once * 1e3:.0f} ms, and serve all pairs and "
        "weights."
    )

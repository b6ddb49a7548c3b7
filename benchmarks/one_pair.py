"""One shortest path: rows mixed when settled, against scipy on the formed matrix."""

from __future__ import annotations

import time

import numpy as np
from scipy.sparse.csgraph import dijkstra
from sklearn.datasets import load_digits

from benchmarks.measure import best_time, headline, table
from metricmix.dissimilarity import DissimilarityStack, features, threshold_graphs
from metricmix.paths import shortest_path, shortest_paths

TITLE = "One shortest path, R = 8, n = 1500 (threshold graphs of digits)"
N, R, PAIRS = 1500, 8, 50


def run() -> str:
    rng = np.random.default_rng(0)
    images = load_digits().data[:N] + 1.0
    stack = DissimilarityStack(threshold_graphs(features(images, "normalized-euclidean"), R))
    i = rng.integers(N, size=PAIRS)
    j = (i + rng.integers(1, N, size=PAIRS)) % N
    pairs = list(zip(i.tolist(), j.tolist(), strict=True))
    rows = []
    for label, weights in {
        "uniform, 1/8 each": np.full(R, 1 / R),
        "mixed signs": np.array([0.4, 0.1, 0.1, 0.4, 0.45, 0.2, -0.3, -0.4]),
        "mostly negative: many detours": rng.normal(-0.6, 0.5, R),
    }.items():

        def peer(weights: np.ndarray = weights) -> np.ndarray:
            # What a user without this library would write: form all lengths, search from i.
            m = np.tensordot(weights, stack.block, axes=1)
            w = np.logaddexp(0.0, m)
            np.fill_diagonal(w, 0.0)
            return dijkstra(w, indices=int(i[0]))

        def calls(weights: np.ndarray = weights) -> None:
            for a, b in pairs:
                shortest_path(stack, weights, a, b)

        theirs = best_time(peer, repeats=2)
        one = best_time(calls, repeats=3) / PAIRS
        batch = best_time(lambda w=weights: shortest_paths(stack, w, i, j, n_jobs=1)) / PAIRS
        touched = shortest_paths(stack, weights, i, j).rows_touched
        rows.append(
            [
                label,
                f"{theirs * 1e3:.0f} ms",
                *(f"{t * 1e6:.0f} µs, **{theirs / t:.0f}x**" for t in (one, batch)),
                f"{touched.mean():.1f} ({touched.max()})",
            ]
        )
    headline(
        f"one shortest path in a mixture, R = {R}, n = {N}",
        rows[0][2].split(",")[0],
        f"{rows[0][2].split('*')[2]} scipy's Dijkstra, forming the matrix included",
    )
    started = time.perf_counter()
    DissimilarityStack.from_block(stack.block).raw_range()
    once = time.perf_counter() - started
    header = [
        "weights",
        "scipy: form the lengths, Dijkstra from i",
        "one call",
        f"each of {PAIRS} together",
        "rows touched: mean (max)",
    ]
    return table(header, rows) + (
        f"\n\nMean over {PAIRS} random pairs, one thread. Batches of pairs use the ranges of "
        f"the stack's rows (computed once, in {once * 1e3:.0f} ms), so that usually one row "
        "settles a pair; the rows touched are counted for batches."
    )

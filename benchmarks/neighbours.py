"""Exact nearest rows of a table, against scikit-learn."""

from __future__ import annotations

import numpy as np

from benchmarks.measure import best_time, headline, table

TITLE = "Exact nearest rows of a table, k = 10"
TABLES = ((10_000, 8), (20_000, 50), (20_000, 784))


def run(k: int = 10) -> str:
    """Return a Markdown table of seconds, ours and scikit-learn's, on the same rows."""
    from sklearn.neighbors import NearestNeighbors

    from metricmix.dissimilarity.nearest_items import nearest_items

    rows = []
    for n, d in TABLES:
        X = np.random.default_rng(0).normal(size=(n, d)).astype(np.float32)
        brute = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(X)
        same = np.isin(
            nearest_items(X, k, method="blocks").items + n * np.arange(n)[:, None],
            brute.kneighbors(return_distance=False) + n * np.arange(n)[:, None],
        ).mean()
        ours = best_time(lambda X=X: nearest_items(X, k, method="blocks"), 3)
        theirs = best_time(lambda brute=brute: brute.kneighbors(), 3)
        rows.append([f"{n:,} x {d}", f"{ours:.2f}", f"{theirs:.2f}", f"{theirs / ours:.1f}x"])
        rows[-1].append(f"{same:.3%}")
    headline(
        f"nearest rows of {n:,} x {d}", f"{ours:.1f} s", f"{theirs / ours:.1f}x scikit-learn's"
    )
    header = ["rows x columns", "`nearest_items`", "`NearestNeighbors`", "ratio", "the same rows"]
    return (
        f"{table(header, rows)}\n\nSeconds, random numbers in single precision, all cores for "
        "both, best of three runs. Where the two differ, distances are equal to rounding."
    )

"""Path lengths of the paper's threshold graphs, against scipy."""

from __future__ import annotations

import time

import numpy as np

from benchmarks.measure import headline

TITLE = "Threshold graphs: all path lengths of eight unweighted graphs"


def run(n: int = 1500, n_graphs: int = 8, repeats: int = 5) -> str:
    """Return a Markdown table of seconds, ours and scipy's, on the same graphs."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import shortest_path
    from sklearn.datasets import load_digits

    from metricmix.dissimilarity.features import features
    from metricmix.dissimilarity.threshold_graphs import threshold_graphs, thresholds

    D = features(load_digits().data[:n] + 1, "normalized-euclidean")
    threshold_graphs(D[:100, :100])  # compiled before the clock starts
    ours = np.inf
    for _ in range(repeats):
        start = time.perf_counter()
        found = threshold_graphs(D, n_graphs, normalize=False)
        ours = min(ours, time.perf_counter() - start)
    theirs = 0.0
    for bound, matrix in zip(thresholds(D, n_graphs), found, strict=True):
        adjacency = csr_array(bound > D)
        start = time.perf_counter()
        expected = shortest_path(adjacency, unweighted=True)
        theirs += time.perf_counter() - start
        reachable = np.isfinite(expected)
        if not np.array_equal(matrix[reachable], expected[reachable]):
            raise AssertionError("the two disagree")
    headline(
        f"path lengths of {n_graphs} dense graphs, n = {n}",
        f"{1e3 * ours:.0f} ms",
        f"{theirs / ours:.0f}x scipy's shortest_path",
    )
    return (
        f"Digits, n = {n}, R = {n_graphs}, normalised Euclidean distance.\n\n"
        "| | seconds | ratio |\n| --- | --- | --- |\n"
        f"| `scipy.sparse.csgraph.shortest_path(unweighted=True)`, {n_graphs} times "
        f"| {theirs:.2f} | 1 |\n"
        f"| `metricmix.dissimilarity.threshold_graphs` | {ours:.3f} "
        f"| {theirs / ours:.0f}x |\n\n"
        "Our time includes building the graphs and filling in unreachable pairs (best of "
        f"{repeats} runs); scipy's time is for the path lengths alone (one run). The lengths are "
        "equal."
    )

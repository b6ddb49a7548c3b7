"""Labels without the metric: new items, and many unlabelled ones, against forming it first."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import make_blobs
from sklearn.neighbors import KNeighborsClassifier

from benchmarks.measure import best_time, headline, table
from metricmix import MetricMixtureClassifier, Mixture, nearest_labelled
from metricmix.dissimilarity import DissimilarityStack, features
from metricmix.dissimilarity.known import Known
from metricmix.kernels.minplus import min_plus
from metricmix.learning.rules import FittedRule, KNearest, as_rule
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.paths import project
from metricmix.paths.out_of_sample import NewItems

TITLE = "Labels for 1000 new items (n = 5000, R = 4), and for 5000 items from 100 labels"
N, NEW, R, LABELS, K = 5000, 1000, 4, 100, 5


def run() -> str:
    X, y = make_blobs(N + NEW, n_features=R * 4, centers=10, cluster_std=6.0, random_state=0)
    parts = np.split(X, R, axis=1)
    everything = DissimilarityStack([features(part) for part in parts], scaling="mean")
    old, new = np.arange(N), np.arange(N, N + NEW)
    stack = everything[np.ix_(old, old)]
    cross = np.ascontiguousarray(everything[np.ix_(new, old)].values * stack.scales)
    return "\n\n".join([_predicting(stack, cross, y), _labelling(stack, y)])


def _predicting(stack: DissimilarityStack, cross: np.ndarray, y: np.ndarray) -> str:
    model = MetricMixtureClassifier(rule=KNearest(K)).fit(stack, y[:N])

    def ours() -> np.ndarray:
        return model.predict(cross)

    lengths = EdgeLengths(stack, model.mixture_)

    def peer() -> np.ndarray:
        # What the metric is for: form it, extend it to the new items, call scikit-learn.
        d = project(lengths.matrix())
        neighbours = KNeighborsClassifier(K, metric="precomputed").fit(d, y[:N])
        return neighbours.predict(min_plus(NewItems.from_rows(lengths, cross).edges(), d))

    same = float(np.mean(ours() == peer()))
    mine, theirs = best_time(ours), best_time(peer, repeats=2)
    headline(
        f"labels of {NEW} new items, {N} labelled, R = {R}",
        f"{mine * 1e3:.0f} ms",
        f"{theirs / mine:.0f}x forming the metric and calling scikit-learn's k-NN",
    )
    rows = [
        ["form the metric, scikit-learn's k-NN", f"{theirs * 1e3:.0f} ms", ""],
        ["`MetricMixtureClassifier.predict`", f"{mine * 1e3:.0f} ms", f"**{theirs / mine:.0f}x**"],
    ]
    megabytes = cross.nbytes / 1e6
    return table([f"{K} nearest of {N} labelled items", "time", "ratio"], rows) + (
        f"\n\nBoth give the same label to {same:.1%} of the new items (the others are tied votes "
        f"or equal distances). Reading their dissimilarities alone means {megabytes:.0f} MB. The "
        "metric is formed with this library's own closure, not with scipy's."
    )


def _labelling(stack: DissimilarityStack, y: np.ndarray) -> str:
    rng = np.random.default_rng(0)
    known = rng.choice(N, LABELS, replace=False)
    codes = np.full(N, -1)
    codes[known] = y[known]
    mixture = Mixture([2.0, -0.5, 3.0, 1.0], stack.names)
    lengths = EdgeLengths(stack, mixture)
    formed = lengths.formed()

    def label(rule: str) -> np.ndarray:
        return FittedRule(as_rule(rule), formed, Known(codes, 10)).of_items

    form = best_time(lambda: lengths.matrix(), repeats=2)
    closure = best_time(lambda: project(formed.block[0]), repeats=2)
    nearest = best_time(lambda: nearest_labelled(formed, None, known))
    rows = [
        ["forming the lengths, for either", f"{form * 1e3:.0f} ms", ""],
        ["one all-pairs closure", f"{closure * 1e3:.0f} ms", ""],
        ["the nearest labelled item of all", f"{nearest * 1e3:.1f} ms", nearest],
    ]
    for name, rule in {
        "`rule='nearest'`: distances to all 10 classes": "nearest",
        f"`rule='k-nearest'`: the {K} nearest labelled items of all": "k-nearest",
        f"`rule='class-mean'`: a tree for each of the {LABELS} labelled items": "class-mean",
    }.items():
        takes = best_time(lambda rule=rule: label(rule), repeats=3)
        rows.append([name, f"{takes * 1e3:.0f} ms", takes])
    for row in rows:
        row[2] = f"**{closure / row[2]:.0f}x**" if row[2] else ""
    headline(
        f"the nearest of {LABELS} labels for {N} items, lengths given",
        rows[2][1],
        f"{closure / nearest:.0f}x one closure",
    )
    return table([f"{N} items from {LABELS} labels, lengths given", "time", "ratio"], rows)

"""Clusters from must-link and cannot-link pairs.

500 digits are compared by shape, by a graph of nearest neighbours, by the amount of ink and by its
position. 100 must-link and 100 cannot-link pairs among 50 images are the only supervision. The
other 450 images are scored.
"""

from itertools import combinations, product

import kmedoids
import numpy as np
from _comparison import compare, save
from sklearn.cluster import HDBSCAN
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score

import metricmix as mm

METHODS = {
    "k-medoids": lambda D: kmedoids.fasterpam(D, 10, random_state=0).labels,
    "HDBSCAN": lambda D: HDBSCAN(10, metric="precomputed", copy=True).fit_predict(D),
}
features = mm.dissimilarity.features
X, y = (part[-500:] for part in load_digits(return_X_y=True))
matrices = [features(X, "cosine"), mm.dissimilarity.knn_path_length(X, k=8, unreachable="bridge")]
matrices += [features(X.sum(1)[:, None]), features(X @ np.mgrid[-3.5:4, -3.5:4].reshape(2, 64).T)]
stack = mm.DissimilarityStack(matrices, ["shape", "graph", "ink", "place"], scaling="mean")


given = {n: stack.source(n) for n in stack.names} | {"equal weights": np.mean(stack, axis=-1)}
found = {name: [cluster(D) for cluster in METHODS.values()] for name, D in given.items()}
scores = {name: {m: [] for m in METHODS} for name in [*found, "learned"]}
for draw in range(10):
    rng = np.random.default_rng(draw)
    known = rng.choice(500, 50, replace=False)
    pairs = rng.permutation(list(combinations(known.tolist(), 2)))
    same = y[pairs[:, 0]] == y[pairs[:, 1]]
    links = mm.objectives.PairConstraints(pairs[same][:100], pairs[~same][:100])
    D = mm.MetricMixture(objective=links).fit_transform(stack)
    found["learned"] = [cluster(D) for cluster in METHODS.values()]
    rest = np.setdiff1d(np.arange(500), known)
    for name, (k, method) in product(found, enumerate(METHODS)):
        scores[name][method].append(adjusted_rand_score(y[rest], found[name][k][rest]))
print(mm.MetricMixture(objective=links).fit(stack).mixture_)
save(compare(scores, "adjusted Rand index, 10 draws of links"), "clusters_from_links")

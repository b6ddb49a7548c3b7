"""A network of 100 000 items.

The items have words and 300 000 links; twenty per class are labelled. The sources are evaluated on
sparse edges: the links, and each item's ten nearest items by each table. The learned distance is
the shortest path along them. The map shows 400 of the items. If the environment variable
METRICMIX_DATA names a folder with MNIST, its 70 000 images are classified as well.
"""

import os
import resource
import time

import numpy as np
from _comparison import save
from matplotlib import pyplot as plt
from sklearn.manifold import TSNE

import metricmix as mm


def label(X, graph, y, per_class, **options):
    """Label all items from some labels of each class; return the model and the other items."""
    rng = np.random.default_rng(0)
    known = np.full(len(y), -1)
    for c in np.unique(y):
        known[rng.permutation(np.flatnonzero(y == c))[:per_class]] = c
    began = time.perf_counter()
    stack = mm.sources_for(X, graph, labels=known, edges_per_item=10, **options)
    made = time.perf_counter()
    model = mm.MetricMixtureClassifier(stack).fit(np.arange(len(y)), known)
    done = time.perf_counter()
    rest = known < 0
    equal = mm.MetricMixtureClassifier(stack, objective=None).fit(np.arange(len(y)), known)
    for name, fitted in {"learned": model, "equal weights": equal}.items():
        print(f"{name}: {np.mean(fitted.transduction_[rest] == y[rest]):.1%} of {rest.sum():,}")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{stack.n_sources} sources on {len(stack.edges):,} edges: {made - began:.0f} s")
    print(f"learning: {done - made:.0f} s; up to {memory:.1f} GiB of memory")
    return model, np.flatnonzero(rest)


network = mm.datasets.make_attributed_graph(
    100_000, 10, n_words=1000, degree=6, homophily=0.5, word_signal=0.2, random_state=0
)
model, rest = label(network.data, network.edges, network.target, 20, nodes=100_000)
print(model.stack_.report)
print(model.mixture_)
print(model.explain(rest[0]))
print(mm.sampled_violations(model.stack_, model.mixture_, n_items=200))

shown = rest[np.linspace(0, len(rest) - 1, 400).astype(int)]
distances = mm.paths.shortest_path_trees(model.stack_, model.mixture_, shown).distances[:, shown]
where = TSNE(metric="precomputed", init="random", random_state=0).fit_transform(distances)
picture, axes = plt.subplots(figsize=(6, 5), layout="constrained")
axes.scatter(*where.T, c=network.target[shown], cmap="tab10", s=14)
axes.set(xticks=[], yticks=[], title="400 of 100 000 items, by learned distance and true class")
save(picture, "large_network")
if "METRICMIX_DATA" in os.environ:
    images = mm.datasets.fetch_mnist(download_if_missing=False)
    label(images.data / np.float32(255), None, images.target, 10)

"""The learned metric serves scikit-learn's own estimators, as a matrix and as a sparse graph."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.cluster import DBSCAN, HDBSCAN, AgglomerativeClustering
from sklearn.datasets import make_blobs
from sklearn.manifold import MDS, TSNE, Isomap
from sklearn.metrics import adjusted_rand_score, silhouette_score
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

import metricmix as mm

X, Y = make_blobs(150, 5, centers=3, cluster_std=0.7, random_state=0)
SOURCES = ["euclidean", "cityblock", "cosine"]


@pytest.fixture(scope="module")
def D() -> Any:  # noqa: N802
    return mm.MetricMixture(SOURCES).fit_transform(X, np.where(np.arange(150) < 60, Y, -1))


@pytest.mark.parametrize(
    "clusters",
    [
        HDBSCAN(metric="precomputed", copy=True),
        AgglomerativeClustering(3, metric="precomputed", linkage="average"),
    ],
    ids=lambda model: type(model).__name__,
)
def test_clusters_are_the_classes(D: Any, clusters: Any) -> None:
    found = clusters.fit_predict(D)
    kept = found >= 0
    assert kept.mean() > 0.5
    assert adjusted_rand_score(Y[kept], found[kept]) > 0.9
    assert silhouette_score(D, Y, metric="precomputed") > 0.2


@pytest.mark.parametrize("flat", ["MDS", "Isomap", "TSNE"])
def test_maps_keep_neighbours(D: Any, flat: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what scikit-learn says of its own defaults to come
        model = {
            "MDS": lambda: MDS(2, metric="precomputed", n_init=1, init="random", random_state=0),
            "Isomap": lambda: Isomap(n_neighbors=10, metric="precomputed"),
            "TSNE": lambda: TSNE(metric="precomputed", init="random", max_iter=300, random_state=0),
        }[flat]()
        place = model.fit_transform(D)
    assert KNeighborsClassifier(1).fit(place[:100], Y[:100]).score(place[100:], Y[100:]) > 0.85


def test_neighbours_in_a_pipeline() -> None:
    model = make_pipeline(mm.MetricMixture(SOURCES), KNeighborsClassifier(3, metric="precomputed"))
    assert cross_val_score(model, X, Y, cv=3).mean() > 0.95


def test_a_sparse_graph_is_enough(D: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        pytest.fail("the whole metric was computed")

    monkeypatch.setattr("metricmix.paths.learned_metric.path_metric", refuse)
    model = mm.MetricMixture(SOURCES).fit(X, np.where(np.arange(150) < 60, Y, -1))
    assert model.metric_.n == 150
    graph = model.kneighbors_graph(20)
    row = graph[[7]].toarray()[0]
    assert np.sort(row[row > 0]) == pytest.approx(np.sort(D[7])[1:21])
    labels = DBSCAN(eps=float(np.median(graph.data)), metric="precomputed").fit_predict(graph)
    assert adjusted_rand_score(Y[labels >= 0], labels[labels >= 0]) > 0.8


def test_kmedoids_from_links() -> None:
    kmedoids = pytest.importorskip("kmedoids")
    rng = np.random.default_rng(0)
    pairs = rng.permutation(150)[:120].reshape(60, 2)
    same = Y[pairs[:, 0]] == Y[pairs[:, 1]]
    links = mm.objectives.PairConstraints(pairs[same], pairs[~same])
    distances = mm.MetricMixture(SOURCES, objective=links).fit_transform(X)
    assert mm.is_metric(distances)
    found = kmedoids.fasterpam(distances, 3, random_state=0).labels
    assert adjusted_rand_score(Y, found) > 0.8

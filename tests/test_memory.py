"""What does not fit into memory is refused in one sentence, before the work begins."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.utils import check_random_state

import metricmix as mm
from metricmix import dissimilarity as ds
from metricmix.exceptions import TooLargeError
from metricmix.nearness.violations import violation_counts
from metricmix.paths.all_pairs import impute_missing
from metricmix.paths.soft import soft_paths
from metricmix.paths.trees import shortest_path_trees

N = 200_000
"""Items of which no machine here has room for all pairs: 320 GB as float64."""


class OnDisk:
    """A matrix of another library, such as zarr, which becomes an array as a whole."""

    shape = (N, N)
    ndim = 2
    dtype = np.dtype(np.float64)

    def __len__(self) -> int:
        return N

    def __array__(self, dtype=None, copy=None):
        raise AssertionError("was read")


def lengths():
    """Return a matrix that takes no memory, and is a metric but for its diagonal."""
    return np.broadcast_to(np.float64(1.0), (N, N))


def ring(n=N):
    nodes = np.arange(n)
    return sp.coo_array((np.ones(n), (nodes, (nodes + 1) % n)), shape=(n, n)).tocsr()


def table(n=N):
    return check_random_state(0).random((n, 2))


LARGE = {
    "is_metric": lambda: mm.is_metric(lengths()),
    "check_metric": lambda: mm.check_metric(lengths()),
    "metric_violations of bytes": lambda: mm.metric_violations(
        np.broadcast_to(np.uint8(1), (N, N))
    ),
    "is_metric of a foreign array": lambda: mm.is_metric(OnDisk()),
    "project": lambda: mm.project(lengths()),
    "project float32": lambda: mm.project(np.broadcast_to(np.float32(1.0), (N, N))),
    "project a foreign array": lambda: mm.project(OnDisk()),
    "impute_missing": lambda: impute_missing(lengths()),
    "nearest_metric": lambda: mm.nearest_metric(lengths()),
    "minimize_metric": lambda: mm.minimize_metric(
        mm.objectives.LabelContrast(np.arange(N) % 2), lengths(), method="projected"
    ),
    "violation_counts": lambda: violation_counts(lengths()),
    "soft_paths": lambda: soft_paths(lengths(), 1.0),
    "features": lambda: ds.features(table()),
    "features cityblock": lambda: ds.features(table(), "cityblock"),
    "mahalanobis": lambda: ds.mahalanobis(table(), np.eye(2)),
    "path_length": lambda: ds.path_length(ring()),
    "path_length with lengths": lambda: ds.path_length(ring() * 2.0, weight="length"),
    "knn_path_length": lambda: ds.knn_path_length(table(), 3),
    "jaccard": lambda: ds.jaccard(ring()),
    "resource_allocation": lambda: ds.resource_allocation(ring()),
    "diffusion": lambda: ds.diffusion(ring(), steps=1),
    "pagerank": lambda: ds.diffusion(ring(), restart=0.1),
    "path_metric": lambda: mm.path_metric(computed(), [1.0]),
    "shortest_path_trees": lambda: shortest_path_trees(computed(), [1.0]),
    "recipe": lambda: mm.MetricMixtureClassifier(["euclidean"]).fit(table(), np.arange(N) % 2),
}


def computed():
    return mm.DissimilarityStack([ds.FeatureSource(table())])


@pytest.mark.parametrize("name", LARGE)
def test_public_functions_say_what_they_need(name, monkeypatch):
    monkeypatch.setattr("metricmix.memory.available_bytes", lambda: 2**30)
    with pytest.raises(TooLargeError) as caught:
        LARGE[name]()
    message = str(caught.value)
    assert "1 GiB are available" in message
    assert f"{N} items" in message
    assert caught.value.remedy
    assert len(message.splitlines()) == 1


def test_threshold_graphs_and_stacks(monkeypatch):
    D = np.abs(np.subtract.outer(np.arange(40.0), np.arange(40.0)))
    monkeypatch.setattr("metricmix.validation.LARGE", 0)
    monkeypatch.setattr("metricmix.memory.available_bytes", lambda: 40_000)
    with pytest.raises(TooLargeError, match=r"D: the graphs' metrics needs about .* for 40 items"):
        ds.threshold_graphs(D, 8)
    with pytest.raises(TooLargeError, match="sources: the stack needs about"):
        mm.DissimilarityStack([D, D, D, D])
    with pytest.raises(TooLargeError, match="dense=False"):
        mm.sources_for(np.eye(40, 3) + 1.0, ring(40), dense=True)


def test_what_fits_is_computed(monkeypatch):
    monkeypatch.setattr("metricmix.validation.LARGE", 0)
    monkeypatch.setattr("metricmix.memory.available_bytes", lambda: 1 << 20)
    D = np.abs(np.subtract.outer(np.arange(40.0), np.arange(40.0)))
    assert mm.is_metric(D)
    np.testing.assert_array_equal(mm.project(D), D)
    np.testing.assert_array_equal(ds.features(np.arange(40.0)[:, None]), D)


def test_without_room_for_sorting_the_closure_is_the_same(monkeypatch):
    X = np.sort(np.random.default_rng(0).random((600, 1)), axis=0)[::-1]
    W = np.abs(X - X.T) ** 2
    expected = mm.project(W, n_jobs=1)
    monkeypatch.setattr(
        "metricmix.paths.floyd_warshall.tour_order", lambda matrix: np.arange(600)[::-1]
    )
    monkeypatch.setattr("metricmix.validation.LARGE", 0)
    available = iter([2**30, 0, 0, 0])
    monkeypatch.setattr("metricmix.memory.available_bytes", lambda: next(available))
    np.testing.assert_allclose(mm.project(W, n_jobs=1), expected, rtol=1e-12)

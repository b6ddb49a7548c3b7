import importlib

import numpy as np
import pytest

import metricmix as mm
from metricmix.dissimilarity import EdgeSet
from metricmix.dissimilarity.edge_set import edge_union
from metricmix.dissimilarity.nearest_items import nearest_items
from metricmix.paths import stretch


def plane(n: int = 60) -> mm.DissimilarityStack:
    X = np.random.default_rng(0).standard_normal((n, 2))
    sources = {
        "euclidean": mm.dissimilarity.features(X),
        "city": mm.dissimilarity.features(X, "cityblock"),
    }
    return mm.DissimilarityStack(sources, scaling="mean")


@pytest.mark.parametrize("weights", [[1.0, 0.5], [2.0, -0.5]])
def test_distances_over_edges_are_never_shorter(weights: list[float]) -> None:
    dense = plane()
    X = np.random.default_rng(0).standard_normal((60, 2))
    shares = []
    for k in (2, 5, 59):
        edges, _ = edge_union(60, {"near": nearest_items(X, k).ends()}, X)
        found = stretch(mm.EdgeStack.of(dense, edges), weights, n_pairs=200)
        assert found.ratios.min() >= 1 - 1e-12
        shares.append(found.ratios.mean())
    assert shares[0] > shares[1] > shares[2]
    assert shares[2] == pytest.approx(1.0)
    metric = mm.path_metric(dense, weights)
    i, j = np.unravel_index(np.argsort(metric, axis=None)[-1], metric.shape)
    assert found.over_all_pairs.max() <= metric[i, j] + 1e-12


@pytest.mark.parametrize("directed", [False, True])
def test_bounds_from_the_nearest_items_and_a_sample(directed: bool, monkeypatch) -> None:
    rng = np.random.default_rng(1)
    D = rng.random((40, 40)) ** 2 + 0.01
    D = D if directed else np.minimum(D, D.T)
    np.fill_diagonal(D, 0.0)
    dense = mm.DissimilarityStack([D], ["random"], directed=directed)
    u, v = np.nonzero(D < 0.2)
    stack = mm.EdgeStack.of(dense, EdgeSet(40, u, v, directed=directed))
    plain = mm.Mixture([1.0], link="identity")  # paths of several edges
    found, exact = (stretch(stack, plain, n_pairs=300, exact=how) for how in (False, True))
    assert (found.over_all_pairs <= exact.over_all_pairs + 1e-12).all()
    assert (found.over_all_pairs < 0.9 * exact.over_all_pairs).any()
    assert found.over_sample is not None  # of all 40 items
    np.testing.assert_allclose(found.over_sample, exact.over_all_pairs, rtol=1e-6)
    monkeypatch.setattr(importlib.import_module("metricmix.paths.geodesic"), "SAMPLE", 1)
    sampled = stretch(stack, plain, n_pairs=3, exact=False)
    assert (sampled.over_sample >= stretch(stack, plain, n_pairs=3).over_all_pairs - 1e-9).all()
    np.testing.assert_array_equal(found.over_edges, exact.over_edges)
    assert "at most" in str(found)
    assert "at most" not in str(exact).split("(")[0]


def test_it_uses_the_scales_of_the_stack() -> None:
    sparse = mm.EdgeStack.complete(plane()).rescaled([3.0, 7.0])
    assert stretch(sparse, [1.0, 1.0], n_pairs=30).ratios == pytest.approx(1.0)


def test_refusals() -> None:
    alone = mm.EdgeStack(EdgeSet(3, [0, 1], [1, 2]), np.ones((1, 2)))
    for stack in (alone, plane()):
        with pytest.raises(mm.InputError, match="an EdgeStack with an origin"):
            stretch(stack, [1.0])  # type: ignore[arg-type]
    with pytest.raises(mm.InputError, match="n_pairs"):
        stretch(mm.EdgeStack.complete(plane(5)), [1.0, 1.0], n_pairs=0)

import numpy as np
import pytest

import metricmix as mm
from metricmix.dissimilarity import EdgeSet
from metricmix.dissimilarity.edge_building import edge_union
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

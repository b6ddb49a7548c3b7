import numpy as np
import pytest
from scipy.sparse.csgraph import shortest_path
from scipy.spatial.distance import cdist
from sklearn.datasets import make_swiss_roll
from sklearn.neighbors import kneighbors_graph

from metricmix.dissimilarity import knn_path_length
from metricmix.exceptions import InputError, UnreachableWarning


@pytest.mark.parametrize(("k", "metric"), [(5, "euclidean"), (8, "cityblock")])
def test_against_scikit_learn_and_scipy(k, metric):
    X, _ = make_swiss_roll(150, random_state=0)
    graph = kneighbors_graph(X, k, mode="distance", metric=metric)
    expected = shortest_path(graph, directed=False)
    finite = np.isfinite(expected)
    M = knn_path_length(X, k, metric, unreachable="inf")
    np.testing.assert_allclose(M[finite], expected[finite])
    assert M.n_unreachable == (~finite).sum()
    assert M.source_name == "knn_path_length"
    np.testing.assert_array_equal(M, M.T)


def test_all_neighbours_give_the_distance_itself():
    X = np.random.default_rng(0).normal(size=(20, 3))
    np.testing.assert_allclose(knn_path_length(X, 19), cdist(X, X), atol=1e-12)
    np.testing.assert_allclose(
        knn_path_length(X, 19, "minkowski", p=3), cdist(X, X, "minkowski", p=3), atol=1e-12
    )


def test_equal_rows_stay_joined():
    X = [[0.0], [0.0], [1.0], [1.0], [3.0]]
    M = knn_path_length(X, 2)
    assert M[0, 1] == M[2, 3] == 0
    assert M[0, 4] == 3


def test_two_clusters_are_bridged():
    X = [[0.0], [1.0], [100.0], [102.0]]
    with pytest.warns(UnreachableWarning, match=r"8 of 12 .* were given 4,") as caught:
        M = knn_path_length(X, 1)
    assert caught[0].filename == __file__
    assert M[0, 2] == 4
    with pytest.raises(InputError, match="have no path"):
        knn_path_length(X, 1, unreachable="raise")
    with pytest.raises(InputError, match="unreachable: expected"):
        knn_path_length(X, 1, unreachable="far")


@pytest.mark.parametrize("k", [0, 4, -1, 2.0, True, None])
def test_bad_k(k):
    with pytest.raises(InputError, match=r"k: expected a whole number in 1 \.\. 3 for 4 items"):
        knn_path_length([[0.0], [1.0], [2.0], [3.0]], k)

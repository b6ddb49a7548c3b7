import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.datasets import load_iris
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from metricmix.dissimilarity import mahalanobis
from metricmix.exceptions import InputError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 3))


def test_metric_and_map_agree():
    L = RNG.normal(size=(3, 3))
    expected = cdist(X @ L.T, X @ L.T)
    np.testing.assert_allclose(mahalanobis(X, L), expected)
    np.testing.assert_allclose(mahalanobis(X, L.T @ L), expected)
    np.testing.assert_allclose(mahalanobis(X, L.T @ L, kind="metric"), expected)
    np.testing.assert_allclose(mahalanobis(sp.csr_array(X), L), expected)
    np.testing.assert_allclose(
        mahalanobis(X, L.T @ L), cdist(X, X, "mahalanobis", VI=L.T @ L), atol=1e-12
    )
    assert mahalanobis(X, L).source_name == "mahalanobis"


def test_low_rank():
    L = RNG.normal(size=(1, 3))
    expected = cdist(X @ L.T, X @ L.T)
    np.testing.assert_allclose(mahalanobis(X, L), expected, atol=1e-12)
    np.testing.assert_allclose(mahalanobis(X, L.T @ L), expected, atol=1e-7)
    assert not mahalanobis(X, np.zeros((3, 3))).any()


def test_symmetric_map_is_stated():
    S = np.diag([1.0, -2.0, 3.0])
    np.testing.assert_allclose(mahalanobis(X, S, kind="map"), cdist(X @ S, X @ S))
    with pytest.raises(InputError, match=r"smallest eigenvalue is -2; pass kind='map'"):
        mahalanobis(X, S)


def test_learned_map():
    table, y = load_iris(return_X_y=True)
    nca = NeighborhoodComponentsAnalysis(max_iter=5, random_state=0).fit(table, y)
    Z = nca.transform(table)
    np.testing.assert_allclose(mahalanobis(table, nca.components_), cdist(Z, Z), atol=1e-7)


@pytest.mark.parametrize(
    ("matrix", "kind", "message"),
    [
        (np.ones((3, 4)), "auto", r"got shape \(3, 4\)"),
        (np.full((3, 3), np.nan), "auto", "with NaN or inf"),
        (np.triu(np.ones((3, 3))), "metric", "largest asymmetry 1"),
        (np.ones((2, 3)), "metric", r"found shape \(2, 3\)"),
        (np.eye(3), "matrix", "expected one of 'auto'"),
        (np.ones(3), "auto", r"got shape \(3,\)"),
    ],
)
def test_bad_input(matrix, kind, message):
    with pytest.raises(InputError, match=message):
        mahalanobis(X, matrix, kind=kind)

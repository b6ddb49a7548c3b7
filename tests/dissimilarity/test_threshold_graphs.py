import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path
from sklearn.datasets import load_digits

from metricmix.dissimilarity.features import features
from metricmix.dissimilarity.threshold_graphs import threshold_graphs, thresholds
from metricmix.exceptions import InputError, UnreachableWarning

LINE = np.abs(np.subtract.outer([0.0, 1.0, 2.0, 4.0], [0.0, 1.0, 2.0, 4.0]))  # mean 26/16


def test_thresholds_of_the_paper():
    D = np.array([[0.0, 2.0], [2.0, 0.0]])  # mean 1 over all entries, the diagonal included
    np.testing.assert_allclose(
        thresholds(D), [0.25, 0.4375, 0.625, 0.8125, 1.0, 1.1875, 1.375, 1.5625]
    )
    np.testing.assert_allclose(thresholds(LINE, 2), np.array([0.25, 1.0]) * 1.625)


def test_by_hand():
    first, second = threshold_graphs(LINE, 2, normalize=False)
    np.testing.assert_array_equal(first, 1 - np.eye(4))  # no pair is closer than 0.41
    np.testing.assert_array_equal(second, [[0, 1, 2, 3], [1, 0, 1, 3], [2, 1, 0, 3], [3, 3, 3, 0]])
    assert (first.n_unreachable, second.n_unreachable) == (12, 6)
    assert [first.source_name, second.source_name] == ["threshold_1", "threshold_2"]


def test_the_inequality_is_strict():
    D = 1 - np.eye(2)  # mean 0.5; r = 2 of 2 has the bound 0.5 * 1, r = 3 of 3 has 0.5 * 1.25
    assert all(M.n_unreachable == 2 for M in threshold_graphs(D, 3))
    D = np.array([[0, 1, 2], [1, 0, 1.5], [2, 1.5, 0]])  # mean 1: the bound 1 leaves out 1
    assert threshold_graphs(D, 2)[1].n_unreachable == 6


def test_digits_against_scipy():
    D = features(load_digits().data[:120] + 1, "normalized-euclidean")
    found = threshold_graphs(D)
    assert len(found) == 8
    for r, M in enumerate(found):
        adjacency = csr_array(D.mean() * (1 / 4 + r * 6 / (4 * 8)) > D)
        expected = shortest_path(adjacency, unweighted=True)
        missing = np.isinf(expected)
        expected[missing] = expected[~missing].max() + 1
        np.testing.assert_allclose(M, expected * (np.linalg.norm(D) / np.linalg.norm(expected)))
        assert np.linalg.norm(M) == pytest.approx(np.linalg.norm(D))
        assert M.n_unreachable == missing.sum()
        np.testing.assert_array_equal(M, M.T)


def test_float32_and_rounding_asymmetry():
    D = LINE.astype(np.float32)
    for a, b in zip(threshold_graphs(D), threshold_graphs(LINE), strict=True):
        assert a.dtype == np.float64
        np.testing.assert_allclose(a, b)
    bent = LINE.copy()
    bent[0, 1] = np.nextafter(thresholds(LINE, 2)[1], 0)
    bent[1, 0] = np.nextafter(bent[0, 1], 9)
    for M in threshold_graphs(bent, 2):
        np.testing.assert_array_equal(M, M.T)


def test_unreachable_policies():
    assert threshold_graphs(LINE, 2, normalize=False, unreachable=7)[1][0, 3] == 7
    assert np.isinf(threshold_graphs(LINE, 2, normalize=False, unreachable="inf")[1][0, 3])
    assert not threshold_graphs(LINE, 1, unreachable=0)[0].any()
    with pytest.raises(InputError, match="unreachable: expected at least 1,"):
        threshold_graphs(LINE, 2, unreachable=0.9)
    with pytest.warns(UnreachableWarning) as caught:
        threshold_graphs(LINE, 1, unreachable=None)
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("D", "options", "message"),
    [
        (np.zeros((3, 3)), {}, "found zeros only"),
        ([[0.0]], {}, "found zeros only"),
        (LINE, {"n_graphs": 0}, "whole number >= 1, got 0"),
        (LINE, {"n_graphs": 2.0}, "whole number >= 1, got 2.0"),
        (LINE, {"unreachable": "inf"}, "pass normalize=False"),
        (LINE, {"unreachable": "raise"}, "have no path"),
        (LINE, {"unreachable": "far"}, "got 'far'"),
        (np.triu(LINE), {}, "expected symmetric"),
        (LINE[:2], {}, "expected a square matrix"),
        (-LINE, {}, "non-negative"),
    ],
)
def test_bad_input(D, options, message):
    with pytest.raises(InputError, match=message):
        threshold_graphs(D, **options)

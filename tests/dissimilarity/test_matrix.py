import copy
import pickle

import numpy as np
import pytest

from metricmix.dissimilarity.matrix import DissimilarityMatrix, as_dissimilarity


@pytest.fixture
def matrix():
    return as_dissimilarity(np.array([[0.0, 2.0], [2.0, 0.0]]), "cosine", 2)


def test_it_remembers_and_shares_memory():
    array = np.zeros((2, 2))
    matrix = as_dissimilarity(array, "cosine", 2)
    assert (matrix.source_name, matrix.n_unreachable) == ("cosine", 2)
    assert isinstance(matrix, np.ndarray)
    assert np.shares_memory(matrix, array)


@pytest.mark.parametrize(
    "derive",
    [
        lambda M: M[:1],
        lambda M: M.T,
        lambda M: M.copy(),
        lambda M: M.view(),
        lambda M: M.astype(np.float32),
        lambda M: M.reshape(4),
        copy.deepcopy,
        lambda M: pickle.loads(pickle.dumps(M)),
    ],
)
def test_views_and_copies_forget(matrix, derive):
    derived = derive(matrix)
    assert derived.source_name is None
    assert derived.n_unreachable == 0
    assert matrix.source_name == "cosine"


def test_what_is_computed_is_plain(matrix):
    for result in (matrix * 2, matrix + matrix, matrix @ matrix, np.sqrt(matrix), matrix.sum(0)):
        assert type(result) is np.ndarray
    assert type(matrix.sum()) is np.float64
    assert type(matrix.max()) is np.float64


def test_in_place_changes_keep_the_name(matrix):
    matrix *= 3
    assert isinstance(matrix, DissimilarityMatrix)
    assert matrix.source_name == "cosine"
    np.testing.assert_array_equal(matrix, [[0, 6], [6, 0]])

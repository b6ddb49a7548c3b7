"""Input checks: one clear sentence each."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from metricmix.exceptions import InputError
from metricmix.labels import check_labels
from metricmix.validation import (
    check_choice,
    check_index,
    check_indices,
    check_integer,
    check_number,
    check_random_state,
    check_square,
    symmetrized,
)

GOOD = np.array([[0.0, 1.0], [1.0, 0.0]])


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.zeros((2, 3)), r"M: expected a square matrix \(n, n\), got shape \(2, 3\)"),
        (np.zeros((0, 0)), "M: expected at least one item"),
        ([[0, 1], [1]], "M: expected rows of equal length, got ragged ones"),
        ([["0", "1"], ["1", "0"]], "M: expected real numbers, got dtype <U1"),
        ([[0, 1j], [1j, 0]], "M: expected real numbers, got dtype complex128"),
        ([[0, np.nan], [1, 0]], r"M: expected finite entries, found nan at \(0, 1\)"),
        ([[0, np.inf], [np.inf, 0]], r"M: expected finite entries, found inf at \(0, 1\)"),
        ([[0, -1], [-1, 0]], r"M: expected non-negative entries, found -1 at \(0, 1\)"),
        ([[2, 1], [1, 0]], r"M: expected a zero diagonal, found 2 at \(0, 0\)"),
        (
            [[0, 1, 1], [1, 0, 3], [1, 2.5, 0]],
            r"M: expected symmetric, largest asymmetry 0\.5 at \(1, 2\); pass directed=True or",
        ),
    ],
)
def test_matrices_that_are_refused(matrix, message):
    with pytest.raises(InputError, match=message):
        check_square(matrix, name="M")


def test_rows_are_called_by_their_ids():
    with pytest.raises(InputError, match=r"M: expected non-negative entries, found -1 from 'a' to"):
        check_square([[0, -1], [-1, 0]], name="M", items=("a", "b"))
    with pytest.raises(InputError, match="largest asymmetry 1 from 'a' to 'b'; symmetrise it"):
        check_square([[0, 1], [2, 0]], offer_directed=False, items=("a", "b"))


def test_what_is_allowed_when_asked_for():
    assert check_square([[0, np.inf], [np.inf, 0]], allow_infinite=True)[0, 1] == np.inf
    assert check_square([[0, -1], [-1, 0]], allow_negative=True)[0, 1] == -1
    assert check_square([[0, 1], [2, 0]], directed=True)[1, 0] == 2
    assert check_square([[5, 1], [1, 0]], require_zero_diagonal=False)[0, 0] == 5


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_are_not_copied(dtype):
    matrix = GOOD.astype(dtype)
    assert check_square(matrix) is matrix
    assert check_square(GOOD.astype(int)).dtype == np.float64


def test_rounding_is_no_asymmetry_and_the_smaller_one_counts():
    noisy = np.array([[0.0, 1.0], [1.0 + 1e-12, 0.0]])
    assert check_square(noisy) is noisy
    assert symmetrized(noisy).tolist() == GOOD.tolist()
    assert symmetrized(GOOD) is GOOD


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([[0], [1]], "y: expected one label per item, got shape"),
        ([0, 1, 0], "y: expected 4 labels, one per item, got 3"),
        ([1, 1, 1, 1], "y: expected at least two different labels, found only 1"),
        ([-1, -1, -1, -1], "y: expected at least two different labels, found no labelled item"),
        ([0.5, 1, 0, 1], "y: expected classes, found continuous values"),
        ([np.inf, 1, 0, 1], "y: expected classes, found continuous values"),
        ([np.nan] * 4, "y: expected at least two different labels, found no labelled item"),
        (["a", None, "a", "a"], "y: expected at least two different labels, found only 'a'"),
    ],
)
def test_labels_that_are_refused(y, message):
    with pytest.raises(InputError, match=message):
        check_labels(y, n=4)


def test_labels_are_coded_and_unlabelled_ones_kept():
    assert check_labels([7, -1, 3, 7]).tolist() == [1, -1, 0, 1]
    assert check_labels(["b", "", "a", "-1"]).tolist() == [1, -1, 0, -1]


MISSING = [None, np.nan, np.float32("nan"), pd.NA, pd.NaT, np.datetime64("NaT")]


@pytest.mark.parametrize("missing", MISSING, ids=repr)
@pytest.mark.parametrize("form", [list, tuple, lambda y: np.array(y, dtype=object), pd.Series])
@pytest.mark.parametrize("labels", [[7, 3], ["b", "a"], [True, False], ["nan", "None"]], ids=repr)
def test_missing_labels_are_unlabelled(labels, form, missing):
    second, first = labels
    y = form([second, missing, first, second])
    assert check_labels(y).tolist() == [1, -1, 0, 1]


@pytest.mark.parametrize(
    "y",
    [
        np.array([7, np.nan, 3, 7, -1]),
        pd.Series([7, None, 3, 7, -1]),
        pd.Series([7, None, 3, 7, -1], dtype="Int64"),
        pd.Series([7, None, 3, 7, -1], dtype="category"),
        pd.Series(["b", None, "a", "b", ""], dtype="string"),
        pd.Series(["b", None, "a", "b", "-1"], dtype="category"),
        pd.Categorical(["b", None, "a", "b", None]),
        pd.array([True, None, False, True, None], dtype="boolean"),
        pd.Series(["b", np.nan, "a", "b", None], index=[3, 1, 4, 1, 5]),
    ],
    ids=lambda y: str(y.dtype),
)
def test_columns_with_missing_labels(y):
    assert check_labels(y).tolist() == [1, -1, 0, 1, -1]


@pytest.mark.parametrize("bad", [[-1], [3], [0.0], [[0, 1]], ["a"], [True, False], 2**40])
def test_item_numbers_that_are_refused(bad):
    with pytest.raises(InputError, match="i: expected"):
        check_indices(bad, 3, name="i")


def test_item_numbers():
    assert check_indices([True, False, True], 3).tolist() == [0, 2]
    assert check_indices([], 3).tolist() == []
    assert check_index(np.int32(2), 3) == 2
    with pytest.raises(InputError, match="expected one item number"):
        check_index([0, 1], 3)


@pytest.mark.parametrize("bad", ["1", None, np.nan, np.inf, -1, 0])
def test_numbers_that_are_refused(bad):
    with pytest.raises(InputError, match="beta: expected a number"):
        check_number(bad, name="beta", low=0, open_low=True)


@pytest.mark.parametrize("bad", [1.0, "1", True, None, 0])
def test_whole_numbers_that_are_refused(bad):
    with pytest.raises(InputError, match="k: expected a whole number >= 1"):
        check_integer(bad, name="k", low=1)


def test_choices_and_seeds():
    with pytest.raises(InputError, match="mode: expected one of 'a', 'b', got 'c'"):
        check_choice("c", ("a", "b"), name="mode")
    assert check_random_state(3)[1] == 3
    assert check_random_state(None)[1] is None
    for bad in ("a", -1, 1.5):
        with pytest.raises(InputError, match="random_state: expected"):
            check_random_state(bad)

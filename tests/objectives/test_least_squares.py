"""Regression onto target distances."""

from __future__ import annotations

import numpy as np
import pytest

import metricmix as mm

TARGET = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 5.0], [2.0, 5.0, 0.0]])


def test_by_hand():
    objective = mm.objectives.LeastSquares(TARGET)
    terms = np.arange(9)
    i, j = objective.pairs(terms, 3)
    assert i.ravel().tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert j.ravel().tolist() == [0, 1, 2] * 3
    d = np.full((9, 1), 2.0)
    value, slope = objective.evaluate(terms, d, 3)
    assert value.tolist() == [4, 1, 0, 1, 4, 9, 0, 9, 4]
    assert slope.ravel().tolist() == [4, 2, 0, 2, 4, -6, 0, -6, 4]


def test_missing_targets_are_left_out():
    target = TARGET.copy()
    target[0, 1] = target[2, 2] = target[2, 0] = np.nan
    objective = mm.objectives.LeastSquares(target)
    assert objective.n_terms(3) == 6
    i, j = objective.pairs(np.arange(6), 3)
    pairs = list(zip(i.ravel().tolist(), j.ravel().tolist(), strict=True))
    assert pairs == [(0, 0), (0, 2), (1, 0), (1, 1), (1, 2), (2, 1)]
    value, slope = objective.evaluate(np.arange(6), np.zeros((6, 1)), 3)
    assert value.tolist() == [0, 4, 1, 0, 25, 25]
    assert np.isfinite(slope).all()
    assert objective.probabilities(np.arange(6), 3).tolist() == [1 / 6] * 6


def test_a_single_known_target():
    target = np.full((4, 4), np.nan)
    target[3, 1] = 2.5
    objective = mm.objectives.LeastSquares(target)
    assert objective.n_terms(4) == 1
    i, j = objective.pairs(np.array([0, 0]), 4)
    assert (i.ravel().tolist(), j.ravel().tolist()) == ([3, 3], [1, 1])


def test_target_is_copied():
    target = TARGET.copy()
    objective = mm.objectives.LeastSquares(target)
    target[0, 1] = 99.0
    assert objective.evaluate(np.array([1]), np.array([[1.0]]), 3)[0].tolist() == [0.0]


def test_whole_numbers_and_float32_are_fine():
    for target in (TARGET.astype(int), TARGET.astype(np.float32), TARGET.tolist()):
        objective = mm.objectives.LeastSquares(target)
        assert objective.evaluate(np.array([5]), np.array([[4.0]]), 3)[0].tolist() == [1.0]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (np.zeros((2, 3)), r"target: expected a square matrix \(n, n\), got shape \(2, 3\)"),
        (np.zeros(4), "target: expected a square matrix"),
        (np.full((2, 2), np.nan), "target: expected some known distances, found only NaN"),
        (np.array([[0.0, np.inf], [np.inf, 0.0]]), "target: expected finite distances, found inf"),
        (np.array([["a", "b"], ["c", "d"]]), "target: expected real numbers"),
    ],
)
def test_bad_targets_are_refused(target, message):
    with pytest.raises(mm.InputError, match=message):
        mm.objectives.LeastSquares(target)


def test_other_numbers_of_items_are_refused():
    with pytest.raises(mm.InputError, match=r"target: expected shape \(4, 4\), got \(3, 3\)"):
        mm.objectives.LeastSquares(TARGET).check(4)

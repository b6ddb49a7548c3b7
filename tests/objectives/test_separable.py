"""Objectives of the user's own."""

from __future__ import annotations

import numpy as np
import pytest

import metricmix as mm


def test_functions_get_distances_and_items():
    seen = {}

    def value(d, i, j):
        seen.update(d=d.copy(), i=i.copy(), j=j.copy())
        return d + 10 * i + 100 * j

    objective = mm.objectives.Separable(value, lambda d, i, j: np.ones_like(d), items=[5, 2])
    objective.check(6)
    assert objective.n_terms(6) == 4
    d = np.array([[0.0], [1.5], [2.5], [0.0]])
    got, slope = objective.evaluate(np.arange(4), d, 6)
    assert seen["i"].tolist() == [2, 5]  # never an item and itself
    assert seen["j"].tolist() == [5, 2]
    assert seen["d"].tolist() == [1.5, 2.5]
    assert got.tolist() == [0.0, 521.5, 252.5, 0.0]  # i = j contributes nothing
    assert slope.ravel().tolist() == [0.0, 1.0, 1.0, 0.0]


def test_all_items_by_default():
    objective = mm.objectives.Separable(lambda d, i, j: d, lambda d, i, j: 1.0)
    objective.check(3)
    assert objective.n_terms(3) == 9
    i, j = objective.pairs(np.arange(9), 3)
    assert i.ravel().tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert j.ravel().tolist() == [0, 1, 2] * 3


def test_scalars_count_for_every_pair():
    objective = mm.objectives.Separable(lambda d, i, j: 3, lambda d, i, j: -2.0)
    value, slope = objective.evaluate(np.arange(4), np.ones((4, 1)), 2)
    assert value.tolist() == [0.0, 3.0, 3.0, 0.0]
    assert slope.tolist() == [[0.0], [-2.0], [-2.0], [0.0]]


def test_arrays_the_functions_return_are_left_alone():
    kept = np.full(2, 7.0)
    objective = mm.objectives.Separable(lambda d, i, j: kept, lambda d, i, j: kept)
    objective.evaluate(np.arange(4), np.ones((4, 1)), 2)
    assert kept.tolist() == [7.0] * 2
    same = mm.objectives.Separable(lambda d, i, j: d, lambda d, i, j: d)
    d = np.full((4, 1), 5.0)
    same.evaluate(np.arange(4), d, 2)
    assert d.ravel().tolist() == [5.0] * 4


@pytest.mark.parametrize("shape", [(4,), (2, 1), (1,), (2, 2)])
def test_wrong_shapes_are_refused(shape):
    good, bad = (lambda d, i, j: d), (lambda d, i, j: np.zeros(shape))
    for name, functions in (("value", (bad, good)), ("derivative", (good, bad))):
        objective = mm.objectives.Separable(*functions)
        with pytest.raises(mm.InputError, match=rf"{name}: expected an array of shape \(2,\)"):
            objective.evaluate(np.arange(4), np.ones((4, 1)), 2)


def test_things_that_are_no_functions_are_refused():
    with pytest.raises(mm.InputError, match=r"value: expected a function of \(d, i, j\), got 3"):
        mm.objectives.Separable(3, lambda d, i, j: d)
    with pytest.raises(mm.InputError, match="derivative: expected a function"):
        mm.objectives.Separable(lambda d, i, j: d, "slope")


@pytest.mark.parametrize("items", [[0, 3], [-1, 0], [0.5], []])
def test_bad_items_are_refused(items):
    objective = mm.objectives.Separable(lambda d, i, j: d, lambda d, i, j: 1.0, items=items)
    with pytest.raises(mm.InputError, match="items: expected"):
        objective.check(3)


@pytest.mark.parametrize("n", [2, 5])
def test_items_as_a_mask(n):
    mask = np.zeros(n, dtype=bool)
    mask[0] = True
    objective = mm.objectives.Separable(lambda d, i, j: d, lambda d, i, j: 1.0, items=mask)
    objective.check(n)
    i, j = objective.pairs(np.arange(objective.n_terms(n)), n)
    assert (i.ravel().tolist(), j.ravel().tolist()) == ([0], [0])

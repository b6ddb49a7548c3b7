"""Comparisons."""

from __future__ import annotations

import numpy as np
import pytest

import metricmix as mm


def test_by_hand():
    objective = mm.objectives.Triplets([[0, 1, 2], [3, 2, 0], [1, 0, 3]], margin=1.0)
    objective.check(4)
    i, j = objective.pairs(np.array([0, 2, 1]), 4)
    assert i.tolist() == [[0, 0], [1, 1], [3, 3]]
    assert j.tolist() == [[1, 2], [0, 3], [2, 0]]
    d = np.array([[2.0, 1.5], [1.0, 5.0], [1.0, 2.0]])  # broken, kept, exactly at the margin
    value, slope = objective.evaluate(np.array([0, 2, 1]), d, 4)
    assert value.tolist() == [1.5, 0.0, 0.0]
    assert slope.tolist() == [[1.0, -1.0], [0.0, 0.0], [0.0, 0.0]]


def test_margin():
    for margin in (0.0, 2.5):
        objective = mm.objectives.Triplets([[0, 1, 2]], margin=margin)
        value, _ = objective.evaluate(np.array([0]), np.array([[1.0, 1.0]]), 3)
        assert value.tolist() == [margin]


def test_triples_are_copied():
    triples = np.array([[0, 1, 2]])
    objective = mm.objectives.Triplets(triples)
    triples[0, 0] = 2
    assert objective.pairs(np.array([0]), 3)[0].tolist() == [[0, 0]]


def test_unsigned_and_small_integers_are_fine():
    objective = mm.objectives.Triplets(np.array([[0, 1, 2]], dtype=np.uint8))
    assert objective.pairs(np.array([0]), 3)[1].tolist() == [[1, 2]]


@pytest.mark.parametrize(
    "triples",
    [[], [[0, 1]], [0, 1, 2], [[0.0, 1.0, 2.0]], [["a", "b", "c"]], np.empty((0, 3), int)],
)
def test_bad_triples_are_refused(triples):
    with pytest.raises(mm.InputError, match=r"triples: expected an integer array \(T, 3\)"):
        mm.objectives.Triplets(triples)


@pytest.mark.parametrize("triples", [[[0, 1, 3]], [[-1, 0, 1]]])
def test_items_that_do_not_exist_are_refused(triples):
    with pytest.raises(mm.InputError, match=r"triples: expected item numbers in 0 \.\. 2"):
        mm.objectives.Triplets(triples).check(3)


@pytest.mark.parametrize("margin", [-0.1, np.nan, "wide"])
def test_impossible_margins_are_refused(margin):
    with pytest.raises(mm.InputError, match="margin: expected a number"):
        mm.objectives.Triplets([[0, 1, 2]], margin=margin)

"""Pairs that belong together, and pairs that do not."""

from __future__ import annotations

import numpy as np
import pytest

import metricmix as mm
from reference.label_losses import links_loss

MUST = [[0, 1], [4, 2], [4, 2]]
CANNOT = [[3, 1], [1, 3], [5, 0], [2, 3], [2, 5]]


@pytest.mark.parametrize("threshold", [0.5, 2.0])
@pytest.mark.parametrize("must", [MUST, []])
def test_value_is_the_definition(must, threshold):
    d = np.random.default_rng(0).uniform(0, 4, (6, 6))
    objective = mm.objectives.PairConstraints(must, CANNOT, threshold=threshold)
    objective.check(6)
    terms = np.arange(objective.n_terms(6))
    i, j = objective.pairs(terms, 6)
    value, _ = objective.evaluate(terms, d[i, j], 6)
    total = value @ objective.probabilities(terms, 6)
    assert total == pytest.approx(links_loss(d, must, CANNOT, threshold), rel=1e-12)


def test_by_hand():
    objective = mm.objectives.PairConstraints(MUST, CANNOT, threshold=2.0)
    i, j = objective.pairs(np.array([0, 3, 1]), 6)
    assert (i.ravel().tolist(), j.ravel().tolist()) == ([0, 3, 4], [1, 1, 2])
    value, slope = objective.evaluate(np.array([0, 3, 1]), np.array([[2.0], [2.0], [2.0]]), 6)
    assert value == pytest.approx(np.full(3, np.log(2)))
    assert slope.ravel().tolist() == pytest.approx([0.5, -0.5, 0.5])
    p = objective.probabilities(np.arange(8), 6)
    assert p == pytest.approx([1 / 6] * 3 + [1 / 10] * 5)


@pytest.mark.parametrize("far", [1e3, 1e6])
def test_far_items_neither_overflow_nor_vanish(far):
    objective = mm.objectives.PairConstraints([[0, 1]], [[0, 2]], threshold=2.0)
    value, slope = objective.evaluate(np.arange(2), np.array([[far], [far]]), 3)
    assert value == pytest.approx([far - 2.0, 0.0])
    assert slope.ravel() == pytest.approx([1.0, 0.0])


def test_half_of_the_draws_are_must_links():
    drawn = mm.objectives.PairConstraints(MUST, CANNOT * 40).sample(
        np.random.default_rng(0), 4000, 6
    )
    assert abs((drawn < 3).mean() - 0.5) < 5 * 0.5 / np.sqrt(4000)
    drawn = mm.objectives.PairConstraints([], CANNOT).sample(np.random.default_rng(0), 100, 6)
    assert set(drawn) == set(range(5))


@pytest.mark.parametrize("none", [[], (), np.empty((0, 2)), np.empty((0, 2), int)])
def test_no_must_links(none):
    assert mm.objectives.PairConstraints(none, CANNOT).must_link.shape == (0, 2)


@pytest.mark.parametrize("none", [[], np.empty((0, 2), int)])
def test_must_links_alone_are_refused(none):
    with pytest.raises(mm.InputError, match=r"cannot_link: expected at least one .* shrink all"):
        mm.objectives.PairConstraints(MUST, none)


def test_links_are_copied():
    must, cannot = np.array(MUST), np.array(CANNOT)
    objective = mm.objectives.PairConstraints(must, cannot)
    must[:], cannot[:] = 0, 0
    assert objective.must_link.tolist() == MUST
    assert objective.pairs(np.array([3]), 6)[0].tolist() == [[3]]


@pytest.mark.parametrize(
    "links", [[[0, 1, 2]], [0, 1], [[0.0, 1.0]], [["a", "b"]], [[True, False]]]
)
def test_bad_links_are_refused(links):
    with pytest.raises(mm.InputError, match=r"must_link: expected an integer array \(P, 2\)"):
        mm.objectives.PairConstraints(links, CANNOT)
    with pytest.raises(mm.InputError, match=r"cannot_link: expected an integer array \(P, 2\)"):
        mm.objectives.PairConstraints(MUST, links)


def test_ragged_links_are_refused():
    with pytest.raises(mm.InputError, match="must_link: expected rows of two items, got ragged"):
        mm.objectives.PairConstraints([[0, 1], [2]], CANNOT)


@pytest.mark.parametrize("again", [[5, 0], [0, 5]])
def test_a_pair_of_both_kinds_is_refused(again):
    with pytest.raises(mm.InputError, match=r"expected different pairs, found \(5, 0\) in both"):
        mm.objectives.PairConstraints([*MUST, again], CANNOT)


def test_an_item_linked_to_itself_is_refused():
    with pytest.raises(mm.InputError, match=r"must_link: .* found \(4, 4\) at row 1"):
        mm.objectives.PairConstraints([[0, 1], [4, 4]], CANNOT)
    with pytest.raises(mm.InputError, match=r"cannot_link: .* found \(3, 3\) at row 0"):
        mm.objectives.PairConstraints(MUST, [[3, 3]])


def test_items_that_do_not_exist_are_refused():
    with pytest.raises(mm.InputError, match=r"must_link: expected item numbers in 0 \.\. 3"):
        mm.objectives.PairConstraints(MUST, CANNOT).check(4)
    with pytest.raises(mm.InputError, match=r"cannot_link: expected item numbers in 0 \.\. 4"):
        mm.objectives.PairConstraints(MUST, CANNOT).check(5)


@pytest.mark.parametrize("threshold", [0.0, -1.0, np.nan, "near"])
def test_impossible_thresholds_are_refused(threshold):
    with pytest.raises(mm.InputError, match="threshold: expected a number"):
        mm.objectives.PairConstraints(MUST, CANNOT, threshold=threshold)

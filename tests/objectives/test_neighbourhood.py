"""Stochastic neighbours."""

from __future__ import annotations

import numpy as np
import pytest

import metricmix as mm
from reference.label_losses import neighbourhood_loss

Y = [-1, 1, 0, 3, 1, 0, 2, 2, 2, -1]


def random_distances(seed, n=10):
    d = np.random.default_rng(seed).uniform(0.1, 4.0, (n, n))
    np.fill_diagonal(d, 0.0)
    return d


def value_of(objective, d):
    n = len(d)
    terms = np.arange(objective.n_terms(n))
    i, j = objective.pairs(terms, n)
    value, _ = objective.evaluate(terms, d[i, j], n)
    return float(value @ objective.probabilities(terms, n))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("weighted", [False, True])
def test_value_is_the_definition(seed, weighted):
    d = random_distances(seed)
    weights = np.random.default_rng(seed).exponential(size=10) if weighted else None
    objective = mm.objectives.Neighbourhood(Y, item_weights=weights)
    assert value_of(objective, d) == pytest.approx(neighbourhood_loss(d, Y, weights), rel=1e-12)


def test_by_hand():
    objective = mm.objectives.Neighbourhood([0, 0, 1])
    assert objective.n_terms(3) == 2
    i, j = objective.pairs(np.array([1, 0]), 3)
    assert i.tolist() == [[1, 1, 1], [0, 0, 0]]
    assert j.tolist() == [[0, 1, 2], [0, 1, 2]]
    value, slope = objective.evaluate(np.array([1]), np.array([[1.0, 0.0, 3.0]]), 3)
    p = np.exp(-1) / (np.exp(-1) + np.exp(-3))
    assert value == pytest.approx([-np.log(p)])
    assert slope.ravel() == pytest.approx([1 - p, 0.0, p - 1])


def test_a_term_for_each_item_with_company():
    objective = mm.objectives.Neighbourhood(Y)
    terms = np.arange(objective.n_terms(10))
    i, j = objective.pairs(terms, 10)
    assert i[:, 0].tolist() == [1, 2, 4, 5, 6, 7, 8]  # item 3 is alone in its class
    assert (j == [1, 2, 3, 4, 5, 6, 7, 8]).all()
    assert objective.probabilities(terms, 10) == pytest.approx(np.full(7, 1 / 7))


def test_weights_by_copies():
    # A neighbour of weight 3 is drawn as three neighbours would be.
    d, copies = random_distances(5, 5), [0, 1, 2, 3, 4, 4, 4]
    y = np.array([0, 0, 1, 0, 1])
    weighted = mm.objectives.Neighbourhood(y, item_weights=[1, 1, 1, 1, 3])
    copied = mm.objectives.Neighbourhood(y[copies])
    more = d[np.ix_(copies, copies)]
    for term in range(4):
        (i, j), (k, m) = weighted.pairs(np.array([term]), 5), copied.pairs(np.array([term]), 7)
        one, _ = weighted.evaluate(np.array([term]), d[i, j], 5)
        other, _ = copied.evaluate(np.array([term]), more[k, m], 7)
        assert one == pytest.approx(other)
    assert weighted.probabilities(np.array([4]), 5) == pytest.approx([3 / 7])


def test_unlabelled_items_do_not_matter():
    d, kept = random_distances(6), np.arange(1, 9)
    fewer = mm.objectives.Neighbourhood(np.array(Y)[kept])
    whole = mm.objectives.Neighbourhood(Y)
    assert value_of(whole, d) == value_of(fewer, d[np.ix_(kept, kept)])


@pytest.mark.parametrize("far", [1e3, 1e6])
def test_far_items_neither_overflow_nor_vanish(far):
    objective = mm.objectives.Neighbourhood([0, 0, 1])
    value, slope = objective.evaluate(np.array([0]), np.array([[0.0, far, 1.0]]), 3)
    assert value == pytest.approx([far - 1.0])
    assert slope.ravel() == pytest.approx([0.0, 1.0, -1.0])


def test_no_terms_at_all():
    value, slope = mm.objectives.Neighbourhood(Y).evaluate(np.empty(0, int), np.empty((0, 8)), 10)
    assert value.shape == (0,)
    assert slope.shape == (0, 8)


def test_every_class_with_a_single_item_is_refused():
    with pytest.raises(mm.InputError, match="y: expected at least two items of one class"):
        mm.objectives.Neighbourhood([0, 1, 2, -1])

"""The paper's linear objective."""

from __future__ import annotations

import numpy as np
import pytest

import metricmix as mm


def terms_by_pair(objective, n):
    i, j = objective.pairs(np.arange(objective.n_terms(n)), n)
    return list(zip(i.ravel().tolist(), j.ravel().tolist(), strict=True))


def test_all_ordered_pairs_with_the_papers_sign():
    objective = mm.objectives.LabelContrast([0, 1, 0])
    pairs = terms_by_pair(objective, 3)
    assert pairs == [(a, b) for a in range(3) for b in range(3)]
    value, slope = objective.evaluate(np.arange(9), np.full((9, 1), 2.0), 3)
    signs = [1, -1, 1, -1, 1, -1, 1, -1, 1]
    assert slope.ravel().tolist() == signs
    assert value.tolist() == [2 * s for s in signs]
    assert objective.probabilities(np.arange(9), 3).tolist() == [1 / 9] * 9


@pytest.mark.parametrize("balanced", [False, True])
def test_unlabelled_items_are_in_no_term(balanced):
    y = [-1, 3, 7, -1, 3, -1, 7]
    objective = mm.objectives.LabelContrast(y, balanced=balanced)
    pairs = terms_by_pair(objective, 7)
    assert pairs == [(a, b) for a in (1, 2, 4, 6) for b in (1, 2, 4, 6) if not balanced or a != b]
    _, slope = objective.evaluate(np.arange(len(pairs)), np.ones((len(pairs), 1)), 7)
    for (a, b), s in zip(pairs, slope.ravel(), strict=True):
        assert s == (1 if y[a] == y[b] else -1)
    drawn = objective.sample(np.random.default_rng(0), 500, 7)
    assert set(drawn) == set(range(len(pairs)))


def test_balanced_probabilities_by_hand():
    # Three of one class, two of another: 6 + 2 ordered pairs within, 12 between.
    y = [0, 0, 0, 1, 1]
    objective = mm.objectives.LabelContrast(y, balanced=True)
    pairs = terms_by_pair(objective, 5)
    assert len(pairs) == objective.n_terms(5) == 20
    p = objective.probabilities(np.arange(20), 5)
    assert p.tolist() == [0.5 / 8 if y[a] == y[b] else 0.5 / 12 for a, b in pairs]


@pytest.mark.parametrize("seed", range(5))
def test_balanced_halves(seed):
    rng = np.random.default_rng(seed)
    y = np.concatenate([[0, 0, 1], rng.integers(-1, 4, 20)])
    objective = mm.objectives.LabelContrast(y, balanced=True)
    n_terms = objective.n_terms(23)
    p = objective.probabilities(np.arange(n_terms), 23)
    same = [y[a] == y[b] for a, b in terms_by_pair(objective, 23)]
    apart = [a != b for a, b in terms_by_pair(objective, 23)]
    assert p[np.array(same)].sum() == pytest.approx(0.5)
    assert p[~np.array(same)].sum() == pytest.approx(0.5)
    assert not p[~np.array(apart)].any()
    drawn = objective.sample(np.random.default_rng(seed), 4000, 23)
    share = np.array(same)[drawn].mean()
    assert abs(share - 0.5) < 5 * 0.5 / np.sqrt(4000)
    assert np.array(apart)[drawn].all()


def test_a_class_with_one_item_is_never_drawn_within():
    objective = mm.objectives.LabelContrast([0, 0, 1, 2], balanced=True)
    drawn = objective.sample(np.random.default_rng(0), 2000, 4)
    pairs = np.array(terms_by_pair(objective, 4))[drawn]
    same = np.array([0, 0, 1, 2])[pairs]
    within = pairs[same[:, 0] == same[:, 1]]
    assert set(map(tuple, within.tolist())) == {(0, 1), (1, 0)}


@pytest.mark.parametrize(
    "y",
    [
        ["cat", "dog", "cat", "", "-1"],
        np.array(["cat", "dog", "cat", "", "-1"], dtype=object),
        [3, 9, 3, -1, -1],
        np.array([3, 9, 3, -1, -1], dtype=np.int8),
        [3.0, 9.0, 3.0, -1.0, -1.0],
        np.array([3, 9, 3, -1, -1], dtype=object),
    ],
)
def test_labels_of_any_kind(y):
    objective = mm.objectives.LabelContrast(y)
    assert objective.y.tolist() == [0, 1, 0, -1, -1]
    assert objective.n_terms(5) == 9


def test_boolean_labels():
    assert mm.objectives.LabelContrast([True, False, True]).y.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([1, 1, 1], "y: expected at least two different labels, found only"),
        ([1, 1, -1], "y: expected at least two different labels, found only"),
        ([-1, -1], "y: expected at least two different labels, found no labelled item"),
        ([], "y: expected at least two different labels"),
        ([0.5, 1.0], "y: expected classes, found continuous values"),
        ([0.0, 0.0, np.nan], "y: expected at least two different labels, found only"),
        ([[0, 1], [1, 0]], r"y: expected one label per item, got shape \(2, 2\)"),
    ],
)
def test_bad_labels_are_refused(y, message):
    with pytest.raises(mm.InputError, match=message):
        mm.objectives.LabelContrast(y)


def test_other_numbers_of_items_are_refused():
    objective = mm.objectives.LabelContrast([0, 1, 0])
    objective.check(3)
    with pytest.raises(mm.InputError, match="y: expected 5 labels, one per item, got 3"):
        objective.check(5)


def test_no_ridge_is_refused():
    with pytest.raises(mm.InputError, match=r"rho: expected a positive ridge, got 0; .*unbounded"):
        mm.objectives.LabelContrast([0, 1], rho=0)
    with pytest.raises(mm.InputError, match="rho: expected a number >= 0"):
        mm.objectives.LabelContrast([0, 1], rho=-0.1)


def test_balance_needs_a_pair_within_a_class():
    mm.objectives.LabelContrast([0, 1, 2])
    with pytest.raises(mm.InputError, match="y: expected at least two items of one class"):
        mm.objectives.LabelContrast([0, 1, 2], balanced=True)


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_missing_labels_are_not_a_class(missing):
    objective = mm.objectives.LabelContrast(np.array(["a", missing, "b"], dtype=object))
    assert objective.y.tolist() == [0, -1, 1]


@pytest.mark.parametrize("weights", [None, np.full(6, 0.3)])
def test_draws_do_not_change_between_versions(weights):
    # Else a seed, or a checkpoint, would mean something else tomorrow.
    y = [0, 0, 1, 1, 2, -1]
    plain = mm.objectives.LabelContrast(y, item_weights=weights)
    drawn = plain.sample(np.random.default_rng(0), 12, 6)
    assert drawn.tolist() == [21, 15, 12, 6, 7, 1, 1, 0, 4, 20, 16, 22]
    balanced = mm.objectives.LabelContrast(y, balanced=True, item_weights=weights)
    drawn = balanced.sample(np.random.default_rng(0), 12, 6)
    assert drawn.tolist() == [10, 4, 4, 0, 0, 0, 0, 17, 13, 18, 11, 12]


@pytest.mark.parametrize("balanced", [False, True])
def test_weighted_pairs_by_hand(balanced):
    y, v = [0, 0, 1, -1], [2.0, 3.0, 5.0, 9.0]
    objective = mm.objectives.LabelContrast(y, balanced=balanced, item_weights=v)
    pairs = terms_by_pair(objective, 4)
    p = objective.probabilities(np.arange(len(pairs)), 4)
    same = sum(v[a] * v[b] for a, b in pairs if y[a] == y[b])
    different = sum(v[a] * v[b] for a, b in pairs if y[a] != y[b])
    for (a, b), share in zip(pairs, p, strict=True):
        kind = same if y[a] == y[b] else different
        total = 2 * kind if balanced else same + different
        assert share == pytest.approx(v[a] * v[b] / total)

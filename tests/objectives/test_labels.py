"""What objectives over labels share: who counts, and how much."""

from __future__ import annotations

import numpy as np
import pytest

import metricmix as mm

OBJECTIVES = {
    "contrast": mm.objectives.LabelContrast,
    "balanced contrast": lambda y, **more: mm.objectives.LabelContrast(y, balanced=True, **more),
    "class means": mm.objectives.ClassMeans,
    "blocks": lambda y, **more: mm.objectives.ClassMeans(y, block_size=4, **more),
    "neighbourhood": mm.objectives.Neighbourhood,
}
Y = np.array([0, 1, -1, 1, 0, 2, 1, 0, 2, -1])
N = len(Y)


@pytest.fixture(params=OBJECTIVES)
def make(request):
    return OBJECTIVES[request.param]


def everything(objective):
    """All that solvers ask for."""
    objective.check(N)
    terms = np.arange(objective.n_terms(N))
    i, j = objective.pairs(terms, N)
    d = np.random.default_rng(0).uniform(0.5, 2.0, (N, N))
    drawn = objective.sample(np.random.default_rng(1), 100, N)
    return (
        *(i, j, *objective.evaluate(terms, d[i, j], N)),
        *(objective.probabilities(terms, N), drawn),
    )


@pytest.mark.parametrize("size", [1, 0.3, 7e200])
def test_equal_weights_are_none_to_the_bit(make, size):
    plain, equal = everything(make(Y)), everything(make(Y, item_weights=np.full(N, size)))
    for one, other in zip(plain, equal, strict=True):
        assert np.array_equal(one, other)


def test_weights_of_unlabelled_items_do_not_matter(make):
    weights = np.where(Y < 0, 99.0, 1.0)
    for one, other in zip(
        everything(make(Y)), everything(make(Y, item_weights=weights)), strict=True
    ):
        assert np.array_equal(one, other)


def test_only_ratios_matter(make):
    weights = np.random.default_rng(2).exponential(size=N)
    one, other = (everything(make(Y, item_weights=w)) for w in (weights, 1e-3 * weights))
    for a, b in zip(one, other, strict=True):
        assert a == pytest.approx(b, rel=1e-12)


@pytest.mark.parametrize("gone", [[0], [5], [2, 6], [5, 8]])  # the last is a whole class
def test_weight_zero_is_no_label(make, gone):
    weights = np.random.default_rng(3).exponential(size=N)
    without = Y.copy()
    without[gone] = -1
    zeroed = weights.copy()
    zeroed[gone] = 0.0
    one = everything(make(Y, item_weights=zeroed))
    other = everything(make(without, item_weights=weights))
    for a, b in zip(one, other, strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("tiny", [1e-13, 1e-200, 5e-324])
def test_weights_next_to_zero_are_zero(make, tiny):
    weights = np.random.default_rng(3).uniform(0.5, 1.0, N)
    weights[[1, 5, 8]] = tiny, tiny, tiny
    one = everything(make(Y, item_weights=weights))
    other = everything(make(Y, item_weights=np.where(weights == tiny, 0.0, weights)))
    for a, b in zip(one, other, strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("seed", range(5))
def test_weights_of_very_different_sizes(make, seed):
    weights = 10.0 ** np.random.default_rng(seed).uniform(-11, 0, N)
    objective = make(Y, item_weights=weights)
    *_, value, slope, p, drawn = everything(objective)
    assert np.isfinite(value).all()
    assert np.isfinite(slope).all()
    assert p.sum() == pytest.approx(1.0)
    assert (p[drawn] > 0).all()


def test_weights_are_copied(make):
    weights = np.random.default_rng(4).exponential(size=N)
    objective = make(Y, item_weights=weights)
    before = everything(objective)
    weights[:] = 0.0
    for one, other in zip(before, everything(objective), strict=True):
        assert np.array_equal(one, other)
    assert objective.item_weights.any()


def test_weights_change_the_fingerprint(make):
    weights = np.random.default_rng(5).exponential(size=N)
    made = [make(Y), make(Y, item_weights=weights), make(Y, item_weights=weights[::-1])]
    assert len({objective.fingerprint() for objective in made}) == 3
    assert make(Y, item_weights=weights).fingerprint() == made[1].fingerprint()


def test_codes_skip_classes_without_weight(make):
    objective = make(Y, item_weights=np.where(Y == 1, 0.0, 1.0))
    assert objective.n_classes == 2
    assert objective.labelled.tolist() == [0, 4, 5, 7, 8]
    assert objective.codes.tolist() == [0, 0, 1, 0, 1]
    assert objective.y.tolist() == Y.tolist()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(N - 1), rf"item_weights: expected {N} numbers, one per label, got shape \(9,\)"),
        (np.ones((N, 1)), rf"item_weights: expected {N} numbers"),
        (2.0, rf"item_weights: expected {N} numbers"),
        (np.eye(N)[0] * -1, "item_weights: expected finite numbers >= 0, found -1 at item 0"),
        (np.where(Y == 2, np.nan, 1), "item_weights: expected finite numbers .* nan at item 5"),
        (np.where(Y == 2, np.inf, 1), "item_weights: expected finite numbers .* inf at item 5"),
        (["much"] * N, "item_weights: expected real numbers"),
        (np.zeros(N), "item_weights: expected positive weights in at least two .* them in 0"),
        (Y == 1, "item_weights: expected positive weights in at least two classes, .* them in 1"),
    ],
)
def test_bad_weights_are_refused(make, weights, message):
    with pytest.raises(mm.InputError, match=message):
        make(Y, item_weights=weights)


def test_other_numbers_of_items_are_refused(make):
    with pytest.raises(mm.InputError, match=f"y: expected 5 labels, one per item, got {N}"):
        make(Y).check(5)


def test_one_class_is_refused(make):
    with pytest.raises(mm.InputError, match="y: expected at least two different labels"):
        make([1, 1, -1])

"""Class means: the loss against its definition, weights, blocks, and the scores to predict with."""

from __future__ import annotations

import numpy as np
import pytest

import metricmix as mm
from metricmix.objectives.class_means import stratified_blocks
from metricmix.objectives.class_scores import class_offsets, held_out_scores, label_shares
from reference.label_losses import class_means_loss, class_score

LABELS = {
    "two classes": [0, 1, 0, 1, 1, 0],
    "a single item": [0, 1, 0, 2, 1, 1, 0, 1],
    "unlabelled items": [-1, 1, 0, -1, 1, 0, 2, 2, 2, -1],
    "pairs": [0, 0, 1, 1, 2, 2, 3, 3],
    "words": ["b", "a", "", "a", "b", "c", "c", "a"],
}


def coded(y):
    return mm.objectives.ClassMeans(y).y


def random_distances(seed, n):
    """Directed ones: (i, j) and (j, i) differ."""
    d = np.random.default_rng(seed).uniform(0.1, 4.0, (n, n))
    np.fill_diagonal(d, 0.0)
    return d


def value_of(objective, d):
    """The objective at given distances, without the ridge."""
    n = len(d)
    objective.check(n)
    terms = np.arange(objective.n_terms(n))
    i, j = objective.pairs(terms, n)
    value, _ = objective.evaluate(terms, d[i, j], n)
    return float(value @ objective.probabilities(terms, n))


# -- the loss ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("weighted", [False, True])
def test_value_is_the_definition(kind, seed, weighted):
    y = LABELS[kind]
    d = random_distances(seed, len(y))
    weights = np.random.default_rng(seed).exponential(size=len(y)) if weighted else None
    objective = mm.objectives.ClassMeans(y, item_weights=weights)
    expected, _ = class_means_loss(d, coded(y), weights)
    assert value_of(objective, d) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("weighted", [False, True])
def test_value_with_examples_is_the_definition(kind, weighted):
    y = LABELS[kind]
    n = len(y)
    d = random_distances(3, 2 * n)
    d[n:, n:] += d[n:, n:].T  # between examples
    weights = np.random.default_rng(3).exponential(size=len(y)) if weighted else None
    objective = mm.objectives.ClassMeans(y, item_weights=weights, examples=True)
    expected, _ = class_means_loss(d, coded(y), weights, shift=n)
    assert value_of(objective, d) == pytest.approx(expected, rel=1e-12)


def test_slope_and_curvature_with_examples_against_central_differences():
    y = [0, 1, 1, 1, 0, 0, 0, 2, 2]
    weights = np.random.default_rng(4).uniform(0.1, 2.0, len(y))
    for size in (None, 4):
        objective = mm.objectives.ClassMeans(
            y, item_weights=weights, block_size=size, examples=True
        )
        n = 2 * len(y)
        terms = np.arange(objective.n_terms(n))
        i, _ = objective.pairs(terms, n)
        rng = np.random.default_rng(5)
        d, p = rng.uniform(0.5, 2.5, i.shape), rng.uniform(0.1, 1.0, len(terms))
        along = rng.normal(size=(3, *i.shape))
        _, slope = objective.evaluate(terms, d, n)
        for one in along:
            (ahead, _), (behind, _) = (
                objective.evaluate(terms, d + s * one, n) for s in (1e-6, -1e-6)
            )
            expected = (ahead - behind) / 2e-6
            assert (slope * one).sum(axis=1) == pytest.approx(expected, rel=1e-5, abs=1e-7)
        found = objective.curvature(terms, d, along, p, n)
        for r in range(3):
            ahead, behind = (
                objective.evaluate(terms, d + s * along[r], n)[1] for s in (1e-5, -1e-5)
            )
            bend = (ahead - behind) / 2e-5 * p[:, None]
            expected = (along * bend).sum(axis=(1, 2))
            assert found[:, r] == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_by_hand():
    # Each item: the other of its class at 1, with nothing within it; the other class at 3 - 1/4.
    y = [0, 0, 1, 1]
    d = np.where(np.equal.outer(y, y), 1.0, 3.0) - np.eye(4)
    margin = (3.0 - 0.25) - 1.0
    assert value_of(mm.objectives.ClassMeans(y), d) == pytest.approx(np.log1p(np.exp(-margin)))


def test_one_term_of_all_ordered_pairs():
    objective = mm.objectives.ClassMeans([0, -1, 1, 0])
    assert objective.n_terms(4) == 1
    i, j = objective.pairs(np.array([0, 0]), 4)
    assert i.tolist() == [[0, 0, 0, 2, 2, 2, 3, 3, 3]] * 2
    assert j.tolist() == [[0, 2, 3] * 3] * 2


def test_an_item_and_itself_count_nothing():
    objective = mm.objectives.ClassMeans(LABELS["a single item"])
    d = random_distances(0, 8).reshape(1, -1)
    value, slope = objective.evaluate(np.array([0]), d, 8)
    assert not slope[0, ::9].any()
    moved = d.copy()
    moved[0, ::9] = 7.0
    assert objective.evaluate(np.array([0]), moved, 8)[0] == value


def test_slope_by_direction():
    # Item 3 is alone: nothing is asked of it, so no distance from it counts; those to it do.
    y = LABELS["a single item"]
    objective = mm.objectives.ClassMeans(y)
    _, slope = objective.evaluate(np.array([0]), random_distances(1, 8).reshape(1, -1), 8)
    slope = slope.reshape(8, 8)
    assert not slope[3].any()
    away = np.delete(slope[:, 3], 3)
    assert (away < 0).all()


def test_a_single_item_still_competes():
    y = LABELS["a single item"]
    d = random_distances(2, 8)
    without = np.where(np.array(y) == 2, -1, y)
    assert value_of(mm.objectives.ClassMeans(y), d) > value_of(mm.objectives.ClassMeans(without), d)


def test_unlabelled_items_do_not_matter():
    y = LABELS["unlabelled items"]
    d = random_distances(3, 10)
    kept = np.flatnonzero(np.array(y) >= 0)
    fewer = mm.objectives.ClassMeans(np.array(y)[kept])
    assert value_of(mm.objectives.ClassMeans(y), d) == value_of(fewer, d[np.ix_(kept, kept)])


@pytest.mark.parametrize("scale", [1e-8, 1e3, 1e6])
def test_distances_of_any_size(scale):
    y = LABELS["unlabelled items"]
    objective = mm.objectives.ClassMeans(y)
    d = scale * random_distances(4, 10)
    i, j = objective.pairs(np.array([0]), 10)
    value, slope = objective.evaluate(np.array([0]), d[i, j], 10)
    assert np.isfinite(value).all()
    assert np.isfinite(slope).all()
    if scale < 1:
        assert value[0] == pytest.approx(np.log(3), rel=1e-6)


def test_float32_distances():
    objective = mm.objectives.ClassMeans(LABELS["pairs"])
    d = random_distances(5, 8).reshape(1, -1)
    value, slope = objective.evaluate(np.array([0]), d.astype(np.float32), 8)
    assert value.dtype == slope.dtype == np.float64
    assert value == pytest.approx(objective.evaluate(np.array([0]), d, 8)[0], rel=1e-5)


# -- weights -------------------------------------------------------------------------------------


@pytest.mark.parametrize("block_size", [None, 4])
@pytest.mark.parametrize("kind", LABELS)
def test_equal_weights_are_none(kind, block_size):
    y = LABELS[kind]
    d = random_distances(6, len(y))
    plain = mm.objectives.ClassMeans(y, block_size=block_size)
    for size in (1.0, 0.3, 1e30):
        equal = mm.objectives.ClassMeans(
            y, block_size=block_size, item_weights=np.full(len(y), size)
        )
        assert value_of(equal, d) == value_of(plain, d)


@pytest.mark.parametrize("block_size", [None, 5])
def test_only_ratios_matter(block_size):
    y = LABELS["unlabelled items"]
    d = random_distances(7, 10)
    weights = np.random.default_rng(7).exponential(size=10)
    one, other = (
        mm.objectives.ClassMeans(y, block_size=block_size, item_weights=w)
        for w in (weights, 1e5 * weights)
    )
    assert value_of(one, d) == pytest.approx(value_of(other, d), rel=1e-12)


@pytest.mark.parametrize("block_size", [None, 5])
@pytest.mark.parametrize("gone", [[2], [1, 4], [0, 5]])  # one item, a whole class, unlabelled too
def test_weight_zero_is_no_label(gone, block_size):
    y = np.array(LABELS["unlabelled items"])
    d = random_distances(8, 10)
    weights = np.random.default_rng(8).exponential(size=10)
    without, weights[gone] = y.copy(), 0.0
    without[gone] = -1
    rest = np.where(weights == 0, 1.0, weights)
    zero = mm.objectives.ClassMeans(y, block_size=block_size, item_weights=weights)
    left_out = mm.objectives.ClassMeans(without, block_size=block_size, item_weights=rest)
    assert value_of(zero, d) == pytest.approx(value_of(left_out, d), rel=1e-12)


def test_whole_weights_on_other_classes_are_copies():
    # An item's own class leaves all copies of it out, or none; the other classes cannot tell.
    y, d = np.array([0, 0, 1, 1]), random_distances(9, 4)
    copies = [0, 1, 2, 2, 2, 3]
    more = d[np.ix_(copies, copies)]
    weighted = mm.objectives.half_means(d, y, 2, item_weights=[1, 1, 3, 1])
    assert weighted == pytest.approx(mm.objectives.half_means(more, y[copies], 2))
    one = mm.objectives.class_mean_scores(d, y, 2, weighted, item_weights=[1, 1, 3, 1])
    other = mm.objectives.class_mean_scores(d[:, copies], y[copies], 2, weighted)
    assert one == pytest.approx(other)


def test_an_item_that_outweighs_its_class_counts_as_alone():
    y, d = [0, 0, 1, 1], random_distances(10, 4)
    weights = np.array([1.0, 1e-7, 2.0, 1.0])
    objective = mm.objectives.ClassMeans(y, item_weights=weights)
    # Item 0 is not asked, and item 1 hardly matters: that leaves items 2 and 3, beside item 0.
    rest = mm.objectives.ClassMeans([0, -1, 1, 1], item_weights=weights)
    assert value_of(objective, d) == pytest.approx(value_of(rest, d), rel=1e-5)


# -- blocks --------------------------------------------------------------------------------------


def test_large_blocks_are_no_blocks():
    y = LABELS["unlabelled items"]
    d = random_distances(11, 10)
    for block_size in (7, 8, 100):
        whole = mm.objectives.ClassMeans(y, block_size=block_size)
        assert whole.n_terms(10) == 1
        assert value_of(whole, d) == value_of(mm.objectives.ClassMeans(y), d)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("block_size", [3, 6, 10])
def test_each_block_is_the_loss_of_its_items(block_size, weighted):
    rng = np.random.default_rng(12)
    y = rng.integers(-1, 4, 40)
    d = random_distances(12, 40)
    weights = rng.exponential(size=40) if weighted else np.ones(40)
    objective = mm.objectives.ClassMeans(
        y, block_size=block_size, item_weights=weights if weighted else None
    )
    terms = np.arange(objective.n_terms(40))
    assert len(terms) > 1
    i, j = objective.pairs(terms, 40)
    value, _ = objective.evaluate(terms, d[i, j], 40)
    counted = []
    for t in terms:
        inside = np.isin(np.arange(40), i[t])
        expected, weight = class_means_loss(d, np.where(inside, y, -1), weights)
        assert value[t] == pytest.approx(expected, rel=1e-12)
        counted.append(weight)
    shares = np.array(counted) / np.sum(counted)
    assert objective.probabilities(terms, 40) == pytest.approx(shares, rel=1e-12)


def test_short_blocks_are_filled_with_pairs_that_cost_nothing():
    y = np.arange(11) % 2
    objective = mm.objectives.ClassMeans(y, block_size=5)
    terms = np.arange(objective.n_terms(11))
    i, j = objective.pairs(terms, 11)
    d = random_distances(13, 11)
    _, slope = objective.evaluate(terms, np.full(i.shape, 3.0) + d[i, j], 11)
    size = objective._there.sum(axis=1)
    assert size.min() < size.max()
    for t in terms:
        assert (i[t] != j[t]).sum() == size[t] * (size[t] - 1)
        assert not slope[t][i[t] == j[t]].any()


def test_blocks_have_the_size_asked_for():
    y = np.random.default_rng(0).permutation(np.arange(1000) % 5)
    objective = mm.objectives.ClassMeans(y, block_size=50)
    assert objective.n_terms(1000) == 20
    assert objective.pairs(np.array([0]), 1000)[0].shape == (1, 50**2)


def test_many_small_classes():
    y = np.repeat(np.arange(30), 2)
    objective = mm.objectives.ClassMeans(y, block_size=10)
    assert objective.n_terms(60) == 6
    d = random_distances(14, 60)
    assert np.isfinite(value_of(objective, d))
    assert objective.probabilities(np.arange(6), 60).tolist() == [1 / 6] * 6


# -- scores --------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_scores_are_the_definition(weighted):
    rng = np.random.default_rng(15)
    codes = np.array([0, 2, 1, 0, 2, 2, 0, 1])
    d = random_distances(15, 12)  # the first eight are labelled
    weights = rng.exponential(size=8) if weighted else None
    within = mm.objectives.half_means(d[:8, :8], codes, 3, item_weights=weights)
    scores = mm.objectives.class_mean_scores(d[:, :8], codes, 3, within, item_weights=weights)
    for x in range(12):
        for c in range(3):
            members = np.flatnonzero(codes == c).tolist()
            expected = class_score(d, x, members, np.ones(8) if weights is None else weights)
            assert scores[x, c] == pytest.approx(expected)


def test_scores_of_squared_euclidean_distances_are_those_of_the_means():
    rng = np.random.default_rng(16)
    X, codes = rng.normal(size=(20, 3)), np.arange(20) % 4
    d = ((X[:, None] - X) ** 2).sum(axis=2)
    within = mm.objectives.half_means(d, codes, 4)
    scores = mm.objectives.class_mean_scores(d, codes, 4, within)
    means = np.array([X[codes == c].mean(axis=0) for c in range(4)])
    assert scores == pytest.approx(((X[:, None] - means) ** 2).sum(axis=2))


def test_classes_without_items():
    within = mm.objectives.half_means(random_distances(0, 2), [0, 2], 4)
    assert within.tolist() == [0.0] * 4
    scores = mm.objectives.class_mean_scores([[1.0, 2.0]], [0, 2], 4, within)
    assert scores.tolist() == [[1.0, np.inf, 2.0, np.inf]]
    assert mm.objectives.class_mean_scores(np.empty((0, 2)), [0, 1], 2).shape == (0, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[1.0, 2.0]], [0], 1), r"d: expected distances to 1 labelled items in each row"),
        (([1.0, 2.0], [0, 1], 2), r"d: expected distances to 2 .* got shape \(2,\)"),
        (([[1.0, 2.0]], [0, 2], 2), r"codes: expected whole numbers in 0 \.\. 1"),
        (([[1.0, 2.0]], [0, -1], 2), r"codes: expected whole numbers in 0 \.\. 1"),
        (([[1.0, 2.0]], [0.0, 1.0], 2), "codes: expected whole numbers"),
    ],
)
def test_bad_scores_are_refused(arguments, message):
    with pytest.raises(mm.InputError, match=message):
        mm.objectives.class_mean_scores(*arguments)


def test_half_means_need_a_square():
    with pytest.raises(mm.InputError, match="d: expected 2 rows, one per labelled item, got 1"):
        mm.objectives.half_means([[0.0, 1.0]], [0, 1], 2)
    with pytest.raises(mm.InputError, match="item_weights: expected 2 numbers"):
        mm.objectives.half_means(np.zeros((2, 2)), [0, 1], 2, item_weights=[1.0])


# -- refusals ------------------------------------------------------------------------------------


def test_every_class_with_a_single_item_is_refused():
    with pytest.raises(mm.InputError, match="y: expected at least two items of one class"):
        mm.objectives.ClassMeans([0, 1, 2, -1])
    with pytest.raises(mm.InputError, match="y: expected at least two items of one class"):
        mm.objectives.ClassMeans([0, 0, 1], item_weights=[1, 0, 1])


@pytest.mark.parametrize("block_size", [0, 1, -3, 2.5, "many"])
def test_bad_block_sizes_are_refused(block_size):
    with pytest.raises(mm.InputError, match="block_size: expected a whole number >= 2"):
        mm.objectives.ClassMeans([0, 0, 1], block_size=block_size)


@pytest.mark.parametrize("seed", range(20))
def test_blocks_are_fair(seed):
    rng = np.random.default_rng(seed)
    C = rng.integers(2, 9)
    codes = np.concatenate([np.arange(C), [0], rng.integers(0, rng.integers(1, C + 1), 60)])
    block_size = int(rng.integers(2, 30))
    blocks = stratified_blocks(codes, block_size)
    assert np.array_equal(blocks, stratified_blocks(codes, block_size))
    assert sorted(blocks[blocks >= 0].tolist()) == list(range(len(codes)))
    sizes = np.bincount(codes)
    counts = np.array([np.bincount(codes[b[b >= 0]], minlength=C) for b in blocks])
    assert ((counts > 0).sum(axis=1) >= 2).all()
    assert (counts.max(axis=1) >= 2).all()
    for c in range(C):
        there = counts[:, c][counts[:, c] > 0]
        assert there.max() - there.min() <= 1  # spread evenly
        assert there.min() >= 2 or sizes[c] == 1  # and nobody is left alone
        assert len(there) == min(len(blocks), max(1, sizes[c] // 2))


# -- offsets --------------------------------------------------------------------------------------


def offset_loss(b, scores, codes):
    """What class offsets minimise, written out."""
    classes = [c for c in np.unique(codes) if (codes == c).sum() > 1]
    total = 0.0
    for c in classes:
        z = b - scores[codes == c]
        logs = z[:, c] - np.log(np.exp(z).sum(axis=1))
        total -= logs.mean() / len(classes)
    few = np.bincount(codes).mean()
    return total + 0.01 * max(1.0, 20.0 / few) * b @ b


def test_offsets_minimise_the_balanced_log_loss():
    rng = np.random.default_rng(0)
    codes = np.array([0] * 12 + [1] * 3 + [2] * 5)
    scores = rng.normal(size=(20, 3)) + 2.0 * (np.arange(3) != codes[:, None])
    b = class_offsets(scores, codes)
    best = offset_loss(b, scores, codes)
    for step in 1e-2 * np.vstack([np.eye(3), -np.eye(3)]):
        assert offset_loss(b + step, scores, codes) > best
    assert b.sum() == pytest.approx(0.0, abs=1e-4)


def test_offsets_of_classes_with_one_label_are_zero():
    d = random_distances(1, 6)
    codes = np.array([0, 0, 0, 1, 1, 2])
    b = class_offsets(held_out_scores(d, codes, 3), codes)
    assert b[2] == 0.0
    assert np.isfinite(b).all()
    assert (class_offsets(np.full((2, 2), np.inf), np.array([0, 1])) == 0.0).all()


def test_classes_of_one_label_take_no_part_in_offsets():
    held_out = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.1], [1.5, 1.0, 9.0], [2.0, 1.2, np.inf]])
    held_out = np.vstack([held_out, held_out[:1] + 0.3])
    codes = np.array([0, 1, 1, 2, 0])
    b = class_offsets(held_out, codes)
    assert b[2] == 0.0
    several = codes < 2
    assert b[:2] == pytest.approx(class_offsets(held_out[several][:, :2], codes[several]))


def test_offsets_undo_a_shift_of_one_class():
    """Scores of a class that are too high for all items are lowered."""
    rng = np.random.default_rng(3)
    codes = np.arange(60) % 3
    scores = rng.normal(size=(60, 3)) + 2.0 * (np.arange(3) != codes[:, None])
    b = class_offsets(scores + np.array([0.0, 1.5, 0.0]), codes) - class_offsets(scores, codes)
    assert b[1] - (b[0] + b[2]) / 2 == pytest.approx(1.5, abs=0.4)


def test_offsets_of_few_labels_are_small():
    """The same scores say more if there are more of them, up to twenty labels per class."""
    codes, scores = np.array([0, 1]), np.array([[0.0, 0.0], [0.0, 1.0]])
    sizes = [
        np.ptp(class_offsets(np.tile(scores, (n, 1)), np.tile(codes, n))) for n in (2, 5, 20, 30)
    ]
    assert sizes[0] < 0.9 * sizes[1] < 0.9 * sizes[2]
    assert sizes[2] == pytest.approx(sizes[3])


# -- shares of labels -----------------------------------------------------------------------------


def test_shares_of_labels_are_as_strong_as_the_scores_leave_open():
    """The sharpness t is the best of a fine grid."""
    rng = np.random.default_rng(0)
    codes = np.repeat([0, 1, 2], [14, 6, 3])
    scores = 0.3 * (rng.normal(size=(23, 3)) + 1.5 * (np.arange(3) != codes[:, None]))
    found = label_shares(scores, codes)
    log_shares = np.log((np.bincount(codes) + 10) / (23 + 30))
    grid = np.exp(np.linspace(-2.0, 4.0, 2001))
    z = log_shares - grid[:, None, None] * scores
    logs = z[:, np.arange(23), codes] - np.log(np.exp(z).sum(axis=2))
    t = grid[logs.mean(axis=1).argmax()]
    np.testing.assert_allclose(found, (log_shares - log_shares.mean()) / t, rtol=1e-2)
    assert found[0] > found[1] > found[2]


def test_shares_of_labels_count_little_where_scores_decide():
    codes = np.repeat([0, 1], [20, 5])
    told = np.where(codes[:, None] == np.arange(2), 0.0, 3.0)
    noise = np.random.default_rng(1).normal(size=(25, 2))
    clear, unclear = (np.ptp(label_shares(scores, codes)) for scores in (told, noise))
    assert 0.0 < clear < 0.1 * unclear


def test_equal_numbers_of_labels_have_equal_shares():
    scores = np.random.default_rng(2).normal(size=(12, 3))
    assert (label_shares(scores, np.arange(12) % 3) == 0.0).all()
    scores[:, 2] = np.inf  # a class without labels
    assert (label_shares(scores, np.arange(12) % 2) == 0.0).all()
    found = label_shares(scores, np.repeat([0, 1], [8, 4]))
    assert np.isfinite(found).all()

"""The k nearest labelled items of every item, against a sort of all distances."""

from __future__ import annotations

import numpy as np
import pytest

import metricmix as mm
from metricmix.mixture.edge_lengths import edge_lengths
from metricmix.paths.dijkstra import CHUNK
from metricmix.paths.neighbours import (
    LabelSearch,
    insert_label,
    nearest_labels,
    nearest_labels_rows,
    relax_label,
    settle_next,
)
from reference.closure import closure_by_rows
from reference.instances import on_demand, random_lengths, random_sources, whole_lengths
from reference.mixing import lengths as naive_lengths
from reference.paths import all_distances


def brute_force(w, labelled, k):
    """Distances from every item to its k nearest labelled items, and which these are."""
    d = all_distances(w)[:, labelled]
    order = np.argsort(d, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(d, order, axis=1), np.asarray(labelled)[order]


def assert_nearest(w, labelled, k, distances, items, rel=1e-12):
    """Right distances, sorted, at different labelled items that really are that far away."""
    d = all_distances(w)
    n = len(w)
    expected = np.sort(d[:, labelled], axis=1)[:, :k]
    assert distances.shape == items.shape == (n, k)
    assert distances == pytest.approx(expected, rel=rel, abs=1e-15)
    assert (np.diff(distances, axis=1) >= 0).all()
    assert np.isin(items, labelled).all()
    assert all(len(set(row)) == k for row in items.tolist())
    assert distances == pytest.approx(d[np.arange(n)[:, None], items], rel=rel, abs=1e-15)
    assert np.array_equal(items[labelled, 0], labelled)
    assert not distances[labelled, 0].any()


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("n", [5, 6, 63, 64, 65, 130])
def test_brute_force(n, k, directed):
    rng = np.random.default_rng(n)
    w = random_lengths(rng, n, directed=directed)
    labelled = np.sort(rng.choice(n, int(rng.integers(k, min(n, 3 * k) + 1)), replace=False))
    distances, items = mm.nearest_labelled(w, None, labelled, k, directed=directed)
    assert_nearest(w, labelled, k, distances, items)
    assert np.array_equal(items, brute_force(w, labelled, k)[1])  # no ties here


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("low", [0, 1])
def test_ties_and_zeros(k, low, directed):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        n = int(rng.choice([6, 20, 70]))
        w = whole_lengths(rng, n, low=low, directed=directed)
        labelled = np.sort(rng.choice(n, k + 1, replace=False))
        distances, items = mm.nearest_labelled(w, None, labelled, k, directed=directed)
        assert_nearest(w, labelled, k, distances, items)
        again = mm.nearest_labelled(w, None, labelled, k, directed=directed)
        assert np.array_equal(items, again[1])


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_mixture_by_blocks_and_on_demand(k, dtype, directed):
    rng = np.random.default_rng(7)
    n, beta, weights = 70, 2.0, [1.4, -1.0, 0.2]
    sources = random_sources(rng, n, 3, directed=directed, dtype=dtype)
    stack = mm.DissimilarityStack(sources, directed=directed, scaling="mean")
    scaled = [stack.source(r) for r in range(3)]
    w = naive_lengths(scaled, weights, beta)
    labelled = np.arange(0, n, 9)
    mixture = mm.Mixture(weights, beta=beta)
    distances, items = mm.nearest_labelled(stack, mixture, labelled, k)
    assert_nearest(w, labelled, k, distances, items, rel=1e-9)
    demanded = mm.nearest_labelled(on_demand(stack), mixture, labelled, k)
    assert np.array_equal(demanded[1], items)
    assert demanded[0] == pytest.approx(distances, rel=1e-12)


def test_everything_labelled():
    w = random_lengths(np.random.default_rng(1), 40)
    distances, items = mm.nearest_labelled(w, None, np.arange(40), 40)
    assert distances == pytest.approx(np.sort(all_distances(w), axis=1), rel=1e-12)
    assert np.array_equal(np.sort(items, axis=1), np.tile(np.arange(40), (40, 1)))


def test_distances_run_from_the_item_to_the_labelled_one():
    # A ring of one-way streets 0 -> 1 -> 2 -> 0.
    w = np.array([[0.0, 1.0, 9.0], [9.0, 0.0, 1.0], [1.0, 9.0, 0.0]])
    distances, _ = mm.nearest_labelled(w, None, [0], directed=True)
    assert distances.ravel().tolist() == [0.0, 2.0, 1.0]
    distances, items = mm.nearest_labelled(w, None, [0, 1], 2, directed=True)
    assert distances.tolist() == [[0.0, 1.0], [0.0, 2.0], [1.0, 2.0]]
    assert items.tolist() == [[0, 1], [1, 0], [0, 1]]


def test_labelled_as_a_mask_or_in_any_order():
    w = random_lengths(np.random.default_rng(2), 12)
    expected = mm.nearest_labelled(w, None, [2, 5, 7], 2)
    mask = np.isin(np.arange(12), [2, 5, 7])
    for labelled in (mask, [7, 2, 5]):
        for a, b in zip(mm.nearest_labelled(w, None, labelled, 2), expected, strict=True):
            assert np.array_equal(a, b)


def test_one_and_two_items():
    assert mm.nearest_labelled(np.zeros((1, 1)), None, [0])[1].tolist() == [[0]]
    w = np.array([[0.0, 3.0], [3.0, 0.0]])
    distances, items = mm.nearest_labelled(w, None, [1])
    assert (distances.tolist(), items.tolist()) == ([[3.0], [0.0]], [[1], [1]])
    distances, items = mm.nearest_labelled(w, None, [0, 1], 2)
    assert (distances.tolist(), items.tolist()) == ([[0, 3], [0, 3]], [[0, 1], [1, 0]])


@pytest.mark.parametrize("seed", range(5))
def test_lemma_if_all_are_labelled_the_nearest_by_path_is_the_nearest_by_edge(seed):
    w = random_lengths(np.random.default_rng(seed), 30)
    _, items = mm.nearest_labelled(w, None, np.arange(30), 2)
    alone = w + np.diag(np.full(30, np.inf))
    assert np.array_equal(items[:, 1], alone.argmin(axis=1))


def assert_nearest_classes(w, roots, marks, k, distances, classes):
    """The k smallest of the per-class minima of the distances; -1 at infinity beyond all."""
    d = closure_by_rows(w)
    known = np.unique(marks)
    to_class = np.full((len(w), marks.max() + 1), np.inf)
    for c in known:
        to_class[:, c] = d[:, roots[marks == c]].min(axis=1)
    there = min(k, len(known))
    expected = np.sort(to_class, axis=1)[:, :there]
    assert distances.shape == classes.shape == (len(w), k)
    assert distances[:, :there] == pytest.approx(expected, rel=1e-11, abs=1e-15)
    assert np.isin(classes[:, :there], known).all()
    assert all(len(set(row)) == there for row in classes[:, :there].tolist())
    real = np.take_along_axis(to_class, classes[:, :there], axis=1)
    assert distances[:, :there] == pytest.approx(real, rel=1e-11, abs=1e-15)
    assert np.isinf(distances[:, there:]).all()
    assert (classes[:, there:] == -1).all()
    assert not distances[roots, 0].any()


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("k", [1, 2, 4, 6])
@pytest.mark.parametrize("n", [9, 64, 100])
def test_nearest_classes(n, k, directed):
    for seed in range(2):
        rng = np.random.default_rng(seed)
        w = random_lengths(rng, n, directed=directed)
        roots = np.sort(rng.choice(n, int(rng.integers(4, n + 1)), replace=False))
        marks = rng.integers(0, 4, len(roots))
        lengths = edge_lengths(w, directed=directed)
        assert_nearest_classes(w, roots, marks, k, *nearest_labels(lengths, roots, marks, k))
        stack = on_demand(mm.DissimilarityStack([w], directed=directed))
        demanded = edge_lengths(stack, mm.Mixture([1.0], link="identity"))
        assert_nearest_classes(w, roots, marks, k, *nearest_labels(demanded, roots, marks, k))


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("low", [0, 1])
def test_nearest_classes_with_ties_and_zeros(low, directed):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        n = int(rng.choice([6, 20, 70]))
        w = whole_lengths(rng, n, low=low, directed=directed)
        roots = np.sort(rng.choice(n, 5, replace=False))
        marks = np.array([0, 2, 0, 1, 2])
        lengths = edge_lengths(w, directed=directed)
        found = nearest_labels(lengths, roots, marks, 3)
        if low:
            assert np.array_equal(found[1][roots, 0], marks)
        assert_nearest_classes(w, roots, marks, 3, *found)


@pytest.mark.parametrize(
    ("labelled", "k", "message"),
    [
        (None, 1, "labelled: expected the labelled items"),
        ([], 1, "labelled: expected at least one item"),
        ([True, False], 1, "labelled: expected a mask of 4 items"),
        ([0, 1], 3, r"k: expected 1 \.\. 2, the number of labelled items, got 3"),
        ([0, 0, 0], 2, "labelled: expected each item once"),
        ([0, 1], 0, "k: expected a whole number >= 1"),
        ([0, 9], 1, r"labelled: expected item numbers in 0 \.\. 3, found 9"),
    ],
)
def test_bad_arguments_are_refused(labelled, k, message):
    with pytest.raises(mm.InputError, match=message):
        mm.nearest_labelled(np.zeros((4, 4)), None, labelled, k)


def label_search(n, k):
    return LabelSearch(
        np.full((n, k), np.inf),
        np.full((n, k), -1, np.int32),
        np.zeros(n, np.int32),
        np.full(n, np.inf),
        np.full(n, np.inf),
        np.full(-(-n // CHUNK), np.inf),
    )


def test_lists_keep_the_best_distance_of_the_nearest_labels():
    rng = np.random.default_rng(0)
    for k in (1, 2, 4):
        state = label_search(3, k)
        best = {}
        for _ in range(60):
            label, reached = int(rng.integers(6)), float(rng.random())
            if reached >= state.dist[1, k - 1]:
                continue  # callers compare with the last distance first
            improved = reached < best.get(label, np.inf)
            assert insert_label(1, reached, label, state) == improved
            best[label] = min(reached, best.get(label, np.inf))
            best = dict(sorted(best.items(), key=lambda entry: entry[1])[:k])
            filled = state.label[1] >= 0
            assert state.label[1][filled].tolist() == list(best)
            assert state.dist[1][filled].tolist() == list(best.values())
    assert not insert_label(1, 2.0, int(state.label[1, 0]), state)


def test_settled_labels_are_final():
    state = label_search(2, 2)
    for label, reached in ((5, 0.3), (6, 0.1)):
        insert_label(0, reached, label, state)
    state.key[0] = state.chunk_min[0] = 0.1
    assert settle_next(state) == 0
    assert (state.settled[0], state.key[0]) == (1, 0.3)
    assert not insert_label(0, 0.05, 6, state)  # final already
    assert insert_label(0, 0.2, 7, state)
    assert state.label[0].tolist() == [6, 7]
    assert settle_next(state) == 0
    assert settle_next(state) == -1


def test_relaxation_of_one_label():
    rng = np.random.default_rng(1)
    m = rng.random(100)
    state = label_search(100, 2)
    insert_label(4, 0.5, 9, state)
    state.key[4] = state.chunk_min[0] = 0.5
    u = settle_next(state)
    relax_label(u, m, 1.0, 0, state)
    others = np.arange(100) != 4
    assert state.dist[others, 0] == pytest.approx(0.5 + m[others])
    assert (state.label[others, 0] == 9).all()
    assert np.array_equal(state.key[others], state.dist[others, 0])
    assert state.chunk_min == pytest.approx([state.key[:64].min(), state.key[64:].min()])


def test_kernel_of_the_whole_search():
    rng = np.random.default_rng(2)
    w = random_lengths(rng, 90, directed=True)
    labelled = np.array([3, 40, 77])
    lengths = edge_lengths(w, directed=True)
    state = label_search(90, 2)
    state.dist[labelled, 0] = state.key[labelled] = 0.0
    state.label[labelled, 0] = labelled
    state.chunk_min[:] = 0.0
    nearest_labels_rows(lengths.dense, True, state)
    assert_nearest(w, labelled, 2, state.dist, state.label)

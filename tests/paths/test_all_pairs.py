"""All shortest paths: against the textbook, scipy and networkx, at every awkward size."""

from __future__ import annotations

from itertools import pairwise

import networkx
import numpy as np
import pytest
from scipy.sparse.csgraph import floyd_warshall as scipy_closure

from metricmix.exceptions import InputError
from metricmix.kernels import locality
from metricmix.kernels.minplus import Packed, panel_width
from metricmix.kernels.minplus_tile import STRIP
from metricmix.kernels.phases import BUSY, OVER, TaskQueue
from metricmix.metric import is_metric
from metricmix.paths import floyd_warshall
from metricmix.paths.all_pairs import impute_missing, project
from metricmix.paths.floyd_warshall import (
    Rounds,
    close_block,
    close_in_place,
    close_pivots,
    copy_columns,
    copy_rows,
    do_tasks,
    update_pivot_columns,
)
from reference.closure import closure, closure_by_rows
from reference.triangles import broken_triangles

DTYPES = (np.float32, np.float64)
SIZES = (1, 2, 3, 6, 7, 63, 64, 65, 127, 128, 129, 300, 513)


def lengths(n, kind, directed, dtype=np.float64, seed=0):
    """Lengths with zeros, with missing edges, or squared distances in clusters."""
    rng = np.random.default_rng([n, seed])
    if kind == "clusters":
        X = rng.normal(size=(n, 2)) + 8 * rng.integers(0, 5, size=(n, 1))
        W = ((X[:, None] - X) ** 2).sum(axis=-1)
        W *= 1 + rng.random((n, n)) if directed else 1.0
    else:
        W = rng.random((n, n))
        W[rng.random((n, n)) < 0.03] = 0.0
        if kind == "sparse":
            W[rng.random((n, n)) > 3 / n] = np.inf
    if not directed:
        W = np.minimum(W, W.T)
    np.fill_diagonal(W, 0.0)
    return W.astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("kind", ["dense", "sparse", "clusters"])
@pytest.mark.parametrize("n", SIZES)
def test_agrees_with_the_textbook(n, kind, directed, dtype, monkeypatch):
    monkeypatch.setattr(floyd_warshall, "AT_ONCE", 0)  # small matrices by blocks, too
    W = lengths(n, kind, directed, dtype)
    given = W.copy()
    d = project(W, directed=directed)
    want = closure(W) if n < 10 else closure_by_rows(W)
    assert d.dtype == dtype
    np.testing.assert_array_equal(W, given)
    np.testing.assert_array_equal(np.isinf(d), np.isinf(want))
    np.testing.assert_allclose(d, want, rtol=20 * np.finfo(dtype).eps)
    assert (d <= W).all()
    assert (np.diagonal(d) == 0).all()
    if not directed:
        np.testing.assert_array_equal(d, d.T)
    np.testing.assert_array_equal(project(W, directed=directed, n_jobs=1), d)
    np.testing.assert_array_equal(project(W, directed=directed, n_jobs=2), d)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("n", [1, 2, floyd_warshall.AT_ONCE])
def test_small_matrices_are_closed_at_once(n, directed, dtype):
    W = lengths(n, "sparse", directed, dtype)
    given = np.where(np.tri(n), W, np.nan).astype(dtype) if not directed else W.copy()
    d = close_in_place(given, symmetric=not directed)
    assert d is given
    np.testing.assert_allclose(d, closure_by_rows(W), rtol=20 * np.finfo(dtype).eps)
    if not directed:
        np.testing.assert_array_equal(d, d.T)


def test_the_two_references_agree():
    W = lengths(12, "sparse", True)
    np.testing.assert_allclose(closure(W), closure_by_rows(W))


@pytest.mark.parametrize("directed", [False, True])
def test_agrees_with_scipy(directed):
    W = lengths(200, "dense", directed) + 0.01  # scipy reads a dense 0 as no edge
    np.fill_diagonal(W, 0.0)
    np.testing.assert_allclose(project(W, directed), scipy_closure(W), rtol=1e-12)


@pytest.mark.parametrize("directed", [False, True])
def test_agrees_with_networkx_where_edges_are_missing(directed):
    W = lengths(40, "sparse", directed)
    graph = networkx.DiGraph()
    graph.add_nodes_from(range(40))
    graph.add_weighted_edges_from((i, j, W[i, j]) for i, j in np.argwhere(np.isfinite(W)) if i != j)
    want = np.full((40, 40), np.inf)
    for i, row in networkx.all_pairs_dijkstra_path_length(graph):
        want[i, list(row)] = list(row.values())
    np.testing.assert_allclose(project(W, directed), want, rtol=1e-12)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("saving", [True, False])
def test_the_order_of_the_items_changes_nothing(saving, directed, monkeypatch):
    monkeypatch.setattr(locality, "TOUR_COST", -np.inf if saving else np.inf)
    taken = []
    order_of = locality.tour_order
    monkeypatch.setattr(
        floyd_warshall, "tour_order", lambda matrix: taken.append(order_of(matrix)) or taken[-1]
    )
    W = lengths(700, "clusters", directed)[:, ::-1][::-1]  # not contiguous either
    np.testing.assert_allclose(project(W, directed), closure_by_rows(W), rtol=1e-13)
    assert (taken[0] is not None) == saving
    if saving:
        np.testing.assert_array_equal(np.sort(taken[0]), np.arange(700))


def test_an_order_is_found_for_clusters_and_not_for_noise():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 3)) + 20 * rng.normal(size=(12, 3))[rng.integers(0, 12, 1200)]
    near = np.sqrt(((X[:, None] - X) ** 2).sum(axis=-1))
    noise = lengths(1200, "dense", False)
    assert locality.tour_order(near) is not None
    assert locality.tour_order(noise) is None


def test_zero_is_an_edge_and_infinity_is_none():
    W = np.array([[0, 0, np.inf, 3], [0, 0, 2, np.inf], [np.inf, 2, 0, 0], [3, np.inf, 0, 0]])
    want = np.array([[0, 0, 2, 2], [0, 0, 2, 2], [2, 2, 0, 0], [2, 2, 0, 0]])
    np.testing.assert_array_equal(project(W), want)
    apart = np.full((3, 3), np.inf)
    np.fill_diagonal(apart, 0.0)
    np.testing.assert_array_equal(project(apart), apart)


def test_asymmetry_by_rounding_takes_the_smaller_one():
    W = lengths(100, "dense", False)
    noisy = W * (1 + 1e-12 * np.random.default_rng(0).random(W.shape))
    d = project(noisy)
    assert (d <= noisy).all()
    np.testing.assert_array_equal(d, d.T)


def test_other_input_becomes_float64():
    d = project([[0, 1, 5], [1, 0, 1], [5, 1, 0]])
    assert d.dtype == np.float64
    assert d[0, 2] == 2
    W = lengths(70, "dense", False)
    np.testing.assert_array_equal(project(np.asfortranarray(W)), project(W))
    W.setflags(write=False)
    assert project(W).flags.writeable


def test_in_place():
    W = lengths(150, "sparse", False)
    want = project(W)
    same = close_in_place(W, symmetric=True)
    assert same is W
    np.testing.assert_array_equal(W, want)


@pytest.mark.parametrize(
    ("W", "message"),
    [
        (np.zeros((2, 3)), r"W: expected a square matrix"),
        (np.zeros((0, 0)), r"W: expected at least one item"),
        ([[0.0, np.nan], [np.nan, 0.0]], r"W: expected finite entries, found nan at \(0, 1\)"),
        ([[0.0, -1.0], [-1.0, 0.0]], r"W: expected non-negative entries, found -1 at \(0, 1\)"),
        ([[0.0, 1.0], [1.0, 2.0]], r"W: expected a zero diagonal, found 2 at \(1, 1\)"),
        ([[0.0, 1.0], [3.0, 0.0]], r"W: expected symmetric, largest asymmetry 2 at \(0, 1\)"),
        ([["a", "b"], ["c", "d"]], r"W: expected real numbers"),
    ],
)
def test_refuses_what_is_no_dissimilarity(W, message):
    with pytest.raises(InputError, match=message):
        project(W)


def with_holes(seed, n, share):
    rng = np.random.default_rng(seed)
    place = rng.normal(size=(n, 2))
    d = np.sqrt(((place[:, None] - place) ** 2).sum(-1))
    holes = np.triu(rng.random((n, n)) < share, 1)
    d[holes | holes.T] = np.nan
    return d


def test_missing_entries_of_a_metric_are_completed_to_one():
    for seed in range(5):
        d = with_holes(seed, 30, 0.5)
        filled = impute_missing(d)
        known = ~np.isnan(d)
        assert (filled[known] == d[known]).all()
        assert is_metric(filled)


def test_unreachable_pairs_get_the_largest_path_length():
    d = np.full((5, 5), np.nan)
    np.fill_diagonal(d, 0)
    d[0, 1] = d[1, 0] = 4.0
    d[1, 2] = d[2, 1] = 3.0
    filled = impute_missing(d)
    assert filled[0, 2] == 7.0
    assert filled[0, 4] == 7.0
    assert is_metric(filled)


def test_imputation_hides_no_violation():
    """A known cycle with one side too long is found although no triangle of it is known."""
    d = np.full((4, 4), np.nan)
    for i, j, length in ((0, 1, 1.0), (1, 2, 1.0), (2, 3, 1.0), (0, 3, 9.0)):
        d[i, j] = d[j, i] = length
    assert not broken_triangles(d)
    assert not is_metric(impute_missing(d))


@pytest.mark.parametrize("dtype", DTYPES)
def test_kernels_of_the_recursion(dtype):
    block = lengths(20, "dense", True, dtype)
    expected = closure(block).astype(dtype)
    close_block(block)
    np.testing.assert_allclose(block, expected, rtol=1e-6)
    matrix = lengths(30, "dense", True, dtype)
    out = np.zeros((30, 4), dtype)
    copy_columns(matrix, 5, 10, 20, out)
    np.testing.assert_array_equal(out[10:20], matrix[10:20, 5:9])
    copy_rows(matrix, 5, 20, 30, out)
    np.testing.assert_array_equal(out[20:], matrix[5:9, 20:].T)
    assert not out[:10].any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("symmetric", [False, True])
def test_one_round_of_the_recursion(symmetric, dtype):
    """The phases of a round, one after the other, and all of its tasks by the kernel of threads."""
    n, depth, start = 70, 10, 20
    matrix = lengths(n, "sparse", not symmetric, dtype)
    width = panel_width(dtype)
    inner, transposed = (Packed.empty(depth, depth, width, dtype) for _ in range(2))
    left, right = Packed.empty(n, depth, STRIP, dtype), Packed.empty(n, depth, width, dtype)
    highs = np.full((len(left.parts), len(right.parts)), np.inf, dtype)
    rows = np.array([(0, n)])
    buffers = (np.empty((n, depth), dtype), np.empty((depth, depth), dtype))
    packed = (inner, transposed, left, right)
    rounds = Rounds(matrix.copy(), highs, symmetric, start, rows, rows, *buffers, *packed)
    D = closure(matrix[start : start + depth, start : start + depth]).astype(dtype)
    close_pivots(rounds, start)
    np.testing.assert_allclose(rounds.block, D, rtol=1e-6)
    update_pivot_columns(rounds, start, 0, n, dtype(1))
    P = (matrix[:, start : start + depth, None] + rounds.block).min(axis=1)
    P[start : start + depth] = rounds.block
    np.testing.assert_allclose(unpacked(left, n), P, rtol=1e-6)
    Q = (rounds.block[:, :, None] + matrix[start : start + depth]).min(axis=1)
    Q[:, start : start + depth] = rounds.block
    np.testing.assert_allclose(unpacked(right, n), Q.T, rtol=1e-6)
    queue, seat = TaskQueue(np.array([1, 2, 3]), np.zeros(16, np.int64)), np.array([-1, 0])
    states = [do_tasks(queue, seat, rounds, dtype(1), 2) for _ in range(2)]
    assert states == [BUSY, OVER]
    expected = np.minimum(matrix, (P[:, :, None] + Q).min(axis=1))
    below = np.tri(n, dtype=bool) if symmetric else np.ones((n, n), bool)
    np.testing.assert_allclose(rounds.matrix[below], expected[below], rtol=1e-6)


def unpacked(packed, n):
    return packed.parts.transpose(0, 2, 1).reshape(-1, packed.parts.shape[1])[:n]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["ties", "sparse", "dense"])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("n", [514, 641, 1023])
def test_threads_change_no_bit(n, directed, kind, dtype):
    """Above the size from which threads are used: ties, infinities, sizes that fill no block."""
    W = lengths(n, "sparse" if kind == "sparse" else "dense", directed, dtype)
    if kind == "ties":
        W = np.ceil(4 * W)
    alone = project(W, directed=directed, n_jobs=1)
    for threads in (2, 3, 7):
        np.testing.assert_array_equal(project(W, directed=directed, n_jobs=threads), alone)


def test_tour_and_reordering():
    matrix = lengths(50, "dense", False)
    order = locality.nearest_neighbour_tour(matrix)
    left = set(range(1, 50))
    for before, after in pairwise(order.tolist()):
        assert matrix[before, after] == matrix[before, list(left)].min()
        left.remove(after)
    moved = np.zeros_like(matrix)
    locality.reorder(matrix, order, 0, 20, moved)
    locality.reorder(matrix, order, 20, 50, moved)
    np.testing.assert_array_equal(moved, matrix[np.ix_(order, order)])

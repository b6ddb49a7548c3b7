"""Keys of triangle constraints, their colours, and products with them."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from metricmix.kernels.threads import ThreadPool
from metricmix.nearness.constraints import (
    PLACES,
    ConstraintArrays,
    KeyedDuals,
    TriangleConstraints,
    add_transposed,
    blocks_for,
    dual_product,
    key_of,
    largest_violation,
    merge_keys,
    pair_of,
    read_keys,
    sides_of,
    write_keys,
)
from reference.coordinate_ascent import constraint_matrix, merged
from reference.nearness import all_triangles


def all_rows(n):
    rows = [(i, j, k) for i, j, k in permutations(range(n), 3) if i > j]
    return np.array(rows, np.int32)


@pytest.mark.parametrize(("n", "blocks"), [(3, 1), (7, 1), (13, 4), (12, 5), (17, 8)])
def test_keys_come_back(n, blocks):
    rows, size = all_rows(n), -(-n // blocks)
    keys = np.empty(len(rows), np.int64)
    write_keys(rows, size, blocks, keys)
    assert len(np.unique(keys)) == len(rows)
    again = np.empty_like(rows)
    read_keys(keys, size, blocks, again)
    np.testing.assert_array_equal(again, rows)
    assert keys.tolist() == [key_of(*row, size, blocks) for row in rows.tolist()]
    ij, ik, kj = (np.empty(len(rows), np.int32) for _ in range(3))
    zero = np.zeros(len(rows))
    sides_of(keys, size, blocks, 0, len(rows), ConstraintArrays(ij, ik, kj, zero, zero))
    pairs = {frozenset(p): e for e, p in enumerate((i, j) for i in range(n) for j in range(i))}
    for column, (a, b) in zip((ij, ik, kj), ((0, 1), (0, 2), (2, 1)), strict=True):
        assert column.tolist() == [pairs[frozenset((row[a], row[b]))] for row in rows.tolist()]


@pytest.mark.parametrize(("n", "blocks"), [(13, 4), (12, 5), (17, 8)])
def test_tasks_of_one_colour_share_no_pair(n, blocks):
    rows, size = all_rows(n), -(-n // blocks)
    keys = np.empty(len(rows), np.int64)
    write_keys(rows, size, blocks, keys)
    tasks = keys >> PLACES
    used: dict[tuple[int, int], int] = {}
    for (i, j, k), task in zip(rows.tolist(), tasks.tolist(), strict=True):
        colour = task // blocks**2
        for a, b in ((i, j), (i, k), (j, k)):
            assert used.setdefault((colour, pair_of(a, b)), task) == task


def test_neighbours_share_no_pair():
    """Within a task, rows of one class do not meet either."""
    n = 11
    keys = np.empty(len(all_rows(n)), np.int64)
    write_keys(all_rows(n), n, 1, keys)
    rows = np.empty((len(keys), 3), np.int32)
    read_keys(np.sort(keys), n, 1, rows)
    shared = 0
    for first, second in zip(rows[:-1].tolist(), rows[1:].tolist(), strict=True):
        shared += len(set(first) & set(second)) > 1
    assert shared < len(rows) / 20


def test_largest_sizes_fit():
    n = 65_536
    blocks = blocks_for(n)
    rows = np.array([[n - 1, 0, n - 2], [n - 1, n - 2, n - 3], [2, 1, n - 1]], np.int32)
    keys, again = np.empty(3, np.int64), np.empty((3, 3), np.int32)
    write_keys(rows, -(-n // blocks), blocks, keys)
    read_keys(keys, -(-n // blocks), blocks, again)
    np.testing.assert_array_equal(again, rows)
    assert (keys > 0).all()
    assert pair_of(n - 1, n - 2) < 2**31


@pytest.mark.parametrize("forget", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_merging(forget, seed):
    rng = np.random.default_rng(seed)
    keys = np.flatnonzero(rng.random(30) < 0.5)
    fresh = np.flatnonzero(rng.random(30) < 0.5)
    dual, previous = (
        np.round(rng.random(len(keys)) * (rng.random(len(keys)) < 0.5), 3) for _ in "ab"
    )
    count = len(keys) + len(fresh)
    out = KeyedDuals(np.empty(count, np.int64), np.empty(count), np.empty(count))
    count = merge_keys(KeyedDuals(keys, dual, previous), fresh, forget, out)
    found = list(zip(*(values[:count].tolist() for values in out), strict=True))
    assert found == merged(keys.tolist(), dual, previous, fresh.tolist(), forget)


def random_constraints(n, pool, seed=0):
    rng = np.random.default_rng(seed)
    rows = all_rows(n)
    rows = rows[rng.random(len(rows)) < 0.3]
    return TriangleConstraints.from_triangles(n, pool, rows, rng.random(len(rows))), rng


def test_products():
    """All parts together are the products with the dense matrix."""
    with ThreadPool(1) as pool:
        constraints, rng = random_constraints(9, pool)
    arrays, count, pairs = constraints.arrays, len(constraints), 36
    A = constraint_matrix(*arrays[:3], pairs)
    assert {tuple(row) for row in A} <= {tuple(row) for row in all_triangles(9)}
    x, z, half = rng.normal(size=pairs), arrays.dual, count // 2
    parts = ((0, half), (half, count))
    assert sum(dual_product(x, arrays, *part) for part in parts) == pytest.approx(z @ A @ x)
    assert constraints.product(x) == pytest.approx(z @ A @ x)
    worst = max(largest_violation(x, arrays, *part) for part in parts)
    assert worst == constraints.violation(x) == pytest.approx((A @ x).max())
    assert largest_violation(np.ones(pairs), arrays, 0, count) == 0.0
    u = np.zeros(pairs)
    for part in parts:
        add_transposed(u, arrays, *part)
    np.testing.assert_allclose(u, A.T @ z, atol=1e-12)
    np.testing.assert_array_equal(constraints.transposed(), u)


def test_triangles_come_back():
    with ThreadPool(1) as pool:
        constraints, _ = random_constraints(7, pool)
        constraints.duals.dual[::2] = 0.0
        triangles, duals = constraints.triangles()
        again = TriangleConstraints.from_triangles(7, pool, triangles, duals)
        np.testing.assert_array_equal(again.duals.dual, constraints.duals.dual[1::2])
        np.testing.assert_array_equal(again.duals.keys, constraints.duals.keys[1::2])
        kept = constraints.duals.previous != 0
        fewer = constraints.merged(np.empty(0, np.int64))
        assert len(fewer) == kept.sum()

"""Rows of triangles as numbers: they come back, and those of one colour never meet."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from metricmix.nearness.constraints import (
    PLACES,
    blocks_for,
    merge,
    pair_of,
    read_keys,
    sides_of,
    write_keys,
)


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
    sides = [np.empty(len(rows), np.int32) for _ in range(3)]
    sides_of(keys, size, blocks, 0, len(rows), *sides)
    for column, (a, b) in zip(sides, ((0, 1), (0, 2), (2, 1)), strict=True):
        expected = [pair_of(int(row[a]), int(row[b])) for row in rows]
        np.testing.assert_array_equal(column, expected)


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
def test_merging(forget):
    keys = np.array([1, 3, 5, 7], np.int64)
    z, before = np.array([0.0, 2.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0, 0.0])
    fresh = np.array([0, 3, 4, 7, 9], np.int64)
    out = np.empty(9, np.int64), np.empty(9), np.empty(9)
    count = merge(keys, z, before, fresh, *out, forget)
    expected = [0, 3, 4, 5, 7, 9] if forget else [0, 1, 3, 4, 5, 7, 9]
    assert out[0][:count].tolist() == expected
    assert dict(zip(out[0][:count].tolist(), out[1][:count].tolist(), strict=True))[3] == 2.0
    assert dict(zip(out[0][:count].tolist(), out[2][:count].tolist(), strict=True))[5] == 1.0

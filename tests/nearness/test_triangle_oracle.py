"""The separation oracle finds all violated pairs, whatever the signs, and their violations."""

from __future__ import annotations

import numpy as np
import pytest

from metricmix.kernels.minplus import Packed, panel_width
from metricmix.kernels.minplus_tile import STRIP
from metricmix.kernels.threads import ThreadPool
from metricmix.kernels.triangles import lower_by_rounds
from metricmix.nearness import triangle_oracle
from metricmix.nearness.constraints import key_of, read_keys
from metricmix.nearness.problem import pairs_of
from metricmix.nearness.triangle_oracle import (
    SelectedTriangles,
    count_violated,
    find_violated,
    select_violated,
)
from reference.closure import broken_triangles, minplus


def look(D, threads=1, blocks=1, **options):
    settings = {"tolerance": 1e-12, "share": 0.5, "most": 3} | options
    n = len(D)
    with ThreadPool(threads) as pool, pytest.MonkeyPatch.context() as patch:
        patch.setattr(triangle_oracle, "blocks_for", lambda n: blocks)
        selection = SelectedTriangles(**settings)
        found = find_violated(pairs_of(D), n, pool, selection, lambda rows, low: 0.0)
    rows = np.empty((len(found.keys), 3), np.int32)
    read_keys(found.keys, -(-n // blocks), blocks, rows)
    return found, rows


@pytest.mark.parametrize("shift", [0.0, -0.4])
@pytest.mark.parametrize("n", [3, 12, 70])
def test_finds_the_violated_pairs(n, shift):
    rng = np.random.default_rng(n)
    D = np.tril(rng.random((n, n)) + shift, -1)
    D = D + D.T
    worst, pairs = broken_triangles(D, 1e-12)
    found, rows = look(D)
    assert found.worst == pytest.approx(max(worst, 0))
    assert found.pairs == len(pairs)
    assert {(j, i) for i, j, _ in rows.tolist()} == pairs
    i, j, k = rows.T
    excess = D[i, j] - D[i, k] - D[k, j]
    best = (D[i, j][:, None] - D[i] - D[j]).max(axis=1)
    assert (excess >= 0.5 * best - 1e-12).all()
    _, counts = np.unique(rows[:, :2], axis=0, return_counts=True)
    assert counts.max(initial=0) <= 3


def test_threads_and_tolerance():
    rng = np.random.default_rng(0)
    D = np.tril(rng.random((200, 200)), -1)
    D = D + D.T
    one, _ = look(D, blocks=4)
    two, _ = look(D, threads=3, blocks=4)
    np.testing.assert_array_equal(one.keys, two.keys)
    assert (np.diff(one.keys) > 0).all()
    fewer, rows = look(D, tolerance=0.5)
    assert fewer.worst == one.worst
    assert 0 < fewer.pairs < one.pairs
    i, j, k = rows.T
    assert (D[i, j] - D[i, k] - D[k, j] >= 0.25).all()


@pytest.mark.parametrize("low", [0, 5])
def test_kernels(low):
    """Counting and selecting in rows low .. n - 1, against three nested loops."""
    n, tolerance, share = 40, 0.1, 0.6
    D = np.tril(np.random.default_rng(1).random((n, n)), -1)
    D = D + D.T
    shortest = np.ascontiguousarray(minplus(D, D, D)[low:])
    violated = [
        (i, j)
        for i in range(low, n)
        for j in range(i)
        if D[i, j] - shortest[i - low, j] > tolerance
    ]
    count, worst = count_violated(D, shortest, low, SelectedTriangles(tolerance, share, n))
    assert count == len(violated)
    assert worst == max((D[low:] - shortest)[np.tri(n, dtype=bool)[low:]])
    for most in (2, n):
        keys = np.empty(count * most, np.int64)
        selection = SelectedTriangles(tolerance, share, most)
        found = select_violated(D, shortest, low, selection, n, 1, keys)
        expected = {}
        for i, j in violated:
            limit = D[i, j] - share * (D[i, j] - shortest[i - low, j])
            ks = [k for k in range(n) if D[i, k] + D[j, k] <= limit]
            expected[i, j] = {key_of(i, j, k, n, 1) for k in ks}
        chosen = set(keys[:found].tolist())
        assert len(chosen) == found == sum(min(most, len(ks)) for ks in expected.values())
        assert chosen <= set().union(*expected.values())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("rows", "columns"), [(7, 40), (13, 20)])
def test_rounds_of_detours(rows, columns, dtype):
    """Over some intermediate items only, several at a time."""
    matrix = np.random.default_rng(rows).normal(size=(40, 40)).astype(dtype)
    low, first, last, depth = 3, 8, 32, 8
    shortest = matrix[low : low + rows, :columns].copy()
    strips = Packed.empty(rows, depth, STRIP, dtype)
    panels = Packed.empty(columns, depth, panel_width(dtype), dtype)
    highs = np.full((len(strips.parts), len(panels.parts)), np.inf, dtype)
    packed = (strips, panels, highs, dtype(1))
    lower_by_rounds(shortest, matrix, low, columns, first, last, *packed)
    A, B = matrix[low : low + rows, first:last], matrix[first:last, :columns]
    expected = minplus(A, B, matrix[low : low + rows, :columns])
    np.testing.assert_array_equal(shortest, expected)

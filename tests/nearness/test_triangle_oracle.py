"""The oracle finds what is broken, whatever the signs, and says how badly."""

from __future__ import annotations

import numpy as np
import pytest

from metricmix.kernels.threads import Crew
from metricmix.nearness.constraints import read_keys
from metricmix.nearness.triangle_oracle import broken_rows
from reference.closure import broken_triangles


def look(D, threads=1, blocks=1, **options):
    size = -(-len(D) // blocks)
    settings = {"tolerance": 1e-12, "share": 0.5, "most": 3} | options
    with Crew(threads) as crew:
        found = broken_rows(
            D, crew, size=size, blocks=blocks, objective=lambda rows, low: 0.0, **settings
        )
    rows = np.empty((len(found.keys), 3), np.int32)
    read_keys(found.keys, size, blocks, rows)
    return found, rows


@pytest.mark.parametrize("shift", [0.0, -0.4])
@pytest.mark.parametrize("n", [3, 12, 70])
def test_finds_the_broken_pairs(n, shift):
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

"""Blocks of labelled items."""

from __future__ import annotations

import numpy as np
import pytest

from metricmix.objectives.class_means import deal


@pytest.mark.parametrize("seed", range(20))
def test_blocks_are_fair(seed):
    rng = np.random.default_rng(seed)
    C = rng.integers(2, 9)
    codes = np.concatenate([np.arange(C), [0], rng.integers(0, rng.integers(1, C + 1), 60)])
    block_size = int(rng.integers(2, 30))
    blocks = deal(codes, block_size)
    assert np.array_equal(blocks, deal(codes, block_size))
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

"""Dealing labelled items into blocks that look alike."""

from __future__ import annotations

import numpy as np

from metricmix.objectives.base import Indices

__all__ = ["deal"]


def deal(codes: Indices, block_size: int) -> Indices:
    """Deal items into blocks, class by class: (n_blocks, B) positions, -1 where a block is short.

    A class of k items is spread over all blocks, or over k // 2 of them if there are more, so that
    no item loses the others of its class. There are about ``len(codes) / block_size`` blocks, or
    fewer where that is needed for each to hold two classes, one of them with two items.

    Examples
    --------
    >>> deal(np.array([0, 0, 0, 0, 1, 1, 1, 1, 1]), 4).shape
    (2, 5)
    """
    sizes = np.bincount(codes)
    n_blocks = max(1, round(len(codes) / block_size))
    while True:
        parts = np.minimum(n_blocks, np.maximum(1, sizes // 2))
        if parts.sum() >= 2 * n_blocks and parts[sizes > 1].sum() >= n_blocks:
            break
        n_blocks -= 1
    # Always the same deal, but not by the order of the items, which may mean something.
    rng = np.random.default_rng(0)
    held = np.zeros((2, n_blocks), dtype=np.int64)  # items and classes in each block
    block_of = np.empty(len(codes), dtype=np.int64)
    for c in np.argsort(-sizes, kind="stable"):
        emptiest = np.lexsort(held)[: parts[c]]
        members = rng.permutation(np.flatnonzero(codes == c))
        block_of[members] = emptiest[np.arange(len(members)) % parts[c]]
        held[0] += np.bincount(block_of[members], minlength=n_blocks)
        held[1, emptiest] += 1
    order = np.argsort(block_of, kind="stable")
    starts = np.cumsum(held[0]) - held[0]
    blocks = np.full((n_blocks, held[0].max()), -1)
    blocks[block_of[order], np.arange(len(codes)) - starts[block_of[order]]] = order
    return blocks

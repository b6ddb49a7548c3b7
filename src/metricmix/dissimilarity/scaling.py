"""Bringing sources to a common size."""

from __future__ import annotations

import numpy as np

from metricmix.dissimilarity.sources import DenseSource, Source

__all__ = ["SCALINGS", "scale_of"]

SCALINGS = ("none", "norm", "mean", "max")
ROWS_FOR_SCALE = 2048
"""Computed sources with more items than this are scaled by a random sample of as many rows."""


def scale_of(source: Source, scaling: str) -> float:
    """Return the number that brings `source` to unit root mean square, mean or maximum."""
    n = source.n
    chosen = np.arange(n)
    if not isinstance(source, DenseSource) and n > ROWS_FOR_SCALE:
        chosen = np.sort(np.random.default_rng(0).choice(n, ROWS_FOR_SCALE, replace=False))
    total, largest = 0.0, 0.0
    for start in range(0, len(chosen), 256):
        rows = np.asarray(source.rows(chosen[start : start + 256]), dtype=np.float64)
        total += float(np.square(rows).sum() if scaling == "norm" else rows.sum())
        largest = max(largest, float(rows.max()))
    pairs = len(chosen) * (n - 1)
    scale = {"norm": np.sqrt(total / pairs), "mean": total / pairs, "max": largest}[scaling]
    return float(scale) if scale > 0 else 1.0  # an all-zero source stays as it is

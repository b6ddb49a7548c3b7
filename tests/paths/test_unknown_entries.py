"""Unknown entries along shortest ways."""

from __future__ import annotations

import numpy as np

from metricmix.metric import is_metric
from metricmix.paths.all_pairs import fill_along_paths
from reference.triangles import broken_triangles


def with_holes(seed, n, share):
    rng = np.random.default_rng(seed)
    place = rng.normal(size=(n, 2))
    d = np.sqrt(((place[:, None] - place) ** 2).sum(-1))
    holes = np.triu(rng.random((n, n)) < share, 1)
    d[holes | holes.T] = np.nan
    return d


def test_known_entries_of_a_metric_are_completed_to_one():
    for seed in range(5):
        d = with_holes(seed, 30, 0.5)
        filled = fill_along_paths(d)
        known = ~np.isnan(d)
        assert (filled[known] == d[known]).all()
        assert is_metric(filled)


def test_items_without_a_way_between_them():
    d = np.full((5, 5), np.nan)
    np.fill_diagonal(d, 0)
    d[0, 1] = d[1, 0] = 4.0
    d[1, 2] = d[2, 1] = 3.0
    filled = fill_along_paths(d)
    assert filled[0, 2] == 7.0
    assert filled[0, 4] == 7.0
    assert is_metric(filled)


def test_what_is_broken_stays_broken():
    """A known cycle with one side too long is found although no triangle of it is known."""
    d = np.full((4, 4), np.nan)
    for i, j, length in ((0, 1, 1.0), (1, 2, 1.0), (2, 3, 1.0), (0, 3, 9.0)):
        d[i, j] = d[j, i] = length
    assert not broken_triangles(d)
    assert not is_metric(fill_along_paths(d))

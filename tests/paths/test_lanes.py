"""Distances from many roots together: rows of distances, and searches in slices."""

from __future__ import annotations

import numpy as np
import pytest

from metricmix.paths.lanes import LANES, VECTOR, lanes_per_unit, read_lanes, sweep_lanes
from metricmix.paths.sweeps import open_roots
from tests.reference.paths import all_distances
from tests.reference.sparse import arcs, random_graph


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("budget", [1, 10_000])
def test_lanes_in_slices(seed, budget):
    graph = random_graph(seed)
    d = all_distances(graph.w)
    n = len(d)
    roots = np.random.default_rng(seed).integers(n, size=8)
    queue = open_roots(n, roots, 0.3, np.float64)
    dist = np.full((n, 8), np.inf)
    dist[roots, np.arange(8)] = 0
    while sweep_lanes(arcs(graph.w), budget, dist, *queue) > 0:
        pass
    np.testing.assert_allclose(dist.T, d[roots], rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("lanes", [VECTOR, 3 * VECTOR, LANES])
def test_reading_an_item_lowers_the_rows_of_its_neighbours(dtype, lanes):
    rng = np.random.default_rng(lanes)
    for _ in range(20):
        n = 6
        w = np.where(rng.random((n, n)) < 0.5, np.inf, rng.random((n, n))).astype(dtype)
        dist = (3 * rng.random((n, lanes))).astype(dtype)
        dist[rng.random((n, lanes)) < 0.3] = np.inf
        dist[2] = 9.0  # reached by a long way
        expected, key = dist.copy(), np.full(n, np.inf, dtype)
        lowest = key.copy()
        for v in range(1, n):
            reached = dist[0] + w[0, v]
            fallen = reached[reached < dist[v]]
            expected[v] = np.minimum(dist[v], reached)
            lowest[v] = fallen.min(initial=np.inf)
        block_key = np.full(1, np.inf, dtype)
        found = (dist, np.empty(lanes, dtype))
        read_lanes(arcs(w, dtype), 0, 0.0, found, key, block_key)
        assert np.array_equal(dist, expected)
        assert np.array_equal(key, lowest)
        assert block_key[0] == lowest.min()


@pytest.mark.parametrize("threads", [1, 2, 3, 16])
@pytest.mark.parametrize("roots", [0, 1, 7, 64, 65, 200, 1000])
@pytest.mark.parametrize("most", [1, 4, LANES])
def test_units_hold_all_roots_and_threads_share_them(roots, most, threads):
    lanes = lanes_per_unit(roots, most, threads)
    assert 1 <= lanes <= most
    units = -(-roots // lanes)
    if most == LANES and roots >= threads * LANES:
        assert units >= threads
        assert roots / units > LANES / 2  # no unit is cut into small ones

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metricmix.dissimilarity.breadth_first import (
    adjacency_lists,
    breadth_first,
    breadth_first_all_pairs,
    distances_from_sources,
    distances_to_targets,
    levels_to_targets,
    longest_path,
)


def naive(mask):
    """Distances by one queue per source."""
    n = len(mask)
    d = np.full((n, n), np.inf)
    for source in range(n):
        d[source, source] = 0
        queue = [source]
        for u in queue:
            for v in np.flatnonzero(mask[u]):
                if np.isinf(d[source, v]):
                    d[source, v] = d[source, u] + 1
                    queue.append(v)
    return d


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 40),
    density=st.sampled_from([0.0, 0.02, 0.05, 0.2, 0.9, 1.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_directed_graphs_agree_with_a_plain_queue(n, density, seed):
    mask = np.random.default_rng(seed).random((n, n)) < density
    indptr, indices = adjacency_lists(mask)
    expected = naive(mask)
    np.testing.assert_array_equal(breadth_first_all_pairs(indptr, indices), expected)
    sources = np.random.default_rng(seed).integers(0, n, 5)
    rows = breadth_first(indptr, indices, sources)
    assert rows.dtype == np.int32
    finite = np.where(np.isinf(expected), -1, expected)
    np.testing.assert_array_equal(rows, finite[sources])
    assert longest_path(indptr, indices) == finite.max()


@pytest.mark.parametrize("n", [63, 64, 65, 511, 512, 513, 1030])
def test_word_and_block_boundaries(n):
    graph = nx.gnm_random_graph(n, 2 * n, seed=1)
    mask = nx.to_numpy_array(graph) > 0
    expected = np.full((n, n), np.inf)
    for i, lengths in nx.all_pairs_shortest_path_length(graph):
        expected[i, list(lengths)] = list(lengths.values())
    lists = adjacency_lists(mask)
    np.testing.assert_array_equal(breadth_first_all_pairs(*lists), expected)
    rows = breadth_first(*lists, np.arange(n)).astype(float)
    np.testing.assert_array_equal(np.where(rows < 0, np.inf, rows), expected)
    assert longest_path(*lists) == expected[np.isfinite(expected)].max()


def test_long_paths_and_number_of_threads():
    n = 700
    mask = np.eye(n, k=1, dtype=bool) | np.eye(n, k=-1, dtype=bool)
    lists = adjacency_lists(mask)
    i = np.arange(n)
    expected = np.abs(i[:, None] - i[None, :])
    for n_jobs in (1, 2, 3):
        np.testing.assert_array_equal(breadth_first_all_pairs(*lists, n_jobs=n_jobs), expected)
        np.testing.assert_array_equal(breadth_first(*lists, i, n_jobs=n_jobs), expected)


def test_repeated_and_no_sources():
    lists = adjacency_lists(np.array([[False, True], [False, False]]))
    np.testing.assert_array_equal(breadth_first(*lists, np.array([0, 0])), [[0, 1], [0, 1]])
    assert breadth_first(*lists, np.array([], dtype=int)).shape == (0, 2)


def test_adjacency_lists_of_full_and_empty_masks():
    indptr, indices = adjacency_lists(np.ones((3, 3), dtype=bool))
    np.testing.assert_array_equal(indptr, [0, 3, 6, 9])
    np.testing.assert_array_equal(indices, [0, 1, 2] * 3)
    indptr, indices = adjacency_lists(np.zeros((3, 3), dtype=bool))
    assert not indptr.any()
    assert len(indices) == 0


def test_kernels_for_some_targets_and_some_sources():
    graph = nx.gnp_random_graph(90, 0.03, seed=1, directed=True)
    indptr, indices = adjacency_lists(nx.to_numpy_array(graph) > 0)
    expected = np.full((90, 90), np.inf)
    for i, row in nx.all_pairs_shortest_path_length(graph):
        expected[i, list(row)] = list(row.values())
    out = np.full((90, 90), np.inf)
    distances_to_targets(indptr, indices, 10, 75, out)
    assert np.array_equal(out[:, 10:75], expected[:, 10:75])
    assert np.isinf(out[:, 75:]).all()
    for first, last in ((0, 1), (10, 75), (60, 90), (0, 90)):
        some = expected[:, first:last]
        longest = some[np.isfinite(some)].max()
        assert levels_to_targets(indptr, indices, first, last) == longest
    assert levels_to_targets(*adjacency_lists(np.eye(90, k=1) > 0), 10, 75) == 74  # one long path
    sources = np.array([3, 80, 3])
    rows = np.full((3, 90), -1, np.int32)
    distances_from_sources(indptr, indices, sources, rows)
    assert np.array_equal(np.where(rows < 0, np.inf, rows), expected[sources])

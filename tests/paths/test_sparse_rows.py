"""Searches from some roots to all items over a sparse edge set, and their kernels."""

from __future__ import annotations

import numpy as np
import pytest

from metricmix.dissimilarity import edge_set
from metricmix.dissimilarity.edge_set import EdgeSet
from metricmix.dissimilarity.edge_stack import EdgeStack
from metricmix.kernels.deadline import TimeUp, stop_after
from metricmix.kernels.heap import empty_ball
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.mixture.linear import Mixture
from metricmix.paths import lanes, sparse_rows, sweeps
from metricmix.paths.lanes import run_lanes
from metricmix.paths.sparse_rows import (
    distances_in_blocks,
    nearest_labels_over_edges,
    roots_of,
    search_all,
)
from metricmix.paths.sweeps import (
    BLOCK,
    lower_key,
    open_keys,
    put_label,
    raise_threshold,
    read_distance,
    read_labels,
    run_sweeps,
    settle_by_heap,
    sweep,
    sweep_labels,
)
from tests.reference.paths import all_distances
from tests.reference.sparse import arcs, random_graph


def line(n, rng):
    """Return the lengths of a path through n items in a random order."""
    order = rng.permutation(n)
    stack = EdgeStack(EdgeSet(n, order[:-1], order[1:]), rng.random((1, n - 1)))
    return EdgeLengths(stack, Mixture([1.0], link="identity"))


def opened(n, roots, dtype=np.float64):
    """Return the arrays of a sweep that begins at the roots."""
    dist, key = np.full((2, n), np.inf, dtype)
    block_key = np.full(-(-n // BLOCK), np.inf, dtype)
    dist[roots], key[roots], block_key[np.asarray(roots) // BLOCK] = 0, 0, 0
    return dist, key, block_key, np.array([0.0, 0.3, 0.3], dtype)


# -- agreement ------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", range(0, 1000, 100))
def test_distances_agree_with_the_textbook_on_many_graphs(first, monkeypatch):
    monkeypatch.setattr(edge_set, "SMALL", 0)
    for seed in range(first, first + 100):
        graph = random_graph(seed, largest=20)
        d = all_distances(graph.w)
        roots = np.random.default_rng(seed).integers(len(d), size=9)
        found = np.empty((9, len(d)))
        for some, rows in distances_in_blocks(graph.lengths, roots, n_jobs=1):
            found[some] = rows
        np.testing.assert_allclose(found, d[roots], rtol=graph.rtol, err_msg=str(seed))
        dist, pred = search_all(graph.lengths, roots[:2], reverse=True)
        np.testing.assert_allclose(dist, d[:, roots[:2]].min(axis=1), rtol=graph.rtol)
        for v in np.flatnonzero(pred >= 0):  # here the edge leads from the item to the next one
            assert np.isclose(dist[v], graph.w[v, pred[v]] + dist[pred[v]], rtol=graph.rtol)


@pytest.mark.parametrize("first", range(0, 2000, 400))
def test_distances_agree_with_scipy_on_many_graphs(first):
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    for seed in range(first, first + 400):
        graph = random_graph(seed)
        sparse = graph.lengths.arcs()
        if not (sparse.lengths > 0).all():
            continue  # scipy may drop edges of length 0
        n = graph.lengths.n
        matrix = csr_array((sparse.lengths.astype(float), sparse.ends, sparse.indptr), (n, n))
        d = dijkstra(matrix, indices=[0, n - 1])
        for s, root in enumerate((0, n - 1)):
            found = search_all(graph.lengths, np.array([root]))[0]
            np.testing.assert_allclose(found, d[s], rtol=graph.rtol, err_msg=str(seed))


@pytest.mark.parametrize("seed", range(30))
def test_distances_agree_with_networkx_and_igraph(seed):
    import networkx as nx

    graph = random_graph(seed)
    there = np.argwhere(np.isfinite(graph.w) & ~np.eye(len(graph.w), dtype=bool))
    edges = [(int(u), int(v), float(graph.w[u, v])) for u, v in there]
    other = nx.DiGraph()
    other.add_nodes_from(range(len(graph.w)))
    other.add_weighted_edges_from(edges)
    lengths = nx.single_source_dijkstra_path_length(other, 0)
    expected = [lengths.get(v, np.inf) for v in range(len(graph.w))]
    found = search_all(graph.lengths, np.array([0]))[0]
    np.testing.assert_allclose(found, expected, rtol=graph.rtol)
    igraph = pytest.importorskip("igraph")
    third = igraph.Graph(n=len(graph.w), edges=[e[:2] for e in edges], directed=True)
    expected = third.distances(0, weights=[e[2] for e in edges])[0]
    np.testing.assert_allclose(found, expected, rtol=graph.rtol)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_algorithm_gives_the_same_bits(dtype, monkeypatch):
    """Sweeps, lanes and the heap find the same fixed point, in any order of the items."""
    rng = np.random.default_rng(0)
    n = 1500
    edges = EdgeSet(n, *rng.integers(n, size=(2, 6000)))
    values = (10.0 ** rng.uniform(-4, 2, (1, len(edges)))).astype(dtype)
    roots = rng.integers(n, size=12)
    results = []
    for small, waste, budget in ((0, 4, 1 << 18), (1 << 14, 4, 100), (0, -1e9, 100)):
        monkeypatch.setattr(edge_set, "SMALL", small)
        monkeypatch.setattr(sweeps, "WASTE", waste)  # below 0: the heap takes over at once
        for module in (sweeps, lanes):
            monkeypatch.setattr(module, "SLICE", budget)
        stack = EdgeStack(EdgeSet(n, edges.tails, edges.heads), values)
        lengths = EdgeLengths(stack, Mixture([1.0], link="identity"))
        results += [np.array([search_all(lengths, roots[s : s + 1])[0] for s in range(12)])]
        for few, jobs in ((8, 1), (99, 1), (4, 2)):
            monkeypatch.setattr(sparse_rows, "FEW_ROOTS", few)
            found = np.empty((12, n))
            for some, rows in distances_in_blocks(lengths, roots, n_jobs=jobs):
                found[some] = rows
            results.append(found)
    assert all(np.array_equal(found, results[0]) for found in results)


def test_searches_one_by_one_where_waves_arrive_at_different_times():
    rng = np.random.default_rng(0)
    lengths = line(4000, rng)
    roots = rng.permutation(4000)[:32].astype(np.int32)
    arcs_ = lengths.arcs()
    assert not run_lanes(arcs_, np.sort(roots), 0.1, np.full((4000, 32), np.inf))
    place = np.empty((32, 4000))
    for some, rows in distances_in_blocks(lengths, roots, n_jobs=1):
        place[some] = rows
    alone = np.array([run_sweeps(arcs_, roots[s : s + 1], 0.1) for s in range(32)])
    assert np.array_equal(place, alone)


def test_blocks_hold_every_root_once_and_are_as_small_as_asked():
    lengths = line(300, np.random.default_rng(1))
    roots = np.array([5, 5, 200, 17, 3, 299, 0, 44, 45, 46, 47])
    seen = []
    for some, rows in distances_in_blocks(lengths, roots, block=4, n_jobs=2):
        assert len(some) <= 4
        assert rows.shape == (len(some), 300)
        assert rows.dtype == np.float64
        assert (rows[np.arange(len(some)), roots[some]] == 0).all()
        seen += some.tolist()
    assert sorted(seen) == list(range(11))
    assert list(distances_in_blocks(lengths, roots[:0])) == []


def test_a_deadline_stops_a_search():
    lengths = line(300, np.random.default_rng(1))
    with stop_after(60.0) as deadline:
        blocks = distances_in_blocks(lengths, np.arange(300), n_jobs=1)
        next(blocks)
        deadline.stopped = True
        with pytest.raises(TimeUp):
            next(blocks)


# -- kernels --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("budget", [1, 7, 10_000])
def test_sweeps_in_slices(seed, budget):
    graph = random_graph(seed)
    d = all_distances(graph.w)[0]
    dist, key, block_key, state = opened(len(d), [0])
    pred = np.full(len(d), -1, np.int32)
    while sweep(arcs(graph.w), budget, dist, key, block_key, state, pred) > 0:
        assert (d[dist < state[0]] <= dist[dist < state[0]] * (1 + 1e-12)).all()
    np.testing.assert_allclose(dist, d, rtol=1e-12)
    assert np.isinf(key).all()
    inner = np.flatnonzero(pred >= 0)
    assert np.array_equal(inner, np.flatnonzero(np.isfinite(d) & (np.arange(len(d)) > 0)))
    assert np.array_equal(dist[inner], dist[pred[inner]] + graph.w[pred[inner], inner])


def test_the_threshold_always_rises():
    state = np.array([0.0, 0.5, 0.5], np.float32)
    raise_threshold(np.float32(2.0), 100, 10, state)
    assert state.tolist() == [2.5, 0.5, 0.5]
    raise_threshold(np.float32(3.0), 1, 10, state)  # few items: a larger step
    assert state.tolist() == [4.0, 1.0, 0.5]
    raise_threshold(np.float32(5.0), 100, 10, state)  # many again
    assert state.tolist() == [5.5, 0.5, 0.5]
    raise_threshold(np.float32(1e9), 100, 10, state)  # a step below the last digit
    assert state[0] > np.float32(1e9)


def test_an_item_is_opened_in_its_block():
    key, block_key = np.full(BLOCK + 2, np.inf), np.full(2, np.inf)
    for v, reached in ((BLOCK + 1, 3.0), (BLOCK, 2.0), (BLOCK, 4.0)):
        lower_key(v, reached, key, block_key)
    assert key[BLOCK:].tolist() == [2.0, 3.0]
    assert block_key.tolist() == [np.inf, 2.0]


def test_reading_an_item_lowers_its_neighbours():
    w = np.array([[0, 1.0, 2.0], [1, 0, np.inf], [2, np.inf, 0]])
    dist, key, block_key, _ = opened(3, [0])
    dist[2], pred = 1.5, np.full(3, -1, np.int32)
    read_distance(arcs(w), 0, 0.0, (dist, pred), key, block_key)
    assert (dist.tolist(), pred.tolist()) == ([0.0, 1.0, 1.5], [-1, 0, -1])
    assert key[1:].tolist() == [1.0, np.inf]
    near, label = (
        np.array([[0.0, 4.0], [0.5, np.inf], [9.0, 9.5]]),
        np.array([[7, 8], [3, -1], [1, 2]]),
    )
    key[:] = np.inf
    read_labels(arcs(w), 0, 4.0, (near, label.astype(np.int32)), key, block_key)
    assert near.tolist() == [[0.0, 4.0], [0.5, 5.0], [6.0, 9.0]]  # label 8 alone goes on
    assert key.tolist() == [np.inf, 5.0, 6.0]


@pytest.mark.parametrize("seed", range(40))
def test_a_heap_finishes_what_a_sweep_began(seed):
    graph = random_graph(seed)
    d = all_distances(graph.w)[0]
    n = len(d)
    dist, key, block_key, state = opened(n, [0])
    pred = np.full(n, -1, np.int32)
    sweep(arcs(graph.w), seed % 5, dist, key, block_key, state, pred)
    ball = empty_ball(n)._replace(dist=dist, pred=pred)
    open_keys(key, ball)
    opened_items = ball.heap[: ball.counts[0]]
    assert sorted(opened_items.tolist()) == np.flatnonzero(np.isfinite(key)).tolist()
    while ball.counts[0] > 0:
        settle_by_heap(arcs(graph.w), 3, ball)
    np.testing.assert_allclose(dist, d, rtol=1e-12)
    inner = np.flatnonzero(pred >= 0)
    assert np.array_equal(dist[inner], dist[pred[inner]] + graph.w[pred[inner], inner])


def test_roots_of_a_forest():
    pred = np.array([-1, 0, 1, -1, 3, -1], np.int32)
    dist = np.array([0.0, 1.0, 2.0, 0.0, 1.0, np.inf])
    root = np.empty(6, np.int32)
    roots_of(dist, pred, root)
    assert root.tolist() == [0, 0, 0, 3, 3, -1]


# -- labels ---------------------------------------------------------------------------------------


def nearest_by_sorting(d, items, labels, k):
    """Return the k smallest distances to different labels, from all distances."""
    unique = np.unique(labels)
    best = np.array([d[:, items[labels == c]].min(axis=1) for c in unique]).T
    best = np.pad(np.sort(best, axis=1), ((0, 0), (0, k)), constant_values=np.inf)
    return best[:, :k]


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_nearest_labels_agree_with_sorting(first, monkeypatch):
    monkeypatch.setattr(edge_set, "SMALL", 0)
    for seed in range(first, first + 50):
        graph = random_graph(seed)
        d = all_distances(graph.w)
        rng = np.random.default_rng(seed)
        items = np.unique(rng.integers(len(d), size=8))
        labels = rng.integers(4, size=len(items))
        k = int(rng.integers(1, 5))
        dist, label = nearest_labels_over_edges(graph.lengths, items, labels, k)
        expected = nearest_by_sorting(d, items, labels, k)
        np.testing.assert_allclose(dist, expected, rtol=graph.rtol, err_msg=str(seed))
        assert np.array_equal(label < 0, np.isinf(dist))
        for v, slot in np.argwhere(label >= 0):
            to_label = d[v, items[labels == label[v, slot]]].min()
            assert np.isclose(to_label, dist[v, slot], rtol=graph.rtol)
        for row in label:
            known = row[row >= 0]
            assert len(set(known)) == len(known)


def test_a_label_is_put_in_its_place():
    dist = np.array([[0.0, 2.0, np.inf]])
    labels = np.array([[7, 8, -1]], np.int32)
    assert put_label(0, 1.0, 9, dist, labels)
    assert dist.tolist() == [[0.0, 1.0, 2.0]]
    assert labels.tolist() == [[7, 9, 8]]
    assert put_label(0, 0.5, 8, dist, labels)  # a shorter path to a known one
    assert dist.tolist() == [[0.0, 0.5, 1.0]]
    assert labels.tolist() == [[7, 8, 9]]
    assert not put_label(0, 0.7, 8, dist, labels)
    assert put_label(0, 0.2, 5, dist, labels)  # the last one falls out
    assert labels.tolist() == [[7, 5, 8]]


@pytest.mark.parametrize("seed", range(20))
def test_labels_in_slices(seed):
    graph = random_graph(seed)
    d = all_distances(graph.w)
    n = len(d)
    items = np.unique(np.random.default_rng(seed).integers(n, size=5))
    _, key, block_key, state = opened(n, items)
    dist, label = np.full((n, 2), np.inf), np.full((n, 2), -1, np.int32)
    dist[items, 0], label[items, 0] = 0, items
    while sweep_labels(arcs(graph.w.T), 3, dist, label, key, block_key, state) > 0:
        pass
    np.testing.assert_allclose(dist, nearest_by_sorting(d, items, items, 2), rtol=1e-12)


def test_lengths_of_very_different_sizes_do_not_stop_labels(monkeypatch):
    monkeypatch.setattr(sweeps, "WASTE", -(10**9))
    graph = random_graph(2)
    d = all_distances(graph.w)
    items = np.arange(min(3, len(d)))
    dist, _ = nearest_labels_over_edges(graph.lengths, items, items, 2)
    expected = nearest_by_sorting(d, items, items, 2)
    np.testing.assert_allclose(dist, expected, rtol=graph.rtol)

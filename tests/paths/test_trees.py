"""Shortest-path trees of some or all items, and flows on them."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import metricmix as mm
from metricmix.mixture import edge_lengths
from metricmix.mixture.edge_lengths import lengths_of
from metricmix.paths import shortest_path_trees
from metricmix.paths.pair import trace_edges
from metricmix.paths.trees import (
    ROOTS_PER_CLOSURE,
    any_predecessor,
    bellman_ford,
    bellman_ford_in_blocks,
    dijkstra_trees,
    find_predecessors,
    push_flow,
    trees_from_closure,
)
from reference.instances import on_demand, random_lengths, random_sources, whole_lengths
from reference.paths import all_distances, by_enumeration, path_length

SIZES = [1, 2, 3, 63, 64, 65, 130]


def both_ways(w, roots, directed):
    """Trees read off a closure, and trees by searching."""
    roots = np.asarray(roots)
    closed = trees_from_closure(w.copy(), roots, directed=directed)
    searched = dijkstra_trees(lengths_of(w, directed=directed), roots, None)
    return {"closure": closed, "search": searched}


def assert_trees(trees, w, rel=1e-12):
    """Every item hangs on its predecessor by a tight edge, and following them ends at the root."""
    n = len(w)
    for s in range(0, len(trees.roots), 1 + len(trees.roots) // 16):
        root, pred, d = trees.roots[s], trees.predecessors[s], trees.distances[s]
        assert pred[root] == -1
        assert d[root] == 0.0
        for j in range(n):
            path = trees.path(s, j)
            assert (path.nodes[0], path.nodes[-1]) == (root, j)
            assert len(set(path.nodes)) == len(path.nodes)
            assert path.length == d[j]
            assert path_length(w, path.nodes) == pytest.approx(d[j], rel=rel, abs=1e-14)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("n", SIZES)
def test_all_roots(n, directed):
    w = random_lengths(np.random.default_rng(n), n, directed=directed)
    reference = all_distances(w)
    for trees in both_ways(w, np.arange(n), directed).values():
        assert trees.distances == pytest.approx(reference, rel=1e-12)
        assert_trees(trees, w)
    public = shortest_path_trees(w, directed=directed)
    assert public.distances == pytest.approx(reference, rel=1e-12)
    assert public.roots.tolist() == list(range(n))


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_paths_by_enumeration(seed, directed):
    w = random_lengths(np.random.default_rng(seed), 6, directed=directed)
    for trees in both_ways(w, np.arange(6), directed).values():
        for i in range(6):
            for j in range(6):
                assert {trees.path(i, j).nodes} == by_enumeration(w, i, j)[1]


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("n", [6, 20, 66])
def test_plateaus_of_zero_length(n, seed, directed):
    w = whole_lengths(np.random.default_rng(seed), n, directed=directed)
    reference = all_distances(w)
    for trees in both_ways(w, np.arange(n), directed).values():
        assert np.array_equal(trees.distances, reference)
        assert_trees(trees, w)


def test_everything_at_distance_zero():
    for trees in both_ways(np.zeros((9, 9)), np.arange(9), False).values():
        assert not trees.distances.any()
        assert_trees(trees, np.zeros((9, 9)))


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("roots", [[0], [64, 3], [5, 5, 1], list(range(0, 130, 2))])
def test_some_roots_of_a_stack(roots, dtype, directed):
    rng = np.random.default_rng(2)
    sources = random_sources(rng, 130, 2, directed=directed, dtype=dtype)
    stack = mm.DissimilarityStack(sources, directed=directed)
    mixture = mm.Mixture([1.5, -1.2], beta=3.0)
    w = edge_lengths(stack, mixture).matrix()
    trees = shortest_path_trees(stack, mixture, roots)
    assert trees.roots.tolist() == roots
    assert trees.distances == pytest.approx(all_distances(w)[roots], rel=1e-10)
    assert_trees(trees, w, rel=1e-10)
    demanded = shortest_path_trees(on_demand(stack), mixture, roots)
    assert demanded.distances == pytest.approx(trees.distances, rel=1e-12)
    assert np.array_equal(demanded.predecessors, trees.predecessors)


def test_both_ways_are_really_taken():
    # 130 items: 1 or 2 roots are searched, 65 are read off a closure.
    assert 2 * ROOTS_PER_CLOSURE < 130 <= 65 * ROOTS_PER_CLOSURE


@pytest.mark.parametrize("directed", [False, True])
def test_against_networkx(directed):
    w = random_lengths(np.random.default_rng(5), 40, directed=directed)
    graph = nx.from_numpy_array(w, create_using=nx.DiGraph)
    for trees in both_ways(w, np.arange(40), directed).values():
        for i in range(40):
            paths = nx.single_source_dijkstra_path(graph, i)
            assert all(list(trees.path(i, j).nodes) == paths[j] for j in range(40))


@pytest.mark.parametrize(("n_jobs", "directed"), [(2, True), (5, False)])
def test_threads_change_nothing(n_jobs, directed):
    for w in (
        random_lengths(np.random.default_rng(6), 600, directed=directed),  # enough for threads
        whole_lengths(np.random.default_rng(6), 600, directed=directed),
    ):
        one = shortest_path_trees(w, directed=directed, n_jobs=1)
        many = shortest_path_trees(w, directed=directed, n_jobs=n_jobs)
        assert one.distances.tobytes() == many.distances.tobytes()
        assert np.array_equal(one.predecessors, many.predecessors)


def test_lengths_are_left_alone():
    w = random_lengths(np.random.default_rng(0), 20)
    kept = w.copy()
    shortest_path_trees(w)
    shortest_path_trees(w, roots=[0])
    assert np.array_equal(w, kept)


# -- flows ---------------------------------------------------------------------------------------


def naive_flow(trees, demand):
    """Send every demand down its own path, edge by edge."""
    flow = np.zeros_like(demand)
    for s in range(len(trees.roots)):
        for j in range(demand.shape[1]):
            for _, v in trees.path(s, j).edges:
                flow[s, v] += demand[s, j]
    return flow


INSTANCES = {
    "continuous": random_lengths,
    "whole numbers": lambda rng, n, directed: whole_lengths(rng, n, low=1, directed=directed),
    "zeros": whole_lengths,
    "mostly zeros": lambda rng, n, directed: whole_lengths(rng, n, high=2, directed=directed),
}


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("kind", INSTANCES)
@pytest.mark.parametrize("way", ["closure", "search"])
@pytest.mark.parametrize("seed", range(4))
def test_flow_conserves_demand(kind, way, directed, seed):
    rng = np.random.default_rng(seed)
    n = int(rng.choice([2, 7, 30]))
    w = INSTANCES[kind](rng, n, directed=directed)
    trees = both_ways(w, rng.integers(0, n, 5), directed)[way]
    demand = rng.normal(size=(5, n))
    kept = demand.copy()
    flow = trees.edge_flow(demand)
    assert np.array_equal(demand, kept)
    assert flow == pytest.approx(naive_flow(trees, demand), abs=1e-12)
    # The identity that makes the gradient: sum of c d over pairs = sum of f w over edges.
    heads = np.broadcast_to(np.arange(n), flow.shape)
    on_tree = trees.predecessors >= 0
    along = flow[on_tree] @ w[trees.predecessors[on_tree], heads[on_tree]]
    assert (demand * trees.distances).sum() == pytest.approx(along, rel=1e-10, abs=1e-10)


def test_flow_on_a_plateau_whose_numbers_run_backwards():
    # 0 -1- 3 -0- 2 -0- 1: all of 1, 2, 3 lie at distance 1, one behind the other.
    w = np.array([[0, 9, 9, 1], [9, 0, 0, 9], [9, 0, 0, 0], [1, 9, 0, 0]], float)
    trees = shortest_path_trees(w, roots=[0])
    assert trees.predecessors.tolist() == [[-1, 2, 3, 0]]
    assert trees.edge_flow(np.ones((1, 4))).tolist() == [[0.0, 1.0, 2.0, 3.0]]


def test_flow_among_lengths_that_vanish_beside_others():
    # 1e-30 is a length, but 1 + 1e-30 is 1: distances tie although no edge has length 0.
    w = np.array([[0, 9, 9, 1], [9, 0, 1e-30, 9], [9, 1e-30, 0, 1e-30], [1, 9, 1e-30, 0]])
    trees = shortest_path_trees(w, roots=[0])
    assert trees.edge_flow(np.ones((1, 4))).tolist() == [[0.0, 1.0, 2.0, 3.0]]


# -- what is refused -----------------------------------------------------------------------------


def test_bad_arguments_are_refused():
    w = np.zeros((3, 3))
    with pytest.raises(mm.InputError, match="roots: expected item numbers"):
        shortest_path_trees(w, roots=[3])
    with pytest.raises(mm.InputError, match="lengths: expected symmetric"):
        shortest_path_trees(np.array([[0.0, 1.0], [2.0, 0.0]]))
    trees = shortest_path_trees(w, roots=[2])
    with pytest.raises(mm.InputError, match="s: expected item numbers"):
        trees.path(1, 0)
    with pytest.raises(mm.InputError, match="j: expected item numbers"):
        trees.path(0, 3)


def test_no_roots():
    trees = shortest_path_trees(np.zeros((3, 3)), roots=[])
    assert trees.distances.shape == trees.predecessors.shape == (0, 3)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("n", [5, 60, 300])
def test_bellman_ford_gives_the_closure(directed, n):
    rng = np.random.default_rng(n)
    w = random_lengths(rng, n, directed=directed)
    roots = rng.choice(n, 4, replace=False)
    d = bellman_ford(w, roots)
    assert d == pytest.approx(mm.project(w, directed=directed)[roots], rel=1e-12)


def test_bellman_ford_gives_up_on_long_paths():
    place = np.arange(40.0)
    w = (place[:, None] - place) ** 2  # the shortest path goes over every item
    assert bellman_ford(w, np.array([0])) is None
    assert mm.paths.shortest_path_trees(w, roots=[0]).distances[0, -1] == 39


@pytest.mark.parametrize("directed", [False, True])
def test_edges_lead_back_to_the_root(directed):
    rng = np.random.default_rng(3)
    w = random_lengths(rng, 50, directed=directed)
    roots = np.array([7, 3])
    d = mm.project(w, directed=directed)[roots]
    tree, end = (part.ravel() for part in np.indices((2, 50)))
    number, u, v = trace_edges(np.ascontiguousarray(w.T), d, roots, tree, end)
    lengths = np.bincount(number, w[u, v], minlength=100)
    assert lengths == pytest.approx(d.ravel())
    flow = np.bincount(v, minlength=50) - np.bincount(u, minlength=50)
    assert flow[3] + flow[7] == -96  # 48 paths leave each root, two end at the other


def test_edges_of_length_zero_leave_the_path_undefined():
    w = np.zeros((4, 4))
    assert trace_edges(w, w[:1], np.array([0]), np.zeros(1, int), np.array([2])) is not None
    w = np.array([[0, 5, 5, 1.0], [5, 0, 0, 5], [5, 0, 0, 5], [1, 5, 5, 0]])
    d = np.array([[0, 4.0, 4.0, 1]])  # not its distances: items 1 and 2 point at each other
    assert trace_edges(w, d, np.array([0]), np.zeros(1, int), np.array([1])) is None


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weights", [[3.0, 1.0], [8.0, -5.0], [-2.0, -1.0]])
def test_bellman_ford_in_blocks_gives_the_closure(directed, weights):
    rng = np.random.default_rng(1)
    sources = random_sources(rng, 300, 2, directed=directed)
    stack = mm.DissimilarityStack(sources, directed=directed)
    roots = rng.choice(300, 5, replace=False)
    expected = mm.path_metric(stack, weights)[roots]
    for some in (stack, on_demand(stack)):
        d = bellman_ford_in_blocks(edge_lengths(some, weights), roots)
        assert d == pytest.approx(expected, rel=1e-12)


def test_bellman_ford_in_blocks_follows_long_paths():
    place = np.arange(30.0)
    stack = mm.DissimilarityStack([(place[:, None] - place) ** 2])
    lengths = edge_lengths(on_demand(stack), mm.Mixture([1.0], link="identity"))
    assert np.array_equal(bellman_ford_in_blocks(lengths, np.array([0, 3, 9]))[0], place)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("n", SIZES)
def test_predecessors_from_distances(n, directed):
    w = random_lengths(np.random.default_rng(n), n, directed=directed)
    d = all_distances(w)
    into = np.ascontiguousarray(w.T)
    for i in range(0, n, 1 + n // 5):
        pred = np.empty(n, np.int32)
        assert find_predecessors(i, d[i], into, 1e-12, pred)
        assert pred[i] == -1
        for j in range(n):
            if j != i:
                assert d[i, pred[j]] + w[pred[j], j] == pytest.approx(d[i, j], rel=1e-12)
    zeros = np.zeros((3, 3))
    assert find_predecessors(0, zeros[0], zeros, 1e-12, np.empty(3, np.int32))
    between = np.array([[0.0, 9, 9], [9, 0, 0], [9, 0, 0]])  # items 1 and 2 hide each other
    assert not find_predecessors(0, np.array([0.0, 1, 1]), between, 1e-12, np.empty(3, np.int32))


def test_any_predecessor_is_a_loop():
    rng = np.random.default_rng(0)
    for _ in range(50):
        d, row, length = rng.random(5), rng.random(5), rng.random()
        expected = any(a < length and a + b <= length * 1.1 for a, b in zip(d, row, strict=True))
        assert any_predecessor(d, row, length, 0.1) == expected


def test_flow_is_what_lies_behind_each_edge():
    pred = np.array([-1, 0, 0, 1, 1, 3], np.int32)
    demand = np.array([9.0, 1, 2, 4, 8, 16])
    flow = demand.copy()
    push_flow(0, pred, flow)
    expected = np.zeros(6)
    for item in range(1, 6):
        v = item
        while v != 0:
            expected[v] += demand[item]
            v = pred[v]
    assert np.array_equal(flow, expected)


def test_paths_of_many_pairs_are_those_of_one_pair() -> None:
    rng = np.random.default_rng(0)
    w = rng.random((30, 30)) ** 3
    w[rng.random((30, 30)) < 0.96] = np.inf
    np.fill_diagonal(w, 0.0)
    trees = shortest_path_trees(w, roots=[3, 7, 20], directed=True)
    tree, end = rng.integers(3, size=50), rng.integers(30, size=50)
    paths = trees.paths(tree, end)
    for p, (s, j) in enumerate(zip(tree.tolist(), end.tolist(), strict=True)):
        assert paths[p] == trees.path(s, j)
    assert np.isinf(paths.lengths).any()
    number, u, v = paths.edges()
    reached = np.isfinite(paths.lengths)
    sums = np.bincount(number, w[u, v], minlength=50)
    np.testing.assert_allclose(sums[reached], paths.lengths[reached])

"""One shortest path per pair, searched from both ends."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import metricmix as mm
from metricmix.kernels.mixing import length_of
from metricmix.mixture import edge_lengths
from metricmix.paths import bidirectional, shortest_paths
from reference.instances import on_demand, random_lengths, random_sources, whole_lengths
from reference.mixing import lengths as naive_lengths
from reference.paths import all_distances, by_enumeration, path_length

SIZES = [1, 2, 3, 63, 64, 65, 130]  # around the chunks of 64


def all_ordered_pairs(n):
    i, j = np.divmod(np.arange(n * n), n)
    return i, j


def directed_stack(w):
    """Lengths as a stack of one source, which may be directed."""
    return mm.DissimilarityStack([w], directed=True), mm.Mixture([1.0], link="identity")


def assert_real_paths(bundle, w, i, j):
    """Every path joins its ends, visits no item twice, and is as long as it says."""
    for path, start, end in zip(bundle, i, j, strict=True):
        assert (path.nodes[0], path.nodes[-1]) == (start, end)
        assert len(set(path.nodes)) == len(path.nodes)
        assert path.length == pytest.approx(path_length(w, path.nodes), rel=1e-13, abs=1e-15)


# -- against enumeration -------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("n", [2, 3, 4, 6])
def test_enumeration(n, seed):
    w = random_lengths(np.random.default_rng(seed), n)
    for i in range(n):
        for j in range(n):
            path = mm.shortest_path(w, None, i, j)
            length, paths = by_enumeration(w, i, j)
            assert path.length == pytest.approx(length, rel=1e-14)
            assert path.nodes in paths


@pytest.mark.parametrize("seed", range(8))
def test_enumeration_directed(seed):
    w = random_lengths(np.random.default_rng(seed), 6, directed=True)
    stack, mixture = directed_stack(w)
    for i in range(6):
        for j in range(6):
            path = mm.shortest_path(stack, mixture, i, j)
            length, paths = by_enumeration(w, i, j)
            assert path.length == pytest.approx(length, rel=1e-14)
            assert path.nodes in paths


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_enumeration_with_ties_and_zeros(seed, directed):
    w = whole_lengths(np.random.default_rng(seed), 6, directed=directed)
    stack, mixture = directed_stack(w)
    for i in range(6):
        for j in range(6):
            path = mm.shortest_path(stack, mixture, i, j)
            length, paths = by_enumeration(w, i, j)
            assert path.length == length  # whole numbers add up exactly
            assert path.nodes in paths


# -- against textbook searches -------------------------------------------------------------------


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_all_pairs_of_a_matrix(n, directed, dtype):
    w = random_lengths(np.random.default_rng(n), n, directed=directed, dtype=dtype)
    stack, mixture = directed_stack(w)
    i, j = all_ordered_pairs(n)
    bundle = shortest_paths(stack, mixture, i, j)
    assert bundle.lengths.reshape(n, n) == pytest.approx(all_distances(w), rel=1e-12)
    assert_real_paths(bundle, w.astype(float), i, j)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("n", [2, 64, 65])
def test_against_networkx(n, directed):
    w = random_lengths(np.random.default_rng(n), n, directed=directed)
    graph = nx.from_numpy_array(w, create_using=nx.DiGraph)
    stack, mixture = directed_stack(w)
    distances = dict(nx.all_pairs_dijkstra_path_length(graph))
    for i in range(0, n, 7):
        for j in range(0, n, 5):
            path = mm.shortest_path(stack, mixture, i, j)
            assert path.length == pytest.approx(distances[i][j], rel=1e-13)
            if i != j:
                assert list(path.nodes) == nx.dijkstra_path(graph, i, j)


@pytest.mark.parametrize("seed", range(25))
def test_mixtures_of_every_kind(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.choice([5, 20, 64, 70]))
    R = int(rng.integers(1, 5))
    directed = bool(rng.integers(2))
    dtype = rng.choice([np.float32, np.float64])
    beta = float(10.0 ** rng.uniform(-1, 1))
    sources = random_sources(rng, n, R, directed=directed, dtype=dtype)
    scaling = rng.choice([None, "mean", "norm", "max"])
    stack = mm.DissimilarityStack(sources, directed=directed, scaling=scaling)
    weights = rng.normal(0.3, 2.0, R)
    w = naive_lengths([M / s for M, s in zip(sources, stack.scales, strict=True)], weights, beta)
    i, j = rng.integers(0, n, (2, 60))
    mixture = mm.Mixture(weights, beta=beta)
    bundle = shortest_paths(stack, mixture, i, j)
    assert bundle.lengths == pytest.approx(all_distances(w)[i, j], rel=1e-9)
    for path, start, end in zip(bundle, i, j, strict=True):
        assert (path.nodes[0], path.nodes[-1]) == (start, end)
        assert path.length == pytest.approx(path_length(w, path.nodes), rel=1e-9)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("n", [2, 63, 64, 65])
def test_zeros_are_edges(n, directed):
    rng = np.random.default_rng(n)
    w = random_lengths(rng, n, directed=directed)
    chain = rng.permutation(n)
    w[chain[:-1], chain[1:]] = 0.0
    if not directed:
        w[chain[1:], chain[:-1]] = 0.0
    stack, mixture = directed_stack(w)
    i, j = all_ordered_pairs(n)
    bundle = shortest_paths(stack, mixture, i, j)
    assert bundle.lengths.reshape(n, n) == pytest.approx(all_distances(w), rel=1e-12, abs=1e-15)
    assert_real_paths(bundle, w, i, j)
    assert mm.shortest_path(stack, mixture, chain[0], chain[-1]).length == 0.0


def test_all_lengths_zero():
    i, j = all_ordered_pairs(5)
    bundle = shortest_paths(np.zeros((5, 5)), None, i, j)
    assert bundle.lengths.tolist() == [0.0] * 25
    assert bundle[7].nodes == (1, 2)


def test_long_chains():
    # Only steps to the next item are short: paths go through everything in between.
    for n in (63, 64, 65, 130):
        w = np.full((n, n), 1000.0)
        k = np.arange(n - 1)
        w[k, k + 1] = w[k + 1, k] = 1.0
        np.fill_diagonal(w, 0.0)
        assert mm.shortest_path(w, None, 0, n - 1) == mm.Path(n - 1.0, tuple(range(n)))
        assert mm.shortest_path(w, None, n - 1, 3).nodes == tuple(range(n - 1, 2, -1))
        one_way = np.where(np.tri(n, k=-1) > 0, 1000.0, w)
        stack, mixture = directed_stack(one_way)
        assert mm.shortest_path(stack, mixture, 0, n - 1).length == n - 1
        assert mm.shortest_path(stack, mixture, n - 1, 0).nodes == (n - 1, 0)


def test_very_negative_mixtures():
    # Lengths of 1e-300 and less beside lengths of 1: they must neither vanish nor become NaN.
    rng = np.random.default_rng(0)
    stack = mm.DissimilarityStack(random_sources(rng, 40, 2))
    for weights in ([300.0, -500.0], [-800.0, -800.0], [1e4, -1e4]):
        w = edge_lengths(stack, weights).matrix()
        assert (w[~np.eye(40, dtype=bool)] > 0).all()
        i, j = all_ordered_pairs(40)
        bundle = shortest_paths(stack, weights, i, j)
        assert bundle.lengths.reshape(40, 40) == pytest.approx(all_distances(w), rel=1e-9)


# -- ties ----------------------------------------------------------------------------------------


def test_edge_beats_detours_of_the_same_length():
    for seed in range(20):
        w = all_distances(whole_lengths(np.random.default_rng(seed), 12, low=1))
        for i in range(12):
            for j in range(12):
                nodes = mm.shortest_path(w, None, i, j).nodes
                assert nodes == ((i,) if i == j else (i, j))


@pytest.mark.parametrize("directed", [False, True])
def test_ties_are_broken_the_same_way_every_time(directed):
    w = whole_lengths(np.random.default_rng(3), 66, directed=directed)
    stack, mixture = directed_stack(w)
    i, j = (side[::7] for side in all_ordered_pairs(66))
    first = shortest_paths(stack, mixture, i, j, n_jobs=1)
    for n_jobs in (1, 2, 3):
        again = shortest_paths(stack, mixture, i, j, n_jobs=n_jobs)
        for field in ("lengths", "indptr", "nodes", "rows_touched"):
            assert np.array_equal(getattr(first, field), getattr(again, field))
    alone = [mm.shortest_path(stack, mixture, *pair) for pair in zip(i, j, strict=True)]
    assert alone == list(first)
    demanded = shortest_paths(on_demand(stack), mixture, i, j)
    assert list(demanded) == list(first)


# -- where the rows come from --------------------------------------------------------------------


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("scaling", [None, "mean"])
def test_block_and_computed_sources_agree(directed, scaling, tmp_path):
    rng = np.random.default_rng(1)
    n = 66
    sources = random_sources(rng, n, 3, directed=directed)
    stack = mm.DissimilarityStack(sources, directed=directed, scaling=scaling)
    maps = []
    for r, M in enumerate(sources):
        disk = np.memmap(tmp_path / f"{r}.bin", M.dtype, "w+", shape=M.shape)
        disk[...] = M
        maps.append(disk)
    on_disk = mm.DissimilarityStack(maps, directed=directed, scaling=scaling)
    i, j = rng.integers(0, n, (2, 150))
    mixture = mm.Mixture([1.2, -0.7, 0.3], beta=2.0)
    block = shortest_paths(stack, mixture, i, j)
    for other in (on_demand(stack), on_disk):
        found = shortest_paths(other, mixture, i, j)
        assert [p.nodes for p in found] == [p.nodes for p in block]
        assert found.lengths == pytest.approx(block.lengths, rel=1e-12)
        assert np.array_equal(found.rows_touched, block.rows_touched)


def test_few_rows_are_touched():
    # In 60 dimensions two items are nearer than twice the way to a nearest neighbour: once the
    # two ends have been looked at, nothing can be shorter than the edge between them.
    rng = np.random.default_rng(0)
    D = mm.dissimilarity.features(rng.normal(size=(200, 60)))
    i, j = rng.integers(0, 200, (2, 100))
    bundle = shortest_paths(np.asarray(D), None, i, j)
    assert (bundle.rows_touched[i != j] == 2).all()
    assert (bundle.rows_touched[i == j] == 0).all()


def test_computed_rows_are_asked_for_once():
    asked = []
    M = random_lengths(np.random.default_rng(0), 30)

    def rows(items):
        asked.extend(items.tolist())
        return M[items]

    source = mm.dissimilarity.ComputedSource(30, rows, pairs=lambda i, j: M[i, j])
    i, j = all_ordered_pairs(30)
    stack = mm.DissimilarityStack([source])
    asked.clear()  # a few rows are looked at on entering
    shortest_paths(stack, mm.Mixture([1.0], link="identity"), i, j)
    assert len(asked) == len(set(asked))


# -- what is returned, what is refused -----------------------------------------------------------


def test_bundle_of_paths():
    w = np.array([[0, 1, 5, 9], [1, 0, 2, 9], [5, 2, 0, 1], [9, 9, 1, 0]], float)
    bundle = shortest_paths(w, None, [0, 2, 3], [3, 2, 1])
    assert len(bundle) == 3
    assert list(bundle) == [
        mm.Path(4.0, (0, 1, 2, 3)),
        mm.Path(0.0, (2,)),
        mm.Path(3.0, (3, 2, 1)),
    ]
    assert bundle[0].edges == [(0, 1), (1, 2), (2, 3)]
    assert bundle[1].edges == []
    number, u, v = bundle.edges()
    assert number.tolist() == [0, 0, 0, 2, 2]
    assert list(zip(u.tolist(), v.tolist(), strict=True)) == bundle[0].edges + bundle[2].edges


def test_no_pairs():
    for stack in (mm.DissimilarityStack([np.zeros((3, 3))]), np.zeros((3, 3))):
        mixture = [1.0] if isinstance(stack, mm.DissimilarityStack) else None
        bundle = shortest_paths(stack, mixture, [], [])
        assert len(bundle) == 0
        assert all(len(part) == 0 for part in bundle.edges())
    computed = on_demand(mm.DissimilarityStack([np.zeros((3, 3))]))
    assert len(shortest_paths(computed, [1.0], [], [])) == 0


def test_one_item():
    assert mm.shortest_path(np.zeros((1, 1)), None, 0, 0) == mm.Path(0.0, (0,))


def test_whole_numbers_and_lists_are_fine():
    assert mm.shortest_path([[0, 1, 5], [1, 0, 2], [5, 2, 0]], None, 0, 2).nodes == (0, 1, 2)


def test_directed_matrix_of_lengths():
    # The error for an asymmetric matrix says: pass directed=True.
    w = np.array([[0.0, 1.0, 9.0], [9.0, 0.0, 1.0], [1.0, 9.0, 0.0]])
    assert mm.shortest_path(w, None, 0, 2, directed=True).nodes == (0, 1, 2)
    assert mm.shortest_path(w, None, 2, 0, directed=True).nodes == (2, 0)
    assert shortest_paths(w, None, [1], [0], directed=True)[0].nodes == (1, 2, 0)


@pytest.mark.parametrize(
    ("i", "j", "message"),
    [
        (0, 3, r"j: expected item numbers in 0 \.\. 2, found 3"),
        (-1, 0, r"i: expected item numbers in 0 \.\. 2, found -1"),
        (0.5, 0, "i: expected item numbers, got dtype float64"),
        ([0, 1], 0, "i: expected one item number"),
        (None, 0, "i, j: expected two item numbers"),
    ],
)
def test_bad_items_are_refused(i, j, message):
    with pytest.raises(mm.InputError, match=message):
        mm.shortest_path(np.zeros((3, 3)), None, i, j)


def test_bad_arguments_are_refused():
    stack = mm.DissimilarityStack([np.zeros((3, 3))])
    with pytest.raises(mm.InputError, match="mixture: expected a Mixture or weights"):
        mm.shortest_path(stack, None, 0, 1)
    with pytest.raises(mm.InputError, match="mixture: weights go with a DissimilarityStack"):
        mm.shortest_path(np.zeros((3, 3)), [1.0], 0, 1)
    with pytest.raises(mm.InputError, match="mixture: expected 1 weights"):
        mm.shortest_path(stack, [1.0, 2.0], 0, 1)
    with pytest.raises(mm.InputError, match="i, j: expected as many of each, got 2 and 1"):
        shortest_paths(stack, [1.0], [0, 1], [2])
    with pytest.raises(mm.InputError, match="lengths: expected non-negative"):
        mm.shortest_path(np.array([[0.0, -1.0], [-1.0, 0.0]]), None, 0, 1)
    with pytest.raises(mm.InputError, match="lengths: expected finite"):
        mm.shortest_path(np.array([[0.0, np.nan], [np.nan, 0.0]]), None, 0, 1)


def test_ties_do_not_depend_on_what_the_stack_was_used_for():
    rng = np.random.default_rng(11)
    whole = [np.triu(rng.integers(1, 6, (40, 40)), 1).astype(float) for _ in range(2)]
    stack = mm.DissimilarityStack([M + M.T for M in whole])
    weights = rng.normal(size=2)
    pairs = [(i, j) for i in range(40) for j in range(0, 40, 3)]
    fresh = [mm.shortest_path(stack, weights, i, j) for i, j in pairs]
    stack.raw_range()
    assert [mm.shortest_path(stack, weights, i, j) for i, j in pairs] == fresh


@pytest.mark.parametrize("kind", ["continuous", "whole"])
def test_many_pairs_of_computed_sources(kind):
    rng = np.random.default_rng(5)
    w = random_lengths(rng, 80) if kind == "continuous" else whole_lengths(rng, 80)
    stack = on_demand(mm.DissimilarityStack([w]))
    i, j = rng.integers(80, size=(2, 200))
    mixture = mm.Mixture([1.0], link="identity")
    found = mm.paths.shortest_paths(stack, mixture, i, j)
    assert found.lengths == pytest.approx(mm.project(w)[i, j])
    for path, a, b in zip(found, i, j, strict=True):
        assert path.nodes[0] == a
        assert path.nodes[-1] == b
        assert sum(w[u, v] for u, v in path.edges) == pytest.approx(path.length)


def steps(sources, weights, i, j):
    """One search by its steps, with the state after every settled item."""
    n = len(sources[0])
    m = np.tensordot(weights, np.array(sources), axes=1)
    state, floors = bidirectional.BidirectionalState.empty(n), np.zeros((2, n))
    bidirectional.start_pair(i, j, float(length_of(m[i, j], 1.0, 1)), state)
    yield state
    while True:
        side, u = bidirectional.next_item(floors, state)
        if side < 0:
            return
        bidirectional.expand(side, u, m[u] if side == 0 else m[:, u].copy(), 1.0, 1, floors, state)
        yield state


@pytest.mark.parametrize("n", [2, 5, 70])
def test_steps_of_the_search(n):
    rng = np.random.default_rng(n)
    weights = np.array([3.0, -2.0])
    sources = random_sources(rng, n, 2, directed=True)
    w = naive_lengths(sources, weights)
    d = all_distances(w)
    for i, j in rng.choice(n, (5, 2)):
        if i == j:
            continue
        for step, state in enumerate(steps(sources, weights, i, j)):
            if step == 0:
                assert (state.dist[0, i], state.dist[1, j], state.best[1]) == (0.0, 0.0, -1.0)
                assert state.best[0] == pytest.approx(w[i, j])
            for side in range(2):
                assert bidirectional.radius_of(state.chunk_min[side]) == state.key[side].min()
            reached = np.isfinite(state.dist)  # tentative distances are lengths of real paths
            assert (state.dist[0] >= d[i] * (1 - 1e-12))[reached[0]].all()
            assert (state.dist[1] >= d[:, j] * (1 - 1e-12))[reached[1]].all()
            assert state.best[0] >= d[i, j] * (1 - 1e-12)
        assert state.best[0] == pytest.approx(d[i, j], rel=1e-12)
        nodes = state.path[: bidirectional.trace_path(i, j, state)].tolist()
        assert (nodes[0], nodes[-1]) == (i, j)
        assert path_length(w, nodes) == pytest.approx(d[i, j], rel=1e-12)


@pytest.mark.parametrize("directed", [False, True])
def test_kernel_for_many_pairs(directed):
    rng = np.random.default_rng(2)
    sources = random_sources(rng, 40, 2, directed=directed)
    weights = np.array([3.0, -2.0])
    w = naive_lengths(sources, weights)
    lengths = edge_lengths(mm.DissimilarityStack(sources, directed=directed), weights)
    i, j = rng.integers(40, size=(2, 60))
    found, indptr, touched = np.empty(60), np.empty(61, np.int64), np.empty(60, np.int32)
    state = bidirectional.BidirectionalState.empty(40)
    nodes = bidirectional.find_paths(
        lengths.dense, directed, lengths.floors(), i, j, state, found, indptr, touched
    )
    assert found == pytest.approx(all_distances(w)[i, j], rel=1e-12)
    for p in range(60):
        path = nodes[indptr[p] : indptr[p + 1]].tolist()
        assert (path[0], path[-1]) == (i[p], j[p])
        assert path_length(w, path) == pytest.approx(found[p], rel=1e-12, abs=1e-300)
        assert (touched[p] == 0) == (i[p] == j[p])

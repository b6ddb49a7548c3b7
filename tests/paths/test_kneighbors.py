"""The k nearest items in the path metric, against a sort of all distances."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import issparse
from sklearn.cluster import DBSCAN
from sklearn.neighbors import KNeighborsClassifier, kneighbors_graph

import metricmix as mm
from metricmix.mixture import edge_lengths
from reference.instances import on_demand, random_lengths, random_sources, whole_lengths
from reference.paths import all_distances


def brute_force(w, k, d=None):
    """Distances and numbers of the k nearest others; ties by number."""
    d = all_distances(w) if d is None else d
    alone = d + np.diag(np.full(len(d), np.inf))
    order = np.argsort(alone, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(d, order, axis=1), order


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("n", [2, 3, 63, 64, 65, 130])
def test_brute_force(n, directed):
    w = random_lengths(np.random.default_rng(n), n, directed=directed)
    d = all_distances(w)
    for k in sorted({1, 2, min(7, n - 1), n - 2, n - 1}):
        if 1 <= k < n:
            distances, neighbours = mm.kneighbors(w, k=k, directed=directed)
            expected = brute_force(w, k, d)
            assert distances == pytest.approx(expected[0], rel=1e-12)
            assert np.array_equal(neighbours, expected[1])


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("k", [1, 2, 5, 10])
def test_ties_go_to_the_lowest_number(k, directed):
    for seed in range(8):
        rng = np.random.default_rng(seed)
        n = int(rng.choice([12, 40, 70]))
        w = whole_lengths(rng, n, low=1, high=5, directed=directed)
        distances, neighbours = mm.kneighbors(w, k=k, directed=directed)
        expected = brute_force(w, k)
        assert np.array_equal(distances, expected[0])
        assert np.array_equal(neighbours, expected[1])


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("k", [1, 2, 5, 10])
def test_zeros_are_edges(k, directed):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        n = int(rng.choice([12, 40, 70]))
        w = whole_lengths(rng, n, directed=directed)
        distances, neighbours = mm.kneighbors(w, k=k, directed=directed)
        assert np.array_equal(distances, brute_force(w, k)[0])
        d = all_distances(w)
        assert np.array_equal(distances, d[np.arange(n)[:, None], neighbours])
        assert all(len({i, *row}) == k + 1 for i, row in enumerate(neighbours.tolist()))


def test_ties_behind_an_edge_of_length_zero():
    # From 2, both 0 and 1 lie at distance 1, but 0 only by way of 1.
    w = np.array([[0.0, 0.0, 5.0], [0.0, 0.0, 1.0], [5.0, 1.0, 0.0]])
    distances, neighbours = mm.kneighbors(w, k=2, items=[2])
    assert distances.tolist() == [[1.0, 1.0]]
    assert neighbours.tolist() == [[0, 1]]


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_mixture_by_blocks_and_on_demand(dtype, directed):
    rng = np.random.default_rng(3)
    sources = random_sources(rng, 66, 3, directed=directed, dtype=dtype)
    stack = mm.DissimilarityStack(sources, directed=directed, scaling="norm")
    mixture = mm.Mixture([1.4, -1.0, 0.2], beta=2.0)
    w = edge_lengths(stack, mixture).matrix()
    distances, neighbours = mm.kneighbors(stack, mixture, 6)
    expected = brute_force(w, 6)
    assert distances == pytest.approx(expected[0], rel=1e-10)
    assert np.array_equal(neighbours, expected[1])
    demanded = mm.kneighbors(on_demand(stack), mixture, 6)
    assert np.array_equal(demanded[1], neighbours)
    assert demanded[0] == pytest.approx(distances, rel=1e-12)


def test_some_items():
    w = random_lengths(np.random.default_rng(4), 30)
    everything = mm.kneighbors(w, k=4)
    some = mm.kneighbors(w, k=4, items=[7, 0, 7])
    for a, b in zip(some, everything, strict=True):
        assert np.array_equal(a, b[[7, 0, 7]])
    assert mm.kneighbors(w, k=4, items=[])[0].shape == (0, 4)


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_threads_change_nothing(n_jobs):
    w = whole_lengths(np.random.default_rng(5), 70, low=1)
    for a, b in zip(mm.kneighbors(w, k=5), mm.kneighbors(w, k=5, n_jobs=n_jobs), strict=True):
        assert np.array_equal(a, b)


def test_only_the_rows_of_the_nearest_are_asked_for():
    asked = []
    M = random_lengths(np.random.default_rng(0), 50)

    def rows(items):
        asked.extend(items.tolist())
        return M[items]

    stack = mm.DissimilarityStack([mm.dissimilarity.ComputedSource(50, rows)])
    asked.clear()  # a few rows are looked at on entering
    mm.kneighbors(stack, mm.Mixture([1.0], link="identity"), 3, items=[10])
    assert len(asked) <= 4  # its own, and those of the three nearest
    assert asked[0] == 10


# -- as a graph ----------------------------------------------------------------------------------


def test_graph_is_that_of_sklearn():
    w = random_lengths(np.random.default_rng(6), 40)
    d = all_distances(w)
    for mode in ("distance", "connectivity"):
        graph = mm.kneighbors_graph(w, k=5, mode=mode)
        expected = kneighbors_graph(d, 5, mode=mode, metric="precomputed")
        assert issparse(graph)
        assert graph.shape == (40, 40)
        assert graph.toarray() == pytest.approx(expected.toarray(), rel=1e-12)
        assert np.array_equal(np.diff(graph.indptr), np.full(40, 5))


def blobs():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(c, 0.3, (15, 2)) for c in ((0, 0), (5, 0), (0, 5))])
    return np.asarray(mm.dissimilarity.features(X)), np.repeat([0, 1, 2], 15)


def test_graph_feeds_sklearn():
    w, y = blobs()
    graph = mm.kneighbors_graph(w, k=8)
    found = DBSCAN(eps=1.0, min_samples=4, metric="precomputed").fit_predict(graph)
    dense = DBSCAN(eps=1.0, min_samples=4, metric="precomputed").fit_predict(all_distances(w))
    assert np.array_equal(found, dense)
    assert np.array_equal(found, y)
    classifier = KNeighborsClassifier(4, metric="precomputed").fit(graph, y)
    assert classifier.score(graph, y) == 1.0


def test_graph_keeps_neighbours_at_distance_zero():
    graph = mm.kneighbors_graph(np.zeros((4, 4)), k=2)
    assert graph.nnz == 8
    assert not graph.data.any()


# -- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("k", [0, -1, 5, 100])
def test_impossible_numbers_of_neighbours(k):
    expected = r"k: expected (1 \.\. 4, the number of other items|a whole number)"
    with pytest.raises(mm.InputError, match=expected):
        mm.kneighbors(np.zeros((5, 5)), k=k)


def test_one_item_has_no_neighbour():
    with pytest.raises(mm.InputError, match="k: expected"):
        mm.kneighbors(np.zeros((1, 1)), k=1)


def test_bad_arguments_are_refused():
    with pytest.raises(mm.InputError, match="mode: expected one of 'distance', 'connectivity'"):
        mm.kneighbors_graph(np.zeros((5, 5)), k=2, mode="similarity")
    with pytest.raises(mm.InputError, match="items: expected item numbers"):
        mm.kneighbors(np.zeros((5, 5)), k=2, items=[5])


def test_graph_feeds_hdbscan_and_tsne():
    from sklearn.cluster import HDBSCAN
    from sklearn.manifold import TSNE

    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)) + 6 * rng.integers(2, size=60)[:, None]
    w = np.sqrt(((X[:, None] - X) ** 2).sum(-1))
    graph = mm.kneighbors_graph(w, k=40, symmetric=True)
    assert abs(graph - graph.T).max() == 0
    found = HDBSCAN(metric="precomputed", copy=True).fit(graph).labels_
    assert len(set(found) - {-1}) == 2
    plain = mm.kneighbors_graph(w, k=32)
    flat = TSNE(metric="precomputed", init="random", perplexity=10, max_iter=250, random_state=0)
    assert flat.fit_transform(plain).shape == (60, 2)

"""Paths from new items, against the closure of everything together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import metricmix as mm
from metricmix.kernels.minplus import min_plus
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.paths.dijkstra import (
    Goal,
    SearchState,
    nearest_wanted,
    open_entries,
    take_wanted,
)
from metricmix.paths.neighbours import nearest_labels
from metricmix.paths.out_of_sample import (
    NewItems,
    nearest_by_table,
)
from reference.closure import minplus as slow_minplus
from reference.instances import on_demand, random_sources, whole_lengths
from reference.mixing import lengths as naive_lengths
from reference.paths import all_distances

KINDS = {
    "plain": {},
    "mixed signs": {"weights": [1.4, -1.0, 0.2], "beta": 3.0},
    "all negative": {"weights": [-2.0, -0.5, -1.0]},
    "identity": {"weights": [1.0, 0.0, 0.5], "link": "identity"},
    "float32": {"dtype": np.float32, "weights": [1.4, -1.0, 0.2]},
    "scaled": {"scaling": [3.0, 0.2, 11.0], "weights": [5.0, -0.2, 9.0]},
    "directed": {"directed": True, "weights": [1.4, -1.0, 0.2]},
    "directed identity": {"directed": True, "link": "identity"},
    "huge": {"weights": [500.0, -900.0, 30.0]},
}
SOURCES = ("search", "table", "computed", "computed table")


class Case:
    """n items of a stack and M more, all from one matrix per source."""

    def __init__(self, n=20, M=5, seed=0, *, sources=None, **options):
        rng = np.random.default_rng(seed)
        self.directed = options.pop("directed", False)
        dtype = options.pop("dtype", np.float64)
        if sources is None:
            sources = random_sources(rng, n + M, 3, directed=self.directed, dtype=dtype)
        weights = options.pop("weights", np.ones(len(sources)))
        beta, link = options.pop("beta", 1.0), options.pop("link", "softplus")
        self.n, self.M = n, M
        old = [M_r[:n, :n] for M_r in sources]
        self.raw = np.stack([M_r[n:, :n] for M_r in sources], axis=-1)
        self.stack = mm.DissimilarityStack(old, directed=self.directed, **options)
        self.mixture = mm.Mixture(weights, link=link, beta=beta)
        self.lengths = EdgeLengths(self.stack, self.mixture)
        self.new = NewItems.from_rows(self.lengths, self.raw)
        per_raw = self.mixture.raw_weights(self.stack)
        m = np.tensordot(per_raw, np.array(sources, dtype=float), axes=1)
        if np.abs(m).max() < 600:
            w = naive_lengths(sources, per_raw, beta, link)
        else:
            w = np.logaddexp(0.0, beta * m) / beta
            np.fill_diagonal(w, 0.0)
        self.w = np.maximum(w, np.finfo(float).tiny)
        np.fill_diagonal(self.w, 0.0)

    @property
    def d(self):
        """Distances from each new item, joined alone, to the items of the stack; (M, n)."""
        rows = []
        for x in range(self.n, self.n + self.M):
            chosen = [*range(self.n), x]
            rows.append(mm.project(self.w[np.ix_(chosen, chosen)], directed=self.directed)[-1, :-1])
        return np.array(rows)

    def nearest(self, source, wanted, k, n_jobs=None):
        lengths = self.lengths
        if source.startswith("computed"):
            lengths = EdgeLengths(on_demand(self.stack), self.mixture)
        new = replace(self.new, lengths=lengths, n_jobs=n_jobs)
        if not source.endswith("table"):
            return new.nearest(wanted, k)
        table = mm.nearest_labelled(lengths, None, wanted, k)
        return new.nearest(wanted, k, table)


def assert_nearest(d, wanted, k, distances, items, rel=1e-11):
    """Right distances, sorted, at different wanted items that really are that far away."""
    chosen = np.flatnonzero(wanted)
    assert distances.shape == items.shape == (len(d), k)
    assert distances == pytest.approx(np.sort(d[:, chosen], axis=1)[:, :k], rel=rel, abs=1e-300)
    assert (np.diff(distances, axis=1) >= 0).all()
    assert np.isin(items, chosen).all()
    assert all(len(set(row)) == k for row in items.tolist())
    real = np.take_along_axis(d, items, axis=1)
    assert distances == pytest.approx(real, rel=rel, abs=1e-300)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("kind", KINDS)
def test_nearest(kind, source):
    case = Case(n=40, M=6, seed=3, **KINDS[kind])
    rel = 1e-6 if kind == "float32" else 1e-11
    d = case.d
    rng = np.random.default_rng(1)
    for labelled in (1, 7, 40):
        wanted = np.zeros(40, bool)
        wanted[rng.choice(40, labelled, replace=False)] = True
        for k in {1, min(3, labelled), labelled}:
            assert_nearest(d, wanted, k, *case.nearest(source, wanted, k), rel=rel)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(("n", "M"), [(1, 1), (2, 3), (63, 2), (64, 1), (65, 9), (130, 33)])
def test_nearest_of_any_shape(n, M, source):
    case = Case(n=n, M=M, seed=n, weights=[2.0, -1.5, 0.3], beta=4.0)
    wanted = np.arange(n) % 2 == 0
    k = min(5, int(wanted.sum()))
    assert_nearest(case.d, wanted, k, *case.nearest(source, wanted, k))


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("source", SOURCES)
def test_ties_and_zeros(source, directed):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        n, M = 24, 8
        whole = whole_lengths(rng, n + M, low=seed % 2, directed=directed)
        case = Case(n, M, sources=[whole], link="identity", directed=directed)
        case.new = replace(case.new, same=np.full(M, -1))  # edges of 0, but not the same item
        wanted = rng.random(n) < 0.5
        k = min(4, int(wanted.sum()))
        assert_nearest(case.d, wanted, k, *case.nearest(source, wanted, k))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "M"), [(1, 1), (3, 2), (17, 40), (70, 5)])
def test_distances(n, M, kind):
    case = Case(n=n, M=M, seed=5, **KINDS[kind])
    metric = mm.path_metric(case.lengths)
    rel = 1e-6 if kind == "float32" else 1e-11
    assert case.new.distances(metric) == pytest.approx(case.d, rel=rel, abs=1e-300)
    some = np.arange(0, n, 3)
    expected = case.d[:, some]
    found = case.new.distances(np.ascontiguousarray(metric[:, some]))
    assert found == pytest.approx(expected, rel=rel, abs=1e-300)


def test_edges_run_from_the_new_item():
    # One way from the new item over 1 to 0; the way back is short and must not count.
    M = np.array([[0, 9, 1], [1, 0, 1], [9, 2, 0]], dtype=float)
    case = Case(n=2, M=1, sources=[M], directed=True, link="identity")
    both = np.ones(2, bool)
    for source in SOURCES:
        distances, items = case.nearest(source, both, 2)
        assert (distances.tolist(), items.tolist()) == ([[2.0, 3.0]], [[1, 0]])
    assert case.new.distances(all_distances(M[:2, :2])).tolist() == [[3.0, 2.0]]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("kind", ["plain", "mixed signs", "identity", "directed", "float32"])
def test_an_item_that_no_source_tells_apart_is_that_item(kind, source):
    rng = np.random.default_rng(8)
    options = dict(KINDS[kind])
    n = 15
    sources = random_sources(
        rng, n, 3, directed=options.get("directed", False), dtype=options.get("dtype", float)
    )
    twin = [*range(n), 4, 11]
    case = Case(n, 2, sources=[M[np.ix_(twin, twin)] for M in sources], **options)
    metric = mm.path_metric(case.lengths)
    assert case.new.same.tolist() == [4, 11]
    expected = metric[[4, 11]]
    assert case.new.distances(metric) == pytest.approx(expected, rel=1e-12)
    for wanted in (np.ones(n, bool), np.arange(n) != 4):
        found = case.nearest(source, wanted, 6)
        assert_nearest(expected, wanted, 6, *found, rel=1e-12)
    distances, items = case.nearest(source, np.ones(n, bool), 1)
    assert (distances.tolist(), items.tolist()) == ([[0.0], [0.0]], [[4], [11]])


def test_an_item_of_the_stack_finds_the_classes_of_that_item():
    rng = np.random.default_rng(8)
    n, y = 6, np.array([1, 0, 2, 2, 1, 0])
    twice = [*range(n), *range(n)]
    sources = [M[np.ix_(twice, twice)] for M in random_sources(rng, n, 2)]
    case = Case(n, n, sources=sources)
    table = nearest_labels(case.lengths, np.arange(n), y, 3)
    distances, classes = case.new.nearest(np.ones(n, bool), 3, table)
    assert np.array_equal(classes[:, 0], y)
    assert np.array_equal(classes, table[1])
    assert distances == pytest.approx(table[0], rel=1e-12)


def test_of_several_equal_items_the_first_is_meant():
    rng = np.random.default_rng(2)
    sources = random_sources(rng, 6, 2)
    order = [0, 1, 2, 2, 3, 2]
    case = Case(5, 1, sources=[M[np.ix_(order, order)] for M in sources])
    assert case.new.same.tolist() == [2]


def test_which_of_several_equal_items_does_not_depend_on_the_other_new_items():
    order = [0, 1, 2, 2, 3, 2, 2, 2, 2]
    sources = [M[np.ix_(order, order)] for M in random_sources(np.random.default_rng(2), 6, 2)]
    case = Case(5, 4, sources=sources)
    alone = [NewItems.from_rows(case.lengths, case.raw[k : k + 1]).same[0] for k in range(4)]
    assert case.new.same.tolist() == alone


def test_a_mixture_of_zero_is_not_yet_the_same_item():
    far = np.array([[0.0, 3.0, 2.0], [3.0, 0.0, 2.0], [2.0, 2.0, 0.0]])
    case = Case(2, 1, sources=[far, far], weights=[1.0, -1.0])
    assert case.new.same.tolist() == [-1]
    assert case.nearest("search", np.ones(2, bool), 1)[0][0, 0] == pytest.approx(np.log(2))


@pytest.mark.parametrize("source", SOURCES)
def test_new_items_do_not_depend_on_each_other_nor_on_threads(source):
    case = Case(n=50, M=13, seed=9, weights=[1.4, -1.0, 0.2])
    wanted = np.arange(50) % 3 > 0
    metric = mm.path_metric(case.lengths)
    expected = case.nearest(source, wanted, 4, n_jobs=1)
    to_all = case.new.distances(metric)
    for n_jobs in (2, 5):
        for a, b in zip(case.nearest(source, wanted, 4, n_jobs), expected, strict=True):
            assert np.array_equal(a, b)
        assert np.array_equal(replace(case.new, n_jobs=n_jobs).distances(metric), to_all)
    for some in ([3], [12, 0], [7, 7, 8]):
        alone = NewItems.from_rows(case.lengths, case.raw[some])
        assert alone.nearest(wanted, 4)[0] == pytest.approx(expected[0][some], rel=1e-14)
        assert np.array_equal(alone.nearest(wanted, 4)[1], expected[1][some])
        assert alone.distances(metric) == pytest.approx(to_all[some], rel=1e-14)


def test_select():
    case = Case(n=10, M=4, seed=1)
    metric = mm.path_metric(case.lengths)
    whole = case.new.distances(metric)
    mask = np.array([True, False, False, True])
    assert len(case.new.select(mask)) == 2
    assert np.array_equal(case.new.select(mask).distances(metric), whole[mask])
    assert np.array_equal(case.new.select([2, 0]).distances(metric), whole[[2, 0]])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("M", "n", "T"),
    [(1, 1, 1), (1, 5, 3), (3, 1, 7), (7, 9, 5), (40, 3, 65), (33, 17, 16), (5, 40, 1)],
)
def test_min_plus(M, n, T, dtype):
    rng = np.random.default_rng(M)
    A, B = rng.random((M, n)).astype(dtype), rng.random((n, T)).astype(dtype)
    expected = slow_minplus(A, B, np.full((M, T), np.inf))
    found = min_plus(A, B)
    assert found.dtype == dtype
    assert found == pytest.approx(expected, rel=1e-6 if dtype == np.float32 else 1e-14)
    assert np.array_equal(min_plus(A, B, n_jobs=3), found)
    assert np.array_equal(min_plus(np.asfortranarray(A), B[:, ::-1])[:, ::-1], found)


@pytest.mark.parametrize("n", [511, 512, 513, 1100])
def test_min_plus_goes_through_many_items_in_parts(n):
    rng = np.random.default_rng(n)
    A, B = rng.exponential(size=(70, n)), rng.exponential(size=(n, 9))
    expected = np.array([(row[:, None] + B).min(axis=0) for row in A])
    for n_jobs in (1, 2):
        assert min_plus(A, B, n_jobs=n_jobs) == pytest.approx(expected, rel=1e-15)


def test_min_plus_where_there_is_no_way():
    A, B = np.array([[np.inf, 1.0], [np.inf, np.inf]]), np.array([[1.0, 2.0], [np.inf, 5.0]])
    assert min_plus(A, B).tolist() == [[np.inf, 6.0], [np.inf, np.inf]]


@pytest.mark.parametrize("k", [1, 3])
def test_entries_are_the_items_within_the_kth_nearest_edge(k):
    rng = np.random.default_rng(k)
    m, wanted = rng.normal(size=100), rng.random(100) < 0.4
    cap = np.sort(m[wanted])[k - 1]
    state = SearchState.empty(100)
    open_entries(m, 1.0, 1, Goal(k, wanted, False, False), state)
    length = np.logaddexp(0.0, m)
    near = m <= cap
    assert state.dist[near] == pytest.approx(length[near])
    assert np.array_equal(state.key[near], state.dist[near])
    assert np.isinf(state.key[~near]).all()
    assert state.dist[~near] == pytest.approx(np.logaddexp(0.0, cap))
    assert (state.dist[~near] > state.dist[near].max()).all()


@pytest.mark.parametrize("k", [1, 3])
def test_kernels_for_a_range_of_new_items(k):
    case = Case(n=70, M=6, weights=[1.4, -1.0, 0.2])
    wanted = np.zeros(70, dtype=bool)
    wanted[::9] = True
    expected = np.sort(case.d[:, wanted], axis=1)[:, :k]
    table = mm.nearest_labelled(case.stack, case.mixture, wanted, k)
    searched, looked_up = np.full((2, 6, k), -1.0)
    items, looked_up_items = np.full((2, 6, k), -1)
    dense, m = case.lengths.dense, case.new.m
    goal = Goal(searched.shape[1], wanted, False, False)
    nearest_wanted(dense, m, 2, 5, goal, SearchState.empty(70), searched, items)
    nearest_by_table(m, dense.beta, dense.link, 2, 5, *table, looked_up, looked_up_items)
    for distances, found in ((searched, items), (looked_up, looked_up_items)):
        assert distances[2:5] == pytest.approx(expected[2:5], rel=1e-12)
        assert wanted[found[2:5]].all()
        assert (distances[[0, 1, 5]] == -1).all()
        rows = np.arange(2, 5)[:, None]
        assert case.d[rows, found[2:5]] == pytest.approx(distances[2:5], rel=1e-12)


def test_the_wanted_items_of_a_search():
    state = SearchState.empty(4)
    state.order[:3], state.dist[:3], state.counts[0] = [2, 0, 1], [0.5, 0.7, 0.1], 3
    distances, items = np.empty(2), np.empty(2, np.int64)
    wanted = np.array([True, True, False, False])
    take_wanted(Goal(2, wanted, False, False), state, distances, items)
    assert (distances.tolist(), items.tolist()) == ([0.5, 0.7], [0, 1])


def test_the_nearest_labelled_items_of_all_are_searched_for_once(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    D = np.linalg.norm(X[:, None] - X, axis=2)
    metric = mm.Metric(mm.DissimilarityStack([D[:30, :30]]), mm.Mixture([1.0]))
    joined = metric.join(D[30:, :30, None])
    labels = np.where(np.arange(30) < 5, 0, -1)
    calls = []

    def counted(*arguments):
        calls.append(arguments[-1])
        return mm.nearest_labelled(*arguments)

    monkeypatch.setattr("metricmix.paths.joined_items.nearest_labelled", counted)
    for known, k in ((labels, 1), (labels, 2), (np.roll(labels, 7), 2)):
        wanted = known >= 0
        for new in (joined, metric.join(D[35:, :30, None])):
            distances, items = new.nearest(k, known)
            expected = new.items.nearest(wanted, k)
            assert np.array_equal(distances, expected[0])
            assert np.array_equal(items, expected[1])
    assert calls == [1, 2, 2]

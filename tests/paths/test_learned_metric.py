"""The metric as an object: every query against the closure by three nested loops."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError
from importlib import import_module
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metricmix as mm
from metricmix.dissimilarity.cross_edges import CrossEdges
from metricmix.dissimilarity.edge_set import EdgeSet
from metricmix.dissimilarity.known import Known
from metricmix.exceptions import InputError, TooLargeError
from metricmix.mixture.edge_lengths import EdgeLengths, edge_lengths
from metricmix.mixture.local import LocalMixture
from metricmix.paths import all_pairs, learned_metric
from metricmix.paths.geodesic import join_nearest
from tests.reference.closure import closure_by_rows
from tests.reference.instances import on_demand, random_sources
from tests.reference.sparse import random_graph

N, R = 18, 3
IDS = [f"item {k}" for k in range(N)]
LABELS = np.where(np.arange(N) % 3 == 0, np.arange(N) % 2, -1)
REGIONS = np.random.default_rng(2).dirichlet(np.ones(2), N)
MIXTURES = {
    "nonnegative": mm.Mixture([2.0, 1.0, 0.5]),
    "signed": mm.Mixture([2.0, -1.0, 0.5]),
    "identity": mm.Mixture([0.5, 0.3, 0.2], link="identity"),
    "local": LocalMixture([0.5, 1.0, 0.5], [[2.0, 0.0, 0.5], [0.0, 2.0, 1.0]], REGIONS),
}


def make_stack(kind: str, *, n: int = N, ids: bool = True) -> mm.DissimilarityStack:
    directed = "directed" in kind
    sources = random_sources(np.random.default_rng(len(kind)), n, R, directed=directed)
    items = [f"item {k}" for k in range(n)] if ids else None
    names = ("words", "links", "noise")
    stack = mm.DissimilarityStack(sources, names, directed, items=items, scaling="mean")
    if kind == "computed":
        plain = on_demand(stack)
        return mm.DissimilarityStack(
            plain.sources, names, items=items, scaling=stack.scales, validate=False
        )
    if not kind.startswith("sparse"):
        return stack
    rng = np.random.default_rng(5)
    ring = np.arange(n)
    u = np.concatenate([ring, rng.integers(n, size=2 * n)])
    v = np.concatenate([(ring + 1) % n, rng.integers(n, size=2 * n)])
    return mm.EdgeStack.of(stack, EdgeSet(n, u, v, directed=directed))


@pytest.fixture(params=["complete", "directed", "computed", "sparse", "sparse directed"])
def stack(request):
    return make_stack(request.param)


@pytest.fixture(params=MIXTURES)
def mixture(request):
    return MIXTURES[request.param]


@pytest.fixture
def case(stack, mixture):
    """A metric, and all its distances the slow way."""
    return mm.Metric(stack, mixture), closure_by_rows(EdgeLengths(stack, mixture).matrix())


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


# -- queries -------------------------------------------------------------------------------------


def test_all_distances(case):
    metric, d = case
    close(np.asarray(metric), d)
    close(metric.to_array(), d)
    assert np.asarray(metric, dtype=np.float32).dtype == np.float32
    assert mm.is_metric(metric, directed=metric.directed)
    assert metric.violations().is_metric()
    assert metric.sampled_violations(n_items=6).n_sampled == 6


def test_distances_of_pairs(case):
    metric, d = case
    i, j = np.random.default_rng(0).integers(N, size=(2, 12))
    close(metric.distance([IDS[k] for k in i], np.array(IDS)[j]), d[i, j])
    close(metric.distance(IDS[3], [IDS[k] for k in j]), d[3, j])
    close(metric.distance([IDS[k] for k in i], IDS[3]), d[i, 3])
    assert isinstance(metric.distance(IDS[2], IDS[7]), float)
    close(metric.distance(IDS[2], IDS[7]), d[2, 7])
    assert metric.distance([], []).shape == (0,)


def test_paths(case):
    metric, d = case
    w = metric.lengths.matrix()
    for i, j in [(0, 9), (4, 4), (16, 1)]:
        path = metric.path(IDS[i], IDS[j])
        assert (path.nodes[0], path.nodes[-1]) == (IDS[i], IDS[j])
        numbers = [IDS.index(node) for node in path.nodes]
        close(path.length, d[i, j])
        close(sum(w[u, v] for u, v in pairwise(numbers)), d[i, j])
        assert path.length == metric.distance(IDS[i], IDS[j])


def test_rows_and_columns(case):
    metric, d = case
    close(metric.rows([IDS[4], IDS[0]]), d[[4, 0]])
    close(metric.rows(IDS[4]), d[4])
    close(metric.columns([IDS[4], IDS[0]]), d[:, [4, 0]].T)
    close(metric.columns(IDS[4]), d[:, 4])


def test_nearest_items(case):
    metric, d = case
    far = d + np.where(np.eye(N), np.inf, 0.0)
    expected = far.argsort(axis=1, kind="stable")[:, :4]
    distances, items = metric.kneighbors(n_neighbors=4)
    close(distances, np.take_along_axis(far, expected, 1))
    assert (items == np.array(IDS)[expected]).all()
    assert (metric.kneighbors([IDS[5], IDS[2]], 4, False) == items[[5, 2]]).all()
    alone, near = metric.kneighbors(IDS[5], 4)
    close(alone, distances[5])
    assert near.tolist() == items[5].tolist()
    graph = metric.kneighbors_graph(4)
    close(graph.toarray()[np.arange(N)[:, None], expected], distances)
    assert (metric.kneighbors_graph(4, mode="connectivity").data == 1).all()


@pytest.mark.parametrize("others", [False, True])
def test_nearest_labelled_items(case, others):
    metric, d = case
    wanted = np.flatnonzero(LABELS >= 0)
    far = d.copy()
    if others:
        np.fill_diagonal(far, np.inf)
    expected = wanted[far[:, wanted].argsort(axis=1, kind="stable")[:, :2]]
    distances, items = metric.nearest_labelled(LABELS, 2, others=others)
    close(distances, np.take_along_axis(far, expected, 1))
    assert (items == np.array(IDS)[expected]).all()
    texts = np.where(LABELS >= 0, LABELS.astype(str), "")
    targets = np.where(LABELS >= 0, 1.5 * LABELS, np.nan)
    for known in (Known(LABELS, 2), Known(targets), texts, targets, LABELS >= 0):
        assert (metric.nearest_labelled(known, 2, others=others)[1] == items).all()


def test_contributions_add_up(case):
    metric, d = case
    found = metric.contributions(IDS[0], IDS[11])
    close(found.edges.sum() + found.link.sum(), d[0, 11])
    assert found.nodes == metric.path(IDS[0], IDS[11]).nodes


def test_functions_and_methods_agree(case):
    metric, _ = case
    stack, mixture = metric.stack, metric.mixture
    assert np.array_equal(np.asarray(metric), mm.path_metric(stack, mixture))
    assert metric.path(IDS[1], IDS[8]).length == mm.shortest_path(stack, mixture, 1, 8).length
    assert np.array_equal(metric.kneighbors()[0], mm.kneighbors(stack, mixture)[0])
    labelled = mm.nearest_labelled(stack, mixture, LABELS >= 0)
    assert np.array_equal(metric.nearest_labelled(LABELS)[0], labelled[0])


# -- new items -----------------------------------------------------------------------------------


def split(kind, mixture):
    """A metric of all items but the last two, these as new items, and their distances."""
    both = make_stack(kind, n=N + 2)
    old, new = np.arange(N), np.arange(N, N + 2)
    w = edge_lengths(both, mixture).matrix()
    metric = mm.Metric(both[np.ix_(old, old)], mixture)
    cross = both[np.ix_(new, old)]
    expected = (w[N:, :N, None] + closure_by_rows(w[:N, :N])[None]).min(axis=1)
    return metric, cross, expected


@pytest.mark.parametrize("kind", ["complete", "directed", "computed", "sparse", "sparse directed"])
@pytest.mark.parametrize("name", ["nonnegative", "signed", "identity"])
def test_joined_items(kind, name):
    metric, cross, d = split(kind, MIXTURES[name])
    joined = metric.join(cross)
    assert len(joined) == 2
    close(joined.distances(), d)
    close(joined.distances([IDS[3], IDS[0]]), d[:, [3, 0]])
    close(joined.distances(IDS[3]), d[:, 3])
    distances, items = joined.nearest(3)
    order = d.argsort(axis=1, kind="stable")[:, :3]
    close(distances, np.take_along_axis(d, order, 1))
    reached = np.isfinite(distances)
    assert reached.any()
    assert (items == np.array(IDS)[order])[reached].all()
    wanted = np.flatnonzero(LABELS >= 0)
    close(joined.nearest(known=LABELS)[0][:, 0], d[:, wanted].min(axis=1))
    for q, j in np.argwhere(np.isfinite(d))[::7].tolist():
        path, parts = joined.path(q, IDS[j]), joined.contributions(q, IDS[j])
        assert path.nodes[0] == "new item"
        assert path.nodes[-1] == IDS[j]
        assert parts.nodes == path.nodes
        close([path.length, parts.edges.sum() + parts.link.sum()], d[q, j])


@pytest.mark.parametrize("kind", ["complete", "sparse"])
def test_a_row_of_an_item_is_that_item(kind):
    stack = make_stack(kind)
    metric = mm.Metric(stack, MIXTURES["signed"])
    if kind == "sparse":
        every = np.arange(N)
        rows = CrossEdges.between(stack.edges, stack.values, stack.names, every[4:5], every)
    else:
        rows = np.moveaxis(stack.raw_rows(np.array([4])), 0, -1)
    joined = metric.join(rows)
    close(joined.distances(), metric.rows([IDS[4]]))
    assert joined.path(0, IDS[9]).nodes == metric.path(IDS[4], IDS[9]).nodes
    assert str(joined.contributions(0, IDS[9])) == str(metric.contributions(IDS[4], IDS[9]))


@pytest.mark.parametrize("kind", ["complete", "sparse"])
def test_contributions_of_new_items_with_local_weights(kind):
    both = make_stack(kind, n=N + 1)
    old = np.arange(N)
    metric = mm.Metric(both[np.ix_(old, old)], MIXTURES["local"])
    joined = metric.join(both[np.ix_([N], old)])
    parts = joined.contributions(0, IDS[6])
    close(parts.edges.sum() + parts.link.sum(), joined.distances(IDS[6])[0])


def test_geodesic_metric_and_new_items():
    x = np.random.default_rng(0).normal(size=(N + 2, 2))
    both = mm.DissimilarityStack([mm.dissimilarity.features(x)], ["plane"])
    old = np.arange(N)
    whole = mm.Metric(both[np.ix_(old, old)], [1.0])
    along = whole.geodesic(3)
    assert (along.to_array() >= whole.to_array() - 1e-12).all()
    assert along.stack.edges is not None
    assert along.whole.stack is whole.stack
    assert along.geodesic(2).near[0].stack is whole.stack
    rows = np.moveaxis(both[np.ix_([N, N + 1], old)].values, -1, -1)
    joined = along.join(rows)
    expected = join_nearest(along.lengths, whole.lengths, rows, 3)
    assert np.array_equal(joined.items.rows.ends, expected.rows.ends)
    d, w = along.to_array(), whole.lengths
    for q in range(2):
        m = rows[q] @ w.raw_weights
        near = m.argsort(kind="stable")[:3]
        lengths = np.log1p(np.exp(m[near]))
        close(joined.distances()[q], (lengths[:, None] + d[near]).min(axis=0))
    path = joined.path(0, 5)
    assert path.nodes[0] == N
    close(path.length, joined.distances(5)[0])
    with pytest.raises(InputError, match="sparse already"):
        mm.Metric(along.stack, [1.0]).geodesic(2)


def test_new_items_are_matched_by_ids_and_names():
    both = make_stack("complete", n=N + 1)
    old = np.arange(N)
    metric = mm.Metric(both[np.ix_(old, old)], MIXTURES["signed"])
    expected = metric.join(both[np.ix_([N], old)]).distances()
    turned = both[np.ix_(np.append(old[::-1], N), np.append(old[::-1], N))]
    other = turned.select(["noise", "words", "links"])[np.ix_([N], old)]
    close(metric.join(other).distances(), expected)
    for wrong in (np.ones((2, N)), np.ones((2, N - 1, R)), np.full((1, N, R), np.nan)):
        with pytest.raises(InputError, match="new"):
            metric.join(wrong)
    with pytest.raises(InputError, match="the sources"):
        metric.join(both.select(["words"])[np.ix_([N], old)])
    edges = CrossEdges.from_array(np.ones((1, N, R)), metric.stack.names)
    with pytest.raises(InputError, match="found edges"):
        metric.join(edges)


# -- what it is ----------------------------------------------------------------------------------


def test_numbers_where_there_are_no_ids():
    stack = make_stack("complete", ids=False)
    metric, d = mm.Metric(stack, MIXTURES["signed"]), mm.path_metric(stack, MIXTURES["signed"])
    close(metric.distance(0, 5), d[0, 5])
    close(metric.distance(0, range(N)), d[0])
    close(metric.distance(np.int64(0), np.arange(N)), d[0])
    assert metric.ids.tolist() == list(range(N))
    assert all(isinstance(node, int) for node in metric.path(0, 5).nodes)
    distances, items = metric.kneighbors(n_neighbors=3)
    close(d[np.arange(N)[:, None], items], distances)


def test_a_matrix_of_lengths():
    w = np.array([[0.0, 1.0, 5.0], [1.0, 0.0, 2.0], [5.0, 2.0, 0.0]])
    metric = mm.Metric(w)
    assert metric.path(0, 2) == mm.Path(3.0, (0, 1, 2))
    close(mm.Metric(edge_lengths(w)).to_array(), metric.to_array())
    one_way = mm.Metric(np.triu(w) + np.tril(np.full((3, 3), np.inf), -1), directed=True)
    assert one_way.distance([0, 2], [2, 0]).tolist() == [3.0, np.inf]
    named = mm.Metric(pd.DataFrame(w, index=list("abc"), columns=list("abc")))
    assert named.path("a", "c").nodes == ("a", "b", "c")
    joined = metric.join(np.array([[1.0, 1.0, 9.0]]))
    close(joined.distances(), [[1.0, 1.0, 3.0]])


@pytest.mark.parametrize("ids", [None, list("abcd")])
def test_what_cannot_be_reached(ids):
    edges = EdgeSet(4, [0, 2], [1, 3])
    metric = mm.Metric(mm.EdgeStack(edges, np.ones((1, 2)), ["walk"], items=ids), [1.0])
    a, b, c, none = (0, 1, 2, -1) if ids is None else ("a", "b", "c", None)
    assert metric.distance(a, c) == np.inf
    assert metric.path(a, c) == mm.Path(np.inf, ())
    distances, items = metric.kneighbors(a, 2)
    assert items.tolist() == [b, none]
    assert distances[1] == np.inf
    found = metric.nearest_labelled([1, -1, -1, -1], others=True)[1]
    assert found.ravel().tolist() == [none, a, none, none]
    joined = metric.join(
        CrossEdges.from_array(np.array([[[1.0], [np.inf], [np.inf], [np.inf]]]), ["walk"])
    )
    assert joined.path(0, c) == mm.Path(np.inf, ())
    assert joined.contributions(0, c).edges.shape == (0, 1)


def test_tuples_are_ids():
    stack = mm.DissimilarityStack([np.ones((2, 2)) - np.eye(2)], items=[("a", 1), ("a", 2)])
    metric = mm.Metric(stack, mm.Mixture([1.0], link="identity"))
    assert metric.distance(("a", 1), ("a", 2)) == 1.0
    assert metric.distance(("a", 1), [("a", 1), ("a", 2)]).tolist() == [0.0, 1.0]
    assert metric.path(("a", 1), ("a", 2)).nodes == (("a", 1), ("a", 2))


def test_nothing_is_computed_before_it_is_asked_for(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError

    stack = make_stack("computed")
    monkeypatch.setattr(learned_metric, "path_metric", refuse)
    monkeypatch.setattr(type(stack), "raw_rows", refuse)
    metric = mm.Metric(stack, MIXTURES["signed"])
    assert len(metric) == metric.n == N
    assert metric.shape == (N, N)
    assert "needs_projection=True" in repr(metric)
    assert "sources=['words', 'links', 'noise'], link='softplus'" in repr(metric)


def test_the_matrix_is_refused_where_it_does_not_fit(monkeypatch):
    def full(*_, **__):
        raise TooLargeError("too large")

    metric = mm.Metric(make_stack("complete"), MIXTURES["signed"])
    monkeypatch.setattr(import_module("metricmix.mixture.edge_lengths"), "check_square_fits", full)
    with pytest.raises(TooLargeError):
        np.asarray(metric)
    assert metric.distance(IDS[0], IDS[1]) > 0
    with pytest.raises(ValueError, match="copy"):
        np.asarray(metric, copy=False)


def test_it_cannot_be_changed():
    metric = mm.Metric(make_stack("complete"), MIXTURES["signed"])
    with pytest.raises(FrozenInstanceError):
        metric.lengths = None


def test_a_metric_by_itself_needs_no_projection():
    source = mm.dissimilarity.features(np.random.default_rng(0).normal(size=(6, 2)))
    assert not mm.Metric(mm.DissimilarityStack([source]), [1.0]).needs_projection
    assert mm.Metric(mm.DissimilarityStack([source]), [-1.0]).needs_projection


def stored_again(metric, path):
    mm.save(metric, path)
    return mm.load(path)


def test_files_and_pickles(stack, mixture, tmp_path):
    metric = mm.Metric(stack, mixture, n_jobs=1)
    copies = [stored_again(metric, tmp_path / "metric.mm")]
    if stack.block is not None or stack.edges is not None:  # no functions of this test
        copies.append(pickle.loads(pickle.dumps(metric)))
    for again in copies:
        assert np.array_equal(again.to_array(), metric.to_array())
    if stack.edges is None:
        along = metric.geodesic(4)
        again = stored_again(along, tmp_path / "along.mm")
        assert np.array_equal(again.to_array(), along.to_array())
        assert again.near[1] == 4


def test_the_state_of_a_matrix():
    w = np.array([[0.0, np.inf, 5.0], [1.0, 0.0, 2.0], [5.0, 2.0, 0.0]])
    again = mm.Metric.from_state(mm.Metric(w, directed=True).to_state())
    assert np.array_equal(again.to_array(), mm.project(w, directed=True))


def test_rows_on_disk(tmp_path):
    pytest.importorskip("zarr")
    metric = mm.Metric(make_stack("sparse"), MIXTURES["signed"])
    close(metric.write(tmp_path / "all.zarr")[:], metric.to_array())
    close(metric.write(tmp_path / "some.zarr", [IDS[3]])[:], metric.rows([IDS[3]]))


def test_scikit_learn_takes_it_as_a_matrix():
    from sklearn.neighbors import NearestNeighbors

    metric = mm.Metric(make_stack("complete"), MIXTURES["signed"])
    found = NearestNeighbors(n_neighbors=3, metric="precomputed").fit(metric).kneighbors()
    close(found[0], metric.kneighbors(n_neighbors=3)[0])


def test_wrong_arguments():
    metric = mm.Metric(make_stack("complete"), MIXTURES["signed"])
    for ask in (
        lambda: metric.distance("elsewhere", IDS[0]),
        lambda: metric.path(IDS[0], "elsewhere"),
        lambda: metric.distance(IDS[:2], IDS[:3]),
        lambda: metric.kneighbors(n_neighbors=N),
        lambda: metric.nearest_labelled(LABELS[1:]),
        lambda: metric.nearest_labelled(np.full(N, -1)),
        lambda: metric.nearest_labelled(LABELS, k=N),
        lambda: metric.join(np.ones((1, N, R))).nearest(0),
        lambda: metric.join(np.ones((1, N, R))).path(1, IDS[0]),
    ):
        with pytest.raises(InputError):
            ask()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000))
def test_laws_over_random_graphs(seed):
    """Distances are the closure, paths are as long as they, neighbours come in order."""
    graph = random_graph(seed, largest=12)
    metric, d = mm.Metric(graph.lengths), closure_by_rows(graph.w)
    n = metric.n
    np.testing.assert_allclose(np.asarray(metric), d, rtol=graph.rtol)
    i, j = np.divmod(np.random.default_rng(seed).integers(n * n, size=5), n)
    np.testing.assert_allclose(metric.distance(i, j), d[i, j], rtol=graph.rtol)
    for u, v in zip(i.tolist(), j.tolist(), strict=True):
        path = metric.path(u, v)
        assert path.nodes[:1] + path.nodes[-1:] == ((u, v) if np.isfinite(d[u, v]) else ())
        assert metric.contributions(u, v).length == path.length
    if n > 1:
        distances, items = metric.kneighbors(n_neighbors=n - 1)
        assert (np.diff(distances[np.isfinite(distances).all(axis=1)], axis=1) >= 0).all()
        assert ((items < 0) == np.isinf(distances)).all()


def test_searches_and_the_closure_agree_over_edges(monkeypatch):
    metric = mm.Metric(make_stack("sparse"), MIXTURES["signed"])
    d = metric.to_array()
    monkeypatch.setattr(all_pairs, "PER_ARC", 0)
    close(metric.to_array(), d)

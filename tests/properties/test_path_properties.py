"""Laws of shortest paths, for whatever lengths hypothesis comes up with."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import metricmix as mm
from metricmix.paths import shortest_path_trees, shortest_paths
from reference.paths import all_distances

LAW = settings(deadline=None, max_examples=40)
IDENTITY = mm.Mixture([1.0], link="identity")
LENGTHS = st.one_of(
    st.integers(0, 5).map(float),  # ties and zeros
    st.floats(0.0, 1e3, allow_subnormal=False),
    st.sampled_from([0.0, 1e-300, 1e-12, 1.0, 1e12]),  # lengths that vanish beside others
)


@st.composite
def instances(draw, max_n=9):
    """Edge lengths, and whether they are directed."""
    n = draw(st.integers(1, max_n))
    directed = draw(st.booleans())
    w = draw(arrays(np.float64, (n, n), elements=LENGTHS))
    if not directed:
        w = np.triu(w, 1) + np.triu(w, 1).T
    np.fill_diagonal(w, 0.0)
    return w, directed


def distances(w, directed):
    """All distances by one bidirectional search per pair."""
    n = len(w)
    i, j = np.divmod(np.arange(n * n), n)
    stack = mm.DissimilarityStack([w], directed=directed)
    return shortest_paths(stack, IDENTITY, i, j).lengths.reshape(n, n)


def close(a, b):
    return np.allclose(a, b, rtol=1e-12, atol=0.0)


@LAW
@given(instances())
def test_searches_and_closure_agree(instance):
    w, directed = instance
    d = distances(w, directed)
    assert close(d, all_distances(w))
    assert close(d, mm.project(w, directed=directed))
    assert close(d, shortest_path_trees(w, directed=directed).distances)


@LAW
@given(instances())
def test_never_above_the_edge(instance):
    w, directed = instance
    assert (distances(w, directed) <= w).all()


@LAW
@given(instances())
def test_triangle_inequality(instance):
    w, directed = instance
    d = distances(w, directed)
    detours = (d[:, :, None] + d[None, :, :]).min(axis=1)
    assert (d <= detours * (1 + 1e-12)).all()


@LAW
@given(instances())
def test_symmetric_lengths_give_symmetric_distances(instance):
    w, directed = instance
    d = distances(w, directed)
    assert not np.diagonal(d).any()
    if not directed:
        assert close(d, d.T)


@LAW
@given(instances())
def test_turning_all_edges_round_turns_all_distances_round(instance):
    w, _ = instance
    assert close(distances(w.T.copy(), True), distances(w, True).T)


@LAW
@given(instances(), st.randoms(use_true_random=False))
def test_permutation_equivariant(instance, random):
    w, directed = instance
    order = list(range(len(w)))
    random.shuffle(order)
    turned = w[np.ix_(order, order)]
    assert close(distances(turned, directed), distances(w, directed)[np.ix_(order, order)])


@LAW
@given(instances(), st.integers(-20, 20))
def test_scaling_by_powers_of_two_is_exact(instance, power):
    w, directed = instance
    w = np.where(w < 1e-200, 0.0, w)  # no underflow
    factor = 2.0**power
    assert np.array_equal(distances(w * factor, directed), distances(w, directed) * factor)


@LAW
@given(instances(), st.data())
def test_monotone_in_the_lengths(instance, data):
    w, directed = instance
    more = data.draw(arrays(np.float64, w.shape, elements=LENGTHS))
    if not directed:
        more = np.triu(more, 1) + np.triu(more, 1).T
    np.fill_diagonal(more, 0.0)
    assert (distances(w, directed) <= distances(w + more, directed) * (1 + 1e-12)).all()


@LAW
@given(instances())
def test_idempotent(instance):
    w, directed = instance
    d = mm.project(w, directed=directed)
    assert close(distances(d, directed), d)


@LAW
@given(instances())
def test_paths_are_as_long_as_they_say(instance):
    w, directed = instance
    n = len(w)
    trees = shortest_path_trees(w, directed=directed)
    stack = mm.DissimilarityStack([w], directed=directed)
    for i in range(n):
        for j in range(n):
            for path in (trees.path(i, j), mm.shortest_path(stack, IDENTITY, i, j)):
                assert (path.nodes[0], path.nodes[-1]) == (i, j)
                assert len(set(path.nodes)) == len(path.nodes)
                along = sum(w[e] for e in path.edges)
                assert np.isclose(path.length, along, rtol=1e-11, atol=0)  # tight to 1e-12 per edge


@LAW
@given(instances())
def test_flow_carries_all_demand(instance):
    w, directed = instance
    trees = shortest_path_trees(w, directed=directed)
    demand = np.ones_like(w)
    flow = trees.edge_flow(demand)
    # What leaves a root is one unit for each of the other items.
    leaving = np.where(trees.predecessors == np.arange(len(w))[:, None], flow, 0.0).sum(axis=1)
    assert leaving.tolist() == [len(w) - 1.0] * len(w)


@LAW
@given(instances(), st.data())
def test_nearest_labelled_are_the_smallest_distances(instance, data):
    w, directed = instance
    n = len(w)
    k = data.draw(st.integers(1, n))
    labelled = data.draw(st.lists(st.integers(0, n - 1), min_size=k, max_size=n, unique=True))
    found, items = mm.nearest_labelled(w, None, labelled, k, directed=directed)
    expected = np.sort(all_distances(w)[:, labelled], axis=1)[:, :k]
    assert close(found, expected)
    assert all(len(set(row)) == k for row in items.tolist())
    assert np.isin(items, labelled).all()


@LAW
@given(instances(), st.data())
def test_neighbours_are_the_smallest_distances(instance, data):
    w, directed = instance
    n = len(w)
    if n == 1:
        return
    k = data.draw(st.integers(1, n - 1))
    found, items = mm.kneighbors(w, k=k, directed=directed)
    d = all_distances(w)
    expected = np.array([np.sort(np.delete(row, i))[:k] for i, row in enumerate(d)])
    assert close(found, expected)
    assert close(found, d[np.arange(n)[:, None], items])

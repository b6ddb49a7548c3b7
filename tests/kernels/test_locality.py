"""The order of items in which most edges join near numbers, and renumbering."""

from __future__ import annotations

import numpy as np
import pytest

from metricmix.dissimilarity import edge_set
from metricmix.dissimilarity.edge_set import EdgeSet
from metricmix.kernels.locality import copy_rows, locality_order, renumber_rows
from tests.reference.sparse import random_graph


@pytest.mark.parametrize("seed", range(20))
def test_the_order_has_every_item_once(seed):
    edges = random_graph(seed).lengths.edges
    order = locality_order(edges.out.indptr, edges.out.ends)
    assert sorted(order) == list(range(edges.n))


def test_each_next_item_has_the_most_edges_into_those_before():
    rng = np.random.default_rng(0)
    edges = EdgeSet(40, *rng.integers(40, size=(2, 200)))
    assert edges.components[0] == 1
    order = locality_order(edges.out.indptr, edges.out.ends)
    adjacent = np.zeros((40, 40), int)
    adjacent[edges.tails, edges.heads] = adjacent[edges.heads, edges.tails] = 1
    for k in range(1, 40):
        into = adjacent[:, order[:k]].sum(axis=1)
        into[order[:k]] = -1
        assert into[order[k]] == into.max()


def test_edges_of_a_shuffled_ring_join_near_numbers():
    n = 20_000
    place = np.random.default_rng(0).permutation(n)
    u = np.repeat(np.arange(n), 5)
    edges = EdgeSet(n, place[u], place[(u + np.tile(np.arange(1, 6), n)) % n])
    near = edges.near_order
    assert np.median(np.abs(near.rank[edges.tails] - near.rank[edges.heads])) <= 10
    assert np.array_equal(near.order[near.rank], np.arange(n))


@pytest.mark.parametrize("seed", range(20))
def test_renumbered_rows_are_the_same_graph(seed):
    graph = random_graph(seed)
    given = graph.lengths.arcs()
    n = graph.lengths.n
    order = np.random.default_rng(seed).permutation(n).astype(np.int32)
    indptr, ends = np.empty_like(given.indptr), np.empty_like(given.ends)
    renumber_rows(given.indptr, given.ends, order, indptr, ends)
    lengths = np.empty_like(given.lengths)
    copy_rows(given.indptr, given.lengths, order, lengths)
    w = np.full((n, n), np.inf)
    w[np.repeat(order, np.diff(indptr)), order[ends]] = lengths
    np.fill_diagonal(w, 0.0)
    assert np.array_equal(w, graph.w)


@pytest.mark.parametrize("seed", range(10))
def test_lengths_in_the_near_order(seed, monkeypatch):
    monkeypatch.setattr(edge_set, "SMALL", 0)
    graph = random_graph(seed)
    order = graph.lengths.edges.near_order.order
    for arcs, w in (
        (graph.lengths.arcs(near=True), graph.w),
        (graph.lengths.arcs(reverse=True, near=True), graph.w.T),
    ):
        found = np.full(graph.w.shape, np.inf)
        found[np.repeat(np.arange(len(w)), np.diff(arcs.indptr)), arcs.ends] = arcs.lengths
        np.fill_diagonal(found, 0.0)
        assert np.array_equal(found, w[np.ix_(order, order)])

"""Dijkstra's algorithm on rows, and each of its steps, against the textbook."""

from __future__ import annotations

import numpy as np
import pytest

import metricmix as mm
from metricmix.mixture.edge_lengths import edge_lengths
from metricmix.paths.dijkstra import (
    CHUNK,
    Goal,
    SearchState,
    any_below,
    cap_distances,
    dijkstra,
    open_item,
    open_roots,
    pop_nearest,
    refresh_chunk,
    relax,
    relax_row,
    reset,
    search_dense,
    settle_row,
)
from reference.instances import on_demand, random_lengths, random_sources
from reference.mixing import lengths as naive_lengths
from reference.mixing import softplus
from reference.paths import all_distances

SIZES = [1, 2, CHUNK - 1, CHUNK, CHUNK + 1, 150]


def filled_state(n, seed=0):
    """A state in the middle of a search: half of the items open."""
    rng = np.random.default_rng(seed)
    state = SearchState.empty(n)
    reset(state.dist, state.key, state.chunk_min, state.pred)
    for v in np.flatnonzero(rng.random(n) < 0.5):
        open_item(int(v), float(rng.random()), state.dist, state.key, state.chunk_min)
    return state


@pytest.mark.parametrize("n", SIZES)
def test_open_items_leave_in_order(n):
    state = filled_state(n)
    expected = np.argsort(state.key)[: np.isfinite(state.key).sum()]
    for c, smallest in enumerate(state.chunk_min):
        assert smallest == state.key[c * CHUNK : (c + 1) * CHUNK].min()
        state.chunk_min[c] = -1.0
        refresh_chunk(c, state.key, state.chunk_min)
        assert state.chunk_min[c] == smallest
    found = []
    while (u := pop_nearest(state.key, state.chunk_min)) >= 0:
        found.append(u)
    assert found == expected.tolist()
    assert np.isinf(state.key).all()


def test_start_of_a_search():
    state = filled_state(100)
    open_roots(np.array([70, 3]), state)
    roots = np.isin(np.arange(100), [3, 70])
    assert np.array_equal(state.dist, np.where(roots, 0.0, np.inf))
    assert np.array_equal(state.root, np.where(roots, np.arange(100), -1))
    assert (state.pred == -1).all()
    assert [pop_nearest(state.key, state.chunk_min) for _ in range(3)] == [3, 70, -1]


@pytest.mark.parametrize("link", [0, 1])
def test_relaxation_of_one_row(link):
    rng = np.random.default_rng(1)
    state = filled_state(130, seed=1)
    u = pop_nearest(state.key, state.chunk_min)
    state.root[:] = np.arange(130) % 7
    before, m = state.dist.copy(), rng.normal(size=130)
    length = [softplus(x) if link else max(x, 0.0) for x in m]
    relax(u, m, 1.0, link, state)
    for v in range(130):
        reached = before[u] + length[v]
        if v != u and reached < before[v]:
            assert state.dist[v] == pytest.approx(reached)
            assert (state.pred[v], state.root[v]) == (u, state.root[u])
            assert state.key[v] == state.dist[v]
        else:
            assert state.dist[v] == before[v]


def test_a_chunk_is_skipped_if_no_edge_can_help():
    m = np.array([0.5, -1.0, 2.0])
    bound = np.array([1.0, 0.2, 2.4])
    for start in np.linspace(0, 1, 21):
        expected = any(start + max(x, 0.0) < b for x, b in zip(m, bound, strict=True))
        assert any_below(start, m, 0.0, 0.0, bound) == expected


@pytest.mark.parametrize("limit", [1, 5, 40])
def test_items_beyond_the_limit_are_closed(limit):
    state = filled_state(100)
    before = state.dist.copy()
    cap = np.sort(before)[limit - 1]
    cap_distances(limit, state)
    near = before <= cap
    assert np.array_equal(state.dist[near], before[near])
    assert (state.dist[~near] == np.nextafter(cap, np.inf)).all()
    assert np.isinf(state.key[~near]).all()


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("n", SIZES)
def test_distances_from_a_set_of_roots(n, directed):
    rng = np.random.default_rng(n)
    sources = random_sources(rng, n, 2, directed=directed)
    stack = mm.DissimilarityStack(sources, directed=directed)
    weights = np.array([2.0, -1.0])
    w = naive_lengths(sources, weights)
    roots = rng.choice(n, min(n, 3), replace=False)
    d = all_distances(w)
    for reverse in (False, True):
        expected = (d.T if reverse else d)[roots]
        state, lengths = SearchState.empty(n), edge_lengths(stack, weights)
        open_roots(roots, state)
        search_dense(lengths.dense, reverse, Goal(n, np.ones(n, bool), True, False), state)
        assert state.counts[0] == n
        assert state.dist == pytest.approx(expected.min(axis=0), rel=1e-12)
        assert np.array_equal(np.sort(state.order), np.arange(n))
        for some in (stack, on_demand(stack)):
            found = dijkstra(edge_lengths(some, weights), roots, reverse=reverse)
            assert found.distances == pytest.approx(expected.min(axis=0), rel=1e-12)
            assert (np.diff(found.distances[found.settled]) >= 0).all()
            chosen = d[found.roots, np.arange(n)] if not reverse else d[np.arange(n), found.roots]
            assert chosen == pytest.approx(found.distances, rel=1e-12)


@pytest.mark.parametrize("limit", [1, 4, 30])
def test_only_the_nearest_items_are_settled(limit):
    w = random_lengths(np.random.default_rng(3), 90)
    d = all_distances(w)[7]
    found = dijkstra(edge_lengths(w), np.array([7]), limit=limit)
    assert found.settled.tolist() == np.argsort(d)[:limit].tolist()
    assert found.distances[found.settled] == pytest.approx(np.sort(d)[:limit])


@pytest.mark.parametrize("ties", [False, True])
def test_a_search_ends_at_its_goal(ties):
    state = SearchState.empty(5)
    reset(state.dist, state.key, state.chunk_min, state.pred)
    state.counts[:] = 0
    for v, distance in enumerate([1.0, 0.5, 2.0, 2.0, 3.0]):
        open_item(v, distance, state.dist, state.key, state.chunk_min)
    wanted = np.array([True, False, True, True, True])
    goal = Goal(2, wanted, ties, False)
    rows = []
    while (u := settle_row(goal, state)) >= 0:
        rows.append(u)
    assert rows == ([1, 0, 2, 3] if ties else [1, 0])  # the row of the last one is not needed
    assert state.order[: state.counts[0]].tolist() == ([1, 0, 2, 3] if ties else [1, 0, 2])


def test_a_search_from_one_root_is_capped_after_its_row():
    m = np.array([9.0, 1.0, 2.0, 3.0])
    for cap in (False, True):
        state = SearchState.empty(4)
        open_roots(np.array([0]), state)
        goal = Goal(3, np.ones(4, bool), True, cap)
        relax_row(settle_row(goal, state), m, 1.0, 0, goal, state)
        assert state.key.tolist() == [np.inf, 1.0, 2.0, np.inf if cap else 3.0]

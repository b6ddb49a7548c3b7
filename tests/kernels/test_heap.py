"""The heap of open items, against a sort; and the steps of a search."""

from __future__ import annotations

import numpy as np
import pytest

from metricmix.kernels.compile import kernel
from metricmix.kernels.heap import (
    clear,
    empty_ball,
    lift,
    reach,
    read_arcs,
    search,
    settle,
    take_first,
)
from tests.reference.paths import all_distances
from tests.reference.sparse import arcs, random_graph


@pytest.mark.parametrize("n", [1, 2, 3, 10, 100])
def test_items_leave_in_order_of_distance(n):
    rng = np.random.default_rng(n)
    dist = rng.random(n)
    heap, place = np.empty(n, np.int32), np.full(n, -1, np.int32)
    size = 0
    for v in rng.permutation(n):
        size = lift(v, size, heap, place, dist)
    for v in rng.choice(n, n // 2):  # distances fall while items are in the heap
        dist[v] *= rng.random()
        assert lift(v, size, heap, place, dist) == size
        assert heap[place[v]] == v
    taken = []
    while size:
        taken.append(take_first(size, heap, place, dist))
        size -= 1
    assert taken == np.argsort(dist).tolist()
    assert (place == -1).all()


def test_pushes_and_pops_in_any_order():
    rng = np.random.default_rng(0)
    dist = rng.random(60)
    heap, place = np.empty(60, np.int32), np.full(60, -1, np.int32)
    inside, waiting, size = set(), list(range(60)), 0
    while waiting or inside:
        if waiting and (not inside or rng.random() < 0.6):
            inside.add(waiting.pop())
            size = lift(max(inside - set(heap[:size].tolist())), size, heap, place, dist)
        else:
            first = take_first(size, heap, place, dist)
            size -= 1
            assert first == min(inside, key=lambda v: dist[v])
            inside.remove(first)


@kernel
def search_formed(graph, limit, radius, ball):
    search(read_arcs, graph, limit, radius, ball)


def is_clear(ball):
    return np.isinf(ball.dist).all() and (ball.place == -1).all() and not ball.counts.any()


def test_steps_of_a_search():
    ball = empty_ball(4)
    assert is_clear(ball)
    for v, distance in ((2, 3.0), (0, 1.0), (3, 2.0), (2, 0.5)):
        reach(v, distance, 1, ball)
    assert ball.counts.tolist() == [3, 0]
    assert ball.pred[[0, 2, 3]].tolist() == [1, 1, 1]
    assert [settle(ball), settle(ball)] == [2, 0]
    assert ball.order[:2].tolist() == [2, 0]
    clear(ball)  # one of them still open
    assert is_clear(ball)
    assert settle(ball) == -1


def test_the_arcs_of_an_item_lead_to_its_neighbours():
    w = np.array([[0, 1.0, 4.0, np.inf], [1, 0, 1, 5], [4, 1, 0, 1], [np.inf, 5, 1, 0]])
    ball = empty_ball(4)
    reach(1, 0.0, -1, ball)
    read_arcs(arcs(w), settle(ball), 3.0, ball)
    assert ball.dist.tolist() == [1.0, 0.0, 1.0, np.inf]


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("radius", [0.7, np.inf])
def test_a_search_settles_the_nearest_items_and_goes_on(seed, radius):
    graph = random_graph(seed)
    d = all_distances(graph.w)[0]
    n, ball = len(d), empty_ball(len(d))
    reach(0, 0.0, -1, ball)
    for limit in (1, 3, n):
        search_formed(arcs(graph.w), limit, radius, ball)
        count = ball.counts[1]
        within = np.sort(d[d < radius])
        assert count >= min(limit, len(within))
        if limit < count:  # all of those as near as the last
            assert ball.dist[ball.order[count - 1]] == ball.dist[ball.order[limit - 1]]
    order = ball.order[: ball.counts[1]]
    assert sorted(order.tolist()) == np.flatnonzero(d < radius).tolist()
    np.testing.assert_allclose(ball.dist[order], d[order], rtol=1e-12)
    for v in order[1:]:
        assert ball.dist[v] == ball.dist[ball.pred[v]] + graph.w[ball.pred[v], v]
    clear(ball)
    assert is_clear(ball)

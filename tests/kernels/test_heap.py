"""The heap of open items, against a sort."""

from __future__ import annotations

import numpy as np
import pytest

from metricmix.kernels.heap import lift, take_first


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

"""A heap of the open items of a search on a sparse graph, each in it at most once.

``dist`` holds the tentative distances, ``heap`` the open items, ``place`` where in the heap an item
is (-1 if it is not). Nothing here depends on anything but the numbers given.
"""

from __future__ import annotations

from metricmix.kernels.compile import kernel
from metricmix.typing import Floats, Ints

__all__ = ["lift", "take_first"]


@kernel
def lift(v: int, size: int, heap: Ints, place: Ints, dist: Floats) -> int:
    """Put item v into the heap, or move it up after its distance fell; return the new size."""
    at = place[v]
    if at < 0:
        at = size
        size += 1
    key = dist[v]
    while at > 0:
        above = (at - 1) // 2
        u = heap[above]
        if dist[u] <= key:
            break
        heap[at] = u
        place[u] = at
        at = above
    heap[at] = v
    place[v] = at
    return size


@kernel
def take_first(size: int, heap: Ints, place: Ints, dist: Floats) -> int:
    """Take the nearest item out of a heap that is not empty; its size is then one less."""
    first: int = heap[0]
    place[first] = -1
    last = size - 1
    if last == 0:
        return first
    v = heap[last]
    key = dist[v]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= last:
            break
        if below + 1 < last and dist[heap[below + 1]] < dist[heap[below]]:
            below += 1
        u = heap[below]
        if dist[u] >= key:
            break
        heap[at] = u
        place[u] = at
        at = below
    heap[at] = v
    place[v] = at
    return first

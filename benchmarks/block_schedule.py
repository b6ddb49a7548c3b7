"""A discrete-event simulation of blocks on a cluster.

Events are: a task reaches a worker, a block is computed, its result is written, the client has it.
Each worker computes one block at a time. Scheduler, shared disk and client are queues, each of
which serves one request after the other. The client submits `ahead` tasks for every worker, and one
more whenever a result has arrived: as :class:`metricmix.dask.Cluster` does.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["Machines", "Outcome", "simulate"]


@dataclass(frozen=True)
class Machines:
    """What a cluster is made of; times in seconds, rates in bytes a second.

    Attributes
    ----------
    workers : int
    message : float
        Time that scheduler and client take for a task: what a block without work costs.
    disk : float
        Rate of the shared disk, for inputs and results of all workers together.
    client : float
        Rate at which the client reads results.
    speed : float
        Speed of a worker beside the one on which blocks were measured.
    ahead : int
    """

    workers: int
    message: float
    disk: float
    client: float
    speed: float = 1.0
    ahead: int = 2


@dataclass
class Outcome:
    """What a simulated run took.

    Attributes
    ----------
    seconds : float
    busy : float
        Share of the time in which workers computed, on average.
    moved : float
        Bytes that went through the shared disk.
    """

    seconds: float
    busy: float
    moved: float


@dataclass
class Queue:
    """Something that serves one request after the other."""

    free: float = 0.0
    served: float = field(default=0.0)

    def serve(self, now: float, takes: float) -> float:
        """Return when a request that arrives now is done."""
        self.free = max(self.free, now) + takes
        self.served += takes
        return self.free


def simulate(
    seconds: Sequence[float], result_bytes: Sequence[float], inputs: float, machines: Machines
) -> Outcome:
    """Run blocks that take `seconds` each, and have results of `result_bytes`.

    Every worker first reads the inputs, while others may compute already.

    >>> cluster = Machines(workers=2, message=0.0, disk=1e9, client=1e9)
    >>> simulate([1.0] * 10, [0.0] * 10, 0.0, cluster).seconds
    5.0
    """
    scheduler, disk, client = Queue(), Queue(), Queue()
    count = len(seconds)
    # (time, order, kind, worker, block); a worker that is idle waits in `idle`.
    events: list[tuple[float, int, str, int, int]] = []
    waiting: list[int] = []
    idle: list[int] = []
    order = submitted = finished = 0
    now = work = 0.0

    def later(time: float, kind: str, worker: int, block: int) -> None:
        nonlocal order
        order += 1
        heapq.heappush(events, (time, order, kind, worker, block))

    def submit(time: float) -> None:
        nonlocal submitted
        if submitted < count:
            later(scheduler.serve(time, machines.message), "task", -1, submitted)
            submitted += 1

    for worker in range(machines.workers):
        later(disk.serve(0.0, inputs / machines.disk), "ready", worker, -1)
    for _ in range(machines.ahead * machines.workers):
        submit(0.0)
    while finished < count:
        now, _, kind, worker, block = heapq.heappop(events)
        if kind == "task":
            waiting.append(block)
        elif kind == "ready":
            idle.append(worker)
        elif kind == "computed":
            written = disk.serve(now, result_bytes[block] / machines.disk)
            later(written, "written", worker, block)
            later(written, "ready", worker, block)
        elif kind == "written":
            later(client.serve(now, result_bytes[block] / machines.client), "there", -1, block)
        else:
            finished += 1
            submit(now)
        while waiting and idle:
            chosen, block = idle.pop(0), waiting.pop(0)
            takes = seconds[block] / machines.speed
            work += takes
            later(now + takes, "computed", chosen, block)
    moved = inputs * machines.workers + 2 * sum(result_bytes)
    return Outcome(now, work / max(now * machines.workers, 1e-300), moved)

"""Tasks in phases: compiled code that hands out tasks to threads, and waits between phases.

Where tasks are short, handing them out from Python costs as much as the tasks do: only one thread
at a time runs Python. So threads call a kernel that takes tasks by itself, from a counter that all
of them share, and returns to Python after some of them, to read the clock. The tasks of a phase may
run at the same time; they begin when all tasks of earlier phases are done. Such a kernel is a loop

.. code-block:: python

    for _ in range(tasks_per_call):
        task = next_task(queue, seat)
        if task < 0:
            return task
        ...
        task_done(queue, seat)
    return BUSY

and :func:`run_phases` calls it on the threads of a pool. A thread waits for the others by reading
their counter, and after a tenth of a millisecond in Python, by sleeping: on a machine with fewer
free cores than threads it leaves its core to them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import intrinsic

from metricmix.kernels.compile import kernel
from metricmix.kernels.deadline import check_time
from metricmix.kernels.threads import ThreadPool
from metricmix.typing import Indices

__all__ = [
    "BUSY",
    "CALL_SECONDS",
    "OVER",
    "WAITING",
    "TaskQueue",
    "next_task",
    "run_phases",
    "task_done",
]

CALL_SECONDS = 0.1
"""Time that a kernel call should take, at most: then the clock is read."""
READINGS, PAUSE = 50_000, 1e-4
"""How often the counter is read before a thread sleeps, and for how many seconds it does."""
BUSY, WAITING, OVER = -1, -2, -3
"""Why a kernel comes back: it did its tasks, the next one has to wait, there are none left."""

_TAKEN, _DONE = 0, 8  # places of the counters, on cache lines of their own
_TASK, _PHASE = 0, 1  # places in the seat of a thread


class TaskQueue(NamedTuple):
    """Tasks 0, 1, … in phases: those of phase p are numbered below ``ends[p]``.

    `counters` holds how many are taken and how many are done.
    """

    ends: Indices
    counters: Indices


def run_phases(
    pool: ThreadPool, sizes: Sequence[int], work: Callable[[TaskQueue, Indices], int]
) -> None:
    """Do phases of so many tasks each on all threads of a pool.

    `work` calls a kernel as described above, with the queue and the seat of its thread: the task
    that it has taken and could not begin, or none, and its phase.
    """
    if not any(sizes):
        return
    queue = TaskQueue(np.cumsum(sizes, dtype=np.int64), np.zeros(16, np.int64))

    def until_over(_: int) -> None:
        seat = np.array([-1, 0, *[0] * 14])
        while True:
            check_time()
            state = work(queue, seat)
            if state == OVER:
                return
            phase = seat[_PHASE]
            while state == WAITING and queue.counters[_DONE] < queue.ends[phase - 1]:
                check_time()
                time.sleep(PAUSE)

    pool.run(until_over, range(pool.threads))


@kernel
def next_task(queue: TaskQueue, seat: Indices) -> int:
    """Return the number of a task that can begin, or why there is none."""
    if seat[_TASK] < 0:
        seat[_TASK] = add_atomically(queue.counters, _TAKEN, 1)
    task, phase = int(seat[_TASK]), int(seat[_PHASE])
    if task >= queue.ends[-1]:
        return OVER
    while queue.ends[phase] <= task:
        phase += 1
    seat[_PHASE] = phase
    before = queue.ends[phase - 1] if phase > 0 else 0
    for _ in range(READINGS):
        if read_atomically(queue.counters, _DONE) >= before:
            return task
    return WAITING


@kernel
def task_done(queue: TaskQueue, seat: Indices) -> None:
    """Say that the task of this thread is done."""
    seat[_TASK] = -1
    add_atomically(queue.counters, _DONE, 1)


def generate_addition(context: Any, array: Any, place: Any, amount: Any) -> tuple[Any, Any]:
    """Add to an entry of an array that other threads add to; return what it was before."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.atomic_rmw("add", builder.gep(data, [args[1]]), args[2], "seq_cst")

    return types.int64(array, types.int64, types.int64), generate


def generate_reading(context: Any, array: Any, place: Any) -> tuple[Any, Any]:
    """Read an entry that other threads write, and after it what they wrote before."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.load_atomic(builder.gep(data, [args[1]]), "seq_cst", 8)

    return types.int64(array, types.int64), generate


# Typed by hand: the stubs of numba know nothing of the missing first argument.
add_atomically: Any = intrinsic(generate_addition)
read_atomically: Any = intrinsic(generate_reading)

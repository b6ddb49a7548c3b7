"""Parallel loops over kernels on plain Python threads."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from types import TracebackType
from typing import TypeVar

import joblib
import numpy as np

from metricmix.exceptions import InputError

__all__ = ["ThreadPool", "effective_threads", "in_threads", "row_ranges", "threads_for"]

MANY = 64
"""Threads that may be asked for on any machine."""
WORTHWHILE = 256
"""Smallest n for which a pass over n × n entries is split over threads."""

T = TypeVar("T")
Result = TypeVar("Result")


@cache
def _cores() -> int:
    """Return the number of usable cores; cached, since the system call is slow."""
    return int(joblib.cpu_count())


def effective_threads(n_jobs: int | None = None) -> int:
    """Return the number of threads that `n_jobs` stands for.

    None means every core this process may use, or ``OMP_NUM_THREADS`` where it is set (as it is
    inside joblib's workers, so that nested parallelism does not oversubscribe the machine);
    negative numbers count from the cores downwards, as in scikit-learn. Numbers far above that of
    the cores are reduced, since no result depends on them: at most four threads per core, or
    `MANY`.
    """
    if n_jobs is None:
        limit = os.environ.get("OMP_NUM_THREADS", "")
        return min(_cores(), int(limit)) if limit.isdigit() and int(limit) > 0 else _cores()
    if not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0:
        raise InputError(
            argument="n_jobs", expected="None or a whole number other than 0", found=f"{n_jobs!r}"
        )
    if n_jobs < 0:
        return max(1, _cores() + 1 + int(n_jobs))
    return int(min(n_jobs, max(4 * _cores(), MANY)))


def threads_for(n: int, n_jobs: int | None = None) -> int:
    """Return how many threads to use on work of size n × n: one where starting them costs more."""
    return effective_threads(n_jobs) if n >= WORTHWHILE else 1


def in_threads(
    function: Callable[[T], Result], tasks: Iterable[T], n_jobs: int | None = None
) -> list[Result]:
    """Return ``[function(task) for task in tasks]``, computed on several threads.

    The results come in the order of the tasks, so nothing depends on the number of threads.
    """
    work = list(tasks)
    threads = min(effective_threads(n_jobs), len(work))
    if threads <= 1:
        return [function(task) for task in work]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, work))


class ThreadPool:
    """A pool of threads for many short parallel loops.

    Starting threads costs as much as a short task, so the threads are reused. The calling thread
    takes tasks too.
    """

    def __init__(self, threads: int) -> None:
        self.threads = max(1, threads)
        self._pool = ThreadPoolExecutor(max(1, self.threads - 1))

    def __enter__(self) -> ThreadPool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pool.shutdown()

    def run(self, function: Callable[[T], Result], tasks: Sequence[T]) -> list[Result]:
        """Return ``[function(task) for task in tasks]``; idle threads take the next task."""
        if self.threads == 1 or len(tasks) == 1:
            return [function(task) for task in tasks]
        left = deque(enumerate(tasks))
        done: dict[int, Result] = {}

        def work() -> None:
            while True:
                try:
                    place, task = left.popleft()
                except IndexError:
                    return
                done[place] = function(task)

        others = [self._pool.submit(work) for _ in range(min(self.threads, len(tasks)) - 1)]
        try:
            work()
        finally:  # no task keeps running in the background after an error
            left.clear()
            errors = [other.exception() for other in others]
        for error in errors:
            if error is not None:
                raise error
        return [done[place] for place in range(len(tasks))]


def row_ranges(n: int, unit: int, parts: int, triangle: bool = False) -> list[tuple[int, int]]:
    """Split 0 .. n into at most `parts` ranges that begin at multiples of `unit`.

    The ranges have equal numbers of rows or, if `triangle`, of entries below the diagonal. The last
    rows, which have the most such entries, come first.
    """
    shares = np.arange(parts) / parts
    starts = np.unique((n * (np.sqrt(shares) if triangle else shares)).astype(int) // unit * unit)
    stops = [*starts[1:].tolist(), n]
    return list(zip(starts.tolist(), stops, strict=True))[::-1]

"""Running kernels side by side on plain Python threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

import joblib

from metricmix.exceptions import InputError

__all__ = ["effective_threads", "in_threads", "threads_for"]

WORTHWHILE = 256
"""Items from which passes over n × n entries are shared out over threads."""

T = TypeVar("T")
Result = TypeVar("Result")


@cache
def _cores() -> int:
    """Return the cores this process may use; asking the system takes longer than a short search."""
    return int(joblib.cpu_count())


def effective_threads(n_jobs: int | None = None) -> int:
    """Return the number of threads that `n_jobs` stands for.

    None means every core this process may use, or ``OMP_NUM_THREADS`` where it is set (as it is
    inside joblib's workers, so that nested parallelism does not oversubscribe the machine);
    negative numbers count from the cores downwards, as in scikit-learn.
    """
    if n_jobs is None:
        limit = os.environ.get("OMP_NUM_THREADS", "")
        return min(_cores(), int(limit)) if limit.isdigit() and int(limit) > 0 else _cores()
    if not isinstance(n_jobs, int) or n_jobs == 0:
        raise InputError(f"n_jobs: expected None or a whole number other than 0, got {n_jobs!r}")
    if n_jobs < 0:
        return max(1, _cores() + 1 + n_jobs)
    return max(1, n_jobs)


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

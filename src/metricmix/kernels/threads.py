"""Parallel loops over kernels on plain Python threads, and the deadline that stops them.

Compiled code can neither read the clock nor see Ctrl-C. So no kernel call takes long: loops call
kernels task by task, or slice by slice, and read the clock in between (:func:`check_time`). When
the time is up, :class:`TimeUp` is raised there. :func:`metricmix.solvers.loop.run` catches it.
"""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import cache
from threading import Thread
from types import TracebackType
from typing import Any, TypeVar

import joblib
import numpy as np

from metricmix.exceptions import Heard, InputError, issue, kept_warnings

__all__ = [
    "Deadline",
    "ThreadPool",
    "TimeUp",
    "call_in_background",
    "check_time",
    "effective_threads",
    "in_threads",
    "one_thread",
    "row_ranges",
    "stop_after",
    "threads_for",
    "time_is_up",
    "time_left",
    "use_deadline",
    "within_a_task",
]

MANY = 64
"""Threads that may be asked for on any machine."""
WORTHWHILE = 256
"""Smallest n for which a pass over n × n entries is split over threads."""

T = TypeVar("T")
Result = TypeVar("Result")


# -- the deadline ---------------------------------------------------------------------------------

OVERTIME_SHARE, OVERTIME = 0.05, 0.2
"""Time that work in progress gets after a limit, as a share of it and in seconds. Limits may be
exceeded by a tenth and a second; the rest is for the end of a run and for slow machines."""


class TimeUp(Exception):  # noqa: N818 (nothing has gone wrong)
    """The deadline has passed, or another thread has failed: leave the work as it is."""


@dataclass
class Deadline:
    """When to stop, as values of the clock.

    Attributes
    ----------
    end : float
        No new work begins after this.
    last : float
        Work in progress is given up after this.
    stopped : bool
        Whether another thread has failed or was interrupted.
    outer : Deadline, optional
        That of the thread that started this one.
    """

    end: float = math.inf
    last: float = math.inf
    stopped: bool = False
    outer: Deadline | None = None

    def has_passed(self) -> bool:
        """Return whether to give up work in progress."""
        over = self.last < math.inf and time.perf_counter() >= self.last
        return over or self.stopped or (self.outer is not None and self.outer.has_passed())


_deadline: ContextVar[Deadline | None] = ContextVar("deadline", default=None)
_in_pool: ContextVar[bool] = ContextVar("in_pool", default=False)
"""Whether this thread works on a task of a pool."""


def within_a_task() -> bool:
    """Return whether this thread works on a task of a pool, or of a cluster."""
    return _in_pool.get()


@contextmanager
def one_thread() -> Iterator[None]:
    """Use no other threads inside: this is a task of a worker, beside others."""
    token = _in_pool.set(True)
    try:
        yield
    finally:
        _in_pool.reset(token)


@contextmanager
def stop_after(seconds: float | None) -> Iterator[Deadline]:
    """Give the work inside so many seconds; None is no limit. Of nested limits the first counts.

    >>> with stop_after(60.0):
    ...     time_is_up()
    False
    """
    deadline = _within(_deadline.get())
    if seconds is not None:
        end = time.perf_counter() + seconds
        last = end + OVERTIME_SHARE * seconds + OVERTIME
        deadline.end, deadline.last = min(deadline.end, end), min(deadline.last, last)
    with use_deadline(deadline):
        yield deadline


def _within(outer: Deadline | None) -> Deadline:
    """Return a deadline that passes with another one, and can be stopped by itself."""
    return Deadline() if outer is None else Deadline(outer.end, outer.last, outer=outer)


@contextmanager
def use_deadline(deadline: Deadline) -> Iterator[None]:
    """Make this the deadline of the work inside, whatever the one outside is."""
    token = _deadline.set(deadline)
    try:
        yield
    finally:
        _deadline.reset(token)


def time_is_up() -> bool:
    """Return whether no new work should begin, for loops that can end at any time."""
    deadline = _deadline.get()
    if deadline is None:
        return False
    over = deadline.end < math.inf and time.perf_counter() >= deadline.end
    return over or deadline.has_passed()


def time_left() -> float:
    """Return the seconds until the deadline passes."""
    deadline = _deadline.get()
    return math.inf if deadline is None else max(0.0, deadline.last - time.perf_counter())


def check_time() -> None:
    """Raise TimeUp if the deadline has passed."""
    deadline = _deadline.get()
    if deadline is not None and deadline.has_passed():
        raise TimeUp


# -- threads --------------------------------------------------------------------------------------


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
    with ThreadPool(min(effective_threads(n_jobs), len(work))) as pool:
        return pool.run(function, work)


def call_in_background(function: Callable[..., Result], *args: Any, **options: Any) -> Result:
    """Return ``function(*args, **options)``, a long call to another library, from another thread.

    The calling thread only waits, so that it can be interrupted. When the time is up, or after
    Ctrl-C, the call goes on in the background and its result is dropped: it must not write to
    shared arrays.

    >>> call_in_background(pow, 2, 5)
    32
    """
    future: Future[Result] = Future()

    def call() -> None:
        try:
            future.set_result(function(*args, **options))
        except BaseException as error:
            future.set_exception(error)

    Thread(target=call, daemon=True).start()
    left = time_left()
    try:
        return future.result(None if math.isinf(left) else left)
    except TimeoutError:
        raise TimeUp from None


class ThreadPool:
    """A pool of threads for many short parallel loops.

    Starting threads costs as much as a short task, so the threads are reused. The calling thread
    takes tasks too.
    """

    def __init__(self, threads: int) -> None:
        self.threads = max(1, threads)
        self._pool: ThreadPoolExecutor | None = None  # made when first needed

    def __enter__(self) -> ThreadPool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def run(
        self, function: Callable[[T], Result], tasks: Sequence[T], *, partial: bool = False
    ) -> list[Result]:
        """Return ``[function(task) for task in tasks]``; idle threads take the next task.

        Threads see the context variables of the caller, and warnings of tasks are issued by the
        calling thread when all are done, in the order of the tasks.

        With `partial`, the results of the tasks that are done when the time is up, if any are.

        Raises
        ------
        TimeUp
            If the deadline passes. Then, and after any other error or Ctrl-C, all threads stop at
            their next task or :func:`check_time`, before this returns.
        """
        if self.threads == 1 or len(tasks) == 1 or _in_pool.get():  # within a task, none is free
            results: list[Result] = []
            try:
                for task in tasks:
                    check_time()
                    results.append(function(task))
            except TimeUp:
                if not (partial and results):
                    raise
            return results
        deadline = _within(_deadline.get())
        left = deque(enumerate(tasks))
        done: dict[int, Result] = {}
        heard: dict[int, Heard] = {}

        def work() -> None:
            token = _in_pool.set(True)
            try:
                with use_deadline(deadline):
                    while left:
                        check_time()
                        try:
                            place, task = left.popleft()
                        except IndexError:  # another thread took the last one
                            return
                        with kept_warnings() as said:
                            done[place] = function(task)
                        if said:
                            heard[place] = said
            except BaseException:
                deadline.stopped = True
                raise
            finally:
                _in_pool.reset(token)

        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.threads - 1)
        started = min(self.threads, len(tasks)) - 1
        others = [self._pool.submit(copy_context().run, work) for _ in range(started)]
        try:
            work()
            for other in others:
                other.result()
        except BaseException as error:  # no task keeps running in the background
            deadline.stopped = True
            wait(others)
            # The others have stopped because of the first error, or as the time is up.
            errors = [error, *(other.exception() for other in others)]
            first = next((e for e in errors if e and not isinstance(e, TimeUp)), error)
            if first is not error:
                raise first from None
            if not (partial and done and isinstance(error, TimeUp)):
                raise
        for place in sorted(heard):
            issue(heard[place])
        return [done[place] for place in sorted(done)]


def row_ranges(n: int, unit: int, parts: int, triangle: bool = False) -> list[tuple[int, int]]:
    """Split 0 .. n into at most `parts` ranges that begin at multiples of `unit`.

    The ranges have equal numbers of rows or, if `triangle`, of entries below the diagonal. The last
    rows, which have the most such entries, come first.
    """
    shares = np.arange(parts) / parts
    starts = np.unique((n * (np.sqrt(shares) if triangle else shares)).astype(int) // unit * unit)
    stops = [*starts[1:].tolist(), n]
    return list(zip(starts.tolist(), stops, strict=True))[::-1]

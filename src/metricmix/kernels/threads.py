"""Parallel loops over kernels on plain Python threads.

A loop hands its tasks to the threads of a pool. A task may contain a loop of its own: its tasks are
taken by threads of the same pool that have nothing else to do, so that all cores stay in use where
few long tasks are left, and never more threads run than the pool has.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from functools import cache
from threading import Condition, Lock, Thread
from types import TracebackType
from typing import Any, Generic, TypeVar

import joblib
import numpy as np

from metricmix.exceptions import Heard, InputError, issue, kept_warnings
from metricmix.kernels.deadline import (
    TimeUp,
    check_time,
    inner_deadline,
    time_left,
    use_deadline,
)

__all__ = [
    "ThreadPool",
    "call_in_background",
    "effective_threads",
    "in_threads",
    "one_thread",
    "row_ranges",
    "threads_for",
    "within_a_task",
]

MANY = 64
"""Threads that may be asked for on any machine."""
WORTHWHILE = 256
"""Smallest n for which a pass over n × n entries is split over threads."""

T = TypeVar("T")
Result = TypeVar("Result")


def within_a_task() -> bool:
    """Return whether this thread works on a task of a pool, or of a cluster."""
    return current_team.get() is not None


@contextmanager
def one_thread() -> Iterator[None]:
    """Use no other threads inside: this is a task of a worker, beside others."""
    token = current_team.set(Team(1))
    try:
        yield
    finally:
        current_team.reset(token)


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


class Loop(Generic[T, Result]):
    """A loop over tasks that several threads take.

    Attributes
    ----------
    left : deque
        Tasks that nobody has taken, numbered.
    done, heard : dict
        Results, and warnings, by the numbers of the tasks.
    errors : list
        What ended the work of a thread.
    context : Context
        The context variables of the thread that began the loop; threads work in copies of it.
    helpers : int
        Other threads at work on it; changed by their team.
    """

    def __init__(self, function: Callable[[T], Result], tasks: Iterable[T], team: Team) -> None:
        self.function, self.left = function, deque(enumerate(tasks))
        self.deadline = inner_deadline()
        self.done: dict[int, Result] = {}
        self.heard: dict[int, Heard] = {}
        self.errors: list[BaseException] = []
        self.helpers = 0
        token = current_team.set(team)
        self.context: Context = copy_context()
        current_team.reset(token)

    def help(self) -> None:
        """Do tasks until all are taken, or until an error or the deadline."""
        try:
            with use_deadline(self.deadline):
                while self.left:
                    check_time()
                    try:
                        number, task = self.left.popleft()
                    except IndexError:  # another thread took the last one
                        return
                    with kept_warnings() as said:
                        self.done[number] = self.function(task)
                    if said:
                        self.heard[number] = said
        except BaseException as error:
            self.deadline.stopped = True
            self.errors.append(error)

    @property
    def error(self) -> BaseException | None:
        """What went wrong: other threads have stopped because of the first error."""
        first = next((error for error in self.errors if not isinstance(error, TimeUp)), None)
        return first or next(iter(self.errors), None)


class Team:
    """The threads of a pool, and the loops that they can help with.

    Parameters
    ----------
    threads : int
        With the one that begins the outermost loop.
    """

    def __init__(self, threads: int) -> None:
        self.threads, self.closed = threads, False
        self.loops: list[Loop[Any, Any]] = []
        lock = Lock()
        self.begun, self.ended = Condition(lock), Condition(lock)
        self.helpers = [Thread(target=self.help, daemon=True) for _ in range(threads - 1)]
        for helper in self.helpers:
            helper.start()

    def run(self, loop: Loop[Any, Any]) -> None:
        """Do all tasks of a loop; others help when they have nothing to do."""
        try:
            with self.begun:
                self.loops.append(loop)
                self.begun.notify(len(loop.left) - 1)
            loop.context.copy().run(loop.help)
        finally:
            with self.ended:
                if loop in self.loops:
                    self.loops.remove(loop)
                while loop.helpers:
                    try:
                        self.ended.wait()
                    except KeyboardInterrupt as error:  # wait for them nevertheless
                        loop.deadline.stopped = True
                        loop.errors.append(error)

    def close(self) -> None:
        """Let the threads end."""
        with self.begun:
            self.closed = True
            self.begun.notify_all()
        for helper in self.helpers:
            helper.join()

    def help(self) -> None:
        """Help with loops until the pool is closed."""
        with self.begun:
            while not self.closed:
                # The oldest first: its tasks are the longest.
                loop = next((loop for loop in self.loops if loop.left), None)
                if loop is None:
                    self.begun.wait()
                    continue
                loop.helpers += 1
                self.begun.release()
                try:
                    loop.context.copy().run(loop.help)
                finally:
                    self.begun.acquire()
                    loop.helpers -= 1
                    if not loop.helpers:
                        self.ended.notify_all()


current_team: ContextVar[Team | None] = ContextVar("current_team", default=None)
"""The threads that this one works with, inside a task."""


class ThreadPool:
    """A pool of threads for many short parallel loops.

    Starting threads costs as much as a short task, so the threads are reused. The calling thread
    takes tasks too. Inside a task of another pool, its threads are used.
    """

    def __init__(self, threads: int) -> None:
        self.threads = max(1, threads)
        self._own: Team | None = None  # made when first needed

    def __enter__(self) -> ThreadPool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._own is not None:
            self._own.close()

    def team_for(self, tasks: int) -> Team | None:
        """Return who works on a loop, or None if this thread does so alone."""
        team = current_team.get()
        if self.threads == 1 or tasks < 2 or (team is not None and team.threads == 1):
            return None
        if team is None:
            team = self._own = self._own or Team(self.threads)
        return team

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
        team = self.team_for(len(tasks))
        if team is None:
            results: list[Result] = []
            try:
                for task in tasks:
                    check_time()
                    results.append(function(task))
            except TimeUp:
                if not (partial and results):
                    raise
            return results
        loop = Loop(function, tasks, team)
        team.run(loop)
        error = loop.error
        if error is not None and not (partial and loop.done and isinstance(error, TimeUp)):
            raise error
        for number in sorted(loop.heard):
            issue(loop.heard[number])
        return [loop.done[number] for number in sorted(loop.done)]


def row_ranges(n: int, unit: int, parts: int, triangle: bool = False) -> list[tuple[int, int]]:
    """Split 0 .. n into at most `parts` ranges that begin at multiples of `unit`.

    The ranges have equal numbers of rows or, if `triangle`, of entries below the diagonal. The last
    rows, which have the most such entries, come first.
    """
    shares = np.arange(parts) / parts
    starts = np.unique((n * (np.sqrt(shares) if triangle else shares)).astype(int) // unit * unit)
    stops = [*starts[1:].tolist(), n]
    return list(zip(starts.tolist(), stops, strict=True))[::-1]

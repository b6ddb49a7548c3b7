"""The deadline of long work, and the time left until then.

Compiled code can neither read the clock nor see Ctrl-C. So no kernel call takes long: loops call
kernels task by task, or slice by slice, and read the clock in between (:func:`check_time`). When
the time is up, :class:`TimeUp` is raised there. :func:`metricmix.solvers.loop.run` catches it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

__all__ = [
    "Deadline",
    "TimeUp",
    "check_time",
    "inner_deadline",
    "stop_after",
    "time_is_up",
    "time_left",
    "use_deadline",
]

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


@contextmanager
def stop_after(seconds: float | None) -> Iterator[Deadline]:
    """Give the work inside so many seconds; None is no limit. Of nested limits the first counts.

    >>> with stop_after(60.0):
    ...     time_is_up()
    False
    """
    deadline = inner_deadline()
    if seconds is not None:
        end = time.perf_counter() + seconds
        last = end + OVERTIME_SHARE * seconds + OVERTIME
        deadline.end, deadline.last = min(deadline.end, end), min(deadline.last, last)
    with use_deadline(deadline):
        yield deadline


def inner_deadline() -> Deadline:
    """Return a deadline that passes with the one here, and can be stopped by itself."""
    outer = _deadline.get()
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

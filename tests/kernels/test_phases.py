"""Tasks in phases: each is done once, and after all tasks of earlier phases."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from metricmix.kernels import phases
from metricmix.kernels.compile import kernel
from metricmix.kernels.deadline import TimeUp, stop_after
from metricmix.kernels.phases import BUSY, next_task, run_phases, task_done
from metricmix.kernels.threads import ThreadPool

SIZES = [1, 7, 40, 1, 1, 90, 3] * 20


@kernel
def note_tasks(queue, seat, clock, begun, ended, at_once):
    """Note when each task begins and ends, on a clock that all threads move."""
    for _ in range(at_once):
        task = next_task(queue, seat)
        if task < 0:
            return task
        begun[task] = phases.add_atomically(clock, 0, 1)
        ended[task] = phases.add_atomically(clock, 0, 1)
        task_done(queue, seat)
    return BUSY


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("at_once", [1, 1000])
def test_phases_follow_each_other(threads, at_once, monkeypatch):
    monkeypatch.setattr(phases, "PAUSE", 0.0)
    clock, begun, ended = np.zeros(1, np.int64), np.full(sum(SIZES), -1), np.full(sum(SIZES), -1)
    with ThreadPool(threads) as pool:
        run_phases(pool, SIZES, lambda *seat: note_tasks(*seat, clock, begun, ended, at_once))
    assert sorted([*begun, *ended]) == list(range(2 * sum(SIZES)))
    bounds = np.cumsum([0, *SIZES])
    for (low, middle), (_, high) in pairwise(pairwise(bounds)):
        assert ended[low:middle].max() < begun[middle:high].min()


def test_no_tasks():
    with ThreadPool(2) as pool:
        for sizes in ([], [0, 0]):
            run_phases(pool, sizes, lambda *_: pytest.fail("there is no task"))


def test_waiting_threads_stop_with_the_others():
    """The first task fails, so that the second phase never begins."""
    calls = []

    def work(queue, seat):
        task = next_task(queue, seat)
        calls.append(task)
        if task == 0:
            raise ZeroDivisionError
        return phases.WAITING if task < 0 else BUSY

    with ThreadPool(3) as pool, pytest.raises(ZeroDivisionError):
        run_phases(pool, [1, 5], work)
    assert max(calls) == 0


def test_the_clock_is_read_between_calls():
    with ThreadPool(1) as pool, stop_after(0.0) as deadline:
        deadline.last = 0.0
        with pytest.raises(TimeUp):
            run_phases(pool, [3], lambda *_: BUSY)

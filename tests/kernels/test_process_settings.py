"""Settings of the process stay as they were, in whatever order threads leave them."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from contextlib import ExitStack
from itertools import permutations
from typing import Any

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from metricmix.exceptions import (
    ConvergenceWarning,
    ProjectionWarning,
    warn_caller,
    without_warnings,
)
from metricmix.kernels.process_settings import (
    blas_threads,
    ignored_warnings,
    kept_filters,
    small_products,
)

each_order = pytest.mark.parametrize("order", list(permutations(range(3))))


def threads_of_blas() -> set[int]:
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


def test_blas_has_the_threads_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    with threadpool_limits(2, user_api="blas"):
        before = threads_of_blas()
        with blas_threads(1):
            assert threads_of_blas() == {1}
            monkeypatch.setitem(sys.modules, "imported.now", sys)  # the libraries are found again
            with blas_threads(2):
                assert threads_of_blas() == {1}  # of overlapping limits, the first
            assert threads_of_blas() == {1}
        assert threads_of_blas() == before
        with small_products(1001):
            assert threads_of_blas() == before


@each_order
def test_the_last_to_leave_restores_the_threads_of_blas(
    order: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    with threadpool_limits(2, user_api="blas"):
        before = threads_of_blas()
        users = [ExitStack() for _ in order]
        for k, user in enumerate(users):
            user.enter_context(blas_threads(1))
            monkeypatch.setitem(sys.modules, f"imported.{k}", sys)
        for k in order:
            assert threads_of_blas() == {1}
            users[k].close()
        assert threads_of_blas() == before


@each_order
def test_the_last_to_leave_restores_the_filters_of_warnings(order: tuple[int, ...]) -> None:
    before = list(warnings.filters)
    users = [ExitStack() for _ in order]
    for user, message in zip(users, ("first", "second", ""), strict=True):
        user.enter_context(ignored_warnings(message))
    for k in order:
        warnings.warn("first of all", UserWarning, stacklevel=1)
        users[k].close()
    assert warnings.filters == before
    with pytest.raises(UserWarning, match="first of all"):
        warnings.warn("first of all", UserWarning, stacklevel=1)


def test_filters_that_other_packages_leave_wrong_are_restored() -> None:
    before = list(warnings.filters)
    tasks, checks = [ExitStack(), ExitStack()], [ExitStack(), ExitStack()]
    for task, check in zip(tasks, checks, strict=True):
        task.enter_context(kept_filters())
        check.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
    for task, check in zip(tasks, checks, strict=True):
        check.close()
        task.close()
    assert warnings.filters == before


def test_a_change_that_fails_counts_for_nothing() -> None:
    before = threads_of_blas()
    bad: Any = "one"
    with pytest.raises(TypeError), blas_threads(bad):
        pass
    with blas_threads(1):
        assert threads_of_blas() == {1}
    assert threads_of_blas() == before


OTHER_THREAD_LEAVES_LAST = """
import threading
import numpy
from threadpoolctl import threadpool_info
from metricmix.kernels.process_settings import blas_threads

def threads():
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}

def first():
    with blas_threads(1):
        entered.set()
        joined.wait()
    left.set()
    end.wait()  # alive when the other one leaves

before = threads()
entered, joined, left, end = (threading.Event() for _ in range(4))
thread = threading.Thread(target=first, daemon=True)
thread.start()
entered.wait()
with blas_threads(1):
    joined.set()
    left.wait()
    assert threads() == {1}
assert threads() == before == {2}, (threads(), before)
end.set()
"""


def test_another_thread_than_the_one_that_set_a_limit_may_lift_it() -> None:
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    subprocess.run([sys.executable, "-c", OTHER_THREAD_LEAVES_LAST], env=environment, check=True)


def test_own_warnings_are_silenced_by_category() -> None:
    with without_warnings(ConvergenceWarning):
        warn_caller("silent", ConvergenceWarning)
        with without_warnings(ProjectionWarning):
            warn_caller("silent", ConvergenceWarning)
            warn_caller("silent", ProjectionWarning)
        with pytest.warns(ProjectionWarning):
            warn_caller("heard", ProjectionWarning)
    with pytest.warns(ConvergenceWarning):
        warn_caller("heard", ConvergenceWarning)

"""How many threads there are, and that their number changes nothing."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import joblib
import numpy as np
import pytest
import scipy.linalg  # noqa: F401  # brings a BLAS of its own

import metricmix as mm
from metricmix.exceptions import ConvergenceWarning, InputError, warn_caller, without_warnings
from metricmix.kernels.threads import (
    MANY,
    ThreadPool,
    effective_threads,
    in_threads,
    one_thread,
    row_ranges,
    within_a_task,
)


def test_all_cores_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert effective_threads() == joblib.cpu_count()
    assert effective_threads(3) == 3
    assert effective_threads(-1) == joblib.cpu_count()
    assert effective_threads(-10_000) == 1
    for nonsense in (0, 1.5, "two"):
        with pytest.raises(InputError, match="n_jobs: expected"):
            effective_threads(nonsense)


def test_huge_numbers_are_reduced(monkeypatch: pytest.MonkeyPatch) -> None:
    assert effective_threads(np.int64(3)) == 3
    for cores, most in ((2, MANY), (100, 400)):
        monkeypatch.setattr("metricmix.kernels.threads._cores", lambda cores=cores: cores)
        for huge in (10**9, 10**30, np.int64(2**62)):
            assert effective_threads(huge) == most
        assert effective_threads(-(10**30)) == 1


def test_models_take_huge_numbers(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(300, 2))
    X[150:] += 3
    y = np.where(np.arange(300) % 2, np.arange(300) // 150, -1)
    before = threading.active_count()
    models = [
        mm.MetricMixtureClassifier(["euclidean", "cityblock"], rule=rule, n_jobs=n_jobs).fit(X, y)
        for rule in ("nearest", "class-mean")
        for n_jobs in (1, 10**9)
    ]
    for one, many in (models[:2], models[2:]):
        mm.save(many, tmp_path / "model.mm")
        loaded = mm.load(tmp_path / "model.mm")
        assert loaded.n_jobs == 10**9
        for model in (many, loaded):
            np.testing.assert_array_equal(model.predict(X + 0.1), one.predict(X + 0.1))
            np.testing.assert_array_equal(model.transduction_, one.transduction_)
            np.testing.assert_array_equal(model.weights_, one.weights_)
        parts = (many.stack_, many.mixture_)
        np.testing.assert_array_equal(
            mm.path_metric(*parts, n_jobs=10**9), mm.path_metric(*parts, n_jobs=1)
        )
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("value", "threads"), [("1", 1), ("10000", None), ("0", None), ("x", None)]
)
def test_openmp_limit_is_kept(
    monkeypatch: pytest.MonkeyPatch, value: str, threads: int | None
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert effective_threads() == (threads or joblib.cpu_count())


@pytest.mark.parametrize("n_jobs", [1, 2, 7])
def test_results_come_in_order(n_jobs: int) -> None:
    assert in_threads(lambda x: x * x, range(20), n_jobs) == [x * x for x in range(20)]


def test_errors_come_through() -> None:
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda x: 1 / x, [1, 0, 2], 2)


@pytest.mark.parametrize("threads", [0, 1, 2, 7])
def test_a_pool_is_reused(threads: int) -> None:
    with ThreadPool(threads) as pool:
        for count in (20, 1, 0, 3):
            assert pool.run(lambda x: x * x, range(count)) == [x * x for x in range(count)]
        with pytest.raises(ZeroDivisionError):
            pool.run(lambda x: 1 / x, [1, 0, 2, 0])
        assert pool.run(lambda x: -x, [4, 5]) == [-4, -5]


@pytest.mark.parametrize("triangle", [False, True])
def test_ranges_cover_all_rows_once(triangle: bool) -> None:
    for n, unit, parts in ((1, 6, 4), (100, 6, 4), (1000, 64, 7)):
        ranges = row_ranges(n, unit, parts, triangle)
        rows = [i for low, high in ranges[::-1] for i in range(low, high)]
        assert rows == list(range(n))
        assert all(low % unit == 0 for low, _ in ranges)
        assert len(ranges) <= parts


def test_nothing_to_do() -> None:
    assert in_threads(lambda x: x, [], 2) == []


def test_kernels_run_in_two_threads_and_after_a_fork() -> None:
    code = """
import os, threading, numpy as np, metricmix as mm
W = np.random.default_rng(0).random((700, 700)); W += W.T; np.fill_diagonal(W, 0)
want = mm.project(W, n_jobs=1)
same = []
check = lambda: same.append((mm.project(W) == want).all())
threads = [threading.Thread(target=check) for _ in range(2)]
[t.start() for t in threads]; [t.join() for t in threads]
assert same == [True, True]
child = os.fork()
if child == 0:
    os._exit(0 if (mm.project(W) == want).all() else 1)
assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=120)


def test_a_task_may_run_tasks() -> None:
    """Of a pool with two threads, both wait within their tasks for threads that are not there."""
    both = threading.Barrier(2)
    with ThreadPool(2) as pool:

        def task(k: int) -> list[int]:
            both.wait(10)
            return pool.run(lambda part: k + part, [1, 2, 3])

        assert pool.run(task, [10, 20]) == [[11, 12, 13], [21, 22, 23]]


def test_free_threads_help_with_the_tasks_of_a_task() -> None:
    """All four tasks wait for each other, so that they need a thread each: four in all."""
    four, names = threading.Barrier(4), set()

    def inner(k: int) -> int:
        four.wait(10)
        names.add(threading.get_ident())
        assert within_a_task()
        return k

    def outer(k: int) -> list[int]:
        return in_threads(inner, range(4), 4) if k == 0 else [k]

    with ThreadPool(4) as pool:
        assert pool.run(outer, [0, 1]) == [[0, 1, 2, 3], [1]]
        assert len(names) == 4
    assert not within_a_task()


def test_nested_loops_take_no_more_threads_than_there_are() -> None:
    now, most, lock = 0, 0, threading.Lock()

    def innermost(_: int) -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.001)
        with lock:
            now -= 1

    def nested(_: int) -> None:
        in_threads(innermost, range(5), 9)

    in_threads(lambda _: in_threads(nested, range(3), 9), range(4), 3)
    assert 1 < most <= 3


def test_a_worker_uses_no_other_threads() -> None:
    with one_thread():
        found = in_threads(lambda _: threading.get_ident(), range(50), 4)
    assert set(found) == {threading.get_ident()}


def test_errors_of_helpers_come_through_both_loops() -> None:
    two = threading.Barrier(2)

    def inner(k: int) -> None:
        two.wait(10)
        if k == 1:
            raise ZeroDivisionError

    def outer(k: int) -> None:
        if k == 0:
            in_threads(inner, [0, 1], 2)

    with ThreadPool(2) as pool:
        for _ in range(20):
            with pytest.raises(ZeroDivisionError):
                pool.run(outer, [0, 1])
        assert pool.run(abs, [-1, -2]) == [1, 2]


def test_helpers_see_the_context_that_a_loop_began_in() -> None:
    """What a task changes for itself, here the handling of errors of numpy, is its own."""
    two = threading.Barrier(2)

    def inner(k: int) -> float:
        with np.errstate(divide="ignore" if k == 0 else "raise"):
            two.wait(10)
            if k == 1:
                with pytest.raises(FloatingPointError):
                    np.float64(1.0) / 0.0
            two.wait(10)
            return float(np.float64(1.0) / 0.0) if k == 0 else 0.0

    with ThreadPool(2) as pool, np.errstate(divide="warn"):
        assert pool.run(lambda k: in_threads(inner, [0, 1], 2) if k == 0 else [], [0, 1])[0] == [
            np.inf,
            0.0,
        ]


def test_warnings_of_tasks_are_issued_by_the_caller_in_their_order() -> None:
    both = threading.Barrier(2)

    def task(k: int) -> None:
        both.wait(10)
        for word in ("a", "b"):
            warn_caller(f"{k} {word}", ConvergenceWarning)

    with warnings.catch_warnings(record=True) as caught, ThreadPool(2) as pool:
        warnings.simplefilter("always")
        pool.run(task, [0, 1, 2, 3])
    assert [str(w.message) for w in caught] == [f"{k} {word}" for k in range(4) for word in "ab"]
    assert {w.filename for w in caught} == {__file__}


def test_tasks_see_the_context_of_the_caller() -> None:
    both = threading.Barrier(2)

    def task(k: int) -> float:
        both.wait(10)
        warn_caller("silent", ConvergenceWarning)
        return float(np.float64(k) / 0.0)

    with np.errstate(divide="ignore"), without_warnings(ConvergenceWarning):
        assert in_threads(task, [1, 2], 2) == [np.inf, np.inf]

"""Threads of one process beside as many processes of one thread: the share of the cores in use."""

from __future__ import annotations

import multiprocessing
import os
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.measure import headline, table
from metricmix.dissimilarity.nearest_items import nearest_items
from metricmix.kernels.threads import effective_threads
from metricmix.metric import metric_violations
from metricmix.nearness import nearest_metric, violation_counts
from metricmix.paths import project, shortest_path_trees

TITLE = "Threads beside processes"

Job = Callable[[Any, int], object]


def lengths(n: int, dtype: str) -> np.ndarray:
    """Random lengths: hardly any work can be skipped."""
    W = np.random.default_rng(0).random((n, n), np.float32).astype(dtype)
    W += 0.01
    W = np.minimum(W, W.T)
    np.fill_diagonal(W, 0.0)
    return W


def rows(n: int, columns: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, columns))


def close(W: np.ndarray, threads: int) -> object:
    return project(W, n_jobs=threads)


def check(W: np.ndarray, threads: int) -> object:
    return metric_violations(W, n_jobs=threads)


def repair(W: np.ndarray, threads: int) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the gap is not closed after so few rounds
        return nearest_metric(W, max_iter=8, n_jobs=threads)


def count(W: np.ndarray, threads: int) -> object:
    return violation_counts(W, top=2, n_jobs=threads)


def grow(W: np.ndarray, threads: int) -> object:
    return shortest_path_trees(W, roots=np.arange(len(W) // 60), n_jobs=threads)


def search(X: np.ndarray, threads: int) -> object:
    return nearest_items(X, 10, n_jobs=threads)


JOBS: dict[str, tuple[Job, Callable[..., np.ndarray], tuple[Any, ...]]] = {
    "all shortest paths, n = 8000, float32": (close, lengths, (8000, "float32")),
    "all shortest paths, n = 8000, float64": (close, lengths, (8000, "float64")),
    "metric check, n = 8000, float32": (check, lengths, (8000, "float32")),
    "metric check, n = 8000, float64": (check, lengths, (8000, "float64")),
    "items of violated triangles, n = 5000": (count, lengths, (5000, "float64")),
    "nearest metric, 8 rounds, n = 2500": (repair, lengths, (2500, "float64")),
    "trees of 100 roots, n = 6000": (grow, lengths, (6000, "float64")),
    "10 nearest of 60 000 rows, 32 columns": (search, rows, (60_000, 32)),
}


def run() -> str:
    threads = effective_threads()
    found = []
    for name, (job, make, arguments) in JOBS.items():
        alone = seconds_in_processes(job, make, arguments, threads)
        data = make(*arguments)
        ours = min(seconds(partial(job, data, threads)) for _ in range(3))
        share = alone / threads / ours
        found.append([name, f"{ours:.2f} s", f"{alone:.2f} s", f"{100 * share:.0f} %"])
        if "shortest" in name:
            headline(f"{name}, {threads} threads", f"{ours:.2f} s", f"{100 * share:.0f} % of cores")
    header = ["", f"{threads} threads", f"each of {threads} processes", "throughput"]
    return (
        f"One problem on {threads} threads, and as many problems at the same time, each in a "
        "process of its own on one thread; the last column is the throughput of the threads "
        "relative to that of the processes.\n\n" + table(header, found)
    )


def seconds(job: Callable[[], object]) -> float:
    started = time.perf_counter()
    job()
    return time.perf_counter() - started


def seconds_in_processes(
    job: Job, make: Callable[..., np.ndarray], arguments: tuple[Any, ...], count: int
) -> float:
    """Return the mean time of a job in each of so many processes that start it together."""
    seconds(partial(job, make(600, *arguments[1:]), 1))  # compiles, for all of them
    context = multiprocessing.get_context("spawn")
    barrier, times = context.Barrier(count), context.SimpleQueue()
    shared = (job, make, arguments, barrier, times)
    processes = [context.Process(target=measure_one, args=shared) for _ in range(count)]
    for process in processes:
        process.start()
    found = [times.get() for _ in processes]
    for process in processes:
        process.join()
    return float(np.mean(found))


def measure_one(
    job: Job, make: Callable[..., np.ndarray], arguments: tuple[Any, ...], barrier: Any, times: Any
) -> None:
    """Time a job on one thread, together with other processes, once all are ready."""
    os.environ["OMP_NUM_THREADS"] = "1"  # for what takes no n_jobs
    job(make(600, *arguments[1:]), 1)
    data = make(*arguments)
    barrier.wait()
    times.put(seconds(partial(job, data, 1)))

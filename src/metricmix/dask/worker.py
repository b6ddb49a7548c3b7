"""What workers run: one block of a job, and the checks before the first."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from metricmix.exceptions import ClusterError
from metricmix.kernels.block_files import KeptBlocks, _read_job, map_array, map_part, read_job
from metricmix.kernels.blocks import BlockJob, Found, releasing_above
from metricmix.kernels.compile import digest_of_kernels
from metricmix.kernels.threads import one_thread

__all__ = ["blocks_in_progress", "code_version", "forget", "probe_of", "run_block", "run_task"]

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3


@lru_cache
def code_version() -> str:
    """Return the version of metricmix, and of its compiled code."""
    return f"{version('metricmix')} ({digest_of_kernels()[:8]})"


def run_block(
    job: str | BlockJob, start: int, stop: int, expected: str, folder: str | None, durable: bool
) -> tuple[float, Found] | None:
    """Compute a block; write its result to the folder if there is one, else return it.

    With its result goes the time that it took.

    `job` is the path of its file; or the job itself, where a worker does not see that file.
    """
    if code_version() != expected:
        raise ClusterError(
            f"a worker has metricmix {code_version()} and the client {expected}; install the same "
            "version everywhere"
        )
    kept = None if folder is None else KeptBlocks(Path(folder), Path(str(job)), 0, durable)
    if kept is not None and kept.file(start, stop).exists():  # by a worker that has died since
        return None
    began = time.perf_counter()
    read = read_job(job) if isinstance(job, str) else job
    with in_worker():
        found = read.block(start, stop)
        seconds = time.perf_counter() - began
        if kept is None:
            return seconds, found
        kept.write(start, stop, found, seconds)
    return None


def run_task(function: Callable[[Any, Any], Any], shared: Any, task: Any) -> Any:
    """Return ``function(shared, task)`` on a worker; `shared` may be the path of its file."""
    with in_worker():
        return function(read_job(shared) if isinstance(shared, str) else shared, task)


class in_worker:  # noqa: N801 (used as a context)
    """One thread for kernels and for linear algebra, and memory within the worker's limit."""

    def __enter__(self) -> None:
        from threadpoolctl import threadpool_limits

        _in_progress.add(id(self))
        reuse_memory()
        self.contexts = [one_thread(), threadpool_limits(1), releasing_above(memory_limit())]
        for context in self.contexts:
            context.__enter__()

    def __exit__(self, *error: Any) -> None:
        for context in reversed(self.contexts):
            context.__exit__(*error)
        _in_progress.discard(id(self))


_in_progress: set[int] = set()


def blocks_in_progress() -> int:
    """Return how many blocks this worker is computing."""
    return len(_in_progress)


def memory_limit() -> float:
    """Return the memory from which on this worker gives mapped inputs back: half of its own."""
    from distributed import get_worker

    try:
        limit = get_worker().memory_manager.memory_limit
    except (ValueError, AttributeError):
        limit = None
    return 0.5 * limit if limit else float("inf")


@cache
def reuse_memory() -> None:
    """Let blocks reuse the memory that earlier ones have freed.

    Dask starts workers whose malloc gives freed memory back at once. Then every block gets its
    pages from the system again, which took a third of the time of shortest-path trees.
    """
    with suppress(AttributeError, OSError, TypeError):  # another malloc than that of glibc
        glibc = ctypes.CDLL(None)
        reused_bytes = 1 << 27  # freed memory that a worker keeps between blocks
        glibc.mallopt(M_MMAP_THRESHOLD, reused_bytes // 4)
        glibc.mallopt(M_TRIM_THRESHOLD, reused_bytes)


def forget() -> None:
    """Close the files of jobs that are done, and give freed memory back."""
    for cached in (_read_job, map_array, map_part):
        cached.cache_clear()
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def probe_of(folder: str | None, token: str) -> Callable[[], dict[str, Any]]:
    """Return a function that says what a worker has: it runs where metricmix is missing, too.

    A function inside of another one is sent as code, and not by its name.
    """
    here = os.path.join(folder, token) if folder is not None else None

    def probe() -> dict[str, Any]:
        import os

        found: dict[str, Any] = {"sees": False, "version": None}
        if here is not None:
            found["sees"] = os.path.isfile(here) and os.access(os.path.dirname(here), os.W_OK)
        try:
            from metricmix.dask.worker import code_version
        except ImportError as error:
            found["error"] = str(error)
        else:
            found["version"] = code_version()
        return found

    return probe

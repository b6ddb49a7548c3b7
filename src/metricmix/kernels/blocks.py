"""Long computations in blocks, on the threads of this process or on a cluster.

A :class:`BlockJob` holds the arrays that a computation needs, and computes its units
``start .. stop - 1`` by :meth:`BlockJob.block`. Threads call that method; so do the workers of a
cluster (:mod:`metricmix.dask`), which read the same job from a file. A unit is computed in the same
way whatever its neighbours are, so no result depends on where, and in which order, blocks finish.

:func:`run_blocks` and :func:`stream_blocks` choose: the engine of a surrounding
``with use_engine(...)``, else the active client of Dask if there is one, else threads.
"""

from __future__ import annotations

import math
import mmap
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import partial
from importlib import import_module
from os import PathLike
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from metricmix.exceptions import Heard, issue, kept_warnings
from metricmix.kernels.block_files import BlockFolder, KeptBlocks
from metricmix.kernels.process_settings import kept_filters
from metricmix.kernels.threads import effective_threads, in_threads, within_a_task
from metricmix.memory import resident_bytes
from metricmix.typing import AnyArray

__all__ = [
    "BlockJob",
    "Consume",
    "Cost",
    "Engine",
    "Found",
    "block_ranges",
    "current_engine",
    "keep_blocks",
    "map_tasks",
    "release",
    "releasing_above",
    "run_blocks",
    "stream_blocks",
    "use_engine",
]

BLOCK_SECONDS = 2.0
"""Time that a block should take: the messages about it take some milliseconds."""

Found = tuple[AnyArray, ...]
Consume = Callable[[int, int, Found], None]
"""Called with the first unit, the end of the units, and what was found for them."""
T = TypeVar("T")
Result = TypeVar("Result")


class Cost(NamedTuple):
    """How much work a job is.

    Attributes
    ----------
    units : int
        Number of units.
    unit_seconds : float
        Time that a unit takes on one thread, to an order of magnitude.
    unit_bytes : float
        Size of the result of a unit.
    work_bytes : float
        Memory that a block needs while it runs, besides its inputs and its result.
    """

    units: int
    unit_seconds: float
    unit_bytes: float
    work_bytes: float = 0.0


class BlockJob(ABC):
    """A computation of independent units.

    Attributes
    ----------
    what : str
        Its name in messages.
    alone : bool
        Whether blocks may not run in several threads of a process.
    """

    what: ClassVar[str]
    alone: ClassVar[bool] = False

    @property
    @abstractmethod
    def cost(self) -> Cost:
        """The number of units, and what each takes."""

    @abstractmethod
    def block(self, start: int, stop: int) -> Found:
        """Return what is found for the units ``start .. stop - 1``, as arrays."""

    @property
    def streams(self) -> bool:
        """Whether a block reads its inputs piece by piece, and calls :func:`release` in between.

        A worker need not have memory for all of them.
        """
        return False


def block_ranges(
    job: BlockJob, seconds: float = BLOCK_SECONDS, fewest: int = 32
) -> list[tuple[int, int]]:
    """Split the units of a job into blocks; the same ones whatever the number of workers.

    At least `fewest` blocks, where there are as many units: else workers wait.

    >>> class Job(BlockJob):
    ...     what, cost = "example", Cost(units=100, unit_seconds=0.5, unit_bytes=8.0)
    ...     def block(self, start, stop):
    ...         return ()
    >>> block_ranges(Job())[:3]
    [(0, 3), (3, 6), (6, 9)]
    """
    n, unit_seconds, unit_bytes, _ = job.cost
    block_bytes = 1 << 27  # size of a block's result, at most, unless a single unit has more
    most = min(seconds / max(unit_seconds, 1e-9), block_bytes / max(unit_bytes, 1.0))
    step = max(1, min(int(most), n // max(1, fewest)))
    return [(start, min(start + step, n)) for start in range(0, n, step)]


class Engine:
    """Where blocks are computed: the threads of this process, in this class.

    Parameters
    ----------
    folder : BlockFolder, optional
        Where finished blocks are kept, so that an interrupted job goes on from them.
    """

    def __init__(self, folder: BlockFolder | None = None) -> None:
        self.folder = folder

    remote: ClassVar[bool] = False
    """Whether blocks are computed by other processes."""

    def takes(self, job: BlockJob) -> bool:
        """Return whether a job is large enough for this engine."""
        return True

    def run(self, job: BlockJob, consume: Consume, n_jobs: int | None = None) -> None:
        """Compute all blocks, and call `consume` with each, perhaps from several threads."""
        threads = 1 if job.alone else n_jobs
        if self.folder is None:
            units = range(job.cost.units)
            in_threads(lambda u: consume(u, u + 1, job.block(u, u + 1)), units, threads)
            return
        with self.folder.job(job) as kept:
            in_threads(
                lambda bounds: consume(*bounds, kept_or_computed(job, kept, bounds)),
                block_ranges(job),
                threads,
            )

    def stream(self, job: BlockJob, n_jobs: int | None = None) -> Iterator[tuple[int, int, Found]]:
        """Yield blocks as they are found, few at a time, so that they need not be held together."""
        threads = 1 if job.alone else effective_threads(n_jobs)
        with ExitStack() as stack:
            compute: Callable[[tuple[int, int]], Found] = lambda bounds: job.block(*bounds)  # noqa: E731
            blocks = [(unit, unit + 1) for unit in range(job.cost.units)]
            if self.folder is not None:
                kept, blocks = stack.enter_context(self.folder.job(job)), block_ranges(job)
                compute = partial(kept_or_computed, job, kept)
            for first in range(0, len(blocks), threads):
                some = blocks[first : first + threads]
                for bounds, found in zip(some, in_threads(compute, some, threads), strict=True):
                    yield *bounds, found

    def map(
        self, function: Callable[[Any, T], Result], shared: Any, tasks: Iterable[T]
    ) -> Iterator[Result]:
        """Yield ``function(shared, task)`` in the order of the tasks, through joblib.

        One after the other, unless ``joblib.parallel_config`` says otherwise: much of a refit is
        Python, so that two threads take about as long as one, and more processor time.
        """
        from joblib import Parallel, delayed
        from joblib.parallel import get_active_backend

        work = list(tasks)
        _, jobs = get_active_backend()
        if jobs in (None, 1) or len(work) < 2 or within_a_task():
            for task in work:
                yield function(shared, task)
            return
        calls = (delayed(result_and_warnings)(function, shared, task) for task in work)
        heard: Heard = []
        for result, said in Parallel(return_as="generator")(calls):
            heard += said
            yield result
        issue(heard)  # at the end: filters that other tasks need are those of the whole process


def result_and_warnings(
    function: Callable[[Any, T], Result], shared: Any, task: T
) -> tuple[Result, Heard]:
    """Return ``function(shared, task)``, and what it warned of."""
    with kept_filters(), kept_warnings() as heard:
        return function(shared, task), heard


def kept_or_computed(job: BlockJob, kept: KeptBlocks, bounds: tuple[int, int]) -> Found:
    """Return a block that was finished before, or compute it and keep it."""
    return kept.read(*bounds) or kept.write(*bounds, job.block(*bounds))


_engine: ContextVar[Engine | None] = ContextVar("engine", default=None)
THREADS = Engine()


@contextmanager
def use_engine(engine: Engine) -> Iterator[Engine]:
    """Compute blocks with this engine inside."""
    token = _engine.set(engine)
    try:
        yield engine
    finally:
        _engine.reset(token)


@contextmanager
def keep_blocks(folder: str | PathLike[str]) -> Iterator[None]:
    """Keep the finished blocks of long computations on threads in a folder.

    After an interruption the same computation, inside ``keep_blocks`` with the same folder, goes on
    from the finished blocks. Remove the folder when it is no longer needed.

    >>> import tempfile, metricmix as mm
    >>> from metricmix.dissimilarity.nearest_items import nearest_items
    >>> with tempfile.TemporaryDirectory() as folder, keep_blocks(folder):
    ...     nearest_items(np.arange(6.0)[:, None], 1).items.ravel()
    array([1, 0, 1, 2, 3, 4], dtype=int32)
    """
    with use_engine(Engine(BlockFolder(folder))):
        yield


def current_engine() -> Engine:
    """Return the engine that is in use here."""
    if within_a_task():  # of a pool of threads, or of a worker: nothing is split further
        return THREADS
    chosen = _engine.get()
    if chosen is not None:
        return chosen
    if "distributed" in sys.modules:  # else there is no client
        # An optional package below this layer, loaded like a plugin.
        found = import_module("metricmix.dask").active_engine()
        if found is not None:
            return found  # type: ignore[no-any-return]
    return THREADS


def run_blocks(job: BlockJob, consume: Consume, *, n_jobs: int | None = None) -> None:
    """Compute all units of a job, and call ``consume(start, stop, found)`` with each block.

    Blocks come in any order, from several threads: `consume` writes to places of its own.
    """
    engine = current_engine()
    (engine if engine.takes(job) else THREADS).run(job, consume, n_jobs)


def stream_blocks(job: BlockJob, *, n_jobs: int | None = None) -> Iterator[tuple[int, int, Found]]:
    """Yield ``start, stop, found`` of all blocks of a job, in any order, few at a time."""
    engine = current_engine()
    yield from (engine if engine.takes(job) else THREADS).stream(job, n_jobs)


def map_tasks(
    function: Callable[[Any, T], Result], shared: Any, tasks: Iterable[T]
) -> Iterator[Result]:
    """Yield ``function(shared, task)`` for all tasks, in their order, through joblib.

    For refits: each task is long, and may itself use threads. On a cluster, joblib's Dask backend
    runs them; `shared` is sent to it once.

    >>> list(map_tasks(pow, 2, [1, 2, 3]))
    [2, 4, 8]
    """
    yield from current_engine().map(function, shared, tasks)


_release_above: ContextVar[float] = ContextVar("release_above", default=math.inf)


@contextmanager
def releasing_above(nbytes: float) -> Iterator[None]:
    """Let :func:`release` act when the process holds more than this."""
    token = _release_above.set(nbytes)
    try:
        yield
    finally:
        _release_above.reset(token)


def release(*arrays: AnyArray) -> None:
    """Give the memory of mapped arrays back to the system, which reads them again when needed.

    Only in a worker that holds more than half of what it may; nothing happens to other arrays.
    """
    limit = _release_above.get()
    if math.isinf(limit) or resident_bytes() <= limit:
        return
    for array in arrays:
        base: Any = array
        while isinstance(base, np.ndarray):
            base = base.base
        if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            base.madvise(mmap.MADV_DONTNEED)

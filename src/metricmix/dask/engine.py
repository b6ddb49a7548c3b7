"""A Dask cluster as an engine for blocks: which workers there are, and what they can hold.

Before the first block of a job, the workers are asked for their version of metricmix and whether
they see the client's files, and the memory that the job needs is stated and compared with theirs.
:mod:`metricmix.dask.submission` then sees to the blocks.
"""

from __future__ import annotations

import math
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from metricmix.atomic import remove_leftovers, temporary_entry
from metricmix.dask.submission import POLL, Submission, lacks_room
from metricmix.dask.worker import code_version, forget, probe_of, run_task
from metricmix.exceptions import ClusterError, MissingPackageError, TooLargeError
from metricmix.kernels.block_files import BlockFolder
from metricmix.kernels.blocks import (
    BLOCK_SECONDS,
    BlockJob,
    Consume,
    Engine,
    Found,
    block_ranges,
    use_engine,
)
from metricmix.kernels.deadline import check_time
from metricmix.memory import in_words

__all__ = ["Cluster", "active_engine", "use_cluster"]

PATIENCE = 60.0
"""Seconds without workers or a connection, after which a job fails."""
PREFIX = ".metricmix-blocks."
NO_ANSWER = (OSError, TimeoutError, RuntimeError, AttributeError)
"""What a client raises that has lost its scheduler, or is closing."""

T = TypeVar("T")
Result = TypeVar("Result")


class Cluster(Engine):
    """Blocks on the workers of a client.

    Parameters
    ----------
    client : distributed.Client
    folder : path, optional
        A folder that this process and all workers see, for inputs and finished blocks. Kept: the
        same computation goes on from its finished blocks. Default: a temporary folder if workers
        see it, else inputs and results travel over the network.
    patience : float
        Seconds to wait for workers, and for a lost scheduler.
    smallest : float
        Jobs expected to take fewer seconds on one thread run on the threads of this process.
    block_seconds : float
        Time that a block should take.
    on_message : callable, optional
        Called with lines about cluster, jobs and memory.
    on_progress : callable, optional
        Called with the name of a job, blocks done, all blocks, and seconds left.

    Attributes
    ----------
    receipts : list
        Of the last job: seconds and bytes of every block that was computed.
    resumed, resubmitted : int
        Of the last job: blocks that were finished before, and blocks that were submitted again.
    """

    remote = True

    def __init__(
        self,
        client: Any,
        folder: str | os.PathLike[str] | None = None,
        *,
        patience: float = PATIENCE,
        smallest: float = 1.0,
        block_seconds: float = BLOCK_SECONDS,
        on_message: Callable[[str], None] | None = None,
        on_progress: Callable[[str, int, int, float], None] | None = None,
    ) -> None:
        super().__init__(None if folder is None else BlockFolder(folder))
        self.client, self.patience, self.smallest = client, patience, smallest
        self.block_seconds = block_seconds
        self.on_message = on_message or (lambda line: None)
        self.on_progress = on_progress or (lambda what, done, total, left: None)
        self.address = client.scheduler.address if client.scheduler is not None else "the cluster"
        self.receipts: list[tuple[float, int]] = []
        self.resumed = self.resubmitted = 0
        self._counted = (-math.inf, 0)
        self._checked: frozenset[str] = frozenset()
        self._sees: dict[str, bool] = {}

    def takes(self, job: BlockJob) -> bool:
        """Return whether a job is worth sending."""
        return job.cost.units > 1 and job.cost.units * job.cost.unit_seconds >= self.smallest

    def run(self, job: BlockJob, consume: Consume, n_jobs: int | None = None) -> None:
        """Compute all blocks on the workers, and call `consume` with each."""
        for start, stop, found in self.stream(job, n_jobs):
            consume(start, stop, found)

    def stream(self, job: BlockJob, n_jobs: int | None = None) -> Iterator[tuple[int, int, Found]]:
        """Yield blocks as they are found."""
        blocks = block_ranges(job, self.block_seconds)
        with ExitStack() as stack:
            folder = self.folder or stack.enter_context(temporary_folder())
            sees = self.check_workers(folder.path)
            try:
                kept = stack.enter_context(folder.job(job))
            except OSError as error:
                if not lacks_room(error):
                    raise
                raise ClusterError(
                    f"no space left on the disk of {folder.path} for the inputs of {job.what}; "
                    "free some, or pass a folder on another disk"
                ) from error
            self.check_memory(job, kept.nbytes, blocks, sees)
            yield from Submission(self, job, kept, blocks, sees).results()
            if self.folder is None:
                with suppress(Exception):  # a worker that has just died
                    self.client.run(forget, on_error="ignore")

    def map(
        self, function: Callable[[Any, T], Result], shared: Any, tasks: Iterable[T]
    ) -> Iterator[Result]:
        """Yield ``function(shared, task)`` in the order of the tasks, by joblib's Dask backend."""
        from joblib import Parallel, delayed, parallel_config

        work = list(tasks)
        with ExitStack() as stack:
            folder = self.folder or stack.enter_context(temporary_folder())
            sees = self.check_workers(folder.path)
            named: Any = shared
            if sees:
                named = str(folder.store(shared)[0])
            done = attempts = 0
            reconnections = 5  # times that refits are started again after the connection was lost
            while done < len(work):
                comm = self.client.scheduler_comm
                try:
                    with parallel_config("dask", client=self.client):
                        parallel = Parallel(n_jobs=-1, return_as="generator", batch_size=1)
                    calls = (delayed(run_task)(function, named, task) for task in work[done:])
                    for found in parallel(calls):
                        done += 1
                        yield found
                except Exception as error:
                    # joblib takes a cancelled future for a result, and fails on it in several ways.
                    lost = self.client.scheduler_comm is not comm or self.client.status != "running"
                    attempts += 1
                    if not lost or attempts > reconnections:
                        raise
                    self.on_message(f"connection lost after {done} of {len(work)} refits: {error}")
                    self.await_workers()

    # -- checks before the first block ------------------------------------------------------------

    def workers(self) -> dict[str, Any]:
        """Return what the scheduler says about its workers, by address."""
        try:
            return dict(self.client.scheduler_info(n_workers=-1)["workers"])
        except (OSError, RuntimeError, AttributeError, KeyError, TypeError):
            return {}

    def threads(self) -> int:
        """Return the number of threads of all workers, as it was a second ago or less."""
        now = time.monotonic()
        if now > self._counted[0] + 1.0:
            threads = sum(int(worker["nthreads"]) for worker in self.workers().values())
            self._counted = now, threads
        return self._counted[1]

    def await_workers(self) -> dict[str, Any]:
        """Return the workers once there are any.

        Raises
        ------
        ClusterError
            After `patience` seconds without any.
        """
        end = time.monotonic() + self.patience
        while True:
            check_time()
            if self.client.status == "closed":
                self.reconnect(max(1.0, end - time.monotonic()))
            found = self.workers() if self.client.status == "running" else {}
            if found:
                return found
            if time.monotonic() > end:
                lost = self.client.status != "running"
                what = "does not answer" if lost else "has no workers"
                raise ClusterError(
                    f"the cluster at {self.address} {what} after {self.patience:g} seconds"
                )
            time.sleep(min(POLL, self.patience / 10))

    def reconnect(self, seconds: float) -> None:
        """Replace a closed client by another one of the same scheduler."""
        from distributed import Client

        with suppress(OSError):  # tried again until patience ends
            self.client = Client(self.address, timeout=seconds, set_as_default=False)

    def check_workers(self, folder: Path) -> bool:
        """Raise if a worker lacks this version of metricmix; return whether all see a folder.

        Raises
        ------
        ClusterError
        """
        workers = self.await_workers()
        known = frozenset(workers)
        if known <= self._checked and str(folder) in self._sees:
            return self._sees[str(folder)]
        found = self.ask_workers(folder)
        answers = {name: answer for name, answer in found.items() if isinstance(answer, dict)}
        ours = code_version()
        for name, answer in answers.items():
            if answer["version"] == ours:
                continue
            has = f"metricmix {answer['version']}" if answer["version"] else "no metricmix"
            why = f" ({answer['error']})" if answer.get("error") else ""
            number = ours.split()[0]
            remedy = f"run pip install 'metricmix[dask]=={number}' where the workers start"
            if answer["version"] and answer["version"].split()[0] == number:
                remedy = "the number is the same and the code is not; restart or update the workers"
            raise ClusterError(
                f"the worker {name} has {has}{why}, and this process has {ours}: {remedy}"
            )
        sees = all(answer["sees"] for answer in answers.values()) and bool(answers)
        if not self._checked:
            self.describe(workers, folder, sees)
        self._checked, self._sees = known | self._checked, {**self._sees, str(folder): sees}
        return sees

    def ask_workers(self, folder: Path) -> dict[str, Any]:
        """Return what :func:`~metricmix.dask.worker.probe_of` finds on every worker."""
        token, end = f".{secrets.token_hex(6)}.tmp", time.monotonic() + self.patience
        (folder / token).touch()
        try:
            while True:
                try:
                    found = self.client.run(probe_of(str(folder), token), on_error="return")
                    return dict(found)
                except (*NO_ANSWER, CancelledError) as error:
                    if time.monotonic() > end:
                        raise ClusterError(
                            f"the workers of {self.address} do not answer: {error}"
                        ) from error
                    self.await_workers()
        finally:
            (folder / token).unlink(missing_ok=True)

    def describe(self, workers: dict[str, Any], folder: Path, sees: bool) -> None:
        """Report which cluster is used, and the address of its dashboard."""
        threads = sum(int(worker["nthreads"]) for worker in workers.values())
        memory = sum(worker["memory_limit"] or 0 for worker in workers.values())
        self.on_message(
            f"cluster {self.address}: {len(workers)} workers, {threads} threads, "
            f"{in_words(memory) if memory else 'memory without a limit'}; "
            f"dashboard {self.client.dashboard_link or 'not running'}"
        )
        way = f"files in {folder}" if sees else f"the network: some workers do not see {folder}"
        self.on_message(f"inputs and results travel by {way}")

    def check_memory(
        self, job: BlockJob, inputs: int, blocks: list[tuple[int, int]], sees: bool
    ) -> None:
        """Report the memory that a job needs; raise if the workers have less.

        Raises
        ------
        TooLargeError
        """
        workers = self.workers()
        units = max(stop - start for start, stop in blocks)
        result, own = units * job.cost.unit_bytes, job.cost.work_bytes
        held = min(inputs, own) if job.streams and sees else inputs
        most = max((int(worker["nthreads"]) for worker in workers.values()), default=1)
        # Memory of a worker before its first block: Python, its packages, compiled code.
        worker_bytes = 300 << 20
        needed = worker_bytes + held + most * (own + 2 * result)
        limits = [w["memory_limit"] for w in workers.values() if w["memory_limit"]]
        least = min(limits, default=math.inf)
        allowed = "no limit" if math.isinf(least) else f"{in_words(least)} allowed"
        all_results = sum(stop - start for start, stop in blocks) * job.cost.unit_bytes
        self.on_message(
            f"{job.what}: {len(blocks)} blocks, inputs {in_words(inputs)}; about "
            f"{in_words(needed)} per worker ({allowed}), "
            f"{in_words(needed * len(workers))} in all; results {in_words(all_results)}"
        )
        if needed > least:
            raise TooLargeError(
                f"{job.what} needs about {in_words(needed)} per worker ({in_words(held)} "
                f"of inputs, {in_words(own + 2 * result)} for each of {most} threads) and "
                f"the smallest worker has {in_words(least)}",
                argument="cluster",
                remedy="start workers with more memory or fewer threads each",
            )


@contextmanager
def temporary_folder() -> Iterator[BlockFolder]:
    """Yield a folder that is removed at the end, or by a later run if this process is killed."""
    parent = Path(tempfile.gettempdir())
    remove_leftovers(parent, PREFIX)
    with temporary_entry(parent, PREFIX, Path.mkdir) as path:
        yield BlockFolder(path, durable=False)


_engines: WeakKeyDictionary[Any, Cluster] = WeakKeyDictionary()


def active_engine() -> Cluster | None:
    """Return the engine of Dask's current client; None without one."""
    from distributed import default_client

    try:
        client = default_client()
    except ValueError:
        return None
    if client.asynchronous or client.status != "running":
        return None
    if client not in _engines:
        _engines[client] = Cluster(client)
    return _engines[client]


@contextmanager
def use_cluster(
    cluster: Any = None, folder: str | os.PathLike[str] | None = None, **options: Any
) -> Iterator[Cluster]:
    """Run long computations inside on a Dask cluster.

    Parameters
    ----------
    cluster : address, distributed.Client or cluster object, optional
        Default: the current client.
    folder : path, optional
        A folder that this process and all workers see. Finished blocks are kept there: after an
        interruption, the same call goes on from them. Remove it when all is done.
    **options
        As for :class:`Cluster`: `patience`, `smallest`, `block_seconds`, `on_message`,
        `on_progress`.

    Raises
    ------
    ClusterError
        If nothing answers at the address, or its workers have another version of metricmix.
    MissingPackageError
        If dask.distributed is not installed.

    Examples
    --------
    >>> from metricmix.dask import use_cluster
    >>> with use_cluster("tcp://scheduler:8786", folder="/shared/blocks"):  # doctest: +SKIP
    ...     stack = mm.sources_for(X, graph, labels=y, edges_per_item=10)
    """
    try:
        from distributed import Client, default_client
    except ImportError:
        raise MissingPackageError(
            "a cluster needs dask.distributed: pip install 'metricmix[dask]'"
        ) from None
    own = None
    if isinstance(cluster, Client):
        client = cluster
    elif cluster is None:
        try:
            client = default_client()
        except ValueError:
            raise ClusterError(
                "there is no current client; pass the address of a scheduler, or a client"
            ) from None
    else:
        try:
            client = own = Client(cluster, timeout=options.get("patience", PATIENCE))
        except (OSError, ValueError, ImportError) as error:
            raise ClusterError(
                f"no scheduler answers at {cluster}; start one by `dask scheduler`, and pass the "
                "address that it prints"
            ) from error
    engine = Cluster(client, folder, **options)
    try:
        with use_engine(engine):
            engine.await_workers()
            yield engine
    finally:
        with suppress(Exception):
            engine.client.run(forget, on_error="ignore")
        for opened in {id(c): c for c in (own, engine.client) if c not in (None, cluster)}.values():
            if opened is own or opened is not client:
                with suppress(Exception):
                    opened.close(timeout=5)

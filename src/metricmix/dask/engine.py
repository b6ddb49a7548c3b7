"""Blocks on a Dask cluster: submit, wait, recover, keep what is finished.

A task names its job by a file, or by a future where workers do not see the client's files, and has
two numbers besides: no arrays travel in the task graph. Only a few tasks for every thread are
submitted at a time, so that the scheduler holds little, and a job of many blocks costs it nothing.

A block whose worker dies is computed again by another one. If the connection or the scheduler is
lost, blocks that are not finished are submitted again once there are workers; after `patience`
seconds without any, :class:`~metricmix.exceptions.ClusterError` says so. Finished blocks stay in
the folder, if one was given, and the same call goes on from them.
"""

from __future__ import annotations

import errno
import math
import os
import secrets
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, ref

from metricmix.atomic import remove_leftovers, temporary_entry
from metricmix.dask.worker import (
    blocks_in_progress,
    code_version,
    forget,
    probe_of,
    run_block,
    run_task,
)
from metricmix.exceptions import ClusterError, MetricMixError, MissingPackageError, TooLargeError
from metricmix.kernels.block_files import BlockFolder, KeptBlocks
from metricmix.kernels.blocks import (
    BLOCK_SECONDS,
    BlockJob,
    Consume,
    Engine,
    Found,
    block_ranges,
    use_engine,
)
from metricmix.kernels.threads import check_time
from metricmix.memory import in_words

__all__ = ["Cluster", "active_engine", "use_cluster"]

SMALLEST = 1.0
"""Seconds of work from which on a job goes to the cluster."""
AHEAD = 2
"""Tasks for every thread of the workers that are submitted at a time."""
DEATHS = 3
"""Times that Dask gives a block up, after four workers each, before we do."""
RECONNECTIONS = 5
"""Times that refits are started again after the connection was lost."""
PATIENCE = 60.0
"""Seconds without workers or a connection, after which a job fails."""
WORKER_BYTES = 300 << 20
"""Memory of a worker before its first block: Python, its packages, compiled code."""
POLL = 0.5
PREFIX = ".metricmix-blocks."
LOST = ("cancelled", "lost")
NO_ANSWER = (OSError, TimeoutError, RuntimeError, AttributeError)
"""What a client raises that has lost its scheduler, or is closing."""
STOPPING = 10.0
"""Seconds to wait for blocks in progress when a job fails: they may be writing."""

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
        smallest: float = SMALLEST,
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
        return job.n_units > 1 and job.n_units * job.unit_seconds >= self.smallest

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
                    if not lost or attempts > RECONNECTIONS:
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
        result, own = units * job.unit_bytes, job.work_bytes
        held = min(inputs, own) if job.streams and sees else inputs
        most = max((int(worker["nthreads"]) for worker in workers.values()), default=1)
        needed = WORKER_BYTES + held + most * (own + 2 * result)
        limits = [w["memory_limit"] for w in workers.values() if w["memory_limit"]]
        least = min(limits, default=math.inf)
        allowed = "no limit" if math.isinf(least) else f"{in_words(least)} allowed"
        all_results = sum(stop - start for start, stop in blocks) * job.unit_bytes
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


class Submission:
    """The blocks of one job on the way: waiting, submitted, finished."""

    def __init__(
        self,
        cluster: Cluster,
        job: BlockJob,
        kept: KeptBlocks,
        blocks: list[tuple[int, int]],
        sees: bool,
    ) -> None:
        self.cluster, self.job, self.kept, self.blocks, self.sees = cluster, job, kept, blocks, sees
        self.waiting = deque(blocks)
        self.running: dict[Any, tuple[int, int]] = {}
        self.named: Any = str(kept.job)
        self.deaths: Counter[tuple[int, int]] = Counter()
        self.news = threading.Event()
        self.name = f"{type(job).__name__}-{secrets.token_hex(4)}"
        self.used: tuple[tuple[int, int], ref[Any]] | None = None
        self.attempt = 0

    def results(self) -> Iterator[tuple[int, int, Found]]:
        """Yield all blocks, those that were finished before first."""
        cluster, total = self.cluster, len(self.blocks)
        cluster.receipts, cluster.resumed, cluster.resubmitted = [], 0, 0
        began, done = time.monotonic(), 0
        for bounds in self.blocks if cluster.folder is not None else ():
            found = self.kept.read(*bounds)
            if found is not None:
                self.waiting.remove(bounds)
                cluster.resumed, done = cluster.resumed + 1, done + 1
                yield *bounds, found
        if cluster.resumed:
            cluster.on_message(f"{self.job.what}: {done} of {total} blocks were finished before")
        before = done
        try:
            self.name_job()
            while self.waiting or self.running:
                check_time()
                self.submit()
                for bounds, found in self.finished():
                    done += 1
                    left = (time.monotonic() - began) / (done - before) * (total - done)
                    cluster.on_progress(self.job.what, done, total, left)
                    yield *bounds, found
        except ClusterError as error:
            if cluster.folder is None or cluster.folder.path.as_posix() in str(error):
                raise
            raise ClusterError(
                f"{error}; {done} of {total} blocks are finished in {cluster.folder.path}, and "
                "the same call goes on from them"
            ) from None
        finally:
            if self.running:  # left by an error, or by the caller
                self.cancel()
                self.await_idle()

    def await_idle(self) -> None:
        """Wait until no worker is in a block, which cannot be interrupted, and may write."""
        end = time.monotonic() + STOPPING
        with suppress(Exception):  # a cluster that is lost writes nothing any more
            while any(self.cluster.client.run(blocks_in_progress, on_error="ignore").values()):
                if time.monotonic() > end:
                    return
                time.sleep(0.05)

    def name_job(self) -> None:
        """Send the job to the workers, where they do not see its file."""
        if not self.sees:
            try:
                self.named = self.cluster.client.scatter(self.job, broadcast=True, hash=False)
            except (OSError, TimeoutError, RuntimeError, ValueError) as error:
                raise ClusterError(
                    f"the inputs of {self.job.what} could not be sent to the workers: {error}"
                ) from error

    def submit(self) -> None:
        """Submit blocks while workers have less than `AHEAD` tasks for each thread."""
        cluster = self.cluster
        most = AHEAD * max(1, cluster.threads())
        folder = str(self.kept.folder) if self.sees else None
        while self.waiting and len(self.running) < most:
            start, stop = bounds = self.waiting.popleft()
            try:
                future = cluster.client.submit(
                    run_block,
                    self.named,
                    start,
                    stop,
                    code_version(),
                    folder,
                    self.kept.durable,
                    key=f"{self.name}-{start}-{self.attempt}",
                    pure=False,
                )
            except (OSError, RuntimeError, AttributeError):  # the client is closing
                self.waiting.appendleft(bounds)
                self.recover()
                return
            future.add_done_callback(lambda _: self.news.set())
            self.running[future] = bounds

    def finished(self) -> Iterator[tuple[tuple[int, int], Found]]:
        """Wait for a block, and yield those that are done."""
        from distributed import KilledWorker

        self.news.wait(POLL)
        self.news.clear()
        cluster = self.cluster
        for future in [future for future in self.running if future.status != "pending"]:
            if future not in self.running:
                continue  # taken back meanwhile
            if future.status in LOST:
                self.recover()
                return
            bounds = self.running[future]
            try:
                if future.status == "error":
                    answer = future.exception(timeout=cluster.patience)
                elif self.sees:  # nothing to fetch: the worker may have died since
                    answer = self.kept.read_timed(*bounds)
                else:
                    answer = future.result(timeout=cluster.patience)
            except KilledWorker as error:  # the result was lost with its worker, and so were others
                answer = error
            except (OSError, TimeoutError, RuntimeError, CancelledError):
                self.recover()
                return
            if isinstance(answer, BaseException):
                self.raise_or_repeat(answer, future, bounds)
                continue
            if answer is None:
                raise ClusterError(
                    f"a worker wrote block {bounds[0]}-{bounds[1]} of {self.job.what} to "
                    f"{self.kept.folder}, and it is not there; do all workers share the folder?"
                )
            seconds, found = answer
            if cluster.folder is not None and not self.sees:
                self.kept.write(*bounds, found, seconds)
            del self.running[future]
            cluster.receipts.append((seconds, sum(array.nbytes for array in found)))
            yield bounds, found
            if cluster.folder is None and self.sees:
                self.free(bounds, found)
        if not self.running and self.waiting and not cluster.threads():
            self.recover()
        if self.running and not cluster.threads():
            cluster.await_workers()

    def free(self, bounds: tuple[int, int], found: Found) -> None:
        """Free the file of the block before this one, which is seldom in use any more."""
        if self.used is not None:
            before, mapped = self.used
            self.kept.free(*before, in_use=mapped() is not None)
        self.used = bounds, ref(found[0].base)

    def raise_or_repeat(self, error: BaseException, future: Any, bounds: tuple[int, int]) -> None:
        """Submit a block again whose workers have died; raise any other error in our words."""
        from distributed import KilledWorker

        del self.running[future]
        where = f"block {bounds[0]}-{bounds[1]} of {self.job.what}"
        if isinstance(error, KilledWorker):
            self.deaths[bounds] += 1
            if self.deaths[bounds] >= DEATHS:
                raise ClusterError(
                    f"{where} was given up after {4 * DEATHS} workers ended while they computed "
                    "it; if they ran out of memory, start workers with more memory or fewer "
                    "threads each"
                )
            self.attempt += 1
            self.cluster.resubmitted += 1
            self.waiting.append(bounds)
            return
        if isinstance(error, MetricMixError):
            raise error
        if isinstance(error, ModuleNotFoundError):
            raise ClusterError(
                f"a worker cannot import {error.name}; install metricmix[dask] {code_version()} "
                "where the workers start"
            )
        if lacks_room(error):
            raise ClusterError(
                f"no space left on the disk of {self.kept.folder.parent.parent} for {where}; free "
                "some, or pass a folder on another disk"
            )
        if isinstance(error, FileNotFoundError | PermissionError):
            raise ClusterError(
                f"a worker cannot read or write {error.filename} for {where}; all workers must see "
                "the files of the inputs"
            )
        if isinstance(error, CancelledError):
            self.waiting.append(bounds)  # its inputs were lost with their workers
            self.recover()
            return
        raise error

    def recover(self) -> None:
        """Put all submitted blocks back, and wait until there are workers again."""
        cluster = self.cluster
        self.attempt += 1
        cluster.resubmitted += len(self.running)
        self.waiting.extendleft(self.running.values())
        self.cancel()
        cluster.on_message(f"{self.job.what}: connection or workers lost; waiting for the cluster")
        cluster.await_workers()
        cluster._checked = frozenset()
        self.name_job()

    def cancel(self) -> None:
        """Take all submitted blocks back."""
        futures, self.running = list(self.running), {}
        if futures:
            with suppress(Exception):
                self.cluster.client.cancel(futures, asynchronous=False)


def lacks_room(error: BaseException) -> bool:
    """Return whether a disk is full; numpy gives no number for it."""
    known = (errno.ENOSPC, errno.EDQUOT)
    if not isinstance(error, OSError):
        return False
    return error.errno in known or str(error).startswith("Not enough free space")


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
    ...     stack = mm.sources_for(X, graph, y, edges_per_item=10)
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

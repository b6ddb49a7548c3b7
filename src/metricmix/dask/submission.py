"""The blocks of one job on a Dask cluster: submit, wait, recover, free what was used.

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
import secrets
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import ref

from metricmix.dask.worker import blocks_in_progress, code_version, run_block
from metricmix.exceptions import ClusterError, MetricMixError
from metricmix.kernels.block_files import KeptBlocks
from metricmix.kernels.blocks import BlockJob, Found
from metricmix.kernels.deadline import check_time

if TYPE_CHECKING:
    from metricmix.dask.engine import Cluster

__all__ = ["POLL", "Submission", "lacks_room"]

POLL = 0.5
"""Seconds between looks at the cluster."""
LOST = ("cancelled", "lost")


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
        """Wait, 10 seconds at most, until no worker is in a block: it cannot be interrupted."""
        end = time.monotonic() + 10.0
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
        """Submit blocks while workers have less than two tasks for each thread."""
        cluster = self.cluster
        most = 2 * max(1, cluster.threads())
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
            # Times that Dask gives a block up, after four workers each, before we do.
            times = 3
            if self.deaths[bounds] >= times:
                raise ClusterError(
                    f"{where} was given up after {4 * times} workers ended while they computed "
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

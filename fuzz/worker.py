"""A process that runs cases, one after the other; it may crash or hang, and is replaced then."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import sys
import time
from multiprocessing.connection import Connection
from typing import Any

from fuzz.areas import AREAS
from fuzz.cases import Finding, Instance, make_instance, run_instance

__all__ = ["LocalWorker", "Worker", "limit_threads"]

MEMORY = 6 << 30
"""Address space of a worker: an attempt to allocate more is a MemoryError, not a full machine."""
FIRST_CASE = 240.0
"""Further seconds for the first case of an area in a process, which imports and compiles."""


def serve(connection: Connection) -> None:
    """Run the cases and instances that the other end asks for."""
    # A handler, and not SIG_IGN, which child processes would inherit: only the campaign stops.
    signal.signal(signal.SIGINT, lambda number, frame: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.stdin.close()
    while True:
        try:
            name, seed, case, instance = connection.recv()
        except EOFError:
            return
        area = AREAS[name]
        try:
            if instance is None:
                instance = make_instance(area, seed, case)
            found = run_instance(area, instance)
        except MemoryError as error:
            found = Finding("MemoryError", f"unexpected MemoryError: {error}")
        try:
            connection.send((found, instance if found else None))
        except OSError:  # nobody waits for it any more
            return


class Worker:
    """A worker process, and the case that it is running.

    Attributes
    ----------
    connection : Connection
        Ready for reading when the case is done, or the process has ended.
    target : function of a connection
        What the process runs.
    """

    target = staticmethod(serve)

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=self.target, args=(theirs,), daemon=False)
        # Blocked until the process has its own handler: Ctrl-C while it imports is not a crash.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        self._areas: set[str] = set()
        self.case: tuple[str, int] | None = None
        self.deadline = self.began = 0.0

    def begin(self, name: str, seed: int, case: int, instance: Instance | None = None) -> None:
        """Start a case, or a given instance of an area."""
        self.case, self.began = (name, case), time.monotonic()
        first = 0.0 if name in self._areas else FIRST_CASE
        self.deadline = self.began + AREAS[name].timeout + first
        self._areas.add(name)
        self.connection.send((name, seed, case, instance))

    def result(self) -> tuple[Finding | None, Instance | None]:
        """Return what came out of the case, once the connection is ready or the deadline is over.

        A process that has ended or is beyond the deadline is replaced.
        """
        self.case = None
        if self.connection.poll():
            try:
                answer: tuple[Finding | None, Instance | None] = self.connection.recv()
                return answer
            except (EOFError, OSError):
                self._process.join()
                code = self._process.exitcode or 0
                how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
                self.restart()
                return Finding(f"crash ({how})", f"the process ended with {how}"), None
        seconds = time.monotonic() - self.began
        self.restart()
        return Finding("hang", f"no answer within {seconds:.0f} seconds"), None

    def run(self, name: str, seed: int, case: int, instance: Instance | None = None) -> Any:
        """Run a case to its end; see :meth:`result`."""
        self.begin(name, seed, case, instance)
        self.connection.poll(max(0.0, self.deadline - time.monotonic()))
        return self.result()

    def restart(self) -> None:
        """End the process, and start another one."""
        self.stop()
        self._start()

    def stop(self) -> None:
        """End the process and what it has started."""
        self.connection.close()
        self._process.join(0.5)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


class LocalWorker(Worker):
    """Runs cases in this process: for debuggers and tests. Crashes and hangs are not survived."""

    def _start(self) -> None:
        self.connection, self._other = multiprocessing.Pipe()
        self.case = None
        self.deadline = self.began = 0.0

    def begin(self, name: str, seed: int, case: int, instance: Instance | None = None) -> None:
        """Run a case."""
        self.case, self.began = (name, case), time.monotonic()
        self.deadline = self.began + FIRST_CASE
        given = make_instance(AREAS[name], seed, case) if instance is None else instance
        found = run_instance(AREAS[name], given)
        self._answer = (found, given if found else None)
        self._other.send(None)

    def result(self) -> tuple[Finding | None, Instance | None]:
        """Return what came out of the case."""
        self.connection.recv()
        self.case = None
        return self._answer

    def stop(self) -> None:
        """Close the connection."""
        self.connection.close()
        self._other.close()


def limit_threads() -> None:
    """Let numerical libraries of this process and of its workers use one thread each."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")

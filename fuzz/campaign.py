"""Run cases for some minutes: share the time among the areas, count, minimise and keep failures."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from fuzz.areas import AREAS
from fuzz.cases import Area, Finding, Instance, make_instance
from fuzz.minimise import minimise
from fuzz.record import KEPT, RESULTS, KeptCase, Results, code_version, kept_cases
from fuzz.worker import Worker

__all__ = ["Campaign"]

REPORT_EVERY = 60.0
MINIMISE_FOR = 30.0
"""Seconds for making a failure small."""


@dataclass
class Campaign:
    """A run of cases.

    Parameters
    ----------
    areas : sequence of Area
    results : Results
        To go on from; changed and written as the run goes on.
    file, folder : Path
        Where results and kept cases are written to.
    jobs : int
        Worker processes.
    print : function
        Receives one line per minute, and some per new kind of failure.
    worker : type
        Of the worker processes.
    """

    areas: Sequence[Area]
    results: Results
    file: Path = RESULTS
    folder: Path = KEPT
    jobs: int = 1
    print: Callable[[str], Any] = print
    worker: type[Worker] = Worker
    _spent: dict[str, float] = field(default_factory=dict)
    _next: dict[str, int] = field(default_factory=dict)

    def run(self, seconds: float, cases: int | None = None) -> int:
        """Run for some seconds, or at most some cases; return the number of failures.

        Ctrl-C ends the run like the end of the time: cases that have begun are finished, and
        everything is written. A second one does not wait for them.
        """
        began, before = time.monotonic(), self.totals()
        self._spent = {area.name: 0.0 for area in self.areas}
        self._next = {area.name: self.results.counts(area.name).cases for area in self.areas}
        workers = [self.worker() for _ in range(self.jobs)]
        left = cases if cases is not None else -1
        reported = began
        try:
            while time.monotonic() < began + seconds and left:
                for worker in workers:
                    if worker.case is None and left:
                        self.begin_next(worker)
                        left -= 1
                self.collect(workers)
                if time.monotonic() > reported + REPORT_EVERY:
                    reported = time.monotonic()
                    self.results.write(self.file)
                    self.print(self.line(reported - began))
        except KeyboardInterrupt:
            self.print("interrupted; finishing the cases that have begun")
        try:
            while any(worker.case for worker in workers):
                self.collect(workers)
        except KeyboardInterrupt:
            self.print("interrupted again; these cases will run next time")
        finally:
            for worker in workers:
                worker.stop()
        done, failures = (a - b for a, b in zip(self.totals(), before, strict=True))
        run: dict[str, Any] = {
            "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M}",
            "code": code_version(),
        }
        run |= {"seconds": round(time.monotonic() - began), "cases": done, "failures": failures}
        self.results.runs.append(run)
        self.results.write(self.file)
        self.print(self.line(time.monotonic() - began))
        return failures

    def totals(self) -> tuple[int, int]:
        """Return the numbers of cases and failures so far."""
        counts = self.results.areas.values()
        return sum(c.cases for c in counts), sum(c.failures for c in counts)

    def line(self, seconds: float) -> str:
        """Return the state of the campaign in one line."""
        counts = ", ".join(f"{a.name} {self.results.counts(a.name).cases}" for a in self.areas)
        return f"{seconds / 60:.0f} min: {counts}; {self.totals()[1]} failures"

    def begin_next(self, worker: Worker) -> None:
        """Start the next case of the area that is furthest behind its share of the time."""
        area = min(self.areas, key=lambda area: self._spent[area.name] / area.share)
        self._spent[area.name] += 1e-4 * area.share  # until the time it takes is known
        worker.begin(area.name, self.results.seed, self._next[area.name])
        self._next[area.name] += 1

    def collect(self, workers: list[Worker]) -> None:
        """Wait until a case is done or is beyond its deadline, and count it."""
        busy = [worker for worker in workers if worker.case]
        now = time.monotonic()
        patience = min(worker.deadline for worker in busy) - now
        wait([worker.connection for worker in busy], timeout=min(max(patience, 0.0), 1.0))
        for worker in busy:
            if worker.connection.poll() or time.monotonic() > worker.deadline:
                assert worker.case is not None
                name, case = worker.case
                seconds = time.monotonic() - worker.began
                found, instance = worker.result()
                self._spent[name] += seconds
                counts = self.results.counts(name)
                counts.seconds += seconds
                # Cases that other workers are still at count when they are done.
                begun = [w.case[1] for w in workers if w.case and w.case[0] == name]
                counts.cases = min([*begun, self._next[name]])
                if found is not None:
                    self.keep(AREAS[name], case, found, instance)

    def keep(self, area: Area, case: int, found: Finding, instance: Instance | None) -> None:
        """Count a failure; make the first of its kind small, and write it to a file."""
        open_kinds = {(k.area, k.kind) for k in kept_cases(self.folder) if not k.mended}
        self.results.add_failure(area.name, case, found.kind)
        self.results.write(self.file)
        if (area.name, found.kind) in open_kinds:
            return
        self.print(f"{area.name}:{case} fails: {found.message}")
        if instance is None:  # of a process that ended
            instance = make_instance(area, self.results.seed, case)
        smallest, message = self.smallest(area, instance, found)
        seed, code = self.results.seed, code_version()
        kept = KeptCase(area.name, case, seed, code, found.kind, message, smallest)
        self.print(f"kept as {kept.write(self.folder).name}")

    def smallest(self, area: Area, instance: Instance, found: Finding) -> tuple[Instance, str]:
        """Return a small instance that fails in the same way, and what it fails by."""
        messages = [found.message]
        worker = self.worker()

        def fails(smaller: Instance) -> bool:
            again, _ = worker.run(area.name, 0, 0, smaller)
            if again is None or again.kind != found.kind:
                return False
            messages.append(again.message)
            return True

        try:
            small = minimise(area, instance, fails, MINIMISE_FOR)
        except KeyboardInterrupt:
            small = instance
        finally:
            worker.stop()
        return small, messages[-1]

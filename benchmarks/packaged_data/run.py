"""The jobs, the results they have given, and the loop that runs those without one.

A job is a method on one draw of labels. Each result is appended to a file as it comes, with the
version of the code: a run that was interrupted goes on where it was, and what other code has
computed is computed again.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.accuracy.results import code_version
from benchmarks.accuracy.run import LIBRARY
from benchmarks.measure import single_thread
from benchmarks.packaged_data.data import DATA, LABELS, PER_CLASS, draw_labels
from benchmarks.packaged_data.measures import Answer, accuracy_of, measures_of
from benchmarks.packaged_data.models import STOCK, stock_answer
from benchmarks.packaged_data.ours import (
    BESIDE_NEW,
    KNOWN,
    NEW,
    OURS,
    answers_for_new,
    our_answers,
)
from benchmarks.packaged_data.stored import Data
from metricmix.atomic import replacing
from metricmix.exceptions import InputError

HERE = "benchmarks/packaged_data"
DRAWS = 5
NEW_ITEMS = "new items"
OF_NEW_ITEMS = (NEW, KNOWN, *(f"{name}, new items" for name in BESIDE_NEW))
METHODS = (OURS, *STOCK)
JOBS = (*METHODS, NEW_ITEMS)
FRONT = ("src/metricmix/fitting", "src/metricmix/app/front_door.py")
"""What decides how ``mm.fit`` uses `LIBRARY`."""
Record = dict[str, Any]


class Job(NamedTuple):
    """A method on the labels of a draw, so many per class; or the answers for new items."""

    data: str
    per_class: int
    draw: int
    method: str


def jobs_of(
    names: Iterable[str], draws: int = DRAWS, numbers: Sequence[int] = LABELS
) -> Iterator[Job]:
    """Yield the jobs: those of the main tables first, and draws in turn."""
    for per_class in sorted(numbers, key=lambda number: number != PER_CLASS):
        for draw in range(draws):
            for name in names:
                for method in JOBS if per_class == PER_CLASS else METHODS:
                    yield Job(name, per_class, draw, method)


@cache
def version_of(method: str) -> str:
    """Return the version of the code that a result depends on."""
    parts = [f"{HERE}/{name}.py" for name in ("data", "stored", "measures")]
    if method in (OURS, NEW_ITEMS):
        parts += [
            f"{HERE}/ours.py",
            *LIBRARY,
            "src/metricmix/fitting",
            "src/metricmix/app/front_door.py",
        ]
    if method != OURS:
        parts += [f"{HERE}/models.py"]
    return code_version(tuple(parts))


def job_of(name: str) -> str:
    """Return the job that measures a method, a part of ours, or a way with new items.

    >>> job_of("classifier forest"), job_of("random forest")
    ('metricmix', 'random forest')
    """
    return name if name in METHODS else NEW_ITEMS if name in OF_NEW_ITEMS else OURS


def measure(job: Job, data: Data) -> Record:
    """Return what is measured in a job, by the names of the methods in it."""
    started = time.process_time()
    kept = draw_labels(data.labels, job.draw, job.per_class)
    labels, main = data.labels.to_numpy(), job.per_class == PER_CLASS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        measures = measures_of if main and job.method != NEW_ITEMS else accuracy_of
        found = {name: measures(answer, labels, ~kept) for name, answer in answers(job, data, kept)}
    return {
        **job._asdict(),
        "items": len(labels),
        "classes": len(set(labels)),
        "labelled": int(kept.sum()),
        "version": version_of(job.method),
        "seconds": round(time.process_time() - started, 2),
        "found": found,
    }


def answers(job: Job, data: Data, kept: Any) -> Iterator[tuple[str, Answer]]:
    """Yield the answers of a job; none if its method does not apply, or refuses the labels."""
    main = job.per_class == PER_CLASS
    if job.method == OURS:
        with suppress(InputError):
            yield from our_answers(data, kept, parts=main)
    elif job.method == NEW_ITEMS:
        yield from answers_for_new(data, kept, job.draw) if not data.graphs else ()
    else:
        answer = stock_answer(job.method, data, kept, probable=main)
        if answer is not None:
            yield job.method, answer


@cache
def loaded(name: str) -> Data:
    """Return a data set, which a process reads once."""
    return DATA[name][1]()


def measure_named(job: Job) -> Record:
    """Return what is measured in a job on a data set of the page."""
    return measure(job, loaded(job.data))


# -- results ---------------------------------------------------------------------------------------


@dataclass
class Results:
    """Results by job, and the machines, versions and commits that they come from.

    `origins` are numbered; a record has the number of its own.
    """

    origins: list[dict[str, Any]] = field(default_factory=list)
    records: dict[Job, Record] = field(default_factory=dict)

    def read_lines(self, path: Path) -> None:
        """Add the results of a file with a line for each, after a line that says where from."""
        origin = 0
        for line in path.read_text().splitlines() if path.exists() else []:
            try:
                record = json.loads(line)
            except ValueError:  # the run was killed while it wrote this line
                continue
            if "method" in record:
                self.put(record, origin)
            else:
                origin = self.number_of(record)

    def read(self, path: Path) -> None:
        """Add the results of the file beside the page."""
        content = json.loads(path.read_text()) if path.exists() else []
        if isinstance(content, list):  # of an earlier form, without what is measured now
            return
        numbers = [self.number_of(origin) for origin in content["origins"]]
        for row in content["records"]:
            shared = {key: row[key] for key in SHARED}
            for method in {*map(job_of, row["found"]), *row["without"]}:
                found = {key: one for key, one in row["found"].items() if job_of(key) == method}
                self.put({**shared, "method": method, "found": found}, numbers[row["origin"]])

    def write(self, path: Path) -> None:
        """Write the file beside the page: a line per draw, origin and version of the code.

        `without` are the methods that gave no answer.
        """
        rows: dict[tuple[Any, ...], Record] = {}
        for job, record in sorted(self.records.items(), key=_order):
            shared = {key: record[key] for key in (*SHARED, "origin")}
            row = rows.setdefault((*shared.values(),), {**shared, "without": [], "found": {}})
            row["found"] |= record["found"]
            row["without"] += [] if record["found"] else [job.method]
        origins = ",\n".join(map(json.dumps, self.origins))
        lines = ",\n".join(map(json.dumps, rows.values()))
        with replacing(path) as file:
            file.write(f'{{"origins": [\n{origins}\n], "records": [\n{lines}\n]}}\n'.encode())

    def put(self, record: Record, origin: int) -> None:
        """Add or replace a result."""
        job = Job(*(record[name] for name in Job._fields))
        self.records[job] = {**record, "origin": origin}

    def number_of(self, origin: dict[str, Any]) -> int:
        """Return the number of an origin, a new one if it is new."""
        if origin not in self.origins:
            self.origins.append(origin)
        return self.origins.index(origin)

    def has(self, job: Job) -> bool:
        """Return whether there is a result by the present code."""
        return job in self.records and self.records[job]["version"] == version_of(job.method)


SHARED = ("data", "per_class", "draw", "items", "classes", "labelled", "version")
"""What the results of a draw by the same code have in common."""


def _order(one: tuple[Job, Record]) -> tuple[Any, ...]:
    job, names = one[0], list(DATA)
    place = names.index(job.data) if job.data in DATA else len(names)
    return place, job.data, job.per_class, job.draw, JOBS.index(job.method)


# -- running ---------------------------------------------------------------------------------------


def run(
    results: Results,
    jobs: Iterable[Job],
    path: Path,
    origin: dict[str, Any],
    *,
    processes: int = 1,
    until: float = float("inf"),
    measured: Callable[[Job], Record] = measure_named,
) -> int:
    """Run the jobs without a result, and append what they give to a file; return how many failed.

    Stops at the time `until` (of ``time.monotonic``), when jobs that have begun are done.
    """
    wanted = [job for job in jobs if not results.has(job)]
    number, failed, started = results.number_of(origin), 0, time.monotonic()
    if not wanted:
        return 0
    with ProcessPoolExecutor(processes, initializer=single_thread) as pool, path.open("a") as file:
        file.write("\n" + json.dumps(origin) + "\n")  # a killed run may have left half a line
        futures = {pool.submit(measured, job): job for job in wanted}
        for count, future in enumerate(completed(futures, until), 1):
            job = futures[future]
            if error := future.exception():
                failed += 1
                print(f"{describe(job)} failed: {type(error).__name__}: {error}", flush=True)
                continue
            record = future.result()
            results.put(record, number)
            file.write(json.dumps(record) + "\n")
            file.flush()
            values = [
                f"{name} {100 * one['accuracy']:.1f}" for name, one in record["found"].items()
            ]
            passed = f"{count} of {len(wanted)}, {time.monotonic() - started:.0f} s"
            print(f"{describe(job)}: {', '.join(values[:1])} ({passed})", flush=True)
    return failed


def completed(futures: Iterable[Future[Record]], until: float) -> Iterator[Future[Record]]:
    """Yield what is completed; after the time `until`, what has begun by then, and no other."""
    seen = set()
    for future in as_completed(futures):
        seen.add(future)
        yield future
        if time.monotonic() > until:
            break
    yield from as_completed([one for one in futures if one not in seen and not one.cancel()])


def describe(job: Job) -> str:
    """Return a job as text."""
    return f"{job.data}, {job.per_class} per class, draw {job.draw}, {job.method}"

"""Measure what has no result yet, and write docs/graphs.md and its figure.

``python -m benchmarks.graphs --jobs 16`` measures, and appends each result to `PARTIAL`: a run that
was stopped goes on where it was. ``--write`` writes the page afterwards, ``--page`` does so from
the results that there are. ``--export FOLDER`` writes all graphs as files of plain arrays; with
METRICMIX_GRAPHS=FOLDER, nothing else is read.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", NUMBA_NUM_THREADS="1")

from benchmarks.accuracy.results import Record, Results
from benchmarks.accuracy.run import measure
from benchmarks.graphs.data import DRAWS, GRAPHS, LABELS, export, load
from benchmarks.graphs.methods import METHODS, OURS, case_of, facts, split_name, suits
from benchmarks.graphs.page import draw_means, page
from benchmarks.measure import check_committed, provenance
from benchmarks.readme import write_readme
from metricmix.atomic import replacing
from metricmix.exceptions import DatasetNotFoundError
from metricmix.paper.results import provenance as computed_with

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
RESULTS, PARTIAL = DOCS / "graphs.json", ROOT / "graphs.partial.jsonl"
FIRST = (20, 5, 1, 10, 3)
"""The order in which numbers of labels are measured."""
Cell = tuple[str, int, int, tuple[str, ...]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", choices=list(GRAPHS), default=list(GRAPHS))
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--labels", nargs="+", type=int, choices=LABELS, default=list(LABELS))
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=1e9, help="begin nothing after these")
    parser.add_argument(
        "--partial", type=Path, default=PARTIAL, help="file of the results of a run"
    )
    parser.add_argument("--write", action="store_true", help="write the page afterwards")
    parser.add_argument("--page", action="store_true", help="only write the page")
    parser.add_argument("--export", type=Path, metavar="FOLDER", help="only write the graphs")
    options = parser.parse_args()
    if options.export:
        write_graphs(options.data, options.export)
        return
    if options.write:
        check_committed()
    if not options.page:
        cells = wanted(
            known(options.partial), options.data, options.labels, options.draws, options.methods
        )
        run(cells, options.partial, options.jobs, time.time() + 60 * options.minutes)
    if options.write or options.page:
        write(options.partial)
        write_readme()


def write_graphs(names: Sequence[str], folder: Path) -> None:
    """Write graphs as files, and say which are missing."""
    for name in names:
        try:
            export(load(name), folder)
        except DatasetNotFoundError as error:
            print(f"{name}: left out; {error}")
    total = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{folder}: {len(list(folder.iterdir()))} graphs, {total / 2**20:.1f} MiB")


# -- measuring -------------------------------------------------------------------------------------


def known(partial: Path) -> dict[tuple[str, str, str], Record]:
    """Return the records by data set, split and method: of the results file, and of a run."""
    records = [*Results(RESULTS)]
    if partial.exists():
        lines = partial.read_text(encoding="utf-8").splitlines()
        records += [json.loads(line) for line in lines if line.endswith("}")]
    return {(one["data"], one["split"], one["method"]): one for one in records}


def wanted(
    records: dict[tuple[str, str, str], Record],
    data: Sequence[str],
    labels: Sequence[int],
    draws: int,
    methods: Sequence[str],
) -> list[Cell]:
    """Return the cells that lack a result by the present code, and the methods that they lack."""
    cells = []
    for draw in range(draws):
        for per_class in (count for count in FIRST if count in labels):
            for name in data:
                key = (name, split_name(per_class, draw))
                lacking = tuple(
                    method
                    for method in methods
                    if records.get((*key, method), {}).get("version") != METHODS[method].version
                )
                if lacking:
                    cells.append((name, per_class, draw, lacking))
    return cells


def run(cells: Sequence[Cell], partial: Path, jobs: int, until: float) -> None:
    """Measure cells in so many processes, one thread each."""
    missing: set[str] = set()
    with ProcessPoolExecutor(jobs) as pool:
        for job in as_completed([pool.submit(measured, cell, partial, until) for cell in cells]):
            said = job.result()
            if said and said not in missing:
                missing.add(said)
                print(said, flush=True)


def measured(cell: Cell, partial: Path, until: float) -> str:
    """Measure the methods of a cell, append each record, and return what is missing and why."""
    warnings.simplefilter("ignore")
    name, per_class, draw, methods = cell
    if time.time() > until:
        return ""
    try:
        case = case_of(name, per_class, draw)
    except DatasetNotFoundError as error:
        return f"{name}: left out; {error}"
    origin = computed_with()
    failed = []
    for method in methods:
        if time.time() > until:
            return ""
        if not suits(method, case):
            continue
        try:
            found = measure(case, METHODS[method])
        except Exception as error:  # the others are still worth their time
            failed.append(f"{name}, {case.split}, {method}: {type(error).__name__}: {error}")
            continue
        record = {
            **found,
            "labelled": len(case.train),
            "tested": len(case.test),
            "commit": origin["commit"],
            "date": origin["date"],
        }
        if method == OURS:
            record["graph"] = facts(load(name), case)
        append(partial, record)
    return "\n".join(failed)


def append(path: Path, record: Record) -> None:
    """Append a record as one line, in one piece: other processes do so, too."""
    line = (json.dumps(record) + "\n").encode()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


# -- writing ---------------------------------------------------------------------------------------


def write(partial: Path) -> None:
    """Join the results of a run to the results file, and write the page and its figure from it.

    Results that were computed without git get the present commit if it has the same code.
    """
    results = Results(RESULTS)
    if partial.exists():
        found: list[dict[str, Any]] = []
        for record in known(partial).values():
            if not record["commit"] and record["version"] == METHODS[record["method"]].version:
                record = {**record, "commit": computed_with()["commit"]}
            found.append(record)
        results.put(*found)
        partial.unlink()
    draw_means(list(results), DOCS / "figures" / "graphs")
    with replacing(DOCS / "graphs.md") as file:
        file.write(page(list(results), provenance()).encode())
    print("written: docs/graphs.md, docs/graphs.json, docs/figures/graphs, README.md")


if __name__ == "__main__":
    main()

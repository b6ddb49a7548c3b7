"""Measure what has no result yet, and write docs/accuracy.md and its figures.

``python -m benchmarks.accuracy`` does everything. ``--data``, ``--methods`` and ``--minutes`` do
some of it, and ``--page`` writes the page from the results that there are. Results are kept in
docs/accuracy.json: a run that was interrupted goes on where it was.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from benchmarks.accuracy.data import (
    CURVES,
    IMAGES,
    NETWORKS,
    generated_names,
    splits_of,
)
from benchmarks.accuracy.figures import draw_accuracies, draw_curves
from benchmarks.accuracy.page import write_page
from benchmarks.accuracy.results import Results
from benchmarks.accuracy.run import METHODS, ON_CURVES, run
from benchmarks.measure import check_committed, provenance
from metricmix.atomic import replacing

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GENERATED = [name for curve in CURVES for name in generated_names(curve)]
SLOW = ("gcn", "appnp")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", choices=[*NETWORKS, *IMAGES, *CURVES])
    parser.add_argument("--methods", nargs="+", choices=list(METHODS))
    parser.add_argument("--minutes", type=float, default=np.inf, help="stop measuring after these")
    parser.add_argument("--page", action="store_true", help="only write the page")
    options = parser.parse_args()
    if not options.page:
        check_committed()  # each result names its commit
    results = Results(DOCS / "accuracy.json")
    if not options.page:
        until = time.monotonic() + 60 * options.minutes
        chosen = options.data or [*NETWORKS, *IMAGES, *CURVES]
        wanted = options.methods or list(METHODS)
        # Cheap methods first, and splits in turn: wherever it stops, there is something to compare.
        for part in (
            [name for name in wanted if name not in SLOW],
            [name for name in wanted if name in SLOW],
        ):
            run(results, cases(chosen), part, until=until)
            run(
                results,
                [
                    (data, split)
                    for curve in CURVES
                    if curve in chosen
                    for data in generated_names(curve)
                    for split in splits_of(data)
                ],
                [name for name in part if name in ON_CURVES],
                until=until,
            )
    write(results)


def cases(chosen: list[str]) -> list[tuple[str, str]]:
    """Return the cases of networks and images, the first split of each before the second."""
    splits = {data: splits_of(data) for data in chosen if data not in CURVES}
    longest = max((len(found) for found in splits.values()), default=0)
    return [
        (data, found[k]) for k in range(longest) for data, found in splits.items() if k < len(found)
    ]


def write(results: Results) -> None:
    """Write the page and its figures."""
    draw_accuracies(results, DOCS / "figures" / "accuracy")
    draw_curves(results, DOCS / "figures" / "accuracy_misleading")
    _replace(DOCS / "accuracy.md", write_page(results, provenance()))
    print("written: docs/accuracy.md and its figures")


def _replace(path: Path, text: str) -> None:
    with replacing(path) as file:
        file.write(text.encode())


if __name__ == "__main__":
    main()

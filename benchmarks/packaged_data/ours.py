"""What ``mm.fit`` predicts with its defaults, what its parts do, and its answers for new items."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

import metricmix as mm
from benchmarks.packaged_data.measures import Answer
from benchmarks.packaged_data.models import encoded, stock_answer
from benchmarks.packaged_data.stored import Data

OURS = "metricmix"
NEW, KNOWN = "metricmix, new items", "metricmix, the same items in the fit"
BESIDE_NEW = ("random forest", "linear SVM")


def learned(data: Data, kept: np.ndarray) -> mm.FitResult:
    """Return the fit to a table with the labels `kept`, and to its graphs."""
    given = data.table.assign(**{data.label: data.labels.where(kept, "")})
    directed = [name for name, links in data.graphs.items() if data.directed and "target" in links]
    return mm.fit(
        given, label=data.label, id="id", edges=data.graphs, directed=directed, evaluate=False
    )


def answer_of(fitted: mm.FitResult, data: Data) -> Answer:
    """Return labels and probabilities in the order of the table."""
    assert fitted.outcome is not None
    rows = rows_of(fitted.predictions, data.table)
    labels = fitted.predictions["label"].astype(str).to_numpy()[rows]
    classes = fitted.estimator.classes_.astype(str)
    return Answer(labels, fitted.outcome.probabilities[rows], classes)


def rows_of(predictions: pd.DataFrame, table: pd.DataFrame) -> np.ndarray:
    """Return which row of the predictions each row of a table has."""
    return pd.Index(predictions.index.astype(str)).get_indexer(table["id"].astype(str))


def our_answers(
    data: Data, kept: np.ndarray, *, parts: bool = True
) -> Iterator[tuple[str, Answer]]:
    """Yield the learned metric, then its parts, and what each predicts for all items.

    The parts are equal weights, and the classifiers whose predictions are sources.
    """
    fitted = learned(data, kept)
    yield OURS, answer_of(fitted, data)
    if not parts:
        return
    assert fitted.outcome is not None
    stack, classes = fitted.outcome.gathered.stack, fitted.model.classes_.astype(str)
    y = data.labels.where(kept, "").to_numpy()
    equal = mm.MetricMixtureClassifier(stack, objective=None).fit(None, y)
    yield "equal weights", Answer(equal.transduction_.astype(str))
    for name, source in zip(stack.names, stack.sources, strict=True):
        if source.supervised:
            yield f"classifier {name}", Answer(classes[source.values.argmax(axis=1)])


def answers_for_new(data: Data, kept: np.ndarray, seed: int) -> Iterator[tuple[str, Answer]]:
    """Yield answers for half of the items: new to the fit, in the fit, and by stock models.

    The other half has all labels; the fit for new items, the stock models and their encoding see
    that half alone.
    """
    inside, test = kept.copy(), np.zeros(len(kept), dtype=bool)
    free = np.random.default_rng([seed, 1]).permutation(np.flatnonzero(~kept))
    inside[free[: max(0, len(kept) // 2 - int(kept.sum()))]] = True
    test[~inside] = True
    half = replace(data, table=data.table[inside].reset_index(drop=True))
    new: Any = data.table[test].drop(columns=data.label)
    found = learned(half, kept[inside]).predict(new)
    labels = np.full(len(kept), "", dtype=object)
    labels[test] = found["label"].astype(str).to_numpy()[rows_of(found, new)]
    yield NEW, Answer(labels, test=test)
    yield KNOWN, replace(answer_of(learned(data, kept), data), test=test)
    X = encoded(data, inside)
    for name in BESIDE_NEW:
        answer = stock_answer(name, data, kept, X)
        assert answer is not None
        yield f"{name}, new items", replace(answer, test=test)

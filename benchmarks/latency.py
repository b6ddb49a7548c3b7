"""How long one query of a fitted model takes: a label, neighbours, a path, a new item."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import metricmix as mm
from benchmarks.measure import table

TITLE = "One query of a fitted model"
SIZES = (1_000, 100_000, 1_000_000)
SOURCES = ("numbers=raw:x*", "learned=learned:x*")
CLASSES, COLUMNS, PER_CLASS, QUERIES = 10, 10, 20, 20


def fitted(n: int) -> tuple[Any, pd.DataFrame]:
    """Return the result of a fit of n items with three links each, and rows of new items."""
    rng = np.random.default_rng(0)
    y = rng.integers(CLASSES, size=n)
    X = rng.normal(size=(CLASSES, COLUMNS))[y] + rng.normal(size=(n, COLUMNS))
    u, v = rng.integers(n, size=(2, 3 * n))
    same = np.flatnonzero(y[u] == y[v])
    links = np.stack([u, v], axis=1)[np.union1d(same, np.arange(0, 3 * n, 10))]
    labels = np.full(n, -1)
    for c in range(CLASSES):
        labels[np.flatnonzero(y == c)[:PER_CLASS]] = c
    frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(COLUMNS)])
    frame.insert(0, "id", [f"p{k}" for k in range(n)])
    frame["class"] = pd.array([c if c >= 0 else None for c in labels.tolist()], dtype="Int64")
    ends = pd.DataFrame(np.char.add("p", links.astype(str)), columns=["source", "target"])
    result = mm.fit(frame, label="class", edges={"links": ends}, sources=SOURCES, evaluate=False)
    new = frame.iloc[:QUERIES].drop(columns="class").assign(id=[f"q{k}" for k in range(QUERIES)])
    return result, new


def latency(query: Callable[[int], Any]) -> tuple[float, float]:
    """Return the seconds of the first call, and the median of those that follow."""
    seconds = []
    for k in range(QUERIES):
        started = time.perf_counter()
        query(k)
        seconds.append(time.perf_counter() - started)
    return seconds[0], float(np.median(seconds[1:]))


def measured(n: int) -> dict[str, tuple[float, float]]:
    """Return first and later calls of every query, for n items."""
    result, new = fitted(n)
    metric = result.metric
    warnings.simplefilter("ignore")  # new items come without edges
    a, b = (np.random.default_rng(k).integers(n, size=QUERIES) for k in (1, 2))

    def name(k: int) -> str:
        return f"p{k}"

    queries: dict[str, Callable[[int], Any]] = {
        "label and confidence of an item": lambda k: result.predictions.loc[name(a[k])],
        "distance of two items": lambda k: metric.distance(name(a[k]), name(b[k])),
        "shortest path of two items": lambda k: metric.path(name(a[k]), name(b[k])),
        "5 nearest items": lambda k: metric.kneighbors(name(a[k])),
        "why an item got its label": lambda k: result.explain(name(a[k])),
        "label of a new item": lambda k: result.predict(new.iloc[k : k + 1]),
    }
    return {what: latency(query) for what, query in queries.items()}


def shown(seconds: float) -> str:
    """Return a time in milliseconds, with two digits."""
    return f"{1e3 * seconds:.2g} ms" if seconds < 0.0995 else f"{1e3 * seconds:.0f} ms"


def run() -> str:
    found = {n: measured(n) for n in SIZES}
    rows = [
        [what, *(shown(t) for n in SIZES for t in reversed(found[n][what]))]
        for what in found[SIZES[0]]
    ]
    header = ["query", *(part for n in SIZES for part in (f"n = {n:,}", "the first"))]
    return table(header, rows)

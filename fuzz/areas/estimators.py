"""Estimators: the same answers again, from a file, under other names and in another order."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

import metricmix as mm
from fuzz.cases import Area, Instance, ask
from fuzz.instances import chance, labels, lengths, pick, size, table

RULES = ("class-mean", "nearest", "k-nearest", "spreading")


def make(rng: np.random.Generator) -> Instance:
    n = size(rng, 12, least=5)
    return {
        "n": n,
        "what": pick(rng, "classifier", "classifier", "transformer", "repair"),
        "features": chance(rng, 0.5),
        "X": table(rng, n, int(rng.integers(1, 4))).tolist(),
        "sources": [lengths(rng, n, span=2.0).tolist() for _ in range(int(rng.integers(1, 4)))],
        "y": labels(rng, n),
        "text": chance(rng, 0.3),
        "rule": pick(rng, *RULES),
        "objective": pick(rng, None, "class-means", "neighbourhood", "label-contrast"),
        "beta": pick(rng, 1.0, 0.1, 10.0),
        "constraint": pick(rng, None, "nonnegative"),
        "norm": pick(rng, "decrease", "decrease", "l2", "l1", "linf"),
        "order": [int(k) for k in rng.permutation(n)],
        "new": table(rng, 2, 3).tolist(),
    }


def check(instance: Instance) -> None:
    y = np.array(instance["y"])
    given = np.array([f"class {k}" if k >= 0 else "" for k in y]) if instance["text"] else y
    if instance["what"] == "repair":
        check_repair(np.array(instance["sources"][0], float), instance["norm"])
        return
    kind = mm.MetricMixtureClassifier if instance["what"] == "classifier" else mm.MetricMixture
    options: dict[str, Any] = {name: instance[name] for name in ("objective", "constraint", "beta")}
    if kind is mm.MetricMixtureClassifier:
        options["rule"] = instance["rule"]
    X: Any
    if instance["features"]:
        X = np.array(instance["X"], float)
        model = kind(["euclidean", "cityblock"], **options)
    else:
        X = np.stack([np.array(M, float) for M in instance["sources"]], axis=-1)
        model = kind(**options)
    check_parameters(model)
    try:
        model.fit(X, given)
    except mm.InputError:  # a source of zeros, a class of one item
        return
    if kind is mm.MetricMixtureClassifier:
        check_classifier(model, X, given, instance)
    else:
        check_transformer(model, X)
    new = np.array(instance["new"], float)[:, : X.shape[1]] if instance["features"] else X[:2]
    asked = [X] if new.shape[1:] != X.shape[1:] else [X, new]
    check_file(model, asked)


def check_parameters(model: Any) -> None:
    copy = clone(model)
    params = model.get_params()
    ask(copy.get_params() == params, "clone has the same parameters")
    ask(
        type(model)().set_params(**model.get_params(deep=False)).get_params() == params,
        "set_params",
    )


def answers(model: Any, X: Any) -> Any:
    """Return what a model says of X."""
    ask_for = model.predict_proba if hasattr(model, "predict_proba") else model.transform
    return ask_for(X)


def check_classifier(model: Any, X: Any, y: Any, instance: Instance) -> None:
    p = model.predict_proba(X)
    ask(np.isfinite(p).all() and (p >= 0).all(), "probabilities are finite and >= 0")
    ask(np.abs(p.sum(axis=1) - 1).max() < 1e-9, "probabilities add up to 1")
    ask(np.array_equal(p, model.predict_proba(X)), "predictions do not change")
    ask(set(model.predict(X).tolist()) <= set(model.classes_.tolist()), "labels are known ones")
    known = np.array(instance["y"]) >= 0
    kept = model.transduction_[known] == y[known]
    ask(kept.all(), "labelled items keep their labels")
    again = clone(model).fit(X, y)
    ask(np.array_equal(again.predict_proba(X), p), "another fit gives the same")
    if instance["objective"] is None and instance["rule"] in ("class-mean", "nearest"):
        check_order(model, X, y, instance["order"], p)
        check_names(model, X, instance["y"], p)


def check_order(model: Any, X: Any, y: Any, order: Any, p: Any) -> None:
    """Fit the items in another order."""
    # Of several items that are equal up to rounding, a new one is the first.
    rows = X.reshape(len(X), -1)
    apart = np.abs(rows[:, None] - rows).max(axis=2) + np.eye(len(X)) * np.abs(rows).max()
    twice = bool((apart <= 1e-6 * np.abs(rows).max()).any())
    if len(order) != len(y) or ties(p) or twice:
        return
    turned = X[order] if X.ndim == 2 else X[np.ix_(order, order)]
    other = clone(model).fit(turned, y[order]).predict_proba(turned)
    apart = np.abs(other - p[order]).max()
    ask(apart < 1e-6, "the order of the items does not matter", f"{apart!r}")


def check_names(model: Any, X: Any, y: Any, p: Any) -> None:
    """Fit with other names for the classes, in reversed order."""
    if ties(p):
        return
    renamed = np.array([10 - k if k >= 0 else -1 for k in y])
    other = clone(model).fit(X, renamed).predict_proba(X)
    apart = np.abs(other[:, ::-1] - p).max()
    ask(apart < 1e-6, "the names of the classes do not matter", f"{apart!r}")


def ties(p: Any) -> bool:
    """Return whether the two best classes of an item are equal up to rounding."""
    best = np.sort(p, axis=1)[:, ::-1]
    return bool((best[:, 0] - best[:, 1] < 1e-6).any())


def check_transformer(model: Any, X: Any) -> None:
    d = model.transform(X)
    ask(mm.is_metric(d), "transform gives a metric")
    ask(np.array_equal(d, model.transform(X)), "transform does not change")
    ask(np.array_equal(model.compute_metric(), d), "compute_metric is transform of the items")
    k = min(3, len(d) - 1)
    graph = model.kneighbors_graph(k).toarray()
    others = np.where(np.eye(len(d), dtype=bool), np.inf, d)
    nearest = np.sort(others, axis=1)[:, :k]
    found = np.array(
        [np.sort(mm.kneighbors(model.stack_, model.mixture_, k)[0][v]) for v in range(len(d))]
    )
    ask(np.allclose(found, nearest, rtol=1e-9, atol=0), "kneighbors are those of the metric")
    ask(np.allclose(graph.max(axis=1), nearest.max(axis=1), rtol=1e-9), "so is kneighbors_graph")


def check_file(model: Any, asked: list[Any]) -> None:
    """Save, load, and compare the answers bit for bit."""
    expected = []
    for X in asked:
        try:
            expected.append(answers(model, X))
        except mm.InputError:
            expected.append(None)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.mm"
        mm.save(model, path)
        loaded = mm.load(path)
        for X, before in zip(asked, expected, strict=True):
            if before is not None:
                same = np.array_equal(answers(loaded, X), before)
                ask(same, "a loaded model gives the same answers, bit for bit")
        mm.save(loaded, path)
        twice = mm.load(path)
        if expected[0] is not None:
            same = np.array_equal(answers(twice, asked[0]), expected[0])
            ask(same, "a model that is saved again gives the same answers")


def check_repair(D: Any, norm: str) -> None:
    model = mm.MetricRepair(norm)
    copy = clone(model)
    ask(copy.get_params() == model.get_params(), "clone has the same parameters")
    d = model.fit_transform(D)
    ask(mm.is_metric(d), "MetricRepair gives a metric")
    ask(np.array_equal(model.metric_, d), "fit_transform is metric_")
    ask(np.array_equal(model.transform(D), d), "transform of the items is metric_")
    if norm == "decrease":
        ask(np.array_equal(d, mm.project(D)), "'decrease' is project")
    check_file(model, [D])


AREA = Area(
    "estimators",
    make,
    check,
    tried="`MetricMixtureClassifier`, `MetricMixture` and `MetricRepair` on small tables and "
    "stacks with every rule and objective: cloned, fitted again, saved and loaded, with items in "
    "another order and classes under other names.",
    promised="Parameters survive cloning; predictions are reproducible and survive saving and "
    "loading bit for bit; neighbours are those of the metric; the order of items and the "
    "names of classes do not matter.",
    share=1.5,
    per_item=("X", "sources", "y"),
    positions=("order",),
    lists=("sources",),
)

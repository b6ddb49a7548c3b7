"""Clustering and cutting: linear programs by HiGHS, and all partitions of small graphs."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from scipy.optimize import linprog

import metricmix as mm
from fuzz.cases import Area, Instance, ask
from fuzz.instances import chance, graph_weights, numbers, pick, size

TOL = 1e-4
REFERENCE = 1e-6
"""Accuracy of the linear programs, relative to the total weight."""


def make(rng: np.random.Generator) -> Instance:
    kind = pick(rng, "correlation clustering", "sparsest cut", "max cut")
    n = size(rng, 8, least=1 if kind != "sparsest cut" else 2)
    W = graph_weights(rng, n, signed=kind != "sparsest cut")
    if chance(rng, 0.2):
        W = (W != 0).astype(float)  # an unweighted graph
    demand = 0.1 + numbers(rng, (n,), span=1.0) if chance(rng, 0.3) else None
    return {
        "n": n,
        "kind": kind,
        "W": W.tolist(),
        "demand": None if demand is None or kind != "sparsest cut" else demand.tolist(),
        "seed": int(rng.integers(1000)),
    }


def check(instance: Instance) -> None:
    W = np.array(instance["W"], float).reshape(int(instance["n"]), -1)
    given = W.copy()
    options = {"tol": TOL, "random_state": int(instance["seed"])}
    if instance["kind"] == "correlation clustering":
        check_clustering(W, options)
    elif instance["kind"] == "max cut":
        check_max_cut(W, options)
    else:
        check_sparsest_cut(W, instance["demand"], options)
    ask(np.array_equal(W, given), "arguments are not changed")


def check_clustering(W: Any, options: Any) -> None:
    call = mm.relaxations.correlation_clustering
    signs = "given" if W.any() else "edges"
    found = call(W, signs=signs, **options)
    if signs == "edges":
        W = -(np.ones_like(W) - np.eye(len(W)))  # pairs without an edge repel each other
    n, total = len(W), float(np.abs(np.triu(W)).sum())
    ask(len(found.labels) == n, "every item has a cluster")
    costs = {tuple(labels): cluster_cost(W, labels) for labels in partitions(n)}
    same_as(found.objective, cluster_cost(W, found.labels), total, "objective")
    best = min(costs.values())
    bounds(found.lower_bound, best, found.objective, total)
    check_gap(found, found.lower_bound, total)
    w = W[np.triu_indices(n, 1)]
    lp = solve(w, n) - float(w[w < 0].sum()) if n > 2 else best
    below(found.lower_bound, lp, total, "the bound is below the linear program")
    below(lp, found.lp_objective, total, "the fractional solution is feasible")
    metric = found.metric
    ask(mm.is_metric(metric, tol=1e-7), "the fractional solution is a metric")
    ask(metric.max(initial=0) <= 1 + 1e-9, "the fractional solution is at most 1")
    again = call(given_of(W, signs), signs=signs, **options)
    ask(np.array_equal(again.labels, found.labels), "the same seed gives the same clusters")


def given_of(W: Any, signs: str) -> Any:
    """Return the weights that were passed."""
    return W if signs == "given" else np.zeros_like(W)


def check_max_cut(W: Any, options: Any) -> None:
    found = mm.relaxations.max_cut(W, **options)
    n, total = len(W), float(np.abs(np.triu(W)).sum())
    same_as(found.objective, cut_weight(W, found.labels), total, "objective")
    best = max(cut_weight(W, labels) for labels in cuts(n))
    bounds(found.objective, best, found.upper_bound, total)
    check_gap(found, found.upper_bound, total)
    ask(set(found.labels.tolist()) <= {0, 1} and found.labels[0] == 0, "sides are 0 and 1")
    w = W[np.triu_indices(n, 1)]
    lp = -solve(-w, n, perimeters=True) if n > 2 else float(np.maximum(w, 0).sum())
    below(lp, found.upper_bound, total, "the bound is above the linear program")
    below(found.lp_objective, lp, total, "the fractional solution is feasible")


def check_sparsest_cut(W: Any, demand: Any, options: Any) -> None:
    n = len(W)
    if n < 2:
        return
    delta = np.ones(n) if demand is None else np.array(demand, float)
    found = mm.relaxations.sparsest_cut(W, demand=None if demand is None else delta, **options)

    def ratio(labels: Any) -> float:
        side = np.asarray(labels) == 1
        return cut_weight(W, labels) / float(delta[side].sum() * delta[~side].sum())

    scale = float(np.abs(np.triu(W)).sum()) / float(delta.sum() ** 2 / 4)
    same_as(found.objective, ratio(found.labels), scale, "objective")
    best = min(ratio(labels) for labels in cuts(n) if 0 < np.sum(labels) < n)
    bounds(found.lower_bound, best, found.objective, scale)
    check_gap(found, found.lower_bound, scale)
    metric = found.metric
    ask(mm.is_metric(metric, tol=1e-7), "the fractional solution is a metric")
    total = float(np.triu(metric * np.outer(delta, delta), 1).sum())
    ask(abs(total - 1) < 1e-6, "the demands times the metric add up to 1", f"{total!r}")


def check_gap(found: Any, bound: float, total: float) -> None:
    """Check what a converged result says of itself."""
    size_ = max(abs(bound), abs(found.lp_objective))
    gap = abs(found.lp_objective - bound)
    ask(
        not found.converged or gap <= 2 * TOL * size_ + 1e-6 * total,
        "a converged result has a small gap",
        f"{found.lp_objective!r} and {bound!r}",
    )


def same_as(found: float, expected: float, total: float, what: str) -> None:
    ask(abs(found - expected) <= 1e-9 * total, f"the {what} is right", f"{found!r}, {expected!r}")


def bounds(low: float, best: float, high: float, total: float) -> None:
    ask(low <= best + 1e-9 * total, "bounds are around the optimum", f"{low!r} > {best!r}")
    ask(best <= high + 1e-9 * total, "bounds are around the optimum", f"{best!r} > {high!r}")


def below(low: float, high: float, total: float, promise: str) -> None:
    ask(low <= high + REFERENCE * total, promise, f"{low!r} > {high!r}")


# -- references ------------------------------------------------------------------------------------


def solve(cost: Any, n: int, *, perimeters: bool = False) -> float:
    """Return the minimum of a linear function over metrics with entries up to 1."""
    pair = {p: e for e, p in enumerate(combinations(range(n), 2))}
    rows, b = [], []
    for i, j, k in combinations(range(n), 3):
        sides = [pair[i, j], pair[j, k], pair[i, k]]
        for long in range(3):
            row = np.zeros(len(pair))
            row[sides] = -1.0
            row[sides[long]] = 1.0
            rows.append(row)
            b.append(0.0)
        if perimeters:
            row = np.zeros(len(pair))
            row[sides] = 1.0
            rows.append(row)
            b.append(2.0)
    unit = float(np.abs(cost).max()) or 1.0
    found = linprog(cost / unit, np.array(rows), b, bounds=(0, 1), method="highs")
    return unit * float(found.fun or 0.0)


def cluster_cost(W: Any, labels: Any) -> float:
    """Return what clusters cost, pair by pair."""
    pairs = combinations(range(len(W)), 2)
    return float(
        sum(max(0.0, -W[i, j]) if labels[i] == labels[j] else max(0.0, W[i, j]) for i, j in pairs)
    )


def cut_weight(W: Any, labels: Any) -> float:
    """Return the weight between the sides."""
    apart = np.asarray(labels)[:, None] != np.asarray(labels)
    return float((W * apart).sum() / 2)


def cuts(n: int) -> Any:
    """Return all ways to put n items on two sides, the first one on side 0."""
    numbers_ = np.arange(2 ** (n - 1))
    return np.array([np.zeros(len(numbers_), int), *((numbers_ >> k) & 1 for k in range(n - 1))]).T


def partitions(n: int) -> Any:
    """Yield all ways to cluster n items, as labels."""
    if n == 0:
        yield []
        return
    for labels in partitions(n - 1):
        for label in range(max(labels, default=-1) + 2):
            yield [*labels, label]


AREA = Area(
    "relaxations",
    make,
    check,
    tried="`correlation_clustering`, `sparsest_cut` and `max_cut` on graphs of up to eight items "
    "with weights of any sign and size, including disconnected and empty ones, against every "
    "partition and cut, and against HiGHS.",
    promised="Lower bound, optimum and rounded solution are in this order, and the fractional "
    "solution is a metric.",
    share=1.5,
    per_item=("W", "demand"),
)

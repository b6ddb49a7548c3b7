"""Objectives and solvers: finite differences, cvxpy on convex cases, and repeated runs."""

from __future__ import annotations

from typing import Any

import numpy as np

import metricmix
from fuzz.cases import Area, Instance, ask
from fuzz.instances import chance, labels, lengths, pick, size
from metricmix.mixture import edge_lengths
from metricmix.solvers.problem import Problem
from metricmix.solvers.unprojected import UnprojectedProblem

mm: Any = metricmix  # its arguments are known at run time only

KINDS = (
    "LeastSquares",
    "LabelContrast",
    "ClassMeans",
    "Neighbourhood",
    "Triplets",
    "PairConstraints",
)


def make(rng: np.random.Generator) -> Instance:
    n = size(rng, 10, least=4)
    R = int(rng.integers(1, 4))
    return {
        "n": n,
        "what": pick(rng, "gradient", "gradient", "run", "linear", "metric"),
        "kind": pick(rng, *KINDS),
        "sources": [lengths(rng, n, span=1.5).tolist() for _ in range(R)],
        "target": lengths(rng, n, span=1.0).tolist(),
        "y": labels(rng, n),
        "pairs": rng.integers(n, size=(6, 2)).tolist(),
        "triples": rng.integers(n, size=(6, 3)).tolist(),
        "weights": rng.normal(size=R).round(3).tolist(),
        "rho": pick(rng, 1e-3, 0.1),
        "projection": chance(rng, 0.7),
        "constraint": pick(rng, None, None, "nonnegative", "simplex"),
        "method": pick(rng, "full", "stochastic"),
        "seed": int(rng.integers(1000)),
    }


def check(instance: Instance) -> None:
    sources = [np.array(M, float) for M in instance["sources"]]
    if any(M.max() == 0 for M in sources):
        return  # a source of zeros cannot be scaled
    stack = mm.DissimilarityStack(sources, scaling="mean")
    weights = np.array((instance["weights"] or [1.0] * len(sources))[: len(sources)], float)
    try:
        objective = make_objective(instance)
        objective.check(stack.n_items)
    except mm.InputError:
        return  # too few items left for this objective
    what = instance["what"]
    if what == "gradient":
        check_gradient(objective, stack, weights, bool(instance["projection"]))
    elif what == "run":
        check_run(instance, objective, stack)
    elif what == "linear":
        check_linear(stack, np.array(instance["target"], float), float(instance["rho"]))
    else:
        check_metric_variable(np.array(instance["target"], float))


def make_objective(instance: Instance) -> Any:
    objectives, rho = mm.objectives, float(instance["rho"])
    y = instance["y"]
    kind = instance["kind"]
    if kind == "LeastSquares":
        return objectives.LeastSquares(np.array(instance["target"], float), rho)
    if kind == "Triplets":
        return objectives.Triplets(np.array(instance["triples"], int).reshape(-1, 3), rho)
    if kind == "PairConstraints":
        pairs = [p for p in instance["pairs"] if p[0] != p[1]]
        return objectives.PairConstraints(pairs[::2], pairs[1::2], rho)
    return getattr(objectives, kind)(np.array(y), rho)


def check_gradient(objective: Any, stack: Any, weights: Any, projection: bool) -> None:
    """Compare the gradient with central differences, where the function is smooth there."""
    problem = (Problem if projection else UnprojectedProblem)(objective, stack)
    value, gradient = problem.value_and_gradient(weights)
    ask(np.isfinite(value) and np.isfinite(gradient).all(), "values are finite")
    alone = problem.value(weights)
    ask(abs(value - alone) <= 1e-9 * (1 + abs(value)), "value and value_and_gradient agree")
    for r in range(len(weights)):
        slopes = []
        for h in (1e-5, 1e-6):
            step = np.zeros(len(weights))
            step[r] = h
            ahead, behind = problem.value(weights + step), problem.value(weights - step)
            slopes += [(ahead - value) / h, (value - behind) / h]
        noise = 1e-9 * (1 + abs(value)) / 1e-6
        size_ = max(1.0, *map(abs, slopes))
        low, high = min(slopes), max(slopes)
        slack = 1e-3 * size_ + noise
        if high - low > slack:
            continue  # a kink: shortest paths tie
        ask(
            low - slack <= gradient[r] <= high + slack,
            "the gradient is that of finite differences",
            f"{gradient[r]!r}, expected {low!r} .. {high!r}",
        )


def check_run(instance: Instance, objective: Any, stack: Any) -> None:
    """Solve twice: the same result, no worse than the start, and within the constraint."""
    options = {
        "constraint": instance["constraint"],
        "projection": bool(instance["projection"]),
        "random_state": int(instance["seed"]),
        "max_iter": 30,
    }
    method = instance["method"]
    results = [mm.minimize(objective, stack, method, n_jobs=n_jobs, **options) for n_jobs in (1, 2)]
    one, two = results
    ask(np.array_equal(one.weights, two.weights), "the same seed gives the same weights")
    ask(one.objective == two.objective, "the same seed gives the same objective")
    ask(np.isfinite(one.weights).all(), "weights are finite", f"{one.weights}")
    if instance["constraint"]:
        ask((one.weights >= 0).all(), "constraints hold", f"{one.weights}")
    if instance["constraint"] == "simplex":
        ask(abs(one.weights.sum() - 1) < 1e-9, "constraints hold", f"{one.weights}")
    kind = Problem if options["projection"] else UnprojectedProblem
    problem = kind(objective, stack, constraint=instance["constraint"] or "none")
    if one.objective_kind in ("exact", "unprojected"):
        value = problem.value(np.asarray(one.weights))
        ask(
            abs(one.objective - value) <= 1e-9 * (1 + abs(value)),
            "the objective is that of the weights",
            f"{one.objective!r}, found {value!r}",
        )
    if method == "full":
        start = problem.value(np.full(stack.n_sources, 1.0 / stack.n_sources))
        rounding = 1e-9 * (1 + abs(start))
        ask(one.objective <= start + rounding, "no worse than the start", f"{one.objective!r}")
    d = mm.path_metric(stack, one.mixture)
    ask(mm.is_metric(d), "the learned metric is a metric")
    w = edge_lengths(stack, one.mixture).matrix()
    ask((d <= w).all(), "the metric is below the edge lengths")


def check_linear(stack: Any, target: Any, rho: float) -> None:
    """Compare cutting planes with cvxpy on the convex problem over weights."""
    import cvxpy

    cp: Any = cvxpy

    n = stack.n_items
    objective = mm.objectives.LeastSquares(target, rho)
    found = mm.minimize(objective, stack, "cutting-plane")
    M = np.asarray(stack.rows(np.arange(n)))
    i, j = (a.ravel() for a in np.indices((n, n)))
    x = cp.Variable(stack.n_sources)
    rows = []
    for a in range(n):
        for b in range(a):
            others = [k for k in range(n) if k not in (a, b)]
            rows += [M[a, k] + M[k, b] - M[a, b] for k in others]
            rows.append(M[a, b])
    cost = cp.sum_squares(M[i, j] @ x - target[i, j]) / (n * n) + rho * cp.sum_squares(x)
    problem = cp.Problem(cp.Minimize(cost), [np.array(rows) @ x >= 0])
    try:
        problem.solve(solver="CLARABEL")
    except cp.error.SolverError:
        return
    if problem.status != "optimal":
        return
    optimum = float(problem.value)
    slack = 1e-5 * optimum + 1e-7 * float((target**2).mean()) + 1e-8  # tolerances of Clarabel
    if found.lower_bound is not None:
        ask(
            found.lower_bound <= optimum + slack,
            "cutting plane: the bound is below the optimum",
            f"{found.lower_bound!r} > {optimum!r}",
        )
    if found.converged and (found.violation or 0.0) <= 1e-9:
        ask(
            found.objective >= optimum - slack,
            "cutting plane: not better than the optimum",
            f"{found.objective!r} < {optimum!r}",
        )


def check_metric_variable(target: Any) -> None:
    """Compare the projected method with nearest_metric on least squares."""
    goal = mm.objectives.LeastSquares(target)
    found = mm.minimize_metric(goal, target, "projected", max_iter=300)
    nearest = mm.nearest_metric(target)
    n = len(target)
    ask(mm.is_metric(found.metric), "minimize_metric returns a metric")
    optimum = 2 * nearest.objective / (n * n)
    slack = 1e-5 * optimum + 1e-9 * float((target**2).mean())
    lowest = 2 * nearest.lower_bound / (n * n)
    ask(found.objective >= lowest - slack, "minimize_metric is not better than the optimum")
    if found.converged:
        ask(
            found.objective <= optimum + slack,
            "minimize_metric reaches the optimum",
            f"{found.objective!r} > {optimum!r}",
        )
    if found.lower_bound is not None:
        ask(found.lower_bound <= optimum + slack, "minimize_metric: the bound is below the optimum")


AREA = Area(
    "objectives",
    make,
    check,
    tried="Every objective's gradient against finite differences; `minimize` with both path "
    "methods, twice, with one and two threads; cutting planes against cvxpy; `minimize_metric` "
    "against `nearest_metric`.",
    promised="Gradients are correct wherever shortest paths are unique; runs with the same seed "
    "are identical bit for bit; constraints hold; bounds are valid; the learned metric is "
    "a metric.",
    share=1.5,
    per_item=("sources", "target", "y"),
    positions=("pairs", "triples"),
    lists=("sources", "pairs", "triples"),
)

"""Nearest metrics: linear and quadratic programs over all triangles as the reference."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from scipy.optimize import linprog

import metricmix
from fuzz.cases import Area, Instance, ask
from fuzz.instances import chance, lengths, numbers, pick, size

mm: Any = metricmix  # its arguments are known at run time only

TOL = 1e-6
NORMS = ("l2", "l1", "linf", "decrease", "increase")


def make(rng: np.random.Generator) -> Instance:
    n = size(rng, 9)
    span = pick(rng, 1.0, 3.0, 6.0, 12.0)
    D = lengths(rng, n, span=span)
    instance: Instance = {"n": n, "norm": pick(rng, *NORMS), "D": D.tolist()}
    instance["weights"] = symmetric(rng, n, pick(rng, 1.0, 3.0, 6.0)) if chance(rng, 0.3) else None
    missing = np.tril(rng.random((n, n)) < 0.15, -1) if chance(rng, 0.2) else np.zeros((n, n), bool)
    instance["missing"] = (missing | missing.T).tolist()
    for name, probability in (("lower", 0.15), ("upper", 0.15)):
        given = symmetric(rng, n, span) if chance(rng, probability) else None
        if name == "upper" and given is not None:  # mostly such that some metric keeps it
            given = (np.array(given) + pick(rng, 0.0, 1.0, 10.0) * float(D.max())).tolist()
        instance[name] = given
    instance["fixed"] = None
    if chance(rng, 0.2):
        mask = np.tril(rng.random((n, n)) < pick(rng, 1.0 / (n * n), 0.2), -1)
        instance["fixed"] = (mask | mask.T).tolist()
    instance["masked"] = chance(rng, 0.3)
    return instance


def symmetric(rng: np.random.Generator, n: int, span: float) -> Any:
    values = np.tril(numbers(rng, (n, n), span), -1)
    return (values + values.T).tolist()


def check(instance: Instance) -> None:
    norm, n = instance["norm"], int(instance["n"])
    D = np.array(instance["D"], float)
    if instance["missing"] is not None:
        D[np.array(instance["missing"], bool)] = np.nan
    options = {
        name: np.array(instance[name], float) for name in ("lower", "upper") if instance[name]
    }
    if instance["weights"]:
        options["weights"] = np.array(instance["weights"], float)
    if instance["fixed"]:
        options["fixed"] = np.array(instance["fixed"], bool)
    given, problem = D.copy(), Program(D, norm, **options)
    unknown = np.isnan(D)
    masked = unknown.any() and instance["masked"]  # what is below a mask does not count
    passed = np.ma.masked_array(np.where(unknown, -7.0, D), unknown) if masked else D
    try:
        result = mm.nearest_metric(passed, norm, tol=TOL, **options)
    except mm.InputError as error:
        feasible = problem.is_feasible()
        ask(not feasible, "nearest_metric solves what has a solution", str(error))
        return
    ask(np.array_equal(D, given, equal_nan=True), "arguments are not changed")
    ask(result.metric.shape == (n, n), "nearest_metric returns a matrix")
    x = problem.pairs(result.metric)
    scale = max(float(np.nanmax(np.abs(D), initial=0.0)), float(x.max(initial=0.0)))
    ask(mm.is_metric(result.metric), "nearest_metric returns a metric")
    ask((np.diagonal(result.metric) == 0).all(), "nearest_metric has a zero diagonal")
    check_bounds(problem, x)
    value = problem.objective(x)
    rounding = problem.rounding(scale)
    ask(
        abs(result.objective - value) <= 1e-9 * value + rounding,
        "the objective is that of the metric",
        f"{result.objective!r}, found {value!r}",
    )
    ask(result.lower_bound <= result.objective, "the bound is below the objective")
    reached = result.objective - result.lower_bound <= 2 * TOL * result.objective + rounding
    ask(reached or not result.converged, "a converged result has a small gap")
    if norm in ("l2", "l1", "increase") and n > 2:
        proved = problem.dual_bound(result.triangles, result.multipliers)
        ask(
            proved >= result.lower_bound - 1e-9 * abs(result.lower_bound) - rounding,
            "the multipliers prove the lower bound",
            f"{proved!r} < {result.lower_bound!r}",
        )
    optimum = problem.optimum()
    if optimum is not None:
        accuracy = 1e-6 * optimum + rounding + problem.accuracy
        ask(
            result.lower_bound <= optimum + accuracy,
            "the lower bound is below the optimum",
            f"{result.lower_bound!r} > {optimum!r}",
        )
        ask(
            result.objective >= optimum - accuracy,
            "no metric is better than the optimum",
            f"{result.objective!r} < {optimum!r}",
        )
    span = D[(D > 0) & np.isfinite(D)]
    tame = not len(span) or span.max() <= 1e6 * span.min()
    if tame and not options and problem.w.min(initial=1.0) > 0:
        ask(result.converged, "plain problems converge", f"{result.status} after {result.n_iter}")


def check_bounds(problem: Program, x: Any) -> None:
    """Check triangles and bounds by the size of the entries themselves, not of the largest one."""
    low, high = problem.low, problem.high
    held = x[problem.held] == problem.d[problem.held]
    ask(held.all(), "fixed entries keep their last bit")
    # Infeasibility up to 1e-9 of a bound counts as rounding of the input.
    ask((x >= low * (1 - 4e-9)).all(), "lower bounds hold", f"{(low - x).max(initial=0.0)!r}")
    ask((x <= high * (1 + 4e-9)).all(), "upper bounds hold", f"{(x - high).max(initial=0.0)!r}")
    closed = problem.closure(x)
    shorter = (closed < x * (1 - 1e-8)) & (x > 0)
    ask(not shorter.any(), "triangles hold by their own size", f"{(x - closed).max(initial=0.0)!r}")


class Program:
    """The problem over pairs i < j, with every triangle written down."""

    def __init__(
        self,
        D: Any,
        norm: str,
        weights: Any = None,
        lower: Any = None,
        upper: Any = None,
        fixed: Any = None,
    ) -> None:
        self.n, self.norm = len(D), norm
        self.at = np.triu_indices(self.n, 1)
        d = self.pairs(D)
        self.w = np.ones(len(d)) if weights is None else self.pairs(weights)
        self.w = np.where(np.isnan(d), 0.0, self.w)
        self.d = np.where(self.w > 0, d, 0.0)
        self.low = np.zeros(len(d)) if lower is None else np.maximum(self.pairs(lower), 0.0)
        self.high = np.full(len(d), np.inf) if upper is None else self.pairs(upper)
        self.held = np.zeros(len(d), bool) if fixed is None else self.pairs(fixed)
        self.low = np.where(self.held, self.d, self.low)
        self.high = np.where(self.held, self.d, self.high)
        if norm == "increase":
            self.low = np.where(self.w > 0, np.maximum(self.low, self.d), self.low)
        if norm == "decrease":
            self.high = np.where(self.w > 0, np.minimum(self.high, self.d), self.high)
        self.accuracy = 0.0

    def pairs(self, matrix: Any) -> Any:
        return matrix[self.at]

    def objective(self, x: Any) -> float:
        if self.norm == "linf":
            return float(np.max(self.w * np.abs(x - self.d), initial=0.0))
        power = 1 if self.norm == "l1" else 2
        return float(np.sum(self.w * np.abs(x - self.d) ** power))

    def rounding(self, scale: float) -> float:
        """Return how far the objective may be off by rounding entries of this size."""
        off, power = 1e-13 * scale, 1 if self.norm in ("l1", "linf") else 2
        return float(self.w.sum() * (off**power if power == 1 else off * off + 1e-14 * off * scale))

    def is_feasible(self) -> bool:
        """Return whether some metric keeps the bounds, and all items are joined by known ones."""
        if self.n < 1 or (len(self.d) and not (self.w > 0).any()):
            return False
        if (self.held & (self.w == 0)).any() or (self.low > self.high).any():
            return False
        known = np.minimum(np.where(self.w > 0, self.d, np.inf), self.high)
        closed, joined = self.closure(self.high), self.closure(known)
        if not np.isfinite(joined).all():
            return False
        return bool((self.low - closed <= 0.5e-9 * self.low).all())

    def closure(self, values: Any) -> Any:
        d = np.zeros((self.n, self.n))
        d[self.at] = values
        d = d + d.T
        for k in range(self.n):
            d = np.minimum(d, d[:, k, None] + d[None, k])
        return d[self.at]

    def triangles(self) -> Any:
        number = {pair: p for p, pair in enumerate(combinations(range(self.n), 2))}
        rows = []
        for i, j, k in combinations(range(self.n), 3):
            sides = [number[i, j], number[i, k], number[j, k]]
            for long in range(3):
                row = np.full(len(number), 0.0)
                row[sides] = -1.0
                row[sides[long]] = 1.0
                rows.append(row)
        return np.array(rows).reshape(len(rows), len(number))

    def dual_bound(self, triangles: Any, z: Any) -> float:
        """Return the minimum of f(x) + sum of z (x_ij - x_ik - x_kj) over x within the bounds."""
        u = np.zeros((self.n, self.n))
        for (i, j, k), multiplier in zip(triangles, z, strict=True):
            for sign, a, b in ((1, i, j), (-1, i, k), (-1, k, j)):
                u[min(a, b), max(a, b)] += sign * multiplier
        slope, top = u[self.at], float(max(self.d.max(), self.low.max()))
        high = np.minimum(self.closure(self.high), top)
        low, known = np.minimum(self.low, high), self.w > 0
        if self.norm == "l1":  # the minimum is at d or at a bound
            points = [np.clip(self.d, low, high), low, high]
        else:
            safe = np.where(known, self.w, 1.0)
            points = [np.clip(self.d - slope / (2 * safe), low, high), low, high]
        power = 1 if self.norm == "l1" else 2
        values = [self.w * np.abs(x - self.d) ** power + slope * x for x in points]
        return float(np.minimum.reduce(values).sum())

    def optimum(self) -> float | None:
        """Return the optimal value, or None where the reference itself is not accurate."""
        if self.n < 3:
            return self.objective(np.clip(self.d, self.low, self.high))
        if self.norm == "decrease":
            return self.objective(self.closure(self.high))
        unit = float(self.d.max()) or 1.0
        heaviest = float(self.w.max())
        low, high = self.low / unit, self.high / unit
        w, d = self.w / heaviest, self.d / unit
        used = [x[(x > 0) & np.isfinite(x)] for x in (w, d, low, high)]
        if any(len(x) and (x.max() > 1e4 or x.min() < 1e-5) for x in used):
            return None  # tolerances of the reference are absolute
        if self.norm in ("l1", "linf"):
            found = self.linear(d, w, low, high)
            self.accuracy = 1e-6 * unit * heaviest
            return None if found is None else found * unit * heaviest
        found = self.quadratic(d, w, low, high)
        self.accuracy = 1e-6 * unit**2 * heaviest
        return None if found is None else found * unit**2 * heaviest

    def linear(self, d: Any, w: Any, low: Any, high: Any) -> float | None:
        P, A = len(d), self.triangles()
        extra = P if self.norm == "l1" else 1
        share = np.eye(P) if self.norm == "l1" else np.ones((P, 1))
        W = np.diag(w)
        rows = [
            np.hstack([A, np.zeros((len(A), extra))]),
            np.hstack([W, -share]),
            np.hstack([-W, -share]),
        ]
        b = np.concatenate([np.zeros(len(A)), w * d, -w * d])
        bounds = [*zip(low, high, strict=True), *[(0, None)] * extra]
        cost = np.concatenate([np.zeros(P), np.ones(extra)])
        found = linprog(cost, np.vstack(rows), b, bounds=bounds, method="highs")
        return float(found.fun or 0.0) if found.status == 0 else None

    def quadratic(self, d: Any, w: Any, low: Any, high: Any) -> float | None:
        import clarabel
        from scipy.sparse import csc_matrix

        P, A = len(d), self.triangles()
        bounded = np.flatnonzero(np.isfinite(high))
        rows = np.vstack([A, -np.eye(P), np.eye(P)[bounded]])
        b = np.concatenate([np.zeros(len(A)), -low, high[bounded]])
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        solver = clarabel.DefaultSolver(
            csc_matrix(np.diag(2 * w)),
            -2 * w * d,
            csc_matrix(rows),
            b,
            [clarabel.NonnegativeConeT(len(b))],
            settings,
        )
        found = solver.solve()
        if str(found.status) != "Solved":
            return None
        x = np.array(found.x)
        return float(np.sum(w * (x - d) ** 2))


AREA = Area(
    "nearness",
    make,
    check,
    tried="`nearest_metric` in every norm, with weights, missing and masked entries, bounds and "
    "fixed entries, against HiGHS (l1, linf) and Clarabel (l2, increase) with all triangle "
    "inequalities, and shortest paths (decrease).",
    promised="The result is a metric within the bounds; fixed entries keep every bit; the "
    "objective is correct; the multipliers prove the lower bound; the optimum of the "
    "reference lies between the bounds; a problem is infeasible only if no metric "
    "satisfies the bounds.",
    share=1.5,
    per_item=("D", "weights", "missing", "lower", "upper", "fixed"),
)

"""Checking and closing matrices: exact rational arithmetic as the reference."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

import metricmix as mm
from fuzz.cases import Area, Instance, ask
from fuzz.instances import chance, lengths, numbers, pick, size

Exact = list[list[Fraction]]


def make(rng: np.random.Generator) -> Instance:
    n = size(rng)
    directed = chance(rng, 0.3)
    D = lengths(rng, n, directed=directed)
    damage = pick(rng, *[None] * 6, "negative", "diagonal", "asymmetric", "nan", "inf")
    i, j = (int(k) for k in rng.integers(n, size=2))
    if damage == "negative":
        D[i, j] = D[j, i] = -float(numbers(rng, (1,))[0])
    elif damage == "diagonal":
        D[i, i] = float(numbers(rng, (1,))[0])
    elif damage == "asymmetric":
        D[i, j] *= 1 + 10.0 ** rng.uniform(-15, 0)
    elif damage in ("nan", "inf"):
        D[i, j] = D[j, i] = float(damage)
    return {
        "n": n,
        "D": D.tolist(),
        "directed": directed,
        "float32": chance(rng, 0.2),
        "tol": pick(rng, 1e-9, 1e-9, 0.0, 1e-3),
        "strict": chance(rng, 0.3),
    }


def check(instance: Instance) -> None:
    dtype = np.float32 if instance["float32"] else np.float64
    with np.errstate(over="ignore"):
        D = np.array(instance["D"], dtype)
    directed = bool(instance["directed"])
    given = D.copy()
    if np.isfinite(D).all():
        check_violations(D, directed, instance["tol"], bool(instance["strict"]))
    else:
        ask(refused(lambda: mm.is_metric(D)), "is_metric refuses entries that are not finite")
    closable = valid_lengths(D, directed)
    if closable is None:
        return  # symmetric up to rounding or not: either is right
    if closable:
        check_closure(D, directed)
    else:
        ask(refused(lambda: mm.project(D, directed)), "project refuses what is not lengths")
    ask(np.array_equal(D, given, equal_nan=True), "arguments are not changed")


def refused(call: Any) -> bool:
    """Return whether a call raises an InputError."""
    try:
        call()
    except mm.InputError:
        return True
    return False


def valid_lengths(D: Any, directed: bool) -> bool | None:
    """Return whether `D` are lengths; None where that depends on the tolerance for rounding."""
    if np.isnan(D).any() or (D < 0).any():
        return False
    finite = D[np.isfinite(D)]
    scale = float(finite.max(initial=0.0))
    rounding = max(1e-9, 8 * float(np.finfo(D.dtype).eps)) * scale
    worst = float(np.abs(np.diagonal(D)).max())
    if not directed:
        with np.errstate(invalid="ignore"):
            apart = np.abs(D - D.T)
        worst = max(worst, float(np.nan_to_num(apart, nan=0.0, posinf=np.inf).max()))
    if worst == 0:
        return True
    return None if worst <= 2 * rounding else False


def as_fractions(D: Any) -> Exact:
    """Return a matrix as exact rational numbers, inf as a number above all sums."""
    huge = Fraction(10) ** 400
    return [[Fraction(float(x)) if np.isfinite(x) else huge for x in row] for row in D]


def check_violations(D: Any, directed: bool, tol: float, strict: bool) -> None:
    exact, n = as_fractions(D), len(D)
    report = mm.metric_violations(D, directed, tol=tol)
    eps = float(np.finfo(D.dtype).eps)
    scale = float(max(abs(x) for row in exact for x in row))
    tolerance = max(tol, 8 * eps) * scale
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    asymmetry = max((abs(exact[i][j] - exact[j][i]) for i, j in pairs), default=Fraction(0))
    apart = 0.0 if directed else float(asymmetry)
    close(report.asymmetry, apart, 2 * eps * scale, "asymmetry")
    largest = max([abs(exact[i][i]) for i in range(n)])
    close(report.diagonal, float(largest), 0.0, "diagonal")
    lowest = -min(0.0, float(min(x for row in exact for x in row)))
    close(report.negativity, lowest, 0.0, "negativity")
    if tolerance / 2 < apart < 2 * tolerance:
        return  # whether pairs are ordered depends on rounding
    lower = not directed and apart <= tolerance
    excess = {
        (i, j): exact[i][j] - min(exact[i][k] + exact[k][j] for k in range(n) if k not in (i, j))
        for i, j in pairs
        if n > 2 and (j < i or not lower)
    }
    worst = float(max([Fraction(e) for e in excess.values()], default=Fraction(0)))
    worst = max(worst, 0.0)
    slack = 8 * eps * scale + (3 * apart if lower else 0.0)
    close(report.triangle, worst, slack, "triangle")
    low = sum(e > tolerance + slack for e in excess.values())
    high = sum(e > tolerance - slack for e in excess.values())
    ask(
        low <= report.n_triangle_violations <= high,
        "metric_violations counts violated pairs",
        f"{report.n_triangle_violations}, expected {low} .. {high}",
    )
    if report.worst_triangle is not None:
        i, k, j = report.worst_triangle
        found = float(exact[i][j] - exact[i][k] - exact[k][j])
        close(found, report.triangle, slack, "worst_triangle")
    zeros = [(i, j) for i, j in pairs if exact[i][j] == 0]
    either = {(min(p), max(p)) for p in zeros}
    n_zero = len(zeros) if directed else len(either)
    ask(report.zero_pairs == n_zero, "zero_pairs counts zeros", f"{report.zero_pairs} != {n_zero}")
    amounts = (apart, report.diagonal, report.negativity, worst)
    if tolerance - slack < max(amounts) <= tolerance + slack and max(amounts) > 0:
        return
    holds = max(amounts) <= tolerance and not (strict and n_zero)
    ask(mm.is_metric(D, tol, strict, directed) == holds, "is_metric", f"expected {holds}")
    try:
        mm.check_metric(D, tol, strict, directed)
        raised = False
    except mm.NotAMetricError:
        raised = True
    ask(raised != holds, "check_metric raises for what is not a metric")
    str(report)


def close(found: float, expected: float, slack: float, what: str) -> None:
    """Raise a Failure unless two numbers agree up to `slack`."""
    ask(
        abs(found - expected) <= slack + 4e-16 * abs(expected),
        f"metric_violations: {what}",
        f"{found!r}, expected {expected!r}",
    )


def check_closure(D: Any, directed: bool) -> None:
    n, eps = len(D), float(np.finfo(D.dtype).eps)
    exact = as_fractions(D)
    for k in range(n):
        for i in range(n):
            for j in range(n):
                exact[i][j] = min(exact[i][j], exact[i][k] + exact[k][j])
    d = mm.project(D, directed)
    expected = np.array([[float(x) if x < 10**390 else np.inf for x in row] for row in exact])
    ask(d.dtype == D.dtype, "project keeps the type", f"{d.dtype}")
    ask((d <= D).all(), "project is never above its input")
    ask((np.diagonal(d) == 0).all(), "project has a zero diagonal")
    ask(directed or np.array_equal(d, d.T), "project is symmetric")
    ask(np.array_equal(np.isinf(d), np.isinf(expected)), "project keeps unreachable pairs")
    known = np.isfinite(expected)
    slack = n * eps * expected[known] + float(np.finfo(D.dtype).tiny)
    apart = np.abs(d[known].astype(float) - expected[known])
    ask((apart <= slack).all(), "project is the closure", f"off by {apart.max(initial=0)!r}")
    again = mm.project(d, directed)
    with np.errstate(invalid="ignore"):
        moved = np.abs(again[known].astype(float) - d[known])
    ask((moved <= slack).all(), "project is idempotent", f"{moved.max(initial=0)!r}")
    if known.all():
        ask(mm.is_metric(d, directed=directed), "project returns a metric")


AREA = Area(
    "checks",
    make,
    check,
    tried="`is_metric`, `metric_violations`, `check_metric` and `project` on matrices with zeros, "
    "ties, entries from 1e-12 to 1e12, infinities, negative entries and asymmetries, in float32 "
    "and float64, against exact rational arithmetic.",
    promised="The report and every entry of the closure are correct up to rounding, and input that "
    "is not a matrix of lengths raises an error.",
    per_item=("D",),
)

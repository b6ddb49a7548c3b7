"""Claims of Experiment 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from metricmix.paper.claims.verdicts import Claim, Finding, Verdict, below
from metricmix.paper.intervals import Interval, difference_interval, geometric, mean_interval
from metricmix.paper.results import Results
from metricmix.solvers.direct import dense_bytes, trust_constr_bytes

__all__ = ["CLAIMS"]

SMALL_D = 70
"""Up to here the paper's direct solver ran."""
ALIKE = 1.25
"""Errors and times within this factor are called equivalent."""
FEASIBLE = 60.0
"""Seconds."""
Records = list[dict[str, Any]]


def _done(results: Results, method: str, **where: int) -> Records:
    found = results.records("complexity", method=method, **where)
    return [record for record in found if "error" in record["values"]]


def _ratios(results: Results, method: str, what: str) -> Interval | None:
    """Return method / cvx over the same images, for the sizes that cvx did."""
    ratios = []
    for other in _done(results, "cvx"):
        D, k = int(other["cell"]["D"]), int(other["cell"]["repetition"])
        for one in _done(results, method, D=D, repetition=k) if D <= SMALL_D else ():
            if what == "error":
                ratios.append(one["values"]["error"] / other["values"]["error"])
            else:
                ratios.append(one["seconds"]["total"] / other["seconds"]["total"])
    return geometric(ratios) if ratios else None


def _as_good(results: Results, method: str, what: str) -> Finding:
    interval = _ratios(results, method, what)
    if interval is None:
        return Finding(Verdict.UNCLEAR, f"cvx or {method} was not run")
    shown = "error" if what == "error" else "time"
    return Finding(
        below(interval, ALIKE),
        f"{method}: {interval.text('.3g')} times the {shown} of cvx on the same images "
        f"(geometric mean, D ≤ {SMALL_D})",
    )


def _dense(results: Results) -> Finding:
    memory = results.head.get("memory_gib")
    sizes = {D: dense_bytes(D) / 2**30 for D in (70, 80, 100)}
    listed = ", ".join(f"{gib:.1f} GiB at D = {D}" for D, gib in sizes.items())
    if memory is None:
        return Finding(Verdict.UNCLEAR, f"stored densely, the constraints take {listed}")
    return Finding(
        Verdict.HOLDS if memory < sizes[80] else Verdict.FAILS,
        f"by arithmetic: D³ rows of D² numbers, stored densely, take {listed}; this machine has "
        f"{memory:.1f} GiB",
    )


def _sparse(results: Results) -> Finding:
    done = _done(results, "cvx") + _done(results, "cvx, reduced")
    if not done:
        return Finding(Verdict.UNCLEAR, "cvx was not run")
    D, seconds = _largest(done)
    text = f"with sparse or reduced rows, D = {D} is solved in {seconds:.3g} s"
    lazily = _done(results, "cutting plane")
    if lazily:
        text += ", with the few constraints that matter D = {} in {:.2g} s".format(
            *_largest(lazily)
        )
    return Finding(Verdict.FAILS if D > SMALL_D else Verdict.UNCLEAR, text)


def _largest(done: Records) -> tuple[int, float]:
    """Return the largest size that was solved, and the mean of its seconds."""
    D = max(int(record["cell"]["D"]) for record in done)
    seconds = [record["seconds"]["total"] for record in done if record["cell"]["D"] == D]
    return D, float(np.mean(seconds))


def _improves(results: Results, method: str, large: int) -> Finding:
    few = [record["values"]["error"] for record in _done(results, method, D=40)]
    many = [record["values"]["error"] for record in _done(results, method, D=large)]
    if not few or not many or large == 40:
        return Finding(Verdict.UNCLEAR, "needs D = 40 and a larger one")
    a, b = mean_interval(few), mean_interval(many)
    interval = difference_interval(a, b)
    return Finding(
        below(interval),
        f"{method}: error {a.mean:.4f} at D = 40, {b.mean:.4f} at D = {large} "
        f"(difference {interval.text('+.4f')})",
    )


def _feasible(results: Results, method: str) -> Finding:
    seconds = {
        D: [record["seconds"]["total"] for record in _done(results, method, D=D)]
        for D in results.sizes("complexity")
    }
    there = {D: float(np.mean(values)) for D, values in seconds.items() if values}
    if not there:
        return Finding(Verdict.UNCLEAR, f"{method} was not run")
    shown = {D: there[D] for D in (40, 100, max(there)) if D in there}
    listed = ", ".join(f"{value:.2g} s at D = {D}" for D, value in shown.items())
    slow = max(there.values()) >= FEASIBLE
    return Finding(Verdict.FAILS if slow else Verdict.HOLDS, f"{method}: {listed}")


def _general(results: Results) -> Finding:
    done = _done(results, "trust-constr")
    memory = results.head.get("memory_gib")
    if not done or memory is None:
        return Finding(Verdict.UNCLEAR, "trust-constr was not run")
    D, seconds = _largest(done)
    needed = trust_constr_bytes(SMALL_D) / 2**30
    return Finding(
        Verdict.HOLDS if memory < needed else Verdict.FAILS,
        f"trust-constr factorises a matrix of as many rows as constraints, {needed:.0f} GiB at "
        f"D = {SMALL_D}, and takes {seconds:.2g} s at D = {D}",
    )


CLAIMS = (
    Claim(
        "Experiment 1",
        "For small D the path method is as accurate as a direct solver",
        "complexity",
        lambda results: _as_good(results, "path, paper's steps", "error"),
        lambda results: _as_good(results, "path", "error"),
        lambda results: _as_good(results, "full gradient", "error"),
    ),
    Claim(
        "Experiment 1",
        "For small D the path method is as fast as a direct solver",
        "complexity",
        lambda results: _as_good(results, "path, paper's steps", "time"),
        lambda results: _as_good(results, "path", "time"),
        lambda results: _as_good(results, "full gradient", "time"),
    ),
    Claim(
        "Experiment 1",
        "A direct solver runs out of memory beyond D = 70",
        "complexity",
        _dense,
        None,
        _sparse,
    ),
    Claim(
        "Section 2.2",
        "scipy's general constrained solver runs out of memory beyond D = 70",
        "complexity",
        _general,
    ),
    Claim(
        "Experiment 1",
        "The larger D, the slightly better the path method's result",
        "complexity",
        lambda results: _improves(results, "path, paper's steps", 100),
        lambda results: _improves(results, "path", 100),
        lambda results: _improves(results, "path", max(results.sizes("complexity"))),
    ),
    Claim(
        "Experiment 1",
        f"Computing times of the path method remain feasible (below {FEASIBLE:.0f} s)",
        "complexity",
        lambda results: _feasible(results, "path, paper's steps"),
        lambda results: _feasible(results, "path"),
        lambda results: _feasible(results, "path, batches"),
    ),
)

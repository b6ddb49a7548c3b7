"""The paper's claims, each checked against the results by 95 % confidence intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from metricmix.paper.experiment import STARTS
from metricmix.paper.experiment1_complexity import LINE
from metricmix.paper.results import (
    Interval,
    Results,
    difference_interval,
    geometric_interval,
    growth_exponent,
    mean_interval,
    solved_cells,
)
from metricmix.solvers.direct import dense_bytes, n_constraints

__all__ = ["CLAIMS", "OURS", "Check", "Claim", "Finding", "Verdict"]


OURS = "not in the paper"
"""The place of a claim that the paper does not make, at its beginning."""
SMALL_D = 70
"""The largest size that the paper's direct solver ran at."""
FEASIBLE = 60.0
"""Seconds."""
MARGIN = 0.05
"""Accuracies that differ by less are called equivalent."""
IMAGES, PAPERS = "feature-space", "semi-supervised"
OUR_IMAGES, OUR_PAPERS = f"{IMAGES}-defaults", f"{PAPERS}-defaults"
BALANCED = "mixture, balanced"
SAMPLED = {"random": "random papers", "walk": "papers of a walk"}


class Verdict(Enum):
    """What the results say about a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNCLEAR = "inconclusive"


class Finding(NamedTuple):
    """A verdict and the figures that it rests on."""

    verdict: Verdict
    figures: str


Check = Callable[[Results], Finding]
Checks = tuple[Check, ...]


class Claim(NamedTuple):
    """A claim of the paper, and how it is checked.

    Attributes
    ----------
    where, text : str
        The place in the paper, and the claim in our words.
    experiment : str
        The experiment whose results it takes.
    literal, converged, changed, defaults : checks
        With the paper's settings (the first is the literal reading); for the same objective and
        start, with settings that converge; with something else changed, which may make the claim
        hold; with the defaults of this library, on the same draws.
    start : str
        Where Algorithm 1 starts, if that matters.
    """

    where: str
    text: str
    experiment: str
    literal: Checks = ()
    converged: Checks = ()
    changed: Checks = ()
    defaults: Checks = ()
    start: str = ""


def above(interval: Interval, bound: float = 0.0) -> Verdict:
    """Return whether a mean is larger than `bound`.

    >>> above(Interval(0.3, 0.1, 0.5, 0.2, 9)).value
    'holds'
    """
    if interval.low > bound:
        return Verdict.HOLDS
    return Verdict.FAILS if interval.high < bound else Verdict.UNCLEAR


def below(interval: Interval, bound: float = 0.0) -> Verdict:
    """Return whether a mean is smaller than `bound`."""
    opposite = {Verdict.HOLDS: Verdict.FAILS, Verdict.FAILS: Verdict.HOLDS}
    return opposite.get(above(interval, bound), Verdict.UNCLEAR)


def within(interval: Interval, margin: float) -> Verdict:
    """Return whether a mean is 0 up to `margin`."""
    if -margin < interval.low and interval.high < margin:
        return Verdict.HOLDS
    apart = interval.low >= margin or interval.high <= -margin
    return Verdict.FAILS if apart else Verdict.UNCLEAR


# -- Figures 1 to 3 -----------------------------------------------------------------------------


def share_of_descent(results: Results, scaling: str) -> Finding:
    """Check that 500 steps go at least 90 % of the way from the start to the minimum."""
    shares: list[float] = []
    by_size = []
    for D in results.sizes("convergence"):
        records = [record["values"] for record in results.records("convergence", D=D)]
        lowest = min(found["optimum"] for found in records)
        own = [
            (found[scaling][0] - found[scaling][-1]) / (found[scaling][0] - lowest)
            for found in records
        ]
        shares += own
        by_size.append(f"{mean_interval(own).mean:.1%} at D = {D}")
    interval = mean_interval(shares)
    return Finding(
        above(interval, 0.9),
        f"{interval.text('.1%')} of the way down from start to minimum ({', '.join(by_size)})",
    )


def separation(results: Results) -> Finding:
    """Check that any number of principal components separates topics better than words."""
    ratios = next(results.records("separation"))["values"]["ratios"]
    words = ratios["words"]
    counts = [name for name in ratios if name != "words"]
    better = all(ratios[n][kind] < words[kind] for n in counts for kind in ("sum", "mean"))
    means = ", ".join(f"{ratios[n]['mean']:.3f} with {n}" for n in counts)
    sums = ", ".join(f"{ratios[n]['sum']:.3f}" for n in ratios)
    return Finding(
        Verdict.HOLDS if better else Verdict.FAILS,
        f"same / different, by means over all pairs: {words['mean']:.3f} with words, {means} "
        f"components (by sums: {sums})",
    )


def step_growth(results: Results, way: str, label: str) -> Finding:
    """Check that the operations of a step, which are counted, grow slower than n^2.5."""
    exponent = growth_exponent(results, way)
    last = max(results.records("step-cost"), key=lambda record: int(record["cell"]["n"]))
    n, seconds = last["cell"]["n"], last["seconds"][way]
    shown = f"{seconds:.2g} s" if seconds >= 1 else f"{seconds * 1e3:.2g} ms"
    if exponent != exponent:
        return Finding(Verdict.UNCLEAR, "needs two sizes")
    return Finding(
        Verdict.HOLDS if exponent < 2.5 else Verdict.FAILS,
        f"{label}: n^{exponent:.1f} numbers read, {last['values']['operations'][way]:.2g} in "
        f"{shown} at n = {n}; the constraints number n³ / 2",
    )


# -- Experiment 1 -------------------------------------------------------------------------------


def ratio_to_cvx(results: Results, method: str, what: str) -> Finding:
    """Check that error or time is at most 1.25 times that of cvx on the same images."""
    ratios = []
    for other in solved_cells(results, "cvx"):
        D, k = int(other["cell"]["D"]), int(other["cell"]["repetition"])
        for one in solved_cells(results, method, D=D, repetition=k) if D <= SMALL_D else ():
            part, name = ("values", "error") if what == "error" else ("seconds", "total")
            ratios.append(one[part][name] / other[part][name])
    if not ratios:
        return Finding(Verdict.UNCLEAR, f"cvx or {method} was not run")
    interval = geometric_interval(ratios)
    return Finding(
        below(interval, 1.25),
        f"{method}: {interval.text('.3g')} times the {what} of cvx on the same images "
        f"(geometric mean, D ≤ {SMALL_D})",
    )


def dense_memory(results: Results) -> Finding:
    """Check that dense constraints for D = 80 do not fit into the memory of the machine."""
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


def sparse_memory(results: Results) -> Finding:
    """Check that sparse constraints do not reach larger D either."""
    done = solved_cells(results, "cvx") + solved_cells(results, "cvx, reduced")
    if not done:
        return Finding(Verdict.UNCLEAR, "cvx was not run")
    D, seconds = _largest(done)
    text = f"with sparse or reduced rows, D = {D} is solved in {seconds:.3g} s"
    if lazy := solved_cells(results, "cutting plane"):
        text += ", with the few constraints that matter D = {} in {:.2g} s".format(*_largest(lazy))
    return Finding(Verdict.FAILS if D > SMALL_D else Verdict.UNCLEAR, text)


def _largest(done: Sequence[dict[str, Any]]) -> tuple[int, float]:
    """Return the largest size that was solved, and its mean seconds."""
    D = max(int(record["cell"]["D"]) for record in done)
    seconds = [record["seconds"]["total"] for record in done if record["cell"]["D"] == D]
    return D, float(np.mean(seconds))


def error_decreases(results: Results, method: str, large: int | None = None) -> Finding:
    """Check that the error is smaller at a large D, by default the largest, than at D = 40."""
    large = large or max(results.sizes("complexity"))
    few, many = (
        [record["values"]["error"] for record in solved_cells(results, method, D=D)]
        for D in (40, large)
    )
    if not few or not many or large == 40:
        return Finding(Verdict.UNCLEAR, "needs D = 40 and a larger one")
    a, b = mean_interval(few), mean_interval(many)
    interval = difference_interval(a, b)
    return Finding(
        below(interval),
        f"{method}: error {a.mean:.4f} at D = 40, {b.mean:.4f} at D = {large} "
        f"(difference {interval.text('+.4f')})",
    )


def feasible_time(results: Results, method: str) -> Finding:
    """Check that the mean time stays below a minute at every size."""
    there = {}
    for D in results.sizes("complexity"):
        if done := solved_cells(results, method, D=D):
            there[D] = float(np.mean([record["seconds"]["total"] for record in done]))
    if not there:
        return Finding(Verdict.UNCLEAR, f"{method} was not run")
    shown = {D: there[D] for D in (40, 100, max(there)) if D in there}
    listed = ", ".join(f"{value:.2g} s at D = {D}" for D, value in shown.items())
    slow = max(there.values()) >= FEASIBLE
    return Finding(Verdict.FAILS if slow else Verdict.HOLDS, f"{method}: {listed}")


def general_solver_memory(results: Results) -> Finding:
    """Check that scipy's trust-constr runs out of memory beyond D = 70, constraints sparse."""
    last = max(results.records("general-solver"), key=lambda record: int(record["cell"]["D"]))
    D, found = int(last["cell"]["D"]), last["values"]
    verdict = Verdict.HOLDS if "skipped" in found else Verdict.FAILS
    text = f"D = {D}: {found.get('skipped')}"
    if verdict is Verdict.FAILS:
        text = (
            f"trust-constr with sparse constraints takes {found['steps']} steps at D = {D} in "
            f"{last['seconds']['total']:.0f} s and at most {found.get('peak_gib', np.nan):.1f} GiB "
            f"(measured); dense slacks would take {8 * n_constraints(D) ** 2 / 2**30:.0f} GiB"
        )
    return Finding(verdict if D > SMALL_D else Verdict.UNCLEAR, text)


# -- Experiments 2 and 3 ------------------------------------------------------------------------


def accuracy_differences(
    results: Results,
    name: str,
    one: str,
    other: str,
    sizes: Sequence[int] | None = None,
    **where: str,
) -> list[float]:
    """Return the accuracy of method `one` minus that of `other`, cell by cell.

    "single" as `other` is the better of "graph" and "feature" by their means over a size, "" is 0.
    """
    found = []
    for D in results.sizes(name) if sizes is None else sizes:
        cells = [r["values"]["accuracy"] for r in results.records(name, D=D, **where)]
        against = other
        if other == "single" and cells:
            against = max(("graph", "feature"), key=lambda m: np.mean([cell[m] for cell in cells]))
        found += [cell[one] - (cell[against] if against else 0.0) for cell in cells]
    return found


def compare(
    results: Results,
    name: str,
    one: str,
    other: str,
    *,
    judge: Callable[[Interval], Verdict] = above,
    **where: str,
) -> Finding:
    """Judge the mean difference of the accuracies of two methods; by default, that it is > 0."""
    apart = accuracy_differences(results, name, one, other, None, **where)
    if not apart:
        return Finding(Verdict.UNCLEAR, "not run")
    interval = mean_interval(apart)
    against = "the better single source" if other == "single" else f"“{other}”"
    shown = f"“{one}” minus {against}"
    if "sampling" in where:
        shown += f", {SAMPLED[where['sampling']]}"
    sizes = results.sizes(name, **where)
    ends = [
        f"{np.mean(accuracy_differences(results, name, one, other, [D], **where)):+.3f} at D = {D}"
        for D in (sizes[0], sizes[-1])
    ]
    text = f"{shown}: {interval.text('+.3f')}"
    return Finding(judge(interval), f"{text} ({', '.join(ends)})" if len(sizes) > 1 else text)


def few_and_many(results: Results, one: str, sampling: str, *, gain: bool) -> Finding:
    """Check that the accuracy is larger at the smallest D than at the largest.

    With `gain`, the gain over the better single source.
    """
    sizes = results.sizes(PAPERS, sampling=sampling)
    if len(sizes) < 2:
        return Finding(Verdict.UNCLEAR, "needs two sizes")
    other = "single" if gain else ""
    few, many = (
        mean_interval(accuracy_differences(results, PAPERS, one, other, [D], sampling=sampling))
        for D in (sizes[0], sizes[-1])
    )
    interval = difference_interval(*((many, few) if gain else (few, many)))
    no_benefit = gain and few.high <= 0  # a smaller loss is no gain
    form, what = ("+.3f", f"gain of “{one}”") if gain else (".3f", f"“{one}”")
    return Finding(
        Verdict.FAILS if no_benefit else (above if gain else below)(interval),
        f"{what} {few.mean:{form}} at D = {sizes[0]}, {many.mean:{form}} at D = {sizes[-1]} "
        f"({SAMPLED[sampling]}; difference {interval.text('+.3f')})",
    )


def is_metric(results: Results) -> Finding:
    """Check that no learned metric violates a triangle inequality by more than rounding."""
    largest = [r["values"]["violation"] for name in (IMAGES, PAPERS) for r in results.records(name)]
    return Finding(
        Verdict.HOLDS if max(largest) <= 1e-9 else Verdict.FAILS,
        f"{len(largest)} learned metrics checked over all triangles, largest violation "
        f"{max(largest):.1g}",
    )


# -- the claims ---------------------------------------------------------------------------------


def _descent(text: str, check: Callable[..., Finding], other: str, **how: Any) -> Claim:
    """Return a claim on Algorithm 1 in Experiment 1, and on another method in its place."""
    methods = ("path, paper's steps", "path", other)
    literal, converged, changed = (partial(check, method=method, **how) for method in methods)
    return Claim("Experiment 1", text, "complexity", (literal,), (converged,), (changed,))


def _image(
    one: str, other: str, judge: Callable[[Interval], Verdict] = above, name: str = IMAGES
) -> Check:
    """Return the comparison of two methods of Experiment 2."""
    return partial(compare, name=name, one=one, other=other, judge=judge)


def _on_samplings(check: Callable[..., Finding], **how: Any) -> Checks:
    """Return a check of Experiment 3 for random papers, and for those of a walk."""
    return tuple(partial(check, sampling=sampling, **how) for sampling in SAMPLED)


def _papers(one: str, other: str, name: str = PAPERS) -> Checks:
    """Return the comparisons of two methods of Experiment 3."""
    return _on_samplings(compare, name=name, one=one, other=other)


def _by_start(
    where: str,
    text: str,
    experiment: str,
    checks: Callable[[str], Checks],
    changed: Checks = (),
    defaults: Checks = (),
) -> list[Claim]:
    """Return a claim on the paper's objective for each start of Algorithm 1.

    `checks` are those of a method. What else is tried starts from equal weights.
    """
    return [
        Claim(
            f"{where}, from {start}",
            text,
            experiment,
            checks(f"mixture, literal{suffix}"),
            checks(f"mixture, converged{suffix}"),
            changed if suffix else (),
            defaults if suffix else (),
            start,
        )
        for suffix, start in STARTS.items()
    ]


_our_image = partial(_image, name=OUR_IMAGES)
_equivalent = partial(within, margin=MARGIN)

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "Figure 1",
        "Algorithm 1 converges well with unchecked steps (η = 1, 500 steps), whatever the start",
        "convergence",
        (partial(share_of_descent, scaling="paper"),),
        (partial(share_of_descent, scaling="mean"),),
    ),
    Claim(
        "Data, Figure 2",
        "Principal components separate topics better than words do",
        "separation",
        (separation,),
    ),
    Claim(
        "Section 2.2",
        "A step needs one shortest path instead of all constraints: up to one order less in D",
        "step-cost",
        (partial(step_growth, way="formed", label="all lengths formed, then Dijkstra"),),
        (),
        (
            partial(step_growth, way="weights of size 1", label="rows as they are settled"),
            partial(step_growth, way=LINE, label=f"the same, {LINE}"),
        ),
    ),
    _descent(
        "For small D the path method is as accurate as a direct solver",
        *(ratio_to_cvx, "full gradient"),
        what="error",
    ),
    _descent(
        "For small D the path method is as fast as a direct solver",
        *(ratio_to_cvx, "full gradient"),
        what="time",
    ),
    Claim(
        "Experiment 1",
        "A direct solver runs out of memory beyond D = 70",
        "complexity",
        (dense_memory,),
        (),
        (sparse_memory,),
    ),
    Claim(
        "Section 2.2",
        "scipy's general constrained solver runs out of memory beyond D = 70",
        "general-solver",
        (general_solver_memory,),
    ),
    Claim(
        "Experiment 1",
        "The path method improves slightly as D grows",
        "complexity",
        (partial(error_decreases, method="path, paper's steps", large=100),),
        (partial(error_decreases, method="path", large=100),),
        (partial(error_decreases, method="path"),),
    ),
    _descent(
        f"Computing times of the path method remain feasible (below {FEASIBLE:.0f} s)",
        *(feasible_time, "path, batches"),
    ),
    *_by_start(
        "Experiment 2",
        f"The mixture of graphs is statistically equivalent to the images' own metric (± {MARGIN})",
        IMAGES,
        lambda method: (_image(method, "full", _equivalent),),
        tuple(_image(one, "full", _equivalent) for one in (BALANCED, "32 graphs, balanced")),
        (_our_image("graphs", "images", _equivalent),),
    ),
    *_by_start(
        "Experiment 2",
        "The mixture is better than the best single graph, by a robust gap",
        IMAGES,
        lambda method: (_image(method, "best, single"),),
        (_image(BALANCED, "best, single"),),
        (_our_image("graphs", "best graph"),),
    ),
    *_by_start(
        "Experiment 2, caption",
        "The same, with “best” the simplex-constrained mixture",
        IMAGES,
        lambda method: (_image(method, "best, simplex"),),
        (_image(BALANCED, "best, simplex"),),
    ),
    *_by_start(
        "Experiment 3",
        "Combining words and citations pays off",
        PAPERS,
        lambda method: _papers(method, "single"),
        _papers(BALANCED, "single"),
        _papers("both", "single", OUR_PAPERS),
    ),
    *_by_start(
        "Experiment 3",
        "The benefit is larger when there are few labels",
        PAPERS,
        lambda method: _on_samplings(few_and_many, one=method, gain=True),
        _on_samplings(few_and_many, one=BALANCED, gain=True),
    ),
    *_by_start(
        "Experiment 3",
        "The mixture's accuracy drops slightly as D grows",
        PAPERS,
        lambda method: _on_samplings(few_and_many, one=method, gain=False),
        _on_samplings(few_and_many, one=BALANCED, gain=False),
    ),
    Claim(
        "Experiment 3",
        "More sources improve it further (not tried in the paper)",
        PAPERS,
        changed=_papers("more, balanced", BALANCED),
        defaults=_papers("ready sources", "both", OUR_PAPERS),
    ),
    Claim("Method", "The result is a metric", IMAGES, (is_metric,)),
    *_by_start(
        OURS,
        "Learned weights beat equal weights, graphs of images",
        IMAGES,
        lambda method: (_image(method, "uniform"),),
        (_image(BALANCED, "uniform"), _image("32 graphs, balanced", "32 graphs, uniform")),
        (_our_image("graphs", "graphs, equal"),),
    ),
    *_by_start(
        OURS,
        "Learned weights beat equal weights, words and citations",
        PAPERS,
        lambda method: _papers(method, "uniform"),
        (*_papers(BALANCED, "uniform"), *_papers("more, balanced", "more, uniform")),
        _papers("both", "both, equal", OUR_PAPERS),
    ),
    *_by_start(
        f"{OURS} (suggested in Section 1.2)",
        "Words and citations combined beat embeddings of the citation graph",
        PAPERS,
        lambda method: (*_papers(method, "spectral"), *_papers(method, "walks")),
        (*_papers(BALANCED, "spectral"), *_papers(BALANCED, "walks")),
    ),
    Claim(
        OURS,
        "Embeddings of the citation graph are useful as further sources",
        PAPERS,
        changed=_papers("all, balanced", "more, balanced"),
    ),
    Claim(
        OURS,
        "Ready sources (`sources_for` with labels) beat the images' own metric",
        IMAGES,
        defaults=(_our_image("ready sources", "images"),),
    ),
    Claim(
        OURS,
        "Ready sources (`sources_for` with labels) beat words alone and citations alone",
        PAPERS,
        defaults=_papers("ready sources", "single", OUR_PAPERS),
    ),
    Claim(
        OURS,
        "Learned weights of ready sources beat equal weights, words and citations",
        PAPERS,
        defaults=_papers("ready sources", "ready sources, equal", OUR_PAPERS),
    ),
)

"""Claims of Experiments 2 and 3."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from metricmix.paper.claims.verdicts import (
    OURS,
    Claim,
    Finding,
    Verdict,
    above,
    below,
    within,
)
from metricmix.paper.intervals import Interval, difference_interval, mean_interval
from metricmix.paper.results import Results

__all__ = ["CLAIMS", "difference"]

MARGIN = 0.05
"""Accuracies that differ by less are called equivalent."""
ROUNDING = 1e-9
PAIR = "mixture, balanced"
SAMPLED = {"random": "random papers", "walk": "papers of a walk"}


def difference(
    results: Results,
    name: str,
    one: str,
    other: str,
    sizes: Sequence[int] | None = None,
    **where: str,
) -> list[float]:
    """Return accuracy of `one` minus that of `other`, cell by cell.

    As `other`, "single" is the better of graph and feature by their means over all cells of a size.
    """
    found = []
    for D in results.sizes(name) if sizes is None else sizes:
        cells = [r["values"]["accuracy"] for r in results.records(name, D=D, **where)]
        if cells:
            against = _better_single(cells) if other == "single" else other
            found += [accuracy[one] - accuracy[against] for accuracy in cells]
    return found


def _better_single(cells: list[dict[str, float]]) -> str:
    return max(("graph", "feature"), key=lambda name: np.mean([cell[name] for cell in cells]))


def _compared(
    name: str, one: str, other: str, judge: Callable[[Interval], Verdict], **where: str
) -> Callable[[Results], Finding]:
    """Return a function that judges the mean difference of two methods over all cells."""

    def find(results: Results) -> Finding:
        apart = difference(results, name, one, other, None, **where)
        if not apart:
            return Finding(Verdict.UNCLEAR, "not run")
        interval = mean_interval(apart)
        against = "the better single source" if other == "single" else f"“{other}”"
        shown = f"“{one}” minus {against}"
        if "sampling" in where:
            shown += f", {SAMPLED[where['sampling']]}"
        sizes = results.sizes(name, **where)
        ends = [
            f"{np.mean(difference(results, name, one, other, [D], **where)):+.3f} at D = {D}"
            for D in (sizes[0], sizes[-1])
        ]
        text = f"{shown}: {interval.text('+.3f')}"
        return Finding(judge(interval), f"{text} ({', '.join(ends)})" if len(sizes) > 1 else text)

    return find


def _smaller_is_better(one: str, sampling: str) -> Callable[[Results], Finding]:
    """Return a function that compares the gain with few labels and with many."""

    def find(results: Results) -> Finding:
        name = "semi-supervised"
        sizes = results.sizes(name, sampling=sampling)
        if len(sizes) < 2:
            return Finding(Verdict.UNCLEAR, "needs two sizes")
        few, many = (
            mean_interval(difference(results, name, one, "single", [D], sampling=sampling))
            for D in (sizes[0], sizes[-1])
        )
        interval = difference_interval(many, few)
        no_benefit = few.high <= 0  # a smaller loss is none
        return Finding(
            Verdict.FAILS if no_benefit else above(interval),
            f"gain of “{one}” {few.mean:+.3f} at D = {sizes[0]}, {many.mean:+.3f} at "
            f"D = {sizes[-1]} ({SAMPLED[sampling]}; difference {interval.text('+.3f')})",
        )

    return find


def _drops(one: str, sampling: str) -> Callable[[Results], Finding]:
    """Return a function that compares the accuracy with few labels and with many."""

    def find(results: Results) -> Finding:
        sizes = results.sizes("semi-supervised", sampling=sampling)
        if len(sizes) < 2:
            return Finding(Verdict.UNCLEAR, "needs two sizes")
        ends = [
            mean_interval(
                record["values"]["accuracy"][one]
                for record in results.records("semi-supervised", D=D, sampling=sampling)
            )
            for D in (sizes[0], sizes[-1])
        ]
        interval = difference_interval(*ends)
        return Finding(
            below(interval),
            f"“{one}” {ends[0].mean:.3f} at D = {sizes[0]}, {ends[1].mean:.3f} at D = {sizes[-1]} "
            f"({SAMPLED[sampling]}; difference {interval.text('+.3f')})",
        )

    return find


def _is_metric(results: Results) -> Finding:
    names = ("feature-space", "semi-supervised")
    largest = [r["values"]["violation"] for name in names for r in results.records(name)]
    return Finding(
        Verdict.HOLDS if max(largest) <= ROUNDING else Verdict.FAILS,
        f"{len(largest)} learned metrics checked over all triangles, largest violation "
        f"{max(largest):.1g}",
    )


def _equivalent(interval: Interval) -> Verdict:
    return within(interval, MARGIN)


IMAGES, PAPERS = "feature-space", "semi-supervised"

CLAIMS = (
    Claim(
        "Experiment 2",
        f"The mixture of graphs is statistically equivalent to the images' own metric (± {MARGIN})",
        IMAGES,
        _compared(IMAGES, "mixture, literal", "full", _equivalent),
        _compared(IMAGES, PAIR, "full", _equivalent),
        _compared(IMAGES, "32 graphs, balanced", "full", _equivalent),
    ),
    Claim(
        "Experiment 2",
        "The mixture is better than the best single graph, by a robust gap",
        IMAGES,
        _compared(IMAGES, "mixture, literal", "best, single", above),
        _compared(IMAGES, PAIR, "best, single", above),
    ),
    Claim(
        "Experiment 2, caption",
        "The same, with “best” the simplex-constrained mixture",
        IMAGES,
        _compared(IMAGES, "mixture, literal", "best, simplex", above),
        _compared(IMAGES, PAIR, "best, simplex", above),
    ),
    Claim(
        "Experiment 3",
        "Merging words and citations is profitable",
        PAPERS,
        _compared(PAPERS, "mixture, literal", "single", above, sampling="random"),
        _compared(PAPERS, PAIR, "single", above, sampling="random"),
        _compared(PAPERS, PAIR, "single", above, sampling="walk"),
    ),
    Claim(
        "Experiment 3",
        "The benefit is larger when there are few labels",
        PAPERS,
        _smaller_is_better("mixture, literal", "random"),
        _smaller_is_better(PAIR, "random"),
        _smaller_is_better(PAIR, "walk"),
    ),
    Claim(
        "Experiment 3",
        "The mixture's accuracy drops slightly as D grows",
        PAPERS,
        _drops("mixture, literal", "random"),
        _drops(PAIR, "random"),
        _drops(PAIR, "walk"),
    ),
    Claim(
        "Experiment 3",
        "More sources would make it better still (not tried in the paper)",
        PAPERS,
        None,
        _compared(PAPERS, "more, balanced", PAIR, above, sampling="random"),
        _compared(PAPERS, "more, balanced", PAIR, above, sampling="walk"),
    ),
    Claim(
        "Method",
        "What comes out is a metric",
        IMAGES,
        _is_metric,
    ),
    Claim(
        OURS,
        "Learned weights beat equal ones, graphs of images",
        IMAGES,
        _compared(IMAGES, "mixture, literal", "uniform", above),
        _compared(IMAGES, PAIR, "uniform", above),
        _compared(IMAGES, "32 graphs, balanced", "32 graphs, uniform", above),
    ),
    Claim(
        OURS,
        "Learned weights beat equal ones, words and citations",
        PAPERS,
        _compared(PAPERS, "mixture, literal", "uniform", above, sampling="random"),
        _compared(PAPERS, PAIR, "uniform", above, sampling="random"),
        _compared(PAPERS, "more, balanced", "more, uniform", above, sampling="walk"),
    ),
)

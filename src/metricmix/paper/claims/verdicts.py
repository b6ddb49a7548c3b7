"""How it is decided whether a claim holds: by 95 % intervals, never by eye."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from metricmix.paper.figures.cost_curves import growth
from metricmix.paper.intervals import Interval, mean_interval
from metricmix.paper.results import Results

__all__ = ["CLAIMS", "OURS", "Claim", "Finding", "Verdict", "above", "below", "within"]


OURS = "not in the paper"
"""Where a claim stands that the paper does not make, and that one would like to know of."""


class Verdict(Enum):
    """What the figures say of a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNCLEAR = "cannot be told"


class Finding(NamedTuple):
    """A verdict and the figures it rests on."""

    verdict: Verdict
    figures: str


class Claim(NamedTuple):
    """A claim of the paper, and what came out.

    Attributes
    ----------
    where, text : str
        The place in the paper, and what it says, in our words.
    experiment : str
        Whose results it takes.
    literal : function of Results, optional
        Finding with the paper's settings; None if it claims what it did not try.
    converged : function of Results, optional
        Finding for the same experiment with settings that converge.
    changed : function of Results, optional
        Finding where something else was changed, which may make the claim hold.
    """

    where: str
    text: str
    experiment: str
    literal: Callable[[Results], Finding] | None
    converged: Callable[[Results], Finding] | None = None
    changed: Callable[[Results], Finding] | None = None


def above(interval: Interval, bound: float = 0.0) -> Verdict:
    """Tell whether a mean is larger than `bound`.

    >>> above(Interval(0.3, 0.1, 0.5, 0.2, 9)).value
    'holds'
    """
    if interval.low > bound:
        return Verdict.HOLDS
    return Verdict.FAILS if interval.high < bound else Verdict.UNCLEAR


def below(interval: Interval, bound: float = 0.0) -> Verdict:
    """Tell whether a mean is smaller than `bound`."""
    if interval.high < bound:
        return Verdict.HOLDS
    return Verdict.FAILS if interval.low > bound else Verdict.UNCLEAR


def within(interval: Interval, margin: float) -> Verdict:
    """Tell whether a mean is 0 but for `margin`."""
    if -margin < interval.low and interval.high < margin:
        return Verdict.HOLDS
    apart = interval.low >= margin or interval.high <= -margin
    return Verdict.FAILS if apart else Verdict.UNCLEAR


# -- claims on Algorithm 1's convergence, on the separation of topics, and on what a step costs -

GOOD = 0.9
"""The share of the possible descent from which on convergence is called good."""


def _descended(results: Results, scaling: str) -> Finding:
    """Tell which share of the way down the descents have gone after 500 steps."""
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
        above(interval, GOOD),
        f"{interval.text('.1%')} of the way down from start to minimum ({', '.join(by_size)})",
    )


def _separated(results: Results) -> Finding:
    ratios = next(results.records("separation"))["values"]["ratios"]
    words = ratios["words"]
    counts = [name for name in ratios if name != "words"]
    better = all(ratios[n][kind] < words[kind] for n in counts for kind in ("sum", "mean"))
    listed = ", ".join(f"{ratios[n]['mean']:.3f} with {n}" for n in counts)
    return Finding(
        Verdict.HOLDS if better else Verdict.FAILS,
        f"same / different, by means over all pairs: {words['mean']:.3f} with words, {listed} "
        f"components (by sums: {words['sum']:.3f}, "
        + ", ".join(f"{ratios[n]['sum']:.3f}" for n in counts)
        + ")",
    )


def _step(results: Results, way: str) -> Finding:
    exponent = growth(results, way)
    last = max(results.records("step-cost"), key=lambda record: int(record["cell"]["n"]))
    n, seconds = last["cell"]["n"], last["seconds"][way]
    shown = f"{seconds:.2g} s" if seconds >= 1 else f"{seconds * 1e3:.2g} ms"
    if exponent != exponent:
        return Finding(Verdict.UNCLEAR, "needs two sizes")
    return Finding(
        Verdict.HOLDS if exponent < 2.5 else Verdict.FAILS,
        f"a step grows as n^{exponent:.1f}, {shown} at n = {n}; the constraints number n³ / 2",
    )


CLAIMS = (
    Claim(
        "Figure 1",
        "Algorithm 1 converges well with unchecked steps (η = 1, 500 steps), whatever the start",
        "convergence",
        lambda results: _descended(results, "paper"),
        lambda results: _descended(results, "mean"),
    ),
    Claim(
        "Data, Figure 2",
        "Principal components tell topics apart better than words do",
        "separation",
        _separated,
    ),
    Claim(
        "Section 2.2",
        "A step needs one shortest path in place of all constraints: up to one order less in D",
        "step-cost",
        lambda results: _step(results, "formed"),
        None,
        lambda results: _step(results, "weights of size 1"),
    ),
)

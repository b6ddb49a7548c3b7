"""Claims on Algorithm 1's convergence, on the separation of topics, and on what a step costs."""

from __future__ import annotations

from metricmix.experiments.claims.verdicts import Claim, Finding, Verdict, above
from metricmix.experiments.figures.step_cost import growth
from metricmix.experiments.intervals import mean_interval
from metricmix.experiments.results import Results

__all__ = ["CLAIMS"]

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

"""How it is decided whether a claim holds: by 95 % intervals, never by eye."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from metricmix.experiments.intervals import Interval
from metricmix.experiments.results import Results

__all__ = ["OURS", "Claim", "Finding", "Verdict", "above", "below", "within"]

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

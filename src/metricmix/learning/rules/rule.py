"""What all prediction rules share: the protocol, and a rule applied to a metric."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from metricmix.cached import cached_property
from metricmix.dissimilarity.known import Known
from metricmix.dissimilarity.logistic_path import softmax
from metricmix.dissimilarity.predictions import moved_in
from metricmix.exceptions import InputError
from metricmix.learning.examples import Examples
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.paths.out_of_sample import NewItems
from metricmix.paths.trees import distances_from
from metricmix.registry import Registry
from metricmix.typing import AnyArray, Floats, Indices

__all__ = [
    "CLASS_RULES",
    "NUMBER_RULES",
    "FittedRule",
    "Rule",
    "as_rule",
    "check_reached",
    "distances_to",
    "neighbour_weights",
    "reweighted",
    "softmax",
]

CLASS_RULES: Registry[type[Rule]] = Registry("rule", "metricmix.learning.rules")
NUMBER_RULES: Registry[type[Rule]] = Registry("rule", "metricmix.learning.rules")
SINGLE_BEYOND = 1 << 26
"""Distances over sparse edges beyond which these are in single precision."""


class FittedRule:
    """A rule applied to a metric and what is known of its items; computed when first needed.

    Parameters
    ----------
    rule : Rule
    lengths : EdgeLengths
        The edge lengths of the metric.
    known : Known
        The labels or targets of all items.
    n_jobs : int, optional
        Threads.

    Attributes
    ----------
    labelled : (L,) array
        The items of known label or target.
    y : (L,) array
        Their class numbers, or their targets with outliers clipped.
    n_classes : int
        0 for numbers.
    examples : Examples or None
        The labelled items as examples of their classes, where the rule takes distances to these.
    """

    def __init__(
        self, rule: Rule, lengths: EdgeLengths, known: Known, n_jobs: int | None = None
    ) -> None:
        self.lengths, self.known, self.n_jobs = lengths, known, n_jobs
        self.labelled, self.y, self.n_classes = known.items, usable(known.y), known.n_classes
        of_examples = rule.of_examples()
        self.examples = None if of_examples is None else Examples.of(lengths, known.n_classes)
        self.rule = rule if self.examples is None or of_examples is None else of_examples

    @cached_property
    def distances(self) -> tuple[Floats, Any]:
        """The distances that the rule needs, from :meth:`Rule.search`; all of them finite."""
        found = self.rule.search(self)
        check_reached(found[0])
        return found

    @cached_property
    def unweighted(self) -> Floats:
        """Answers for all items of the stack, class weights aside."""
        return self.rule.of_items(self)

    @cached_property
    def of_items(self) -> Floats:
        """Answers for all items of the stack: class probabilities (n, C), or numbers (n,)."""
        return reweighted(self.unweighted, self.known.class_weights)

    @cached_property
    def factors(self) -> Floats | None:
        """What priors multiply the probabilities of the classes by, (C,); None for equal ones."""
        return self.rule.factors(self)

    def of_new(self, new: NewItems) -> Floats:
        """Return answers for new items: class probabilities (M, C), or numbers (M,)."""
        return reweighted(self.rule.of_new(self, new), self.known.class_weights)


@dataclass(frozen=True)
class Rule(ABC):
    """Base of all prediction rules: how labels or targets follow from distances.

    A rule is immutable and has no state; what it computes for a fit is kept by a
    :class:`FittedRule`. An *answer* is a row of class probabilities, or a number.
    """

    name: ClassVar[str]
    """What the parameter ``rule`` of an estimator calls this rule with its default settings."""
    is_numeric: ClassVar[bool] = False
    """Whether it predicts numbers, and not classes."""

    @abstractmethod
    def search(self, fit: FittedRule) -> tuple[Any, Any]:
        """Return the distances that the other methods need, and what they belong to."""

    @abstractmethod
    def of_items(self, fit: FittedRule) -> Floats:
        """Return the answers for all items of the stack."""

    @abstractmethod
    def of_new(self, fit: FittedRule, new: NewItems) -> Floats:
        """Return the answers for new items."""

    def factors(self, fit: FittedRule) -> Floats | None:
        """Return the factors on class probabilities that account for priors, or None."""
        return None

    def of_examples(self) -> Rule | None:
        """Return the rule for distances to examples of classes; None if it takes those to items.

        See :mod:`metricmix.learning.examples`.
        """
        return None

    def from_distances(
        self, d: Floats, y: AnyArray, within: Floats, n_classes: int, reach: Floats | None
    ) -> Floats:
        """Return the answers for M items from their distances to L items of known value.

        This lets rules be compared on the same shortest paths. Not for
        :class:`~metricmix.learning.rules.Spreading`, which needs the distances to unlabelled items
        too.

        Parameters
        ----------
        d : (M, L) array
            Distances from the M items.
        y : (L,) array
            Class numbers, or targets.
        within : (L, L) array
            Distances between the L items.
        n_classes : int
        reach : (L,) array or None
            Mean distances of all items to the L ones; None: those of the M items.
        """
        raise NotImplementedError


def usable(y: AnyArray) -> AnyArray:
    """Return targets with outliers clipped, so that one does not affect all items near it."""
    return moved_in(y) if y.dtype.kind == "f" else y


def as_rule(rule: str | Rule, *, is_numeric: bool = False, name: str = "rule") -> Rule:
    """Return a rule by its name, with default settings; a rule object as it is.

    `name` is what an :class:`~metricmix.exceptions.InputError` calls anything else.

    >>> as_rule("k-nearest")
    KNearest(n_neighbors=5, weights='uniform')
    """
    if isinstance(rule, Rule) and rule.is_numeric == is_numeric:
        return rule
    rules = NUMBER_RULES if is_numeric else CLASS_RULES
    if not isinstance(rule, str) or rule not in rules.names():
        example = "NearestMean(5)" if is_numeric else "KNearest(5)"
        listed = ", ".join(map(repr, rules.names()))
        raise InputError(
            argument=name,
            expected=f"one of {listed}, or a rule such as {example}",
            found=f"{rule!r}",
        )
    return rules[rule]()


# -- what several rules compute --------------------------------------------------------------------


def reweighted(p: Floats, factors: Floats | None) -> Floats:
    """Return probabilities times a factor for each class, each row divided by its sum."""
    if factors is None:
        return p
    weighted = p * factors
    return np.asarray(weighted / np.maximum(weighted.sum(axis=1, keepdims=True), 1e-300))


def distances_to(lengths: EdgeLengths, items: Indices, n_jobs: int | None = None) -> AnyArray:
    """Return the distances from every item of a stack to some of them, (n, L); all finite.

    Over sparse edges in single precision where these are more than `SINGLE_BEYOND` numbers.
    """
    dtype = "float32" if lengths.n * len(items) > SINGLE_BEYOND else "float64"
    found = distances_from(lengths, items, reverse=True, dtype=dtype, n_jobs=n_jobs).T
    found = np.ascontiguousarray(found)
    check_reached(found)
    return found


def check_reached(d: AnyArray) -> None:
    """Raise if a distance that a rule needs is infinite: over sparse edges there may be no path."""
    if np.isinf(d.max(initial=0.0)):
        item = int(np.isinf(d).any(axis=1).argmax())
        raise InputError(
            argument="stack",
            expected="edges that join all items",
            found=f"no path from item number {item} to others that the rule needs",
            remedy="add bridging edges, as bridge= of EdgeStack.from_matrices does",
        )


def neighbour_weights(distances: Floats, weights: str) -> Floats:
    """Return how much neighbours at these distances (M, k) count: all alike, or by 1 / distance.

    Only items at distance 0 count where there are any; items that are not reached do not count.
    """
    if weights == "uniform":
        return np.isfinite(distances).astype(distances.dtype)
    zero = distances <= 0.0
    by_distance = np.where(zero, 1.0, 1.0 / np.where(zero, 1.0, distances))
    return np.where(zero.any(axis=1, keepdims=True), zero, by_distance)

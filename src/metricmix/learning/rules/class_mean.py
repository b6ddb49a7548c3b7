"""The rule "class-mean": the class whose mean, taken in the metric, is nearest."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from metricmix.exceptions import InputError
from metricmix.learning.rules.rule import (
    CLASS_RULES,
    FittedRule,
    Rule,
    distances_to,
    reweighted,
    softmax,
)
from metricmix.objectives.class_scores import (
    class_mean_scores,
    class_offsets,
    half_means,
    held_out_scores,
    label_shares,
    with_single_labels,
)
from metricmix.paths.out_of_sample import NewItems
from metricmix.state import stored
from metricmix.typing import AnyArray, Floats, Indices

__all__ = ["ROWS_AT_ONCE", "ClassMean"]

ROWS_AT_ONCE = 1 << 16
"""Items whose distances are made float64 together."""


@CLASS_RULES.register("class-mean", words="class whose mean in the metric is nearest", default=True)
@stored("ClassMean")
@dataclass(frozen=True)
class ClassMean(Rule):
    r"""Predict the class whose mean, taken in the metric, is nearest.

    .. math:: s_c(x) = \mathrm{mean}_{i \in c}\, d(x, i) - h_c, \qquad
              h_c = \tfrac12 \mathrm{mean}_{i, j \in c}\, d(i, j) + b_c, \qquad
              p_c \propto \pi_c\, e^{-s_c}

    The items i and j of a class c are labelled ones. Where supervised sources say where the classes
    are, they are examples of it (:mod:`metricmix.learning.examples`), and scores are not shifted:
    :math:`b_c = 0`. The distances of all items to the L labelled ones are kept, n L numbers: over
    sparse edges in single precision beyond 2²⁶ of them, to about six digits.

    Parameters
    ----------
    offsets : bool, keyword only
        Whether the offsets :math:`b_c` are fitted to the labelled items, each held out in turn
        (:func:`metricmix.objectives.class_scores.class_offsets`); they make up for classes that are
        more scattered than others; for classes of a single label, whose scatter is unknown, see
        :func:`metricmix.objectives.class_scores.with_single_labels`. Else 0. Classifiers with
        ``rule="auto"`` fit them.
    priors : None, "labels", "estimated" or sequence of C numbers, keyword only
        The shares :math:`\pi_c` of the classes, in the order of `classes_`. None: equal here; those
        of the labels in :class:`Logistic`. "labels": those of the labels and ten more labels of
        every class, as far as the scores do not decide
        (:func:`metricmix.objectives.class_scores.label_shares`); they are a part of :math:`h_c`,
        and those of classifiers with ``rule="auto"``. "estimated": the shares that the
        probabilities of the unlabelled items themselves add up to, by expectation maximisation
        [1]_.

    References
    ----------
    .. [1] M. Saerens, P. Latinne, C. Decaestecker: Adjusting the outputs of a classifier to new a
       priori probabilities, Neural Computation 14, 2002.
    """

    name = "class-mean"

    offsets: bool = field(default=False, kw_only=True)
    priors: tuple[float, ...] | str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.priors is None or self.priors in ("labels", "estimated"):
            return
        given = () if isinstance(self.priors, str) else self.priors
        shares = tuple(float(share) for share in given)
        if len(shares) < 2 or not all(0.0 < share < np.inf for share in shares):
            raise InputError(
                argument="priors",
                expected="None, 'labels', 'estimated' or a positive share for each class",
                found=f"{self.priors!r}",
            )
        object.__setattr__(self, "priors", shares)

    def search(self, fit: FittedRule) -> tuple[AnyArray, Floats]:
        """Return the distances from every item to the labelled ones, (n, L), and h_c, (C,).

        Over sparse edges in single precision where these are more than 2²⁶ numbers.
        """
        if fit.examples is not None:
            between = fit.examples.between(fit.labelled)
            half = half_means(between, fit.y, fit.n_classes)
            return fit.examples.from_items(fit.labelled, fit.y), half
        to_labelled = distances_to(fit.lengths, fit.labelled, fit.n_jobs)
        reach = to_labelled.mean(axis=0, dtype=np.float64)
        return to_labelled, self.halves(to_labelled[fit.labelled], fit.y, fit.n_classes, reach)

    def halves(self, within: Floats, codes: Indices, n_classes: int, reach: Floats) -> Floats:
        """Return h_c, (C,), from the distances between the labelled items, (L, L).

        `reach` are the mean distances of all items to the labelled ones, (L,).
        """
        half = half_means(within, codes, n_classes)
        if not self.shifts_classes:
            return half
        held_out = held_out_scores(within, codes, n_classes)
        if self.offsets:
            offsets = class_offsets(held_out, codes)
            half = with_single_labels(half + offsets, codes, reach)
            held_out = held_out - offsets
        if self.priors == "labels":
            half = half + label_shares(held_out, codes)
        return half

    @property
    def shifts_classes(self) -> bool:
        """Whether h_c is more than half of the mean distance within a class."""
        return self.offsets or self.priors == "labels"

    def of_items(self, fit: FittedRule) -> Floats:
        """Return the class probabilities of all items."""
        return reweighted(self.predict(fit, fit.distances[0]), fit.factors)

    def of_new(self, fit: FittedRule, new: NewItems) -> Floats:
        """Return the class probabilities of new items."""
        if fit.examples is None:
            d = new.distances(fit.distances[0])
        else:
            d = fit.examples.from_new(new.rows, new.same, fit.labelled, fit.y)
        return reweighted(self.predict(fit, d), fit.factors)

    def of_examples(self) -> Rule | None:
        """Return the rule without shifts."""
        return replace(self, offsets=False, priors=None if self.priors == "labels" else self.priors)

    def from_distances(
        self, d: Floats, y: AnyArray, within: Floats, n_classes: int, reach: Floats | None
    ) -> Floats:
        """Return the class probabilities of items from their distances to labelled items."""
        half = self.halves(within, y, n_classes, d.mean(axis=0) if reach is None else reach)
        p = softmax(-class_mean_scores(d, y, n_classes, half))
        return reweighted(p, self.prior_factors(p, y))

    def predict(self, fit: FittedRule, d: Floats) -> Floats:
        """Return the probabilities (M, C), priors aside, of items at distances `d` (M, L)."""
        return softmax(-self.scores(fit, d))

    def scores(self, fit: FittedRule, d: Floats) -> Floats:
        """Return the scores (M, C) of items at distances `d` (M, L) from the labelled ones."""
        about = (fit.y, fit.n_classes, fit.distances[1])
        if d.dtype == np.float64:
            return class_mean_scores(d, *about)
        parts = (d[start : start + ROWS_AT_ONCE] for start in range(0, len(d), ROWS_AT_ONCE))
        return np.concatenate([class_mean_scores(part, *about) for part in parts])

    def factors(self, fit: FittedRule) -> Floats | None:
        """Return the factors on probabilities, (C,), for the shares of the classes; or None."""
        p = np.empty((0, fit.n_classes))
        if self.priors == "estimated":  # from the unlabelled items of the fit
            p = self.predict(fit, fit.distances[0][~fit.known.mask])
        return self.prior_factors(p, fit.y)

    def prior_factors(self, p: Floats, codes: Indices) -> Floats | None:
        """Return the factors on probabilities, (C,), that account for the priors; or None.

        `p` are the probabilities of the unlabelled items, `codes` the labels.
        """
        if self.priors is None or self.priors == "labels":  # these are in h_c
            return None
        C = p.shape[1]
        implied = self.implied_priors(codes, C)
        if not isinstance(self.priors, str):
            if len(self.priors) != C:
                raise InputError(
                    argument="priors", expected=f"{C} shares, one per class", found=len(self.priors)
                )
            return np.asarray(np.array(self.priors) / implied)
        shares = np.maximum(implied, 1e-12)
        for _ in range(100 if len(p) else 0):
            last = shares
            shares = reweighted(p, shares / implied).mean(axis=0)
            if np.abs(shares - last).max() < 1e-6:
                break
        return np.asarray(np.maximum(shares, 1e-12) / implied)

    def implied_priors(self, codes: Indices, n_classes: int) -> Floats:
        """Return the prior class shares that the rule implies."""
        return np.full(n_classes, 1.0 / n_classes)

"""The rule "logistic": multinomial logistic regression on double-centred distances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from metricmix.dissimilarity.logistic_path import class_probabilities, logistic_path
from metricmix.exceptions import InputError
from metricmix.learning.rules.class_mean import ROWS_AT_ONCE, ClassMean
from metricmix.learning.rules.rule import CLASS_RULES, FittedRule, Rule, reweighted
from metricmix.state import stored
from metricmix.typing import AnyArray, Floats, Indices
from metricmix.validation import check_integer, check_number

__all__ = ["Logistic"]

TOLERANCE = 1e-9
"""Of the regression: probabilities are right to four or five digits."""


@CLASS_RULES.register("logistic", words="logistic regression on double-centred distances")
@stored("Logistic")
@dataclass(frozen=True)
class Logistic(ClassMean):
    r"""Predict by a multinomial logistic regression on the double-centred distances.

    .. math:: g_s(x) = -\tfrac12 \big( d(x, s) - \bar d(x) - \bar d(s) + \bar d \big), \qquad
              p_c \propto e^{w_c \cdot g(x) + b_c}

    over the labelled items s, bars being means over them. Were d a squared Euclidean distance, g
    would be the products with the labelled items. Unlike the class mean it follows classes that are
    wide or have several parts.

    Parameters
    ----------
    C : float
        Inverse strength of the penalty; g is scaled to unit mean square length.
    self_training : int
        Rounds in which the unlabelled items that the model is most certain of (80 of each class, at
        most a quarter of all) join the labelled ones, at weight 0.3 each.
    priors
        As in :class:`ClassMean`.
    """

    name = "logistic"

    C: float = 1.0
    self_training: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.offsets:
            raise InputError("logistic regression fits its own", argument="offsets")
        check_number(self.C, name="C", low=0.0, open_low=True)
        check_integer(self.self_training, name="self_training", low=0)

    def predict(self, fit: FittedRule, d: Floats) -> Floats:
        """Return the probabilities (M, C), priors aside, of items at distances `d` (M, L)."""
        everyone = fit.distances[0]
        within = everyone[fit.labelled].astype(np.float64, copy=False)
        others = everyone[~fit.known.mask] if self.self_training else within[:0]
        return self.probabilities(d, fit.y, fit.n_classes, within, others)

    def of_examples(self) -> Rule | None:
        """Return None: the model is one of distances to items."""
        return None

    def from_distances(
        self, d: Floats, y: AnyArray, within: Floats, n_classes: int, reach: Floats | None
    ) -> Floats:
        """Return the class probabilities of items from their distances to labelled items."""
        p = self.probabilities(d, y, n_classes, within, d)
        return reweighted(p, self.prior_factors(p, y))

    def probabilities(
        self, d: Floats, codes: Indices, n_classes: int, within: Floats, others: Floats
    ) -> Floats:
        """Return the probabilities (M, C), priors aside; `others` (U, L) are unlabelled items."""
        to_items, overall = within.mean(axis=0), float(within.mean())

        def centred(d: Floats) -> Floats:
            return np.asarray(-0.5 * (d - d.mean(axis=1, keepdims=True) - to_items + overall))

        g = centred(within)
        scale = float(np.sqrt(np.square(g).sum(axis=1).mean())) or 1.0
        # Rows in the basis of the singular vectors: the same model, and faster to fit.
        axes = np.linalg.svd(g / scale)[2].T / scale
        rows, rest = g @ axes, centred(others) @ axes if self.self_training else others
        model = self.fitted(rows, codes, np.ones(len(codes)), n_classes)
        for _ in range(self.self_training if len(others) else 0):
            guess = class_probabilities(rest, model)
            taken, label = most_certain(guess, min(80, max(1, len(others) // 4)))
            weights = np.concatenate([np.ones(len(codes)), np.full(len(taken), 0.3)])
            both = np.concatenate([rows, rest[taken]])
            model = self.fitted(both, np.concatenate([codes, label]), weights, n_classes)
        p = np.zeros((len(d), n_classes))
        step = max(1, len(d) if d.dtype == np.float64 else ROWS_AT_ONCE)
        for start in range(0, len(d), step):
            some = slice(start, start + step)
            p[some] = class_probabilities(centred(d[some]) @ axes, model)
        return p

    def fitted(self, rows: Floats, codes: Indices, weights: Floats, n_classes: int) -> Floats:
        """Return the coefficients of the regression on weighted rows."""
        given = rows, codes, weights[None], [self.C], n_classes
        return np.asarray(logistic_path(*given, tol=TOLERANCE)[0, 0])

    def implied_priors(self, codes: Indices, n_classes: int) -> Floats:
        """Return the shares of the labels."""
        return np.asarray(np.maximum(np.bincount(codes, minlength=n_classes), 1e-12) / len(codes))


def most_certain(p: Floats, k: int) -> tuple[Indices, Indices]:
    """Return up to k items of each class with the highest probabilities, and their classes."""
    label, sure = p.argmax(axis=1), p.max(axis=1)
    taken = []
    for c in range(p.shape[1]):
        own = np.flatnonzero(label == c)
        taken.append(own[np.argsort(-sure[own], kind="stable")[:k]])
    items = np.concatenate(taken)
    return items, label[items]

"""Why an item has its label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from metricmix.estimators.attribution import (
    NEW,
    ClassScores,
    Contributions,
    Ways,
    column,
    id_of,
    in_order,
    place_of,
    take_scores_apart,
    ways_from_member,
    ways_from_outside,
)
from metricmix.estimators.rules import ClassMean
from metricmix.exceptions import InputError
from metricmix.mixture.edge_lengths import EdgeLengths
from metricmix.typing import Floats
from metricmix.validation import check_integer

if TYPE_CHECKING:
    import pandas as pd

    from metricmix.estimators.classifier import MetricMixtureClassifier

__all__ = ["Explanation", "Neighbour", "explain"]

SHOWN = 5
"""Sources that a line of text names; the rest are put together."""


@dataclass(frozen=True)
class Neighbour:
    """A labelled item near the one explained: its id, label and distance, and where that is from.

    Attributes
    ----------
    item, label : id and class
    distance : float
    contributions : Contributions
    """

    item: Any
    label: Any
    distance: float
    contributions: Contributions


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why an item has its label.

    Attributes
    ----------
    item, label : id and class
    given : bool
        Whether the label was given with the item, or found by the rule.
    rule : str
    classes : list of C labels
    probabilities : (C,) array
        What the rule makes of the item, also where its label was given.
    nearest : tuple of Neighbour
        The nearest labelled items but itself, nearest first.
    scores : ClassScores or None
        For the rule "class-mean".
    """

    item: Any
    label: Any
    given: bool
    rule: str
    classes: list[Any]
    probabilities: Floats
    nearest: tuple[Neighbour, ...]
    scores: ClassScores | None = None

    @property
    def runner_up(self) -> Any:
        """The likeliest of the other classes."""
        others = [c for c in range(len(self.classes)) if self.classes[c] != self.label]
        return self.classes[max(others, key=lambda c: float(self.probabilities[c]))]

    def probability(self, label: Any) -> float:
        """Return the probability of a class."""
        return float(self.probabilities[self.classes.index(label)])

    def to_frame(self) -> pd.DataFrame:
        """Return a table of the nearest labelled items: item, label, distance, and its parts.

        ``scores.to_frame()`` is the table of the classes.
        """
        import pandas as pd

        rows = []
        for neighbour in self.nearest:
            parts = neighbour.contributions.totals
            about = {
                column("item", list(parts)): neighbour.item,
                column("label", list(parts)): neighbour.label,
                column("distance", list(parts)): neighbour.distance,
            }
            rows.append({**about, **parts})
        return pd.DataFrame(rows)

    def __str__(self) -> str:
        how = "as given" if self.given else f"by the rule {self.rule!r}"
        name = self.item if self.item == NEW else f"item {self.item}"
        lines = [f"{name} is {self.label!r} ({self.probability(self.label):.2f}), {how}"]
        if self.nearest:
            lines.append("nearest labelled: " + ", ".join(map(_described, self.nearest)))
        other = self.runner_up
        if self.scores is not None:
            rank = "the runner-up"
            if self.probability(other) > self.probability(self.label):
                rank = "which the rule prefers"
            odds = _listed(self.scores.log_odds(self.label, other))
            lines.append(f"for {self.label!r} rather than {other!r}, {rank}: {odds}")
        elif self.nearest:
            first = self.nearest[0]
            lines.append(f"distance to {first.item}: {_listed(first.contributions.totals)}")
        return "\n".join(lines)


def explain(
    model: MetricMixtureClassifier, i: Any = None, *, X: Any = None, k: int = 3
) -> Explanation:
    """Return why an item has its label.

    Parameters
    ----------
    model : fitted MetricMixtureClassifier or MetricMixtureClassifierCV
    i
        An item of its stack: its id, or its number where the stack has no ids.
    X : one row, as ``predict`` takes it
        A new item, instead of `i`; the first edge of its paths then starts outside the stack.
    k : int
        Nearest labelled items to tell of.

    Notes
    -----
    One shortest-path tree; for the rule "class-mean" and up to 500 labelled items, once, also those
    of the labelled items.

    Examples
    --------
    >>> import numpy as np, metricmix as mm
    >>> place = np.array([0.0, 1.0, 5.0, 6.0, 2.0])
    >>> stack = mm.DissimilarityStack({"line": abs(place[:, None] - place)})
    >>> y = ["low", "low", "high", "high", ""]
    >>> print(explain(mm.MetricMixtureClassifier().fit(stack, y), 4, k=2))
    item 4 is 'low' (...), by the rule 'class-mean'
    nearest labelled: 1 ('low') at ..., 0 ('low') at ...
    for 'low' rather than 'high', the runner-up: line +..., link +0
    """
    check_is_fitted(model)
    if hasattr(model, "best_estimator_"):
        model = model.best_estimator_
    if not hasattr(model, "_rule"):
        raise InputError(argument="model", expected="a classifier", found=type(model).__name__)
    check_integer(k, name="k", low=1)
    if (i is None) == (X is None):
        raise InputError("i, X: expected an item of the stack, or one new row; pass one of them")
    if X is not None:
        members = model._input.members(X)
        if members is None:
            return _explain_new(model, X, k)
        _check_one(len(members))
        i = id_of(model.stack_, int(members[0]))
    place = place_of(model.stack_, i, "i")
    given = bool(model._codes[place] >= 0)
    label = model.transduction_[place : place + 1].tolist()[0]
    ways = ways_from_member(model._rule, place)
    about = (id_of(model.stack_, place), label, given)
    return _explanation(model, about, model._rule.members[place], ways, k, besides=place)


def _explain_new(model: MetricMixtureClassifier, X: Any, k: int) -> Explanation:
    """Explain an item that was not in the fit."""
    p = model.predict_proba(X)
    _check_one(len(p))
    label = model.classes_[p.argmax(axis=1)].tolist()[0]
    n = model.stack_.n_items
    if model.new_items == "augmented":
        stack = next(model._input.augmented(model, X))  # type: ignore[attr-defined]
        codes = np.append(model._codes, -1)
        ways = ways_from_member(model._make_rule(EdgeLengths(stack, model.mixture_), codes), n, n)
        return _explanation(model, (NEW, label, False), p[0], ways, k)
    rows = model._input.rows(model, X)
    new = model._join_rows(rows)
    same = int(new.same[0])
    if same >= 0:  # no source tells it from that item
        ways = ways_from_member(model._rule, same)
    else:
        ways = ways_from_outside(model._rule, new, rows[0].T, k)
    return _explanation(model, (NEW, label, False), p[0], ways, k)


def _explanation(
    model: MetricMixtureClassifier,
    about: tuple[Any, Any, bool],
    probabilities: Floats,
    ways: Ways,
    k: int,
    besides: int = -1,
) -> Explanation:
    rule, classes = ways.rule, model.classes_.tolist()
    targets, distances = ways.targets, ways.distances
    order = [t for t in np.argsort(distances, kind="stable").tolist() if targets[t] != besides]
    nearest = tuple(
        Neighbour(
            id_of(model.stack_, int(targets[t])),
            classes[rule.codes[targets[t]]],
            float(distances[t]),
            ways.contributions(t),
        )
        for t in order[:k]
    )
    scores = None
    if isinstance(rule, ClassMean):
        scores = take_scores_apart(rule, ways, classes)
    return Explanation(*about, rule.name, classes, probabilities, nearest, scores)


def _check_one(found: int) -> None:
    if found != 1:
        raise InputError(argument="X", expected="one item to explain", found=found)


def _described(neighbour: Neighbour) -> str:
    between = ", ".join(map(str, neighbour.contributions.nodes[1:-1]))
    through = f" through {between}" if between else ""
    return f"{neighbour.item} ({neighbour.label!r}) at {neighbour.distance:.3g}{through}"


def _listed(parts: dict[str, float]) -> str:
    """Return parts in a line, the largest first."""
    listed = in_order(parts)
    shown, rest = listed[:SHOWN], listed[SHOWN:]
    words = [f"{name} {value:+.2g}" for name, value in shown]
    if rest:
        words.append(f"others {sum(value for _, value in rest):+.2g}")
    return ", ".join(words)

"""Why an item has its label or target: the known items near it, the paths to them, the sources.

What is said of an item of known value comes from a refit without it
(:func:`~metricmix.learning.held_out.without_item`): in the metric of all labels, its own would
speak for itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from metricmix.dissimilarity.cross_edges import CrossEdges
from metricmix.learning.class_scores import ClassScores, class_scores
from metricmix.learning.held_out import without_item
from metricmix.learning.label_paths import (
    NEW,
    LabelPaths,
    id_of,
    paths_from_item,
    paths_from_new_item,
)
from metricmix.learning.learned import Learned
from metricmix.learning.rules import ClassMean, FittedRule
from metricmix.paths.contributions import Contributions, by_size, unused_name
from metricmix.typing import AnyArray, Floats

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Explanation", "Neighbour", "explain", "explain_new"]


@dataclass(frozen=True)
class Neighbour:
    """An item of known value near the one explained, and where its distance comes from.

    Attributes
    ----------
    item, label : id, and class or target
    distance : float
    contributions : Contributions
    """

    item: Any
    label: Any
    distance: float
    contributions: Contributions

    def __str__(self) -> str:
        between = ", ".join(map(str, self.contributions.nodes[1:-1]))
        through = f" through {between}" if between else ""
        label = f"{self.label:.4g}" if isinstance(self.label, float) else repr(self.label)
        return f"{self.item} ({label}) at {self.distance:.3g}{through}"


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why an item has its label or target.

    Attributes
    ----------
    item, label : id, and class or target
        Its own, if that is known; else what was predicted.
    given : bool
        Whether it is known.
    rule : str
    classes : list of C labels
        Empty for targets.
    answer : (C,) array or float
        What the rule makes of the item: class probabilities, or a number. Of an item of known
        value, in a refit without it.
    nearest : tuple of Neighbour
        The nearest items of known value but itself, nearest first.
    scores : ClassScores or None
        For the rule "class-mean".
    mean : float or None
        Mean of the known targets, outliers clipped: what is predicted without any metric.
    refitted : bool
        Of an item of known value: whether sources and weights were fitted again without it. Not for
        a loaded model whose sources cannot be, nor with an objective of your own: then only the
        rule does without it.
    """

    item: Any
    label: Any
    given: bool
    rule: str
    classes: list[Any]
    answer: Any
    nearest: tuple[Neighbour, ...]
    scores: ClassScores | None = None
    mean: float | None = None
    refitted: bool = True

    @property
    def probabilities(self) -> Floats:
        """The class probabilities, (C,)."""
        return np.asarray(self.answer)

    @property
    def predicted(self) -> Any:
        """What the rule predicts, also where the label or target is known."""
        return self.classes[int(np.argmax(self.answer))] if self.classes else float(self.answer)

    @property
    def runner_up(self) -> Any:
        """The likeliest of the other classes."""
        others = [c for c in range(len(self.classes)) if self.classes[c] != self.label]
        return self.classes[max(others, key=lambda c: float(self.answer[c]))]

    def probability(self, label: Any) -> float:
        """Return the probability of a class."""
        return float(self.answer[self.classes.index(label)])

    def to_frame(self) -> pd.DataFrame:
        """Return a table of the nearest items: item, label or target, distance, and its parts.

        ``scores.to_frame()`` is the table of the classes.
        """
        import pandas as pd

        rows = []
        for neighbour in self.nearest:
            parts = neighbour.contributions.totals
            about = {
                unused_name("item", list(parts)): neighbour.item,
                unused_name("label" if self.classes else "target", list(parts)): neighbour.label,
                unused_name("distance", list(parts)): neighbour.distance,
            }
            rows.append({**about, **parts})
        return pd.DataFrame(rows)

    def __str__(self) -> str:
        name = self.item if self.item == NEW else f"item {self.item}"
        lines = [f"{name} {self.summary}"]
        if self.nearest:
            known = "nearest labelled: " if self.classes else "nearest known: "
            lines.append(known + ", ".join(map(str, self.nearest)))
        if self.scores is not None:
            other, rank = self.runner_up, "the runner-up"
            if self.probability(other) > self.probability(self.label):
                rank = "which the rule prefers"
            odds = listed(self.scores.log_odds(self.label, other))
            lines.append(f"for {self.label!r} rather than {other!r}, {rank}: {odds}")
        elif self.nearest:
            first = self.nearest[0]
            lines.append(f"distance to {first.item}: {listed(first.contributions.totals)}")
        return "\n".join(lines)

    @property
    def summary(self) -> str:
        """The label or target, and where it comes from."""
        if self.classes:
            how = "as given" if self.given else f"by the rule {self.rule!r}"
            if not self.refitted:
                how += "; sources and weights have seen this label"
            return f"is {self.label!r} ({self.probability(self.label):.2f}), {how}"
        beside = f"the mean of all known targets is {self.mean:.4g}"
        if self.given:
            seen = "" if self.refitted else " (sources and weights have seen it)"
            return (
                f"has the target {self.label:.4g}; the rule {self.rule!r} predicts "
                f"{self.predicted:.4g} without it{seen}; {beside}"
            )
        return f"is predicted {self.predicted:.4g}, by the rule {self.rule!r}; {beside}"


def listed(parts: dict[str, float], most: int = 5) -> str:
    """Return parts in a line, the `most` largest first; the others are summed.

    >>> listed({"a": 1.0, "b": -2.0, "c": 0.5}, most=2)
    'b -2, a +1, others +0.5'
    """
    sizes = by_size(parts)
    words = [f"{name} {value:+.2g}" for name, value in sizes[:most]]
    if sizes[most:]:
        words.append(f"others {sum(value for _, value in sizes[most:]):+.2g}")
    return ", ".join(words)


def explain(learned: Learned, position: int, k: int = 3) -> Explanation:
    """Return why an item of the stack has its label or target.

    Parameters
    ----------
    learned : Learned
    position : int
        The number of the item.
    k : int
        Nearest items of known value to name.

    Notes
    -----
    One shortest-path tree; for the rule "class-mean" and up to 500 labelled items, once, also those
    of the labelled items; for an item of known value, a refit.

    Examples
    --------
    >>> import numpy as np, metricmix as mm
    >>> place = np.array([0.0, 1.0, 5.0, 6.0, 2.0])
    >>> stack = mm.DissimilarityStack({"line": abs(place[:, None] - place)})
    >>> y = ["low", "low", "high", "high", ""]
    >>> print(mm.MetricMixtureClassifier().fit(stack, y).explain(4, k=2))
    item 4 is 'low' (...), by the rule 'class-mean'
    nearest labelled: 1 ('low') at ..., 0 ('low') at ...
    for 'low' rather than 'high', the runner-up: line +..., link +0, offset +0
    >>> model = mm.MetricMixtureRegressor(rule="k-nearest").fit(stack, [0, 10, 50, 60, np.nan])
    >>> print(model.explain(4, k=2))
    item 4 is predicted ..., by the rule 'k-nearest'; the mean of all known targets is 30
    nearest known: 1 (10) at ..., 0 (0) at ...
    distance to 1: line +..., link +...
    """
    assert learned.known is not None
    given = bool(learned.known.mask[position])
    used = without_item(learned, position)
    answer = used.answers[position]
    label = label_of(learned, learned.known.values[position] if given else None, answer)
    about = (id_of(learned.stack, position), label, given)
    found = described(used, about, answer, paths_from_item(used.rule, position), k, position)
    return replace(found, refitted=not given or learned.can_refit)


def explain_new(
    learned: Learned,
    rows: AnyArray | CrossEdges,
    answer: Any,
    k: int = 3,
    augmented: FittedRule | None = None,
) -> Explanation:
    """Return why a new item has its predicted label or target.

    Parameters
    ----------
    learned : Learned
    rows : (1, n, R) array or CrossEdges
        Its raw dissimilarities, or its edges.
    answer : (C,) array or float
        What the rule says of it.
    k : int
    augmented : FittedRule, optional
        The rule of the fit with the item added as the last one, where it was predicted by that.
    """
    if augmented is not None:
        n = learned.stack.n_items
        paths = paths_from_item(augmented, n, n)
    else:
        paths = paths_from_new_item(learned, rows, k)
    return described(learned, (NEW, label_of(learned, None, answer), False), answer, paths, k)


def label_of(learned: Learned, value: Any, answer: Any) -> Any:
    """Return the label or target of an item: `value` if that is known, else by the answer."""
    task = learned.task
    known = np.array([task.predictions(answer) if value is None else value])
    return task.decode(known).tolist()[0]


def described(
    learned: Learned,
    about: tuple[Any, Any, bool],
    answer: Any,
    paths: LabelPaths,
    k: int,
    besides: int = -1,
) -> Explanation:
    """Return the explanation of an item from its paths to known items, `besides` left out.

    `about` are the item, its label or target, and whether that is known.
    """
    fit, task = paths.rule, learned.task
    targets, distances = paths.targets, paths.distances
    order = [t for t in np.argsort(distances, kind="stable").tolist() if targets[t] != besides]
    nearest = tuple(
        Neighbour(
            id_of(learned.stack, int(targets[t])),
            task.decode(fit.known.values[targets[t : t + 1]]).tolist()[0],
            float(distances[t]),
            paths.contributions(t),
        )
        for t in order[:k]
    )
    classes = [] if task.classes is None else task.classes.tolist()
    scores = class_scores(paths, classes) if type(fit.rule) is ClassMean else None
    mean = float(fit.y.mean()) if task.is_numeric else None
    return Explanation(*about, fit.rule.name, classes, answer, nearest, scores, mean)

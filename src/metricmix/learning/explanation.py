r"""Why an item has its label or target: the known items near it, the paths to them, the sources.

What is said of an item of known value comes from a refit without it
(:func:`~metricmix.learning.held_out.without_item`): in the metric of all labels, its own would
speak for itself.

What speaks for a label a rather than b is a sum over the sources (and the link), :math:`\Delta =
\sum_r \Delta_r`, positive where a is preferred. Under the rule "class-mean" it is the log odds,
the difference of the scores of the two classes; under others how much longer the shortest path to a
labelled item of b is than that to one of a. If the contributions of source r to all these distances
were multiplied by f, paths staying as they are, it would be :math:`\Delta + (f - 1) \Delta_r`: the
label changes at :math:`f_r = 1 - \Delta / \Delta_r`, if that is not negative.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from metricmix.dissimilarity.cross_edges import CrossEdges
from metricmix.exceptions import InputError
from metricmix.learning.held_out import without_item
from metricmix.learning.label_paths import (
    NEW,
    ClassScores,
    LabelPaths,
    Neighbour,
    class_scores,
    listed,
    nearest_of_class,
    path_end,
    paths_from_item,
    paths_from_new_item,
)
from metricmix.learning.learned import Learned, id_of
from metricmix.learning.rules import ClassMean, FittedRule
from metricmix.mixture.local import LocalMixture
from metricmix.paths.contributions import unused_name
from metricmix.typing import AnyArray, Floats

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Explanation", "LabelEvidence", "explain", "explain_label", "explain_new"]

FACTORS = 0.05, 20.0
"""Factors on a weight that are considered: beyond them, the source hardly matters."""


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
    unused : str
        A given label that learning did not use.
    region : tuple of str and float, or None
        Where weights are local, the region that the item belongs to most, and its share.
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
    unused: str = ""
    region: tuple[str, float] | None = None

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
        if self.region is not None:
            lines.append(f"region: {self.region[0]} (share {self.region[1]:.2f})")
        if self.nearest:
            known = "nearest labelled: " if self.classes else "nearest known: "
            lines.append(known + ", ".join(map(str, self.nearest)))
        if self.scores is not None:
            other, rank = self.runner_up, "the runner-up"
            if self.probability(other) > self.probability(self.label):
                rank = "which the rule prefers"
            odds = self.scores.log_odds(self.label, other)
            if np.isfinite(list(odds.values())).all():
                lines.append(f"for {self.label!r} rather than {other!r}, {rank}: {listed(odds)}")
            else:
                lines.append(f"no other item is labelled {self.label!r}")
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
            elif self.given:
                how += "; explained by a model that has not seen this label"
            if self.unused:
                how += f"; its given label {self.unused!r} was not used for learning: "
                how += "no other item has it"
            return f"is {self.label!r} ({self.probability(self.label):.2f}), {how}"
        beside = f"the mean of all known targets is {self.mean:.4g}"
        if self.given:
            seen = "" if self.refitted else " (sources and weights have seen it)"
            return (
                f"has the target {self.label:.4g}; the rule {self.rule!r} predicts "
                f"{self.predicted:.4g} without it{seen}; {beside}"
            )
        return f"is predicted {self.predicted:.4g}, by the rule {self.rule!r}; {beside}"


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
    for 'low' rather than 'high', the runner-up: line +...
    >>> model = mm.MetricMixtureRegressor(rule="k-nearest").fit(stack, [0, 10, 50, 60, np.nan])
    >>> print(model.explain(4, k=2))
    item 4 is predicted ..., by the rule 'k-nearest'; the mean of all known targets is 30
    nearest known: 1 (10) at ..., 0 (0) at ...
    distance to 1: line +..., link +...
    """
    given = bool(learned.labels.mask[position])
    used = without_item(learned, position)
    answer = used.answers[position]
    label = label_of(learned, learned.labels.values[position] if given else None, answer)
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
    nearest = tuple(path_end(learned, paths, t) for t in order[:k])
    classes = task.class_labels
    scores = class_scores(paths, classes) if type(fit.rule) is ClassMean else None
    mean = float(fit.y.mean()) if task.is_numeric else None
    region, mixture = None, fit.lengths.mixture
    if isinstance(mixture, LocalMixture):
        shares = mixture.memberships[besides] if paths.shares is None else paths.shares[0]
        region = mixture.regions[int(shares.argmax())], float(shares.max())
    return Explanation(*about, fit.rule.name, classes, answer, nearest, scores, mean, region=region)


@dataclass(frozen=True, eq=False)
class LabelEvidence:
    r"""What speaks for the label of an item rather than for another one.

    Attributes
    ----------
    item, label, other : id and two classes
    rule : str
    chains : pair of Neighbour
        The nearest labelled item of either class, other than the item itself, and the path to it.
        None for a class without such an item.
    margin : dict of str to float
        What each source, the link, and the offset of the rule if it has one contribute to
        :math:`\Delta`; under "class-mean" the log odds, otherwise the difference of the lengths of
        the two chains. Positive ones speak for `label`.
    flips : dict of str to float or None
        For each source the factor on its contributions at which the two classes are even; None
        where there is no such factor >= 0. Above 1: the source would have to count more.
    """

    item: Any
    label: Any
    other: Any
    rule: str
    chains: tuple[Neighbour | None, Neighbour | None]
    margin: dict[str, float]
    flips: dict[str, float | None]

    @property
    def total(self) -> float:
        r""":math:`\Delta`: what speaks for `label` rather than `other`, all in all."""
        return float(sum(self.margin.values()))

    def __str__(self) -> str:
        what = "log odds" if self.rule == "class-mean" else "difference of the two path lengths"
        lines = [f"item {self.item}: {self.label!r} rather than {self.other!r}"]
        lines += [
            f"nearest {name!r}: {'none' if chain is None else chain}"
            for name, chain in zip((self.label, self.other), self.chains, strict=True)
        ]
        if not np.isfinite(self.total):  # without the item's own label, nothing stands for it
            absent = self.label if self.chains[0] is None else self.other
            return "\n".join([*lines, f"no other item is labelled {absent!r}"])
        lines.append(f"{what} {self.total:+.2g}: {listed(self.margin)}")
        if len(self.flips) == 1:  # its weight is the unit of all distances
            return "\n".join(lines)
        least, most = FACTORS
        flips = {name: by for name, by in self.flips.items() if by and least <= by <= most}
        near = sorted(flips.items(), key=lambda flip: abs(np.log(flip[1])))[:5]
        words = [f"the weight of {name} were multiplied by {by:.3g}" for name, by in near]
        lines.append(
            f"it would be {self.other!r} if {', or '.join(words)}"
            if words
            else f"no single weight, multiplied by {least:g} to {most:g}, would change the label"
        )
        return "\n".join(lines)

    def to_record(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**vars(self), "chains": [chain and chain.to_record() for chain in self.chains]}


def explain_label(learned: Learned, position: int, other: Any = None) -> LabelEvidence:
    """Return what speaks for the label of an item rather than for another class.

    Of a labelled item, in a refit without its label.

    Parameters
    ----------
    learned : Learned
    position : int
        The number of an item of the stack.
    other : class, optional
        Default: the likeliest of the other classes.

    Notes
    -----
    Under the rule "class-mean" with more than 500 labelled items the distances within classes are
    not split by source: they are the column "within".

    Examples
    --------
    >>> import numpy as np, metricmix as mm
    >>> place = np.array([0.0, 1.0, 5.0, 6.0, 2.0])
    >>> stack = mm.DissimilarityStack({"line": abs(place[:, None] - place)})
    >>> y = ["low", "low", "high", "high", ""]
    >>> model = mm.MetricMixtureClassifier(rule="nearest", rho=1.0).fit(stack, y)
    >>> print(model.explain_label(4))
    item 4: 'low' rather than 'high'
    nearest 'low': 1 ('low') at ...
    nearest 'high': 2 ('high') at ...
    difference of the two path lengths +...: line +...
    """
    classes = learned.task.class_labels
    given = learned.labels.values[position] if learned.labels.mask[position] else None
    used = without_item(learned, position)
    p = used.answers[position]
    label = label_of(learned, given, p)
    if other is None:
        order = [classes[c] for c in np.argsort(-p, kind="stable").tolist()]
        other = next(name for name in order if name != label)
    if other not in classes or other == label:
        raise InputError(
            argument="other",
            expected=f"a class other than {label!r}, which the item has: one of "
            f"{[name for name in classes if name != label]}",
            found=f"{other!r}",
        )
    paths = paths_from_item(used.rule, position)
    pair = (label, other)
    chains = [nearest_of_class(used, paths, classes.index(name), position) for name in pair]
    if isinstance(used.options.rule, ClassMean):
        margin = class_scores(paths, classes).log_odds(label, other)
    elif any(chain is None for chain in chains):
        margin = {}
    else:
        near, far = (chain.contributions.totals for chain in chains if chain is not None)
        margin = {name: far[name] - near[name] for name in near}
    total, sources = sum(margin.values()), learned.stack.names
    flips = {name: flip_factor(total, margin.get(name, 0.0)) for name in sources}
    about = (id_of(learned.stack, position), label, other, used.options.rule.name)
    return LabelEvidence(*about, (chains[0], chains[1]), margin, flips)


def flip_factor(total: float, part: float) -> float | None:
    """Return the factor on a part at which a total is 0, if there is one that is not negative.

    >>> flip_factor(2.0, 4.0), flip_factor(2.0, -1.0), flip_factor(2.0, 1.0), flip_factor(2.0, 0.0)
    (0.5, 3.0, None, None)
    """
    if part == 0.0:
        return None
    factor = 1.0 - total / part
    return float(factor) if np.isfinite(factor) and factor >= 0.0 else None

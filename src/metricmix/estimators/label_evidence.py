r"""Why one label rather than another, which items are typical, and which labels look wrong.

An item has the label a; what speaks for a rather than b is a sum over the sources (and the link),

.. math:: \Delta = \sum_r \Delta_r,

positive where a is preferred. Under the rule "class-mean" it is the log odds, the difference of the
scores of the two classes; under others how much longer the shortest path to a labelled item of b is
than that to one of a. If the contributions of source r to all these distances were multiplied by f,
paths staying as they are, :math:`\Delta` would be :math:`\Delta + (f - 1) \Delta_r`: the label
changes at

.. math:: f_r = 1 - \Delta / \Delta_r

if that is not negative.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from metricmix.estimators.attribution import by_size, item_position
from metricmix.estimators.explanation import (
    LabelPaths,
    Neighbour,
    class_scores,
    id_of,
    paths_from_item,
)
from metricmix.estimators.rules import ClassMean
from metricmix.exceptions import InputError
from metricmix.paths.trees import distances_from
from metricmix.typing import Floats, Indices

if TYPE_CHECKING:
    from metricmix.estimators.classifier import MetricMixtureClassifier

__all__ = ["LabelEvidence", "Misfit", "TypicalItem", "explain_label", "misfits", "typical_items"]

NEAREST = 3
"""Labelled items that are evidence against a label."""
SHOWN = 5
FACTORS = 0.05, 20.0
"""Factors on a weight that are considered: beyond them, the source hardly matters."""


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
        sizes = by_size(self.margin)
        words = [f"{name} {value:+.2g}" for name, value in sizes[:SHOWN]]
        if sizes[SHOWN:]:
            words.append(f"others {sum(value for _, value in sizes[SHOWN:]):+.2g}")
        lines.append(f"{what} {self.total:+.2g}: {', '.join(words)}")
        if len(self.flips) == 1:  # its weight is the unit of all distances
            return "\n".join(lines)
        least, most = FACTORS
        flips = {name: by for name, by in self.flips.items() if by and least <= by <= most}
        near = sorted(flips.items(), key=lambda flip: abs(np.log(flip[1])))[:SHOWN]
        words = [f"the weight of {name} were multiplied by {by:.3g}" for name, by in near]
        lines.append(
            f"it would be {self.other!r} if {', or '.join(words)}"
            if words
            else f"no single weight, multiplied by {least:g} to {most:g}, would change the label"
        )
        return "\n".join(lines)

    def to_record(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "item": self.item,
            "label": self.label,
            "other": self.other,
            "rule": self.rule,
            "chains": [
                None
                if chain is None
                else {
                    "item": chain.item,
                    "label": chain.label,
                    "distance": chain.distance,
                    "path": list(chain.contributions.nodes),
                    "totals": chain.contributions.totals,
                }
                for chain in self.chains
            ],
            "margin": self.margin,
            "flips": self.flips,
        }


@dataclass(frozen=True)
class TypicalItem:
    """The medoid of a class: of its labelled items that with the smallest mean distance to them.

    Attributes
    ----------
    label : class
    item : id
    distance : float
        Mean distance to the other labelled items of the class; 0 if there are none.
    size : int
        Labelled items of the class.
    """

    label: Any
    item: Any
    distance: float
    size: int


@dataclass(frozen=True)
class Misfit:
    """A given label that the rule would not give, had it not been given.

    Attributes
    ----------
    item : id
    label : class
        As given.
    probability : float
        What the rule gives to it without the label.
    other : class
        The class that it prefers, with `other_probability`.
    other_probability : float
    nearest : tuple of (id, class, float)
        The nearest labelled items, their labels and distances.
    """

    item: Any
    label: Any
    probability: float
    other: Any
    other_probability: float
    nearest: tuple[tuple[Any, Any, float], ...]

    def __str__(self) -> str:
        near = ", ".join(f"{item} ({label!r}) at {d:.3g}" for item, label, d in self.nearest)
        return (
            f"{self.item}: given {self.label!r} ({self.probability:.2f}), rather {self.other!r} "
            f"({self.other_probability:.2f}); nearest labelled: {near}"
        )


def explain_label(model: MetricMixtureClassifier, item: Any, other: Any = None) -> LabelEvidence:
    """Return what speaks for the label of an item rather than for another class.

    Parameters
    ----------
    model : fitted MetricMixtureClassifier
    item
        An item of its stack: its id, or its number where the stack has no ids.
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
    difference of the two path lengths +...: line +..., link +0
    """
    model = fitted_model(model)
    position, classes = item_position(model.stack_, item, "item"), model.classes_.tolist()
    label = model.transduction_[position : position + 1].tolist()[0]
    if other is None:
        p = model._rule.probabilities[position]
        order = [classes[c] for c in np.argsort(-p, kind="stable").tolist()]
        other = next(name for name in order if name != label)
    if other not in classes or other == label:
        raise InputError(
            argument="other",
            expected=f"a class other than {label!r}, which the item has: one of "
            f"{[name for name in classes if name != label]}",
            found=f"{other!r}",
        )
    rule = model._rule
    paths = paths_from_item(rule, position)
    pair = (label, other)
    chains = [nearest_of_class(model, paths, classes.index(name), position) for name in pair]
    if isinstance(rule.rule, ClassMean):
        scores = class_scores(paths, classes)
        margin = scores.log_odds(label, other)
    elif any(chain is None for chain in chains):
        margin = {}
    else:
        near, far = (chain.contributions.totals for chain in chains if chain is not None)
        margin = {name: far[name] - near[name] for name in near}
    total, sources = sum(margin.values()), model.stack_.names
    flips = {name: flip_factor(total, margin.get(name, 0.0)) for name in sources}
    about = (id_of(model.stack_, position), label, other, rule.rule.name)
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


def nearest_of_class(
    model: MetricMixtureClassifier, paths: LabelPaths, c: int, besides: int
) -> Neighbour | None:
    """Return the nearest labelled item of a class, other than one item; None if there is none."""
    own = (model._codes[paths.targets] == c) & (paths.targets != besides)
    if not own.any():
        return None
    t = int(np.where(own, paths.distances, np.inf).argmin())
    return Neighbour(
        id_of(model.stack_, int(paths.targets[t])),
        model.classes_.tolist()[c],
        float(paths.distances[t]),
        paths.contributions(t),
    )


def typical_items(model: MetricMixtureClassifier) -> list[TypicalItem]:
    r"""Return the medoid of each class, the item with the smallest mean distance to its class.

    .. math:: \arg\min_{i \in c} \; \frac{1}{|c| - 1} \sum_{j \in c} d(i, j)

    over the labelled items of class c. Of equal ones, the first.

    Examples
    --------
    >>> import numpy as np, metricmix as mm
    >>> place = np.array([0.0, 1.0, 2.5, 6.0, 7.0, 9.0])
    >>> stack = mm.DissimilarityStack({"line": abs(place[:, None] - place)})
    >>> model = mm.MetricMixtureClassifier().fit(stack, ["low"] * 3 + ["high"] * 3)
    >>> [(typical.label, typical.item) for typical in model.typical_items()]
    [('high', 4), ('low', 1)]
    """
    model = fitted_model(model)
    labelled, d = labelled_distances(model)
    codes, classes = model._codes[labelled], model.classes_.tolist()
    found = []
    for c, label in enumerate(classes):
        own = np.flatnonzero(codes == c)
        sums = d[np.ix_(own, own)].sum(axis=1)
        best = int(sums.argmin())
        mean = float(sums[best] / max(1, len(own) - 1))
        found.append(
            TypicalItem(label, id_of(model.stack_, int(labelled[own[best]])), mean, len(own))
        )
    return found


def misfits(model: MetricMixtureClassifier) -> list[Misfit]:
    r"""Return the given labels that look wrong, the most suspicious first.

    Each label is held out (:func:`~metricmix.estimators.cross_validation.held_out_probabilities`;
    the weights are those learned from all labels). An item is a misfit if the rule then prefers
    another class, and they are ranked by :math:`\log (p_{other} / p_{given})`. The only item with a
    label is not judged: without it, nothing is known of its class.
    """
    from metricmix.estimators.cross_validation import held_out_probabilities

    model = fitted_model(model)
    labelled, d = labelled_distances(model)
    p, codes = held_out_probabilities(model)[labelled], model._codes[labelled]
    classes, rows = model.classes_.tolist(), np.arange(len(labelled))
    given, best = p[rows, codes], p.argmax(axis=1)
    odds = np.log(np.maximum(p[rows, best], 1e-300)) - np.log(np.maximum(given, 1e-300))
    np.fill_diagonal(d, np.inf)
    single = np.bincount(codes)[codes] == 1
    found = []
    for t in np.argsort(-odds, kind="stable").tolist():
        if best[t] == codes[t] or single[t]:
            continue
        near = np.argsort(d[t], kind="stable")[: min(NEAREST, len(labelled) - 1)]
        nearest = tuple(
            (id_of(model.stack_, int(labelled[j])), classes[codes[j]], float(d[t, j])) for j in near
        )
        item = id_of(model.stack_, int(labelled[t]))
        about = (classes[codes[t]], float(given[t]), classes[best[t]], float(p[t, best[t]]))
        found.append(Misfit(item, *about, nearest))
    return found


def fitted_model(model: Any) -> MetricMixtureClassifier:
    """Return a fitted classifier, or the best one of a search."""
    check_is_fitted(model)
    found: MetricMixtureClassifier = getattr(model, "best_estimator_", model)
    return found


def labelled_distances(model: MetricMixtureClassifier) -> tuple[Indices, Floats]:
    """Return the labelled items, and the distances from each of them to the others, (L, L)."""
    labelled = np.flatnonzero(model._codes >= 0)
    d = distances_from(model._lengths(), labelled, n_jobs=model.n_jobs)[:, labelled]
    return labelled, np.array(d, dtype=np.float64)

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
from typing import Any

import numpy as np

from metricmix.exceptions import InputError
from metricmix.learning.class_scores import class_scores
from metricmix.learning.explanation import Neighbour, label_of, listed
from metricmix.learning.held_out import without_item
from metricmix.learning.label_paths import LabelPaths, id_of, paths_from_item
from metricmix.learning.learned import Learned
from metricmix.learning.rules import ClassMean

__all__ = ["LabelEvidence", "Misfit", "TypicalItem", "explain_label", "misfits", "typical_items"]

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
    difference of the two path lengths +...: line +..., link +0
    """
    assert learned.known is not None
    assert learned.task.classes is not None
    classes = learned.task.classes.tolist()
    given = learned.known.values[position] if learned.known.mask[position] else None
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


def nearest_of_class(learned: Learned, paths: LabelPaths, c: int, besides: int) -> Neighbour | None:
    """Return the nearest labelled item of a class, other than one item; None if there is none."""
    assert learned.known is not None
    assert learned.task.classes is not None
    own = (learned.known.values[paths.targets] == c) & (paths.targets != besides)
    if not own.any():
        return None
    t = int(np.where(own, paths.distances, np.inf).argmin())
    return Neighbour(
        id_of(learned.stack, int(paths.targets[t])),
        learned.task.classes.tolist()[c],
        float(paths.distances[t]),
        paths.contributions(t),
    )


def typical_items(learned: Learned) -> list[TypicalItem]:
    r"""Return the medoid of each class, the item with the smallest mean distance to its class.

    .. math:: \arg\min_{i \in c} \; \frac{1}{|c| - 1} \sum_{j \in c} d_{-i}(i, j)

    over the labelled items of class c, with the metric :math:`d_{-i}` of a refit without the label
    of item i. Of equal ones, the first. Over sparse edges in several parts, those come first that
    reach most of their class, and the mean is over the items that they reach.

    Examples
    --------
    >>> import numpy as np, metricmix as mm
    >>> place = np.array([0.0, 1.0, 2.5, 6.0, 7.0, 9.0])
    >>> stack = mm.DissimilarityStack({"line": abs(place[:, None] - place)})
    >>> model = mm.MetricMixtureClassifier().fit(stack, ["low"] * 3 + ["high"] * 3)
    >>> [(typical.label, typical.item) for typical in model.typical_items()]
    [('high', 4), ('low', 1)]
    """
    assert learned.known is not None
    assert learned.task.classes is not None
    items, _, d = learned.held_out
    found = []
    for c, label in enumerate(learned.task.classes.tolist()):
        own = np.flatnonzero(learned.known.y == c)
        between = d[np.ix_(own, own)]
        reached = np.isfinite(between).sum(axis=1)
        sums = np.where(np.isfinite(between), between, 0.0).sum(axis=1)
        best = int(np.where(reached == reached.max(), sums, np.inf).argmin())
        mean = float(sums[best] / max(1, reached[best] - 1))
        item = id_of(learned.stack, int(items[own[best]]))
        found.append(TypicalItem(label, item, mean, len(own)))
    return found


def misfits(learned: Learned) -> list[Misfit]:
    r"""Return the given labels that look wrong, the most suspicious first.

    Each label is held out, and sources, weights and rule are fitted again without it
    (:mod:`metricmix.learning.held_out`). An item is a misfit if the rule then prefers another
    class, and they are ranked by :math:`\log (p_{other} / p_{given})`. The only item with a label
    is not judged: without it, nothing is known of its class.
    """
    assert learned.known is not None
    assert learned.task.classes is not None
    (items, p, distances), codes = learned.held_out, learned.known.y
    classes, rows, d = learned.task.classes.tolist(), np.arange(len(items)), distances.copy()
    given, best = p[rows, codes], p.argmax(axis=1)
    odds = np.log(np.maximum(p[rows, best], 1e-300)) - np.log(np.maximum(given, 1e-300))
    np.fill_diagonal(d, np.inf)
    single = np.bincount(codes)[codes] == 1
    found = []
    n_nearest = 3  # labelled items that are evidence against a label
    for t in np.argsort(-odds, kind="stable").tolist():
        if best[t] == codes[t] or single[t]:
            continue
        near = np.argsort(d[t], kind="stable")[: min(n_nearest, int(np.isfinite(d[t]).sum()))]
        nearest = tuple(
            (id_of(learned.stack, int(items[j])), classes[codes[j]], float(d[t, j])) for j in near
        )
        item = id_of(learned.stack, int(items[t]))
        about = (classes[codes[t]], float(given[t]), classes[best[t]], float(p[t, best[t]]))
        found.append(Misfit(item, *about, nearest))
    return found

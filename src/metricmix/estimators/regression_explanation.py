"""Why an item has its predicted target: known targets near it, the paths to them, the sources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from metricmix.estimators.attribution import by_size, item_position, unused_name
from metricmix.estimators.explanation import (
    NEW,
    SHOWN,
    LabelPaths,
    Neighbour,
    id_of,
    paths_from_item,
    paths_from_new_item,
)
from metricmix.exceptions import InputError
from metricmix.validation import check_integer

if TYPE_CHECKING:
    import pandas as pd

    from metricmix.estimators.regressor import MetricMixtureRegressor

__all__ = ["TargetExplanation", "explain_target"]


@dataclass(frozen=True, eq=False)
class TargetExplanation:
    """Why an item has its target.

    Attributes
    ----------
    item : id
    target : float
        Its own, if that is known; else what was predicted.
    given : bool
        Whether it is known.
    predicted : float
        What the rule makes of the item, also where its target is known.
    mean : float
        Mean of the known targets, far ones moved in: what would be predicted without any metric.
    rule : str
    nearest : tuple of Neighbour
        The nearest items of known target but itself, nearest first; their `label` is the target.
    """

    item: Any
    target: float
    given: bool
    predicted: float
    mean: float
    rule: str
    nearest: tuple[Neighbour, ...]

    def to_frame(self) -> pd.DataFrame:
        """Return a table of the nearest items: item, target, distance, and its parts by source."""
        import pandas as pd

        rows = []
        for neighbour in self.nearest:
            parts = neighbour.contributions.totals
            names = list(parts)
            about = {
                unused_name("item", names): neighbour.item,
                unused_name("target", names): neighbour.label,
                unused_name("distance", names): neighbour.distance,
            }
            rows.append({**about, **parts})
        return pd.DataFrame(rows)

    def __str__(self) -> str:
        name = self.item if self.item == NEW else f"item {self.item}"
        if self.given:
            first = f"{name} has the target {self.target:.4g}; the rule {self.rule!r} says "
            first += f"{self.predicted:.4g}"
        else:
            first = f"{name} is predicted {self.predicted:.4g}, by the rule {self.rule!r}"
        lines = [f"{first}; the mean of all known targets is {self.mean:.4g}"]
        if self.nearest:
            near = [f"{one.item} ({one.label:.4g}) at {one.distance:.3g}" for one in self.nearest]
            lines.append("nearest known: " + ", ".join(near))
            closest = self.nearest[0]
            sizes = by_size(closest.contributions.totals)
            words = [f"{name} {value:+.2g}" for name, value in sizes[:SHOWN]]
            if sizes[SHOWN:]:
                words.append(f"others {sum(value for _, value in sizes[SHOWN:]):+.2g}")
            lines.append(f"distance to {closest.item}: {', '.join(words)}")
        return "\n".join(lines)


def explain_target(
    model: MetricMixtureRegressor, i: Any = None, *, X: Any = None, k: int = 3
) -> TargetExplanation:
    """Return why an item has its predicted target.

    Parameters
    ----------
    model : fitted MetricMixtureRegressor
    i
        An item of its stack: its id, or its number where the stack has no ids.
    X : one row, as ``predict`` takes it
        A new item, instead of `i`; the first edge of its paths then starts outside the stack.
    k : int
        Nearest items of known target to tell of.

    Examples
    --------
    >>> import numpy as np, metricmix as mm
    >>> place = np.array([0.0, 1.0, 5.0, 6.0, 2.0])
    >>> stack = mm.DissimilarityStack({"line": abs(place[:, None] - place)})
    >>> model = mm.MetricMixtureRegressor(rule="k-nearest").fit(stack, [0, 10, 50, 60, np.nan])
    >>> print(explain_target(model, 4, k=2))
    item 4 is predicted ..., by the rule 'k-nearest'; the mean of all known targets is 30
    nearest known: 1 (10) at ..., 0 (0) at ...
    distance to 1: line +..., link +...
    """
    check_is_fitted(model)
    check_integer(k, name="k", low=1)
    if (i is None) == (X is None):
        raise InputError("i, X: expected an item of the stack, or one new row; pass one of them")
    if X is not None:
        members, predicted = model._input.members(X), model.predict(X)
        if len(predicted) != 1:
            raise InputError(argument="X", expected="one item to explain", found=len(predicted))
        if members is None:
            value = float(predicted[0])
            paths = paths_from_new_item(model, X, k)
            return described(model, (NEW, value, False, value), paths, k)
        position = int(members[0])
    else:
        position = item_position(model.stack_, i, "i")
    own = model._targets[position]
    about = (
        id_of(model.stack_, position),
        float(model.transduction_[position]),
        not np.isnan(own),
        float(model._rule.of_items[position]),
    )
    return described(model, about, paths_from_item(model._rule, position), k, position)


def described(
    model: MetricMixtureRegressor,
    about: tuple[Any, float, bool, float],
    paths: LabelPaths,
    k: int,
    besides: int = -1,
) -> TargetExplanation:
    """Return the explanation of an item from its paths to items of known target.

    `about` are the item, its target, whether that is known, and what is predicted.
    """
    targets, distances = paths.targets, paths.distances
    order = [t for t in np.argsort(distances, kind="stable").tolist() if targets[t] != besides]
    nearest = tuple(
        Neighbour(
            id_of(model.stack_, int(targets[t])),
            float(model._targets[targets[t]]),
            float(distances[t]),
            paths.contributions(t),
        )
        for t in order[:k]
    )
    return TargetExplanation(*about, float(model._rule.y.mean()), model.rule_.name, nearest)

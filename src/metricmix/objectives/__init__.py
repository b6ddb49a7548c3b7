"""What to minimise: objectives over the distances of a learned metric."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from metricmix.exceptions import InputError
from metricmix.objectives.base import OBJECTIVES, Objective
from metricmix.objectives.class_means import ClassMeans
from metricmix.objectives.class_scores import class_mean_scores, half_means
from metricmix.objectives.label_contrast import LabelContrast
from metricmix.objectives.least_squares import LeastSquares
from metricmix.objectives.neighbourhood import Neighbourhood
from metricmix.objectives.pair_constraints import PairConstraints
from metricmix.objectives.regression import KernelRegression, TargetDifferences
from metricmix.objectives.separable import Separable
from metricmix.objectives.triplets import Triplets

if TYPE_CHECKING:
    from metricmix.dissimilarity.known import Known

__all__ = [
    "ClassMeans",
    "KernelRegression",
    "LabelContrast",
    "LeastSquares",
    "Neighbourhood",
    "Objective",
    "PairConstraints",
    "Separable",
    "TargetDifferences",
    "Triplets",
    "class_mean_scores",
    "half_means",
    "make_objective",
    "names",
]


def names(numeric: bool = False) -> tuple[str, ...]:
    """Return the names of the objectives over classes, or of those over numeric targets.

    >>> names()
    ('class-means', 'neighbourhood', 'label-contrast')
    """
    return OBJECTIVES.names(numeric=numeric)


def make_objective(
    chosen: Any,
    known: Known,
    *,
    rho: float | None = None,
    item_weights: ArrayLike | None = None,
    stochastic: bool = False,
    **options: Any,
) -> Objective | None:
    """Return what to minimise, for what is known of the items.

    Parameters
    ----------
    chosen : str, Objective, callable or None
        A name, see :func:`names`; an objective, used as it is, as None is; or a function that
        returns one for the class numbers or targets of all items.
    known : Known
    rho : float, optional
        Weight of the ridge of a named objective; each has a default.
    item_weights : array of n numbers >= 0, optional
        For named objectives; an objective of your own weights items itself.
    stochastic : bool
        Whether a solver will draw terms, so that those of a named objective should be small.
    **options
        Of a named objective.

    Examples
    --------
    >>> import numpy as np
    >>> from metricmix.dissimilarity.known import Known
    >>> make_objective("class-means", Known(np.array([0, 0, 1, 1, -1]), 2)).rho.__round__(2)
    7.29
    """
    if isinstance(chosen, str):
        kind: Any = OBJECTIVES.find(chosen, numeric=known.is_numeric)
        rho = kind.default_rho(known) if rho is None else rho
        known = kind.learned_from(known)
        settings = kind.settings_for(known, stochastic)
        made: Objective = kind(known.values, rho, item_weights=item_weights, **settings, **options)
        return made
    if chosen is None or isinstance(chosen, Objective):
        return chosen
    own = chosen(known.values) if callable(chosen) else chosen
    if not isinstance(own, Objective):
        expected = "it to return an Objective" if callable(chosen) else "an objective or its name"
        raise InputError(argument="objective", expected=expected, found=f"{own!r}")
    return own

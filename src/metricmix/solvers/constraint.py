"""Constraints on the weights, as projections."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from metricmix.validation import check_choice

__all__ = ["CONSTRAINTS", "project_weights"]

Floats = NDArray[np.float64]
CONSTRAINTS = ("none", "nonnegative", "simplex")


def project_weights(weights: Floats, constraint: str) -> Floats:
    r"""Return the nearest weights that satisfy the constraint.

    .. math:: \arg\min_{x \in C} \lVert x - \alpha \rVert, \qquad
              C = \mathbf R^R, \; \{x \ge 0\} \text{ or } \{x \ge 0, \sum_r x_r = 1\}

    Examples
    --------
    >>> import numpy as np
    >>> project_weights(np.array([0.9, 0.4, -1.0]), "simplex")
    array([0.75, 0.25, 0.  ])
    """
    check_choice(constraint, CONSTRAINTS, name="constraint")
    if constraint == "none" or not np.isfinite(weights).all():
        return weights  # what is not finite is the business of the loop
    if constraint == "nonnegative":
        return np.maximum(weights, 0.0)
    # The simplex: shift all weights by the same amount and cut at 0.
    sorted_weights = np.sort(weights)[::-1]
    excess = np.cumsum(sorted_weights) - 1.0
    kept = np.flatnonzero(sorted_weights * np.arange(1, len(weights) + 1) > excess)[-1]
    return np.asarray(np.maximum(weights - excess[kept] / (kept + 1), 0.0))

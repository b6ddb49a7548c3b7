r"""The link: from a mixture of any sign to edge lengths that are positive.

.. math::

    w = \mathrm{softplus}_\beta(m) = \tfrac{1}{\beta} \log(1 + e^{\beta m}), \qquad
    \frac{\partial w}{\partial m} = \sigma(\beta m) = \frac{1}{1 + e^{-\beta m}}

``beta = 1`` is the paper; a larger one is closer to :math:`\max(m, 0)`. Since
:math:`\mathrm{softplus}_\beta(0) = \log 2 / \beta`, items that no source tells apart keep a
positive distance, as a metric wants. The identity link takes the mixture as it is, for weights
whose mixture is known to be non-negative.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.validation import check_choice

__all__ = ["LINKS", "inverse_link", "link", "link_code", "link_derivative"]

LINKS = ("identity", "softplus")
"""Names of the links; the position is the code that kernels know them by."""


def link_code(name: str) -> int:
    """Return the number by which kernels know the link."""
    return LINKS.index(check_choice(name, LINKS, name="link"))


def link(m: NDArray[Any], beta: float = 1.0, name: str = "softplus") -> NDArray[Any]:
    """Return the edge lengths of the mixture values `m`, of any shape.

    Never 0 and never below the smallest normal number of the type, however negative `m` is.

    Examples
    --------
    >>> import numpy as np
    >>> link(np.array([-2000.0, 0.0, 2000.0])).round(4)
    array([0.000e+00, 6.931e-01, 2.000e+03])
    """
    if link_code(name) == 0:
        return np.asarray(np.maximum(m, 0))  # rounding may leave a hair below 0
    w = np.maximum(m, 0) + np.log1p(np.exp(-beta * np.abs(m))) / beta
    return np.asarray(np.maximum(w, np.finfo(w.dtype).tiny))


def link_derivative(m: NDArray[Any], beta: float = 1.0, name: str = "softplus") -> NDArray[Any]:
    """Return the derivative of the link at `m`: sigma(beta m); for the identity 1, 0 below 0."""
    if link_code(name) == 0:
        return np.where(m >= 0, 1.0, 0.0)
    small = np.exp(-beta * np.abs(m))  # never overflows
    return np.asarray(np.where(m >= 0, 1.0, small) / (1.0 + small))


def inverse_link(w: NDArray[Any], beta: float = 1.0, name: str = "softplus") -> NDArray[Any]:
    """Return the mixture values whose edge lengths are `w` (the smallest possible, where 0).

    Examples
    --------
    >>> import numpy as np
    >>> float(link(inverse_link(np.array(0.3))).round(12))
    0.3
    """
    if link_code(name) == 0:
        return w.copy()
    floored = np.maximum(w, np.finfo(np.float64).tiny)  # a length of 0 has no finite inverse
    return np.asarray(floored + np.log(-np.expm1(-beta * floored)) / beta)

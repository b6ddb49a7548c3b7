r"""Unknown dissimilarities, filled along shortest ways over known ones.

.. math:: x_{ij} = d_{ij} \text{ where known}, \qquad x_{ij} = P(d)_{ij} \text{ elsewhere}

with no edge where d is unknown. Known entries belong to some metric if and only if x is one: x is
below every way over known entries, and any metric that agrees with d is below x.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricmix.paths.all_pairs import project

__all__ = ["fill_along_paths"]


def fill_along_paths(
    D: ArrayLike, directed: bool = False, *, n_jobs: int | None = None
) -> NDArray[np.float64]:
    """Return `D` with shortest ways over its known entries in place of NaN.

    Items without a way between them get the longest of all ways, which breaks no triangle. Entries
    below 0 are ways of length 0 and stay what they are.

    Examples
    --------
    >>> import numpy as np
    >>> from metricmix.paths.filling import fill_along_paths
    >>> fill_along_paths([[0, 1, np.nan], [1, 0, 4], [np.nan, 4, 0]])
    array([[0., 1., 5.],
           [1., 0., 4.],
           [5., 4., 0.]])
    """
    given = np.array(D, np.float64)
    unknown = np.isnan(given)
    lengths = np.where(unknown, np.inf, np.maximum(given, 0.0))
    np.fill_diagonal(lengths, 0.0)
    ways = project(lengths, directed, n_jobs=n_jobs)
    longest = float(np.max(ways, where=np.isfinite(ways), initial=0.0))
    return np.where(unknown, np.minimum(ways, longest), given)

r"""Places in the plane for items that have only distances.

Classical scaling of some landmarks, the others placed by their distances to them [1]_; then
t-distributed neighbours [2]_ from there, where there are few enough items, since one plane cannot
keep all distances and near ones are what a reader looks at.

References
----------
.. [1] V. de Silva, J. B. Tenenbaum: Sparse multidimensional scaling using landmark points, 2004.
.. [2] L. van der Maaten, G. Hinton: Visualizing data using t-SNE, JMLR 9, 2008.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, orthogonal_procrustes

__all__ = ["place", "turn_to"]

Floats = NDArray[np.float64]
LANDMARKS = 500
REFINED_UP_TO = 500
"""More items than this stay where classical scaling puts them, since refining takes seconds a map.

A guess: neither the time nor the look of large maps has been measured yet.
"""


def place(distances: Floats) -> Floats:
    """Return (n, 2) coordinates for an (n, n) matrix of distances, centred, of unit size."""
    n = len(distances)
    finite = distances[np.isfinite(distances)]
    d = np.where(np.isfinite(distances), distances, 1.2 * finite.max(initial=1.0))
    d = (d + d.T) / 2.0
    marks = np.sort(np.random.default_rng(0).permutation(n)[:LANDMARKS])
    squares = d[np.ix_(marks, marks)] ** 2
    means = squares.mean(axis=0)
    gram = -0.5 * (squares - means - means[:, None] + means.mean())
    m = len(marks)
    values, vectors = eigh(gram, subset_by_index=[max(m - 2, 0), m - 1])
    scale = np.sqrt(np.maximum(values, 1e-12 * max(values.max(), 1e-300)))
    points = -0.5 * (d[:, marks] ** 2 - means) @ (vectors / scale)
    if points.shape[1] < 2:
        points = np.column_stack([points, np.zeros(n)])
    points = _normed(points[:, ::-1])
    if 30 <= n <= REFINED_UP_TO:
        from sklearn.manifold import TSNE

        spread = 1e-4 * points / points.std(axis=0).max()
        model = TSNE(metric="precomputed", init=spread, perplexity=min(30.0, n / 4), random_state=0)
        points = _normed(np.asarray(model.fit_transform(d), dtype=np.float64))
    return points


def turn_to(points: Floats, model: Floats) -> Floats:
    """Return the points turned or mirrored to lie as near to `model` as they can."""
    rotation, _ = orthogonal_procrustes(points, model)
    return np.asarray(points @ rotation)


def _normed(points: Floats) -> Floats:
    points = points - points.mean(axis=0)
    size = float(np.sqrt((points**2).sum(axis=1).mean()))
    return points / (size if size > 0 else 1.0)

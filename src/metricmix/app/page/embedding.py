r"""Coordinates in the plane for items that have only distances.

Classical multidimensional scaling of some landmarks places all items [1]_. From there t-SNE [2]_
refines the map: it keeps neighbours together, which a plane can do, where it cannot keep all
distances. Beyond ``MAX_TSNE_ITEMS`` items, t-SNE lays out a random sample, and every other item is
placed at the mean of its nearest sampled items.

References
----------
.. [1] V. de Silva, J. B. Tenenbaum: Sparse multidimensional scaling using landmark points, 2004.
.. [2] L. van der Maaten, G. Hinton: Visualizing data using t-SNE, JMLR 9, 2008.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import orthogonal_procrustes
from scipy.sparse import csr_array

from metricmix.app.page.values import View
from metricmix.dissimilarity.smoothing import largest_eigenpairs
from metricmix.estimators.predictor import MixturePredictor
from metricmix.kernels.compile import kernel
from metricmix.kernels.process_settings import blas_threads
from metricmix.kernels.threads import in_threads
from metricmix.typing import Floats, Indices, Ints

__all__ = ["align", "landmark_mds", "make_views", "plane_coordinates", "tsne"]


ROWS = 256
"""Rows of distances whose nearest items are found together."""


def plane_coordinates(distances: Floats, max_items: int = 6000) -> Floats:
    """Return (n, 2) coordinates for an (n, n) matrix of distances: mean 0, mean square norm 1.

    Directed distances are averaged over both directions. Infinite ones count as somewhat larger
    than all others. t-SNE takes O(n²) per iteration, 10 ms for 6000 items; from more than
    `max_items`, a sample is laid out, and the others between their nearest sampled items.
    """
    n = len(distances)
    sample = np.arange(n)
    if n > max_items:
        sample = np.sort(np.random.default_rng(0).permutation(n)[:max_items])
    d = distances[np.ix_(sample, sample)]
    d = (d + d.T) / 2.0
    infinite = ~np.isfinite(d)
    if infinite.any():
        unreachable = 1.2  # distance between items without a path, in units of the largest distance
        d[infinite] = unreachable * d[~infinite].max(initial=0.0) or 1.0
    with blas_threads(1):  # several maps are computed in parallel
        points = landmark_mds(d)
        if len(sample) >= 12:
            points = tsne(d, points)
    if n > max_items:
        everyone = np.empty((n, 2))
        n_nearest = 3  # sampled items whose mean is the place of an item outside of the sample
        for i, row in enumerate(distances):
            nearest = np.argpartition(row[sample], n_nearest)[:n_nearest]
            everyone[i] = points[nearest].mean(axis=0)
        everyone[sample] = points
        points = everyone
    points = points - points.mean(axis=0)
    size = float(np.sqrt((points**2).sum(axis=1).mean()))
    return np.asarray(points / (size if size > 0 else 1.0))


def align(points: Floats, target: Floats) -> Floats:
    """Return the points rotated, and mirrored if need be, to lie as near to `target` as they can.

    The orthogonal Procrustes problem: minimise :math:`||PQ - T||_F` over orthogonal Q.
    """
    rotation, _ = orthogonal_procrustes(points, target)
    return np.asarray(points @ rotation)


def landmark_mds(d: Floats, n_landmarks: int = 300) -> Floats:
    """Return the (n, 2) coordinates of classical scaling by landmarks, for symmetric distances."""
    n = len(d)
    landmarks = np.sort(np.random.default_rng(0).permutation(n)[:n_landmarks])
    squares = d[np.ix_(landmarks, landmarks)] ** 2
    means = squares.mean(axis=0)
    gram = -0.5 * (squares - means - means[:, None] + means.mean())
    values, vectors = largest_eigenpairs(gram, 2)
    scale = np.sqrt(np.maximum(values, 1e-12 * max(values.max(), 1e-300)))
    points = -0.5 * (d[:, landmarks] ** 2 - means) @ (vectors / scale)
    if points.shape[1] < 2:
        points = np.column_stack([np.zeros(n), points])
    return np.asarray(points[:, ::-1])


# -- t-SNE ---------------------------------------------------------------------------------------


def tsne(
    distances: Floats, start: Floats, perplexity: float = 30.0, exaggeration: float = 12.0
) -> Floats:
    r"""Return (n, 2) coordinates y that minimise :math:`\mathrm{KL}(p\,||\,q)`, from `start`.

    Here p are joint probabilities of the distances (see :func:`joint_probabilities`), and
    :math:`q_{ij} \propto (1 + ||y_i - y_j||^2)^{-1}`. Distances must be symmetric and finite.
    The first iterations multiply p by `exaggeration`.
    """
    n = len(distances)
    p = joint_probabilities(distances, min(perplexity, (n - 1) / 2.0))
    spread = float(start.std(axis=0).max())
    # Standard deviation of the start: so small that neighbours can pass the items between them.
    initial_spread = 1e-2
    scaled = start.T * (initial_spread / (spread if spread > 0 else 1.0))
    y = np.ascontiguousarray(scaled, dtype=np.float32)
    graph = (p.indptr.astype(np.int32), p.indices.astype(np.int32), p.data)
    rate = max(n / exaggeration, 3.0)
    # Enough iterations for 5000 items to form clusters.
    gradient_descent(y, *graph, 80, exaggeration, 0.5, rate)
    gradient_descent(y, *graph, 220, 1.0, 0.8, rate)
    return y.T.astype(np.float64)


def joint_probabilities(distances: Floats, perplexity: float) -> csr_array:
    r"""Return :math:`p_{ij} = (p_{j|i} + p_{i|j}) / 2n` over the 3 · perplexity nearest items."""
    n = len(distances)
    k = min(n - 1, int(3 * perplexity) + 1)
    nearest = np.empty((n, k), np.int64)
    for start in range(0, n, ROWS):
        others = distances[start : start + ROWS].copy()
        own = np.arange(len(others))
        others[own, start + own] = np.inf
        nearest[start : start + ROWS] = np.argpartition(others, k - 1, axis=1)[:, :k]
    squares = np.take_along_axis(distances, nearest, axis=1) ** 2
    p = conditional_probabilities(squares, perplexity)
    conditional = csr_array((p.ravel(), nearest.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n))
    joint = csr_array(conditional + conditional.T)
    joint.data = (joint.data / (2.0 * n)).astype(np.float32)
    return joint


def conditional_probabilities(squares: Floats, perplexity: float) -> Floats:
    r"""Return :math:`p_{k|i} \propto e^{-b_i s_{ik}}`, rows of sum 1 and entropy log perplexity.

    Each row's :math:`b_i` is found by 30 bisections of its logarithm, which leave an error below
    1e-7, that of single precision.
    """
    rows = squares - squares.min(axis=1, keepdims=True)
    width = rows.mean(axis=1, keepdims=True)
    rows = rows / np.where(width > 0, width, 1.0)
    low, high = np.full((len(rows), 1), -20.0), np.full((len(rows), 1), 20.0)
    for _ in range(30):
        middle = (low + high) / 2.0
        p = np.exp(-np.exp(middle) * rows)
        p /= p.sum(axis=1, keepdims=True)
        entropy = -(p * np.log(np.maximum(p, 1e-300))).sum(axis=1, keepdims=True)
        wide = entropy > np.log(perplexity)
        low, high = np.where(wide, middle, low), np.where(wide, high, middle)
    return np.asarray(p)


@kernel
def repulsive_forces(
    x: NDArray[np.float32], y: NDArray[np.float32], force: NDArray[np.float32]
) -> float:
    """Write the sums of q² (y_i - y_j) to `force`, (2, n), and return Z, the sum of all q."""
    n = len(x)
    zero = np.float32(0.0)
    one = np.float32(1.0)
    total = 0.0
    block = 256  # items whose repulsive forces are summed together, in the cache of a core
    sums = np.empty((3, block), np.float32)
    for start in range(0, n, block):
        count = min(block, n - start)
        sums[:] = zero
        own_x, own_y = x[start : start + count], y[start : start + count]
        sum_x, sum_y, sum_q = sums[0, :count], sums[1, :count], sums[2, :count]
        for j in range(n):
            other_x, other_y = x[j], y[j]
            for i in range(count):
                dx, dy = own_x[i] - other_x, own_y[i] - other_y
                q = one / (one + dx * dx + dy * dy)
                square = q * q
                sum_q[i] += q
                sum_x[i] += square * dx
                sum_y[i] += square * dy
        for i in range(count):
            force[0, start + i] = sum_x[i]
            force[1, start + i] = sum_y[i]
            total += sum_q[i]
    return total - n


@kernel
def attractive_forces(
    x: NDArray[np.float32],
    y: NDArray[np.float32],
    indptr: Ints,
    indices: Ints,
    p: NDArray[np.float32],
    force: NDArray[np.float32],
) -> None:
    """Write the sums of p q (y_i - y_j) to `force`, (2, n); p is sparse, by rows."""
    one = np.float32(1.0)
    for i in range(len(x)):
        sum_x = sum_y = np.float32(0.0)
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            dx, dy = x[i] - x[j], y[i] - y[j]
            attraction = p[e] / (one + dx * dx + dy * dy)
            sum_x += attraction * dx
            sum_y += attraction * dy
        force[0, i] = sum_x
        force[1, i] = sum_y


@kernel
def gradient_descent(
    places: NDArray[np.float32],
    indptr: Ints,
    indices: Ints,
    p: NDArray[np.float32],
    n_iterations: int,
    exaggeration: float,
    momentum: float,
    learning_rate: float,
) -> None:
    """Descend the KL divergence in `places`, (2, n), with momentum and a gain per coordinate."""
    n = places.shape[1]
    x, y = places[0], places[1]
    attraction, repulsion = np.empty((2, n), np.float32), np.empty((2, n), np.float32)
    velocity, gain = np.zeros((2, n), np.float32), np.ones((2, n), np.float32)
    min_gain = 0.01
    for _ in range(n_iterations):
        attractive_forces(x, y, indptr, indices, p, attraction)
        z = repulsive_forces(x, y, repulsion)
        for axis in range(2):
            for i in range(n):
                slope = 4.0 * (exaggeration * attraction[axis, i] - repulsion[axis, i] / z)
                if slope * velocity[axis, i] < 0.0:
                    gain[axis, i] += 0.2
                else:
                    gain[axis, i] = max(0.8 * gain[axis, i], min_gain)
                step = learning_rate * gain[axis, i] * slope
                velocity[axis, i] = momentum * velocity[axis, i] - step
                places[axis, i] += velocity[axis, i]


def make_views(
    model: MixturePredictor,
    metric: Floats,
    items: Indices,
    on_progress: Callable[[float], None],
) -> tuple[View, ...]:
    """Return the maps of the mixture and of each source over some items, computed in threads.

    Those of the sources are aligned with that of the mixture. A stack over sparse edges that was
    loaded does not have the values between any two items: there is the map of the mixture only.
    """
    stack, lock = model.stack_, Lock()
    known = stack.origin
    names = ("mixture", *(() if known is None else known.names))
    n_done = 0

    def lay_out(k: int) -> Floats:
        nonlocal n_done
        if k == 0:
            distances = metric
        else:
            assert known is not None
            with lock:  # computed sources may not be thread-safe
                distances = np.asarray(known.sources[k - 1].block(items, items), np.float64)
        points = plane_coordinates(distances)
        with lock:
            n_done += 1
            on_progress(n_done / len(names))
        return points

    mixture, *others = in_threads(lay_out, range(len(names)), model.n_jobs)
    maps = [mixture, *(align(points, mixture) for points in others)]
    return tuple(View(name, points) for name, points in zip(names, maps, strict=True))

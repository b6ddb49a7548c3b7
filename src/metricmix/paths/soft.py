r"""A smooth version of the shortest path, over walks.

The paper smooths the minimum over paths by a log-sum-exp at temperature 1/T. Over simple paths
the sum is intractable; over walks it has a closed form. With :math:`K = e^{-T w}` off the diagonal
and 0 on it,

.. math:: Z = \sum_{l \ge 0} K^l = (I - K)^{-1}, \qquad
          d_T(i, j) = -\frac{1}{T} \log \frac{Z_{ij}}{\sqrt{Z_{ii} Z_{jj}}}

which exists when the spectral radius of K is below 1 (T large enough). Walks that pass through k
are among all walks, :math:`Z_{ik} Z_{kj} / Z_{kk} \le Z_{ij}`, and that *is* the triangle
inequality: for symmetric w, :math:`d_T` is a true metric, smooth in w, and tends to the shortest
path as T grows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from metricmix.exceptions import InputError, TemperatureError
from metricmix.kernels.threads import call_in_background
from metricmix.typing import Floats
from metricmix.validation import check_number, check_square, check_square_fits

__all__ = ["SoftPaths", "soft_paths"]


@dataclass(frozen=True)
class SoftPaths:
    """Soft distances, and their gradient.

    Attributes
    ----------
    distances : (n, n) array
    temperature : float
        The T of the formula: the larger, the nearer to shortest paths.
    """

    distances: Floats
    temperature: float
    _walks: Floats
    _kernel: Floats

    def gradient(self, c: ArrayLike) -> Floats:
        r"""Return :math:`\partial \big(\sum_{ij} c_{ij} d_T(i, j)\big) / \partial w_{uv}`, (n, n).

        Every entry of w counts as a variable of its own, also when w is symmetric.
        """
        coefficient = np.array(c, dtype=np.float64)
        if coefficient.shape != self.distances.shape:
            raise InputError(
                argument="c",
                expected=f"shape {self.distances.shape}",
                found=f"shape {coefficient.shape}",
            )
        np.fill_diagonal(coefficient, 0.0)
        walks, T = self._walks, self.temperature
        by_walks = -coefficient / (T * walks)
        sums = coefficient.sum(axis=0) + coefficient.sum(axis=1)
        by_walks[np.diag_indices_from(by_walks)] += sums / (2.0 * T * np.diagonal(walks))
        by_kernel = _product(_product(walks.T, by_walks), walks.T)  # dZ = Z dK Z
        return -T * self._kernel * by_kernel


def soft_paths(w: ArrayLike, temperature: float, *, directed: bool = False) -> SoftPaths:
    """Return the soft distances over edge lengths `w`.

    Parameters
    ----------
    w : (n, n) array
        Edge lengths, positive off the diagonal (a zero-length edge would be walked for ever).
    temperature : float
        T. Too small and the sum over walks diverges; too large and it underflows: both are refused
        with the remedy.
    directed : bool
        Whether w may be asymmetric. The triangle inequality still holds, but distances may be
        negative at small temperatures, which is refused.

    Notes
    -----
    O(n³ log l) for walks of up to l edges: two matrix products per doubling of the length.

    Examples
    --------
    >>> import numpy as np
    >>> from metricmix.paths import soft_paths
    >>> w = np.array([[0.0, 1.0, 5.0], [1.0, 0.0, 2.0], [5.0, 2.0, 0.0]])
    >>> soft_paths(w, temperature=20.0).distances.round(6)
    array([[0., 1., 3.],
           [1., 0., 2.],
           [3., 2., 0.]])
    """
    T = check_number(temperature, name="temperature", low=0, open_low=True)
    if hasattr(w, "shape") and len(w.shape) == 2:
        check_square_fits(w.shape[0], 6 * 8, what="soft paths", argument="w")
    lengths = check_square(w, name="w", directed=directed).astype(np.float64)
    off_diagonal = ~np.eye(len(lengths), dtype=bool)
    if (lengths[off_diagonal] == 0).any():
        raise InputError(argument="w", expected="positive lengths off the diagonal, found 0")
    K = np.exp(-T * lengths)
    np.fill_diagonal(K, 0.0)
    walks = sum_over_walks(K, T)
    smallest = 1e-280  # below this, reciprocals of sums over walks may overflow
    if (walks < smallest).any():
        raise TemperatureError(
            f"{T:g} is too large, walks underflow to 0",
            argument="temperature",
            remedy=f"for these lengths stay below about {640.0 / lengths.max():.3g}",
        )
    root = np.sqrt(np.diagonal(walks))
    distances = -np.log(walks / np.outer(root, root)) / T
    if not directed:
        distances = (distances + distances.T) / 2.0
    np.fill_diagonal(distances, 0.0)
    if distances.min() < 0:  # only if directed: symmetric sums are at most sqrt(Z_ii Z_jj)
        raise TemperatureError(
            f"{T:g} is too small for these directed lengths, the soft distance "
            f"{distances.min():.3g} is negative",
            argument="temperature",
            remedy="increase it",
        )
    return SoftPaths(distances, T, walks, K)


def _product(A: Floats, B: Floats) -> Floats:
    """Return the matrix product; a large one can be interrupted, and stops with the time."""
    large = 500  # items from which on a matrix product takes long enough to look at the clock
    return A @ B if len(A) < large else call_in_background(np.matmul, A, B)


def sum_over_walks(K: Floats, T: float) -> Floats:
    """Return (I - K)^-1 = (I + K)(I + K²)(I + K⁴)…, or raise InputError if the sum diverges.

    Only non-negative numbers are multiplied and added, so that even entries of size e^(-T d) come
    out with full relative accuracy; an inverse by elimination would lose those below its rounding
    error.
    """
    walks = np.eye(len(K)) + K
    power = K
    radius = np.inf
    for doubling in range(1, 50):
        with np.errstate(over="ignore", invalid="ignore"):
            power = _product(power, power)
            longer = _product(walks, power)
            norm = float(power.sum(axis=1).max())
        if not np.isfinite(longer).all():
            radius = np.inf
            break
        # The norm of a power bounds that of the spectral radius; below 1 once, the sum exists.
        radius = norm ** (0.5**doubling)
        walks = walks + longer
        if norm < 1.0 and (longer <= np.finfo(np.float64).eps * walks).all():
            return walks
    size = f"about {radius:.4g}" if np.isfinite(radius) else "far above 1"
    raise TemperatureError(
        f"{T:g} is too small, the sum over walks diverges: the spectral radius of "
        f"exp(-T w) is {size} and must be below 1",
        argument="temperature",
        remedy="increase it",
    )

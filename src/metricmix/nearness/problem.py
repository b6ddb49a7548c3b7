r"""The metric nearness problem over pairs of items, and what its solvers share.

.. math:: \min_x \; \Bigl(\sum_{i<j} w_{ij} |x_{ij} - d_{ij}|^p\Bigr) \quad \text{or} \quad
          \max_{i<j} w_{ij} |x_{ij} - d_{ij}|
          \qquad x_{ij} \le x_{ik} + x_{kj}, \quad l_{ij} \le x_{ij} \le u_{ij}

Vectors have one entry per pair i > j, row by row. Weight 0 marks a missing entry. Lengths and
weights are divided by a power of two. A metric within the bounds exists if and only if the
shortest-path closure of u, the largest metric below u, is above l;
:func:`~metricmix.nearness.reading.tighten_bounds` checks that.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from metricmix.cached import cached_property
from metricmix.kernels.compile import kernel
from metricmix.kernels.minplus import mirror
from metricmix.nearness.norms.norm import NORMS, Norm
from metricmix.paths.floyd_warshall import close_in_place
from metricmix.typing import Floats

__all__ = [
    "NearnessProblem",
    "closure_of",
    "items_of",
    "matrix_of",
    "pairs_of",
    "read_lower_triangle",
    "write_lower_triangle",
]


@dataclass(frozen=True)
class NearnessProblem:
    """Dissimilarities, weights and bounds of one nearness problem.

    Attributes
    ----------
    norm : str
        Its name; see :mod:`metricmix.nearness.norms`.
    n : int
    d, w : (pairs,) arrays
        Dissimilarities and weights; where w is 0, d is ignored.
    lower, upper : (pairs,) arrays or None
        Bounds, 0 <= lower <= upper <= inf, that some metric satisfies; None if there are none.
    even : bool
        Whether all weights are 1.
    unit, weight_unit : float
        Length and weight of the input that 1 stands for.
    """

    norm: str
    n: int
    d: Floats
    w: Floats
    lower: Floats | None
    upper: Floats | None
    even: bool
    unit: float
    weight_unit: float

    @cached_property
    def kind(self) -> Norm:
        """The norm."""
        return NORMS[self.norm]()

    @property
    def objective_unit(self) -> float:
        """Objective, in units of the input, that 1 stands for."""
        return float(self.unit**self.kind.power * self.weight_unit)

    @property
    def multiplier_unit(self) -> float:
        """Lagrange multiplier, in units of the input, that 1 stands for."""
        power = self.kind.power
        return float(power * self.unit ** (power - 1) * self.weight_unit)

    @property
    def missing(self) -> bool:
        """Whether some pair has no weight."""
        return not self.even and bool((self.w == 0).any())

    @property
    def ceiling(self) -> float:
        """A length that no entry of some solution exceeds.

        Truncating a metric at any height gives a metric that is closer to every smaller entry.
        """
        top = float(self.d.max(where=self.w > 0, initial=0.0))
        return top if self.lower is None else max(top, float(self.lower.max(initial=0.0)))

    def objective(self, x: Floats) -> float:
        """Return f(x)."""
        return self.kind.objective(x - self.d, self.w)

    def is_unchanged(self, x: Floats) -> bool:
        """Return whether x equals d up to rounding of each entry, wherever d is known."""
        rounding = 32 * float(np.finfo(np.float64).eps)  # of a path length
        return bool(np.all((np.abs(x - self.d) <= rounding * np.abs(self.d)) | (self.w == 0)))

    def fingerprint(self) -> str:
        """Return a digest of the problem, by which to recognise its checkpoints."""
        digest = hashlib.sha256(repr((self.norm, self.n, self.unit, self.weight_unit)).encode())
        for values in (self.d * (self.w > 0), self.w, self.lower, self.upper):
            digest.update(b"none" if values is None else values.tobytes())
        return digest.hexdigest()


# -- vectors over pairs -------------------------------------------------------------------------


@kernel
def write_lower_triangle(values: Floats, low: int, high: int, matrix: Floats) -> None:
    """Write pairs into rows low .. high - 1 of a matrix, left of the diagonal, with 0 on it."""
    for i in range(low, high):
        row = matrix[i]
        first = i * (i - 1) // 2
        for j in range(i):
            row[j] = values[first + j]
        row[i] = 0.0


@kernel
def read_lower_triangle(matrix: NDArray[np.floating], low: int, high: int, values: Floats) -> None:
    """Read pairs from rows low .. high - 1 of a matrix, left of the diagonal."""
    for i in range(low, high):
        row = matrix[i]
        first = i * (i - 1) // 2
        for j in range(i):
            values[first + j] = row[j]


def items_of(pair: int) -> tuple[int, int]:
    """Return the items (i, j), i > j, of a pair."""
    i = int((1 + np.sqrt(1 + 8 * pair)) / 2)
    i += int(i * (i + 1) // 2 <= pair) - int(i * (i - 1) // 2 > pair)
    return i, pair - i * (i - 1) // 2


def pairs_of(matrix: NDArray[np.floating]) -> Floats:
    """Return the entries left of the diagonal, row by row, as float64."""
    n = len(matrix)
    values = np.empty(n * (n - 1) // 2)
    read_lower_triangle(np.ascontiguousarray(matrix), 0, n, values)
    return values


def matrix_of(values: Floats, n: int) -> Floats:
    """Return the symmetric matrix with these entries and a zero diagonal."""
    matrix = np.empty((n, n))
    write_lower_triangle(values, 0, n, matrix)
    mirror(matrix, 0, n)
    return matrix


def closure_of(values: Floats, n: int, n_jobs: int | None) -> Floats:
    """Return the shortest-path closure of lengths >= 0, as pairs."""
    return pairs_of(close_in_place(matrix_of(values, n), symmetric=True, n_jobs=n_jobs))

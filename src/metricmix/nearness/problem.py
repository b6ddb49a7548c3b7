r"""The problem as the solvers see it: one number per pair, in handy units.

.. math:: \min_x \; \Bigl(\sum_{i<j} w_{ij} |x_{ij} - d_{ij}|^p\Bigr) \quad \text{or} \quad
          \max_{i<j} w_{ij} |x_{ij} - d_{ij}|
          \qquad x_{ij} \le x_{ik} + x_{kj}, \quad l_{ij} \le x_{ij} \le u_{ij}

Pairs (i > j) are listed row by row. Weight 0 is a missing entry. A metric between the bounds exists
if and only if the largest one below u, its shortest-path closure, is above l: that is checked here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from metricmix.exceptions import InputError
from metricmix.kernels.broken import list_pairs, spread_pairs
from metricmix.kernels.triangle import mirror
from metricmix.paths.all_pairs import close_in_place

__all__ = ["Problem", "bounded", "closure_of", "items_of", "matrix_of", "name_of", "pairs_of"]

Floats = NDArray[np.float64]

UNCHANGED = 32 * float(np.finfo(np.float64).eps)
"""Share of the largest entry that sums along paths may be off by."""

ROUNDING = 1e-9
"""Share of the largest entry up to which bounds that no metric keeps count as rounding."""


@dataclass(frozen=True)
class Problem:
    """What to come near to, and within which bounds.

    Attributes
    ----------
    n : int
    d, w : (pairs,) arrays
        Dissimilarities and weights; where w is 0, d means nothing.
    lower, upper : (pairs,) arrays or None
        Bounds, 0 <= lower <= upper <= inf, that some metric keeps; None where there are none.
    even : bool
        Whether all weights are 1.
    unit, weight_unit : float
        What lengths and weights of 1 stand for in the input.
    """

    n: int
    d: Floats
    w: Floats
    lower: Floats | None
    upper: Floats | None
    even: bool
    unit: float
    weight_unit: float

    @property
    def missing(self) -> bool:
        """Whether some pair has no weight."""
        return not self.even and bool((self.w == 0).any())

    @property
    def ceiling(self) -> float:
        """A length that no entry of some solution exceeds.

        Cutting a metric off at a height leaves a metric, and brings it nearer to everything below.
        """
        top = float(self.d.max(where=self.w > 0, initial=0.0))
        return top if self.lower is None else max(top, float(self.lower.max(initial=0.0)))

    def is_unchanged(self, x: Floats) -> bool:
        """Return whether x is d, wherever that is known, but for rounding."""
        apart = np.max(np.abs(x - self.d), where=self.w > 0, initial=0.0)
        return bool(apart <= UNCHANGED * self.ceiling)


def items_of(pair: int) -> tuple[int, int]:
    """Return the items (i, j), i > j, of a pair."""
    i = int((1 + np.sqrt(1 + 8 * pair)) / 2)
    i += int(i * (i + 1) // 2 <= pair) - int(i * (i - 1) // 2 > pair)
    return i, pair - i * (i - 1) // 2


def name_of(pair: int) -> str:
    """Return a pair by its items, "(j, i)"."""
    i, j = items_of(pair)
    return f"({j}, {i})"


def pairs_of(matrix: NDArray[np.floating]) -> Floats:
    """Return the entries left of the diagonal, row by row, as float64."""
    n = len(matrix)
    values = np.empty(n * (n - 1) // 2)
    list_pairs(np.ascontiguousarray(matrix), 0, n, values)
    return values


def matrix_of(values: Floats, n: int, out: Floats | None = None) -> Floats:
    """Return the symmetric matrix with these entries and a zero diagonal."""
    matrix = np.empty((n, n)) if out is None else out
    spread_pairs(values, 0, n, matrix)
    mirror(matrix, 0, n)
    return matrix


def closure_of(values: Floats, n: int, n_jobs: int | None) -> Floats:
    """Return the shortest-path closure of lengths >= 0, as pairs."""
    return pairs_of(close_in_place(matrix_of(values, n), symmetric=True, n_jobs=n_jobs))


def bounded(problem: Problem, n_jobs: int | None, note: str = "") -> Problem:
    """Return the problem with its upper bounds tightened, or raise if no metric keeps the bounds.

    `note` says in the error where bounds come from that nobody gave.

    Raises
    ------
    InputError
        If none does, or missing entries leave two items without a path of known lengths.
    """
    if problem.missing:
        known = np.where(problem.w > 0, problem.d, np.inf)
        if problem.upper is not None:
            known = np.minimum(known, problem.upper)
        apart = np.isinf(closure_of(known, problem.n, n_jobs))
        if apart.any():
            raise InputError(
                "D: expected a path of known dissimilarities between any two items, found none "
                f"between {name_of(int(apart.argmax()))}; give a value or an upper bound to one of "
                "the missing entries"
            )
    if problem.upper is None:
        return problem
    upper, lower = closure_of(problem.upper, problem.n, n_jobs), problem.lower
    if lower is not None and len(lower):
        lacking = lower - upper
        worst = int(lacking.argmax())
        if lacking[worst] > ROUNDING * max(float(lower.max()), problem.ceiling):
            raise InputError(
                "lower, upper, fixed: expected bounds that some metric keeps, found that those "
                f"from above leave at most {problem.unit * upper[worst]:.6g} between "
                f"{name_of(worst)}, less than the lower bound {problem.unit * lower[worst]:.6g}"
                f"{note}"
            )
        lower = np.minimum(lower, upper)
    return replace(problem, lower=lower, upper=upper)

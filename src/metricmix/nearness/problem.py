r"""The problem as the solvers see it: one number per pair, in handy units.

.. math:: \min_x \; \Bigl(\sum_{i<j} w_{ij} |x_{ij} - d_{ij}|^p\Bigr) \quad \text{or} \quad
          \max_{i<j} w_{ij} |x_{ij} - d_{ij}|
          \qquad x_{ij} \le x_{ik} + x_{kj}, \quad l_{ij} \le x_{ij} \le u_{ij}

Pairs (i > j) are listed row by row. Weight 0 is a missing entry. A metric between the bounds exists
if and only if the largest one below u, its shortest-path closure, is above l: that is checked here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricmix.exceptions import InputError
from metricmix.kernels.symmetric import mirror
from metricmix.memory import check_fits
from metricmix.nearness.triangle_oracle import list_pairs, spread_pairs
from metricmix.paths.all_pairs import close_in_place
from metricmix.typing import Floats
from metricmix.validation import as_float_array, check_square

__all__ = [
    "Problem",
    "bounded",
    "closure_of",
    "items_of",
    "matrix_of",
    "name_of",
    "pairs_of",
    "read_problem",
]


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
                argument="D",
                expected=(
                    "a path of known dissimilarities between any two items, found none "
                    f"between {name_of(int(apart.argmax()))}"
                ),
                remedy="give a value or an upper bound to one of the missing entries",
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


# -- what the user gives, checked and turned into a problem in handy units ----------------------


LARGEST = 1e150
"""Numbers that can still be squared and added up."""


def read_problem(
    D: ArrayLike,
    weights: ArrayLike | None,
    lower: ArrayLike | None,
    upper: ArrayLike | None,
    fixed: ArrayLike | None,
    *,
    bytes_per_entry: float,
) -> Problem:
    """Return the problem: entries and weights divided by a power of two.

    `bytes_per_entry` is how much memory solving it takes, per entry of D.

    Raises
    ------
    InputError
        If anything is not as it should be.
    """
    given = as_float_array(D, name="D")
    if given.ndim != 2 or given.shape[0] != given.shape[1]:
        raise InputError(
            argument="D", expected="a square matrix (n, n)", found=f"shape {given.shape}"
        )
    check_fits(
        lambda n: bytes_per_entry * n * n,
        len(given),
        what="the nearest metric",
        instead="take fewer items, or norm='decrease', which needs least",
        argument="D",
    )
    absent = np.isnan(given)
    if absent.any():
        _check_symmetric(absent, "D: expected NaN (a missing entry) on both sides")
        given = np.where(absent, 0.0, given)
    if np.isinf(given).any():
        i, j = np.argwhere(np.isinf(given))[0].tolist()
        raise InputError(
            argument="D",
            expected=f"finite entries, found {given[i, j]} at ({i}, {j})",
            remedy="mark missing ones by NaN, or give them weight 0",
        )
    largest = float(np.abs(given).max(initial=0.0))
    if largest > LARGEST:
        raise InputError(
            argument="D",
            expected=f"entries up to {LARGEST:g}, found {largest:.6g}",
            remedy="take another unit",
        )
    matrix = check_square(given, name="D", offer_directed=False)
    n = len(matrix)
    d = pairs_of(matrix)
    w = np.ones(len(d)) if weights is None else _weights(weights, n)
    if absent.any():
        w = np.where(pairs_of(absent.astype(float)) > 0, 0.0, w)
    if len(d) and not (w > 0).any():
        raise InputError(
            argument="D", expected="at least one known entry with a weight, found none"
        )
    d = np.where(w > 0, d, 0.0)  # what stands where nothing is known means nothing
    low = _bound(lower, n, "lower", -np.inf)
    high = _bound(upper, n, "upper", np.inf)
    if low is not None and low.max(initial=0.0) > LARGEST:
        raise InputError(
            argument="lower", expected=f"bounds up to {LARGEST:g}, found {low.max():.6g}"
        )
    if high is not None:
        high = np.where(high > LARGEST, np.inf, high)
    if fixed is not None:
        held = _mask(fixed, n)
        if np.any(held & (w == 0)):
            raise InputError(
                argument="fixed", expected="entries that are known, found a missing one"
            )
        low = np.where(held, d, 0.0 if low is None else low)
        high = np.where(held, d, np.inf if high is None else high)
    _check_order(low, high)
    if low is not None:
        low = np.maximum(low, 0.0)
    unit, heaviest = _power(float(d.max(initial=0.0))), float(w.max(initial=0.0))
    even = bool((w == heaviest).all())
    weight_unit = heaviest if even and heaviest > 0 else _power(heaviest)
    return Problem(
        n=n,
        d=d / unit,
        w=w / weight_unit,
        lower=None if low is None else low / unit,
        upper=None if high is None else high / unit,
        even=even,
        unit=unit,
        weight_unit=weight_unit,
    )


def _power(value: float) -> float:
    """Return the power of two at or below a number: dividing by it rounds nothing."""
    return float(2.0 ** np.floor(np.log2(value))) if value > 0 else 1.0


def _weights(weights: ArrayLike, n: int) -> Floats:
    given = as_float_array(weights, name="weights")
    if given.shape != (n, n):
        raise InputError(argument="weights", expected=f"shape {(n, n)}, like D", found=given.shape)
    found = pairs_of(check_square(given, name="weights", require_zero_diagonal=False))
    if found.max(initial=0.0) > LARGEST:
        raise InputError(
            argument="weights", expected=f"numbers up to {LARGEST:g}, found {found.max():.6g}"
        )
    return found


def _bound(bound: Any, n: int, name: str, none: float) -> Floats | None:
    """Return bounds as pairs; NaN is none."""
    if bound is None:
        return None
    given = as_float_array(bound, name=name)
    if given.ndim == 0:
        given = np.full((n, n), float(given))
    if given.shape != (n, n):
        raise InputError(
            argument=name, expected=f"a number or shape {(n, n)}", found=f"shape {given.shape}"
        )
    whole = np.where(np.isnan(given), none, given).astype(np.float64)
    np.fill_diagonal(whole, 0.0)
    if np.isinf(whole).any() and np.any(whole == -none):
        raise InputError(argument=name, expected=f"finite bounds or {none}, found {-none}")
    _check_symmetric(whole, f"{name}: expected symmetric bounds")
    return pairs_of(whole)


def _mask(fixed: ArrayLike, n: int) -> NDArray[np.bool_]:
    held = np.asarray(fixed)
    if held.dtype != bool or held.shape != (n, n):
        raise InputError(
            argument="fixed",
            expected=f"a mask of True and False with shape {(n, n)}",
            found=f"dtype {held.dtype} with shape {held.shape}",
        )
    _check_symmetric(held, "fixed: expected a symmetric mask")
    return pairs_of(held.astype(float)) > 0


def _check_symmetric(matrix: NDArray[Any], expected: str) -> None:
    different = matrix != matrix.T
    if different.any():
        i, j = np.argwhere(different)[0].tolist()
        raise InputError(f"{expected}, found ({i}, {j}) and ({j}, {i}) to differ")


def _check_order(low: Floats | None, high: Floats | None) -> None:
    if high is not None and np.any(high < 0):
        pair = int(np.argmin(high))
        raise InputError(
            argument="upper", expected=f"bounds >= 0, found {high[pair]:.6g} at {name_of(pair)}"
        )
    if low is not None and high is not None and np.any(low > high):
        pair = int(np.argmax(low - high))
        raise InputError(
            f"lower, upper, fixed: expected lower <= upper, found {low[pair]:.6g} > "
            f"{high[pair]:.6g} at {name_of(pair)}"
        )

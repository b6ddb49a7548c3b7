"""What the user gives, checked and turned into a problem in handy units."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricmix.exceptions import InputError
from metricmix.memory import check_fits
from metricmix.nearness.problem import Problem, name_of, pairs_of
from metricmix.validation import as_float_array, check_square

__all__ = ["read_problem"]

Floats = NDArray[np.float64]

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
        raise InputError(f"D: expected a square matrix (n, n), got shape {given.shape}")
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
            f"D: expected finite entries, found {given[i, j]} at ({i}, {j}); mark missing ones by "
            "NaN, or give them weight 0"
        )
    largest = float(np.abs(given).max(initial=0.0))
    if largest > LARGEST:
        raise InputError(
            f"D: expected entries up to {LARGEST:g}, found {largest:.6g}; take another unit"
        )
    matrix = check_square(given, name="D", offer_directed=False)
    n = len(matrix)
    d = pairs_of(matrix)
    w = np.ones(len(d)) if weights is None else _weights(weights, n)
    if absent.any():
        w = np.where(pairs_of(absent.astype(float)) > 0, 0.0, w)
    if len(d) and not (w > 0).any():
        raise InputError("D: expected at least one known entry with a weight, found none")
    d = np.where(w > 0, d, 0.0)  # what stands where nothing is known means nothing
    low = _bound(lower, n, "lower", -np.inf)
    high = _bound(upper, n, "upper", np.inf)
    if low is not None and low.max(initial=0.0) > LARGEST:
        raise InputError(f"lower: expected bounds up to {LARGEST:g}, found {low.max():.6g}")
    if high is not None:
        high = np.where(high > LARGEST, np.inf, high)
    if fixed is not None:
        held = _mask(fixed, n)
        if np.any(held & (w == 0)):
            raise InputError("fixed: expected entries that are known, found a missing one")
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
        raise InputError(f"weights: expected shape {(n, n)}, like D, got {given.shape}")
    found = pairs_of(check_square(given, name="weights", require_zero_diagonal=False))
    if found.max(initial=0.0) > LARGEST:
        raise InputError(f"weights: expected numbers up to {LARGEST:g}, found {found.max():.6g}")
    return found


def _bound(bound: Any, n: int, name: str, none: float) -> Floats | None:
    """Return bounds as pairs; NaN is none."""
    if bound is None:
        return None
    given = as_float_array(bound, name=name)
    if given.ndim == 0:
        given = np.full((n, n), float(given))
    if given.shape != (n, n):
        raise InputError(f"{name}: expected a number or shape {(n, n)}, got shape {given.shape}")
    whole = np.where(np.isnan(given), none, given).astype(np.float64)
    np.fill_diagonal(whole, 0.0)
    if np.isinf(whole).any() and np.any(whole == -none):
        raise InputError(f"{name}: expected finite bounds or {none}, found {-none}")
    _check_symmetric(whole, f"{name}: expected symmetric bounds")
    return pairs_of(whole)


def _mask(fixed: ArrayLike, n: int) -> NDArray[np.bool_]:
    held = np.asarray(fixed)
    if held.dtype != bool or held.shape != (n, n):
        raise InputError(
            f"fixed: expected a mask of True and False with shape {(n, n)}, got dtype "
            f"{held.dtype} with shape {held.shape}"
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
        raise InputError(f"upper: expected bounds >= 0, found {high[pair]:.6g} at {name_of(pair)}")
    if low is not None and high is not None and np.any(low > high):
        pair = int(np.argmax(low - high))
        raise InputError(
            f"lower, upper, fixed: expected lower <= upper, found {low[pair]:.6g} > "
            f"{high[pair]:.6g} at {name_of(pair)}"
        )

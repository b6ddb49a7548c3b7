"""Reading a nearness problem: dissimilarities, weights and bounds, validated once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricmix.exceptions import InputError
from metricmix.memory import check_fits
from metricmix.nearness.norms.norm import NORMS
from metricmix.nearness.problem import NearnessProblem, closure_of, items_of, pairs_of
from metricmix.typing import Floats
from metricmix.validation import as_float_array, check_square, unmasked

__all__ = ["LARGEST", "read_bounds", "read_problem", "tighten_bounds"]


LARGEST = 1e150
"""Largest entry: it can be squared and summed without overflow."""


def read_problem(
    norm: str,
    D: ArrayLike,
    weights: ArrayLike | None,
    bounds: tuple[ArrayLike | None, ArrayLike | None, ArrayLike | None],
) -> NearnessProblem:
    """Return the problem, with entries and weights divided by a power of two.

    `bounds` are `lower`, `upper` and `fixed`.

    Raises
    ------
    InputError
        If an argument is invalid, or the problem does not fit into memory.
    """
    given = as_float_array(D, name="D")
    if given.ndim != 2 or given.shape[0] != given.shape[1]:
        raise InputError(
            argument="D", expected="a square matrix (n, n)", found=f"shape {given.shape}"
        )
    kind = NORMS[norm]()
    least = kind.bytes_per_entry <= NORMS["decrease"].bytes_per_entry
    check_fits(
        lambda n: kind.bytes_per_entry * n * n,
        len(given),
        what="the nearest metric",
        instead="use fewer items" + ("" if least else ", or norm='decrease', which needs least"),
        argument="D",
    )
    absent = np.isnan(given)
    if absent.any():
        given = np.where(absent, given.T, given)  # an entry that is known on one side is known
        absent = np.isnan(given)
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
    d = pairs_of(check_square(given, name="D", offer_directed=False))
    w = np.ones(len(d)) if weights is None else read_weights(weights, len(given))
    if absent.any():
        w = np.where(pairs_of(absent.astype(float)) > 0, 0.0, w)
    if len(d) and not (w > 0).any():
        raise InputError(
            argument="D", expected="at least one known entry with a weight, found none"
        )
    d = np.where(w > 0, d, 0.0)
    lower, upper = read_bounds(*bounds, d=np.where(w > 0, d, np.nan), n=len(given))
    if bounds[2] is not None:  # asymmetry within rounding is refused here: one side would move
        held = np.where(bounds[2], given, 0.0)
        _check_symmetric(held, "D: expected fixed entries that are equal on both sides")
    lower, upper = kind.bounds(d, w > 0, lower, upper)
    unit, heaviest = _power_of_two(float(d.max(initial=0.0))), float(w.max(initial=0.0))
    if np.any(unit * (d / unit) != d):
        raise InputError(
            argument="D",
            expected="entries that differ by at most 300 orders of magnitude",
            found=f"{d[d > 0].min():.6g} and {d.max():.6g}",
        )
    even = bool((w == heaviest).all())
    weight_unit = heaviest if even and heaviest > 0 else _power_of_two(heaviest)
    return NearnessProblem(
        norm=norm,
        n=len(given),
        d=d / unit,
        w=w / weight_unit,
        lower=None if lower is None else lower / unit,
        upper=None if upper is None else upper / unit,
        even=even,
        unit=unit,
        weight_unit=weight_unit,
    )


def read_weights(weights: ArrayLike, n: int) -> Floats:
    """Return the weights of all pairs; an InputError if they are invalid."""
    given = as_float_array(weights, name="weights")
    if given.shape != (n, n):
        raise InputError(argument="weights", expected=f"shape {(n, n)}, like D", found=given.shape)
    w = pairs_of(
        check_square(given, name="weights", require_zero_diagonal=False, offer_directed=False)
    )
    if w.max(initial=0.0) > LARGEST:
        raise InputError(
            argument="weights", expected=f"numbers up to {LARGEST:g}, found {w.max():.6g}"
        )
    return w


def read_bounds(
    lower: ArrayLike | None, upper: ArrayLike | None, fixed: ArrayLike | None, *, d: Floats, n: int
) -> tuple[Floats | None, Floats | None]:
    """Return bounds of all pairs, those of fixed entries included; None where there are none.

    d, the dissimilarities, is NaN where missing.

    Raises
    ------
    InputError
        If bounds are invalid or contradict each other.
    """
    low = _bound_of(lower, n, "lower", -np.inf)
    high = _bound_of(upper, n, "upper", np.inf)
    if low is not None and low.max(initial=0.0) > LARGEST:
        raise InputError(
            argument="lower", expected=f"bounds up to {LARGEST:g}, found {low.max():.6g}"
        )
    if high is not None:
        high = np.where(high > LARGEST, np.inf, high)
    if fixed is not None:
        mask = np.asarray(unmasked(fixed))  # masked entries make it an array of floats: refused
        if mask.dtype != bool or mask.shape != (n, n):
            raise InputError(
                argument="fixed",
                expected=f"a mask of True and False with shape {(n, n)}",
                found=f"dtype {mask.dtype} with shape {mask.shape}",
            )
        _check_symmetric(mask, "fixed: expected a symmetric mask")
        held = pairs_of(mask.astype(float)) > 0
        if np.any(held & np.isnan(d)):
            raise InputError(
                argument="fixed", expected="entries that are known, found a missing one"
            )
        low = np.where(held, d, 0.0 if low is None else low)
        high = np.where(held, d, np.inf if high is None else high)
    if high is not None and np.any(high < 0):
        pair = int(np.argmin(high))
        raise InputError(
            argument="upper", expected=f"bounds >= 0, found {high[pair]:.6g} at {_name_of(pair)}"
        )
    if low is not None and high is not None and np.any(low > high):
        pair = int(np.argmax(low - high))
        raise InputError(
            f"lower, upper, fixed: expected lower <= upper, found {low[pair]:.6g} > "
            f"{high[pair]:.6g} at {_name_of(pair)}"
        )
    return None if low is None else np.maximum(low, 0.0), high


def tighten_bounds(problem: NearnessProblem, n_jobs: int | None) -> NearnessProblem:
    """Return the problem with the shortest-path closure of its upper bounds.

    A lower bound that the closure misses by rounding of the bound itself is lowered to the closure.

    Raises
    ------
    InputError
        If no metric satisfies the bounds, or missing entries leave two items without a path of
        known lengths.
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
                    f"between {_name_of(int(apart.argmax()))}"
                ),
                remedy="give a value or an upper bound to one of the missing entries",
            )
    if problem.upper is None:
        return problem
    upper, lower = closure_of(problem.upper, problem.n, n_jobs), problem.lower
    if lower is not None and len(lower):
        lacking = (lower - upper) / np.where(lower > 0, lower, 1.0)
        worst = int(lacking.argmax())
        if lacking[worst] > 1e-9:  # more than rounding
            one_sided = problem.kind.bounded_by_d
            note = f" (norm={problem.norm!r} makes D a bound, too)" if one_sided else ""
            raise InputError(
                "lower, upper, fixed: expected bounds that some metric satisfies, but the upper "
                f"bounds allow at most {problem.unit * upper[worst]:.6g} between "
                f"{_name_of(worst)}, less than the lower bound {problem.unit * lower[worst]:.6g}"
                f"{note}"
            )
        lower = np.minimum(lower, upper)
    return replace(problem, lower=lower, upper=upper)


def _power_of_two(value: float) -> float:
    """Return the power of two at or below a number: dividing by it rounds nothing."""
    return float(2.0 ** np.floor(np.log2(value))) if value > 0 else 1.0


def _bound_of(bound: Any, n: int, name: str, none: float) -> Floats | None:
    """Return a bound as pairs; NaN means none."""
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


def _check_symmetric(matrix: NDArray[Any], expected: str) -> None:
    different = matrix != matrix.T
    if different.any():
        i, j = np.argwhere(different)[0].tolist()
        raise InputError(f"{expected}, found ({i}, {j}) and ({j}, {i}) to differ")


def _name_of(pair: int) -> str:
    """Return a pair by its items, "(j, i)", for error messages."""
    i, j = items_of(pair)
    return f"({j}, {i})"

r"""The metric nearness problem over pairs of items, and what its solvers share.

.. math:: \min_x \; \Bigl(\sum_{i<j} w_{ij} |x_{ij} - d_{ij}|^p\Bigr) \quad \text{or} \quad
          \max_{i<j} w_{ij} |x_{ij} - d_{ij}|
          \qquad x_{ij} \le x_{ik} + x_{kj}, \quad l_{ij} \le x_{ij} \le u_{ij}

Vectors have one entry per pair i > j, row by row. Weight 0 marks a missing entry. Lengths and
weights are divided by a power of two. A metric within the bounds exists if and only if the
shortest-path closure of u, the largest metric below u, is above l; :func:`tighten_bounds` checks
that.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricmix.exceptions import InputError
from metricmix.kernels.compile import kernel
from metricmix.kernels.minplus import mirror
from metricmix.memory import check_fits
from metricmix.metric import clip_to_metric
from metricmix.paths.all_pairs import close_in_place
from metricmix.solvers.loop import Certificate, Solver
from metricmix.solvers.result import Status, relative_gap
from metricmix.typing import Floats, Ints
from metricmix.validation import as_float_array, check_square, unmasked

__all__ = [
    "LARGEST",
    "BestMetric",
    "NearnessProblem",
    "NearnessSolver",
    "WarmStart",
    "closure_of",
    "items_of",
    "matrix_of",
    "pairs_of",
    "read_bounds",
    "read_lower_triangle",
    "read_problem",
    "tighten_bounds",
    "write_lower_triangle",
]


UNCHANGED = 32 * float(np.finfo(np.float64).eps)
"""Rounding error of a path length, as a share of the entry that the path is compared with."""

ROUNDING = 1e-9
"""Infeasibility of a lower bound up to this share of the bound itself counts as rounding."""

LARGEST = 1e150
"""Largest entry: it can be squared and summed without overflow."""


@dataclass(frozen=True)
class NearnessProblem:
    """Dissimilarities, weights and bounds of one nearness problem.

    Attributes
    ----------
    norm : str
        "l2", "l1" or "linf"; "decrease" and "increase" are "l2" with D as a bound.
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

    @property
    def objective_unit(self) -> float:
        """Objective, in units of the input, that 1 stands for."""
        power = 1 if self.norm in ("l1", "linf") else 2
        return self.unit**power * self.weight_unit

    @property
    def multiplier_unit(self) -> float:
        """Lagrange multiplier, in units of the input, that 1 stands for."""
        power = 1 if self.norm in ("l1", "linf") else 2
        return power * self.unit ** (power - 1) * self.weight_unit

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
        if self.norm == "linf":
            return float(np.max(self.w * np.abs(x - self.d), initial=0.0))
        if self.norm == "l1":
            return float(np.sum(self.w * np.abs(x - self.d)))
        return float(np.sum(self.w * (x - self.d) ** 2))

    def is_unchanged(self, x: Floats) -> bool:
        """Return whether x equals d up to rounding of each entry, wherever d is known."""
        return bool(np.all((np.abs(x - self.d) <= UNCHANGED * np.abs(self.d)) | (self.w == 0)))

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


def _name_of(pair: int) -> str:
    """Return a pair by its items, "(j, i)", for error messages."""
    i, j = items_of(pair)
    return f"({j}, {i})"


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


# -- what the solvers share ---------------------------------------------------------------------


class WarmStart(NamedTuple):
    """Where a solver starts from, in the units of the problem: a metric, duals of triangles."""

    metric: Floats | None = None
    triangles: Ints | None = None
    multipliers: Floats | None = None


@dataclass(kw_only=True)
class BestMetric:
    """The best metric so far (as pairs), its objective, and a lower bound of the optimum.

    `unchanged` says that the metric is D itself up to rounding: then the gap is 0.
    """

    metric: Floats | None = None
    upper: float = math.inf
    lower: float = 0.0
    unchanged: bool = False


State = TypeVar("State", bound=BestMetric)


class NearnessSolver(Solver[State]):
    """Base of the solvers of a nearness problem.

    Parameters
    ----------
    problem : NearnessProblem
    tol : float
        Relative gap to reach.
    start : WarmStart, optional
    """

    returns = "last"

    def __init__(
        self, problem: NearnessProblem, *, tol: float = 0.0, start: WarmStart | None = None
    ) -> None:
        self.problem, self.tol = problem, tol
        self.start = WarmStart() if start is None else start

    def check(self, state: State) -> tuple[State, float]:
        """Return the objective of the best metric so far, in units of the input."""
        return state, self.problem.objective_unit * state.upper

    def certificate(self, state: State) -> Certificate:
        """Return the lower bound, in units of the input, and the gap."""
        return Certificate(self.problem.objective_unit * state.lower, self.gap(state))

    def gap(self, state: State) -> float:
        """Return the relative gap between the bounds."""
        return 0.0 if state.unchanged else relative_gap(state.upper, state.lower)

    def status(self, state: State) -> Status | None:
        """Stop when the gap is small enough."""
        return Status.CONVERGED if self.gap(state) <= self.tol else None

    def fingerprint(self) -> str:
        """Return a digest of the problem; another `tol` may go on from the same checkpoint."""
        return self.problem.fingerprint()

    def finish(self, state: State) -> State:
        """Return the state to report, with a metric; called once, at the end of the run."""
        return state

    def within(self, given: NearnessProblem, state: State) -> State:
        """Return the state with a metric within the bounds of the problem as it was given.

        They are wider than those of the solver, or infeasible by rounding.
        """
        assert state.metric is not None
        metric = np.clip(state.metric, given.lower, given.upper)
        if np.array_equal(metric, state.metric):
            return state
        return replace(state, metric=metric, upper=given.objective(metric))

    def quick_finish(self, state: State) -> State:
        """Return the same where there is no time for that, with some metric within the bounds."""
        problem = self.problem
        metric = clip_to_metric(problem.d, problem.lower, problem.upper)
        if np.isnan(metric).any():
            if state.metric is not None:
                return state
            assert problem.upper is not None  # a metric by itself
            metric = np.minimum(problem.upper, problem.ceiling)
        return self.improved(state, metric, problem.objective(metric))

    def multipliers(self, state: State) -> tuple[Ints, Floats]:
        """Return the triangles (i, j, k) with a positive multiplier, and the multipliers."""
        return np.empty((0, 3), np.int32), np.empty(0)

    def improved(self, state: State, metric: Floats, objective: float) -> State:
        """Return the state with this metric if it is better than the best so far."""
        if state.metric is not None and objective >= state.upper:
            return state
        unchanged = self.problem.is_unchanged(metric)
        return replace(state, metric=metric, upper=objective, unchanged=unchanged)


# -- user input, validated once -----------------------------------------------------------------


def read_problem(
    norm: str,
    D: ArrayLike,
    weights: ArrayLike | None,
    bounds: tuple[ArrayLike | None, ArrayLike | None, ArrayLike | None],
    *,
    bytes_per_entry: float,
) -> NearnessProblem:
    """Return the problem, with entries and weights divided by a power of two.

    `bounds` are `lower`, `upper` and `fixed`; `bytes_per_entry` is the memory that solving takes,
    per entry of D.

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
    least = norm in ("decrease", "linf")
    check_fits(
        lambda n: bytes_per_entry * n * n,
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
    if norm == "increase":
        lower = d if lower is None else np.maximum(d, lower)
    elif norm == "decrease":
        known = np.where(w > 0, d, np.inf)
        upper = known if upper is None else np.minimum(known, upper)
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
        if lacking[worst] > ROUNDING:
            one_sided = problem.norm in ("increase", "decrease")
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

"""The matrix in a file: is it a metric, which items violate it most, what does a repair change."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from metricmix.exceptions import InputError
from metricmix.items.relation import Matrix
from metricmix.metric import MetricViolations, metric_violations
from metricmix.nearness import (
    Triangle,
    ViolationCount,
    items_explaining_violations,
    violation_counts,
    worst_triangles,
)
from metricmix.nearness.reading import LARGEST
from metricmix.paths.all_pairs import impute_missing
from metricmix.typing import Floats
from metricmix.validation import symmetrized

__all__ = [
    "MatrixCheck",
    "changes_between",
    "check_matrix",
    "check_repairable",
    "fill_one_sided",
    "symmetrise",
]


def fill_one_sided(matrix: Matrix) -> Matrix:
    """Return the matrix where an entry that is known in one direction only counts for both."""
    values = matrix.values
    return replace(matrix, values=np.where(np.isnan(values), values.T, values))


def symmetrise(matrix: Matrix, how: str) -> Matrix:
    """Return the matrix of the mean, min or max of both directions; a lone entry counts for both.

    >>> from metricmix.app.ingest.matrices import Matrix
    >>> one_way = Matrix(np.array([[0.0, 3.0], [1.0, 0.0]]), None)
    >>> symmetrise(one_way, "mean").values.tolist()
    [[0.0, 2.0], [2.0, 0.0]]
    """
    matrix = fill_one_sided(matrix)
    values = matrix.values
    if how == "mean":
        both = 0.5 * values + 0.5 * values.T  # halved first: the sum may overflow
    else:
        both = np.minimum(values, values.T) if how == "min" else np.maximum(values, values.T)
    return replace(matrix, values=both)


@dataclass(frozen=True)
class MatrixCheck:
    """The result of :func:`check_matrix`.

    Attributes
    ----------
    file : Path
    matrix : Matrix
    n_missing, n_one_sided, n_zero_pairs : int
        Pairs that are unknown, known in one direction only, and different items at distance 0.
    violations : MetricViolations
    triangles : list of Triangle
        The worst violations of the triangle inequality.
    responsible : list of ViolationCount
        The items that are part of most violations.
    explained_by : int or None
        How many of these items explain the violations.
    typical : float or None
        If no few items do: the median violation of a pair by the shortest path through one other
        item, as a share of the largest entry, over a sample of rows.
    """

    file: Path
    matrix: Matrix
    n_missing: int
    n_one_sided: int
    n_zero_pairs: int
    violations: MetricViolations
    triangles: list[Triangle]
    responsible: list[ViolationCount]
    explained_by: int | None
    typical: float | None = None

    @property
    def is_metric(self) -> bool:
        """Whether it is a metric without unknown pairs."""
        return not self.n_missing and self.violations.is_metric()

    @property
    def n_violations(self) -> int:
        """Number of violated triangle inequalities."""
        return (
            self.responsible[0].triangles + self.responsible[0].remaining if self.responsible else 0
        )

    def row_beside(self, one: ViolationCount) -> tuple[int, float] | None:
        """Return the item nearest to that of a count, and the median ratio of their rows.

        Items that are near each other have similar rows: a ratio far from 1 suggests a row that is
        scaled as a whole. The other responsible items do not count. None where fewer than five
        entries can be compared.
        """
        values = self.matrix.values
        i, suspects = one.item, [other.item for other in self.responsible]
        rest = np.setdiff1d(np.arange(len(values)), suspects)
        known = rest[values[i, rest] > 0]
        fewest = 5  # entries of two rows that are compared at least
        if len(known) < fewest:
            return None
        near = int(known[values[i, known].argmin()])
        both = known[(known != near) & (values[near, known] > 0)]
        if len(both) < fewest:
            return None
        with np.errstate(over="ignore"):  # of absurd numbers, inf
            return near, float(np.median(values[i, both] / values[near, both]))

    def to_record(self) -> dict[str, Any]:
        """Return the result for JSON; items by their names."""
        found, name = self.violations, self.matrix.key
        return {
            "file": str(self.file),
            "items": found.n,
            "is_metric": self.is_metric,
            "missing": self.n_missing,
            "one_sided": self.n_one_sided,
            "largest": found.scale,
            "tolerance": found.tolerance,
            "asymmetry": found.asymmetry,
            "diagonal": found.diagonal,
            "negativity": found.negativity,
            "triangle": found.triangle,
            "zero_pairs": self.n_zero_pairs,
            "broken_pairs": found.n_triangle_violations,
            "broken_triangles": self.n_violations,
            "worst_triangles": [
                {
                    "from": name(one.i),
                    "to": name(one.j),
                    "over": name(one.k),
                    "direct": one.direct,
                    "detour": one.first + one.second,
                }
                for one in self.triangles
            ],
            "explained_by": self.explained_by,
            "typical_violation": self.typical,
            "blame": [
                {
                    "item": name(one.item),
                    "triangles": one.triangles,
                    "left": one.remaining,
                    "partner": None if one.partner is None else name(one.partner),
                    "row_beside": None if beside is None else name(beside[0]),
                    "row_ratio": None if beside is None else beside[1],
                }
                for one in self.responsible
                for beside in [self.row_beside(one)]
            ],
        }


def check_matrix(
    file: Path, matrix: Matrix, *, directed: bool = False, tol: float = 1e-9, top: int = 5
) -> MatrixCheck:
    """Check the axioms of a metric; list up to `top` worst triangles and responsible items.

    Unknown entries (NaN) are bounded by the shortest paths over known ones, so that only known
    entries can be at fault. Violations up to `tol` times the largest entry, or up to the rounding
    of the numbers in the file, do not count. O(n³).
    """
    tol, n_one_sided = max(tol, matrix.rounding), 0
    if not directed:
        n_one_sided = int(np.sum(np.isnan(matrix.values) != np.isnan(matrix.values.T))) // 2
        matrix = fill_one_sided(matrix)
    values = matrix.values
    unknown, zero = np.isnan(values), values == 0
    np.fill_diagonal(zero, False)
    triangles: list[Triangle] = []
    responsible: list[ViolationCount] = []
    explained_by: int | None = None
    typical: float | None = None
    with np.errstate(over="ignore"):  # a path of infinite length is none
        whole = impute_missing(values, directed=True) if unknown.any() else values
        violations = metric_violations(whole, directed=directed, tol=tol)
        # Triangles are listed of symmetric matrices only: asymmetry is to be repaired first.
        symmetric = not directed and violations.asymmetry <= violations.tolerance
        if top and symmetric and violations.triangle > violations.tolerance:
            both = symmetrized(values)
            triangles = worst_triangles(both, top=top, tol=tol)
            responsible = violation_counts(both, top=top, tol=tol)
            explained_by = items_explaining_violations(responsible, violations.n)
            if explained_by is None:
                typical = typical_violation(both, violations.tolerance) / violations.scale
    return MatrixCheck(
        file=file,
        matrix=matrix,
        n_missing=int(unknown.sum() if directed else np.triu(unknown).sum()),
        n_one_sided=n_one_sided,
        n_zero_pairs=int(zero.sum() if directed else np.triu(zero | zero.T).sum()),
        violations=violations,
        triangles=triangles,
        responsible=responsible,
        explained_by=explained_by,
        typical=typical,
    )


def typical_violation(D: Floats, tolerance: float) -> float:
    """Return the median of d(i, j) - min over k of d(i, k) + d(k, j), where above the tolerance.

    Over the pairs of at most 64 rows i; 0 if none of them is violated. NaN is unknown.

    >>> typical_violation(np.array([[0.0, 1.0, 5.0], [1.0, 0.0, 1.0], [5.0, 1.0, 0.0]]), 0.0)
    3.0
    """
    known = np.where(np.isnan(D), np.inf, D)
    np.fill_diagonal(known, 0.0)
    found = []
    n_rows = 64  # rows from which the typical violation is estimated
    for i in np.unique(np.linspace(0, len(D) - 1, n_rows).astype(np.int64)).tolist():
        excess = D[i] - (known[i][:, None] + known).min(axis=0)
        found.append(excess[excess > tolerance])
    violated = np.concatenate(found)
    return float(np.median(violated)) if len(violated) else 0.0


# -- repairs ---------------------------------------------------------------------------------------


def check_repairable(matrix: Matrix) -> None:
    """Raise InputError, with the names of the items, for errors that a repair would only hide."""
    from scipy.sparse.csgraph import connected_components

    values = matrix.values
    scale = float(np.nanmax(np.abs(values)))
    if scale > LARGEST:
        i, j = divmod(int(np.nanargmax(np.abs(values))), len(values))
        raise InputError(
            f"expected numbers up to {LARGEST:g}, found {values[i, j]:.6g} for "
            f"{matrix.name(i)}, {matrix.name(j)}; correct it, or use another unit",
            argument="D",
        )
    unknown = np.isnan(values)
    apart = np.where(unknown, 0.0, np.abs(values - values.T))
    i, j = (int(place) for place in np.unravel_index(int(apart.argmax()), apart.shape))
    if apart[i, j] > max(1e-9, matrix.rounding) * scale:
        raise InputError(
            f"expected a symmetric matrix, found {values[i, j]:.6g} from "
            f"{matrix.name(i)} to {matrix.name(j)} and {values[j, i]:.6g} from {matrix.name(j)} to "
            f"{matrix.name(i)}; pass --symmetrise mean, min or max",
            argument="D",
        )
    diagonal = np.abs(np.diagonal(values))
    i = int(diagonal.argmax())
    if diagonal[i] > 1e-9 * scale:
        raise InputError(
            f"expected 0 from every item to itself, found {values[i, i]:.6g} for "
            f"{matrix.name(i)}; set the diagonal to 0, or if these are similarities, turn them "
            "into dissimilarities first",
            argument="D",
        )
    _, part = connected_components(~unknown)
    if part.any():
        i, j = 0, int(part.argmax())
        raise InputError(
            f"expected a path of known entries between any two items, found none between "
            f"{matrix.name(i)} and {matrix.name(j)}; fill in some entry between the two groups",
            argument="D",
        )
    lowest = int(np.nanargmin(values))
    i, j = divmod(lowest, len(values))
    if values[i, j] < 0:
        raise InputError(
            f"expected no negative distance, found {values[i, j]:.6g} for "
            f"{matrix.name(i)}, {matrix.name(j)}; correct it, or leave it empty if it is unknown",
            argument="D",
        )


def changes_between(values: Floats, metric: Floats) -> dict[str, Any]:
    """Return what a repair changed, in numbers; pairs and items by their places."""
    upper = np.triu(np.ones(values.shape, bool), 1)
    known = upper & ~np.isnan(values)
    change = np.where(known, metric - np.nan_to_num(values), 0.0)
    apart = np.abs(change)
    unchanged = 1e-6  # changes up to this share of the entry itself are not counted
    moved = apart > unchanged * np.where(known, np.abs(values), 0.0)
    i, j = (int(place) for place in np.unravel_index(int(apart.argmax()), apart.shape))
    total = float(apart.sum())
    by_item = (apart.sum(axis=0) + apart.sum(axis=1)) / (total or 1.0)
    worst = [k for k in np.argsort(-by_item, kind="stable")[:3].tolist() if by_item[k] > 0]
    return {
        "known": int(known.sum()),
        "changed": int(moved.sum()),
        "lowered": int((moved & (change < 0)).sum()),
        "raised": int((moved & (change > 0)).sum()),
        "filled": int((upper & ~known).sum()),
        "largest_change": float(apart.max()),
        "mean_change": float(apart[moved].mean()) if moved.any() else 0.0,
        "most_changed": (i, j) if moved.any() else None,
        "by_item": [(k, float(by_item[k])) for k in worst],
    }

"""Check the matrix in a file: is it a metric, and which items violate it most."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from metricmix.app.ingest.matrices import MatrixFile
from metricmix.metric import MetricViolations, metric_violations
from metricmix.nearness import (
    Triangle,
    ViolationCount,
    items_explaining_violations,
    violation_counts,
    worst_triangles,
)
from metricmix.paths.all_pairs import impute_missing
from metricmix.typing import Floats
from metricmix.validation import symmetrized

__all__ = ["MatrixCheck", "check_matrix", "fill_one_sided", "symmetrise"]


def fill_one_sided(matrix: MatrixFile) -> MatrixFile:
    """Return the matrix where an entry that is known in one direction only counts for both."""
    values = matrix.values
    return replace(matrix, values=np.where(np.isnan(values), values.T, values))


def symmetrise(matrix: MatrixFile, how: str) -> MatrixFile:
    """Return the matrix of the mean, min or max of both directions; a lone entry counts for both.

    >>> from metricmix.app.ingest.matrices import MatrixFile
    >>> one_way = MatrixFile(np.array([[0.0, 3.0], [1.0, 0.0]]), None)
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
    matrix : MatrixFile
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
    matrix: MatrixFile
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
    file: Path, matrix: MatrixFile, *, directed: bool = False, tol: float = 1e-9, top: int = 5
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

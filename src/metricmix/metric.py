r"""What a metric is, and how far a matrix is from being one.

A matrix `D` over n items is a metric when

.. math:: D_{ii} = 0, \qquad D_{ij} \ge 0, \qquad D_{ij} = D_{ji}, \qquad D_{ij} \le D_{ik} + D_{kj}

for all i, j, k (without the third when directed). Distance 0 between different items is allowed
(strictly speaking a pseudo-metric) unless ``strict=True``. The triangles are checked by one
min-plus product of `D` with itself, with half of the work for a symmetric `D`.

Tolerances are relative to the largest entry, and never below what rounding alone does: eight units
in the last place, since a shortest path adds up several numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from metricmix.devices import in_torch, resolve_device
from metricmix.exceptions import NotAMetricError
from metricmix.kernels.minplus import min_plus
from metricmix.kernels.triangles import PairSurvey, TriangleScan, collected
from metricmix.state import stored
from metricmix.typing import Floats
from metricmix.validation import check_copies_fit, check_number, check_square

__all__ = [
    "MetricViolations",
    "check_metric",
    "clip_to_metric",
    "is_metric",
    "metric_violations",
    "smallest_entries",
]


@stored("MetricViolations")
@dataclass(frozen=True)
class MetricViolations:
    """How far a matrix is from being a metric; all amounts are >= 0, and 0 is no violation.

    Attributes
    ----------
    asymmetry : float
        Largest ``|D[i, j] - D[j, i]|``, at `worst_asymmetry` (0 if directed: not looked at).
    diagonal : float
        Largest ``|D[i, i]|``, at item `worst_diagonal`.
    negativity : float
        Largest ``-D[i, j]``, at `worst_negative`.
    triangle : float
        Largest ``D[i, j] - (D[i, k] + D[k, j])``, at `worst_triangle`.
    worst_triangle : (i, k, j) or None
        The triangle behind `triangle`, with the lengths ``(D[i, j], D[i, k], D[k, j])`` in
        `triangle_lengths`; None if there is none.
    n_triangle_violations : int
        Number of pairs that violate the triangle inequality beyond the tolerance: unordered pairs,
        or ordered ones if `D` is directed (or asymmetric beyond the tolerance).
    zero_pairs : int
        Number of pairs of different items at distance 0 (ordered if directed).
    n, scale, tolerance : int, float, float
        Number of items, largest absolute entry, and the amount up to which nothing counts.
    directed : bool
        Whether symmetry was left out.
    """

    asymmetry: float
    diagonal: float
    negativity: float
    triangle: float
    worst_triangle: tuple[int, int, int] | None
    n_triangle_violations: int
    zero_pairs: int
    n: int
    scale: float
    tolerance: float
    directed: bool
    worst_asymmetry: tuple[int, int] | None
    worst_diagonal: int | None
    worst_negative: tuple[int, int] | None
    triangle_lengths: tuple[float, float, float] | None

    def is_metric(self, strict: bool = False) -> bool:
        """Return whether all axioms hold up to the tolerance."""
        amounts = (self.asymmetry, self.diagonal, self.negativity, self.triangle)
        return max(amounts) <= self.tolerance and not (strict and self.zero_pairs)

    def worst(self, strict: bool = False) -> str | None:
        """Return the worst violation in words, or None for a metric."""
        if self.is_metric(strict):
            return None
        # In this order, since the earlier ones violate triangles too: a tie goes to the cause.
        violations = [
            (
                self.negativity,
                f"the negative entry {-self.negativity:.6g} at {self.worst_negative}",
            ),
            (self.diagonal, f"{self.diagonal:.6g} on the diagonal, at item {self.worst_diagonal}"),
            (self.asymmetry, f"asymmetry {self.asymmetry:.6g} at {self.worst_asymmetry}"),
            (self.triangle, f"a broken triangle: {self._triangle_in_words()}"),
        ]
        amount, words = max(violations, key=lambda violation: violation[0])
        if amount > self.tolerance:
            return words
        return f"{self.zero_pairs} pairs of different items at distance 0"

    def describe(self) -> str:
        """Return a short summary, one line per axiom."""
        kind = "directed" if self.directed else "undirected"
        verdict = "a metric" if self.is_metric() else "not a metric"
        if self.is_metric() and self.zero_pairs:
            verdict = "a pseudo-metric"
        pairs = "ordered pairs" if self.counts_ordered else "pairs"
        asymmetry = f"  asymmetry   {self.asymmetry:.6g}" + _at(self.worst_asymmetry)
        lines = [
            f"{verdict}: n = {self.n}, {kind}, entries up to {self.scale:.6g}, "
            f"tolerance {self.tolerance:.2g}",
            f"  triangle    {self.triangle:.6g}"
            + (f" in {self._triangle_in_words()}" if self.worst_triangle else "")
            + f"; {self.n_triangle_violations} {pairs} beyond the tolerance",
            *([] if self.directed else [asymmetry]),
            f"  diagonal    {self.diagonal:.6g}" + _at(self.worst_diagonal),
            f"  negativity  {self.negativity:.6g}" + _at(self.worst_negative),
            f"  zero pairs  {self.zero_pairs}",
        ]
        return "\n".join(lines)

    __str__ = describe

    @property
    def counts_ordered(self) -> bool:
        """Whether pairs are ordered ones: directed, or asymmetric beyond the tolerance."""
        return self.directed or self.asymmetry > self.tolerance

    def _triangle_in_words(self) -> str:
        if self.worst_triangle is None or self.triangle_lengths is None:
            return "none"
        (i, k, j), (direct, first, second) = self.worst_triangle, self.triangle_lengths
        return (
            f"d({i}, {j}) = {direct:.6g} > d({i}, {k}) + d({k}, {j}) = {first:.6g} + {second:.6g}"
        )


def _at(place: tuple[int, int] | int | None) -> str:
    return "" if place is None else f" at {place}"


def metric_violations(
    D: ArrayLike,
    directed: bool = False,
    *,
    tol: float = 1e-9,
    n_jobs: int | None = None,
    device: str = "cpu",
) -> MetricViolations:
    r"""Measure how far `D` is from being a metric, axiom by axiom.

    .. math:: \max_{ij} |D_{ij} - D_{ji}|, \quad \max_i |D_{ii}|, \quad \max_{ij} -D_{ij}, \quad
              \max_{ijk} D_{ij} - (D_{ik} + D_{kj})

    Parameters
    ----------
    D : array of shape (n, n)
        Finite numbers; every other defect is reported, not refused.
    directed : bool
        Leave symmetry out.
    tol : float
        Tolerance relative to the largest entry, for counting violated triangles.
    n_jobs : int or None
        Threads; None means all cores. The report does not depend on it.
    device : {"cpu", "cuda", "auto"}
        "cuda" computes on a GPU, through PyTorch; "auto" does so if there is one.

    Returns
    -------
    MetricViolations

    Raises
    ------
    InputError
        If `D` is not square, or has entries that are NaN or infinite.

    Notes
    -----
    n^3 / 2 additions and minima (n^3 if directed); no second n x n array unless `D` is not
    contiguous or its diagonal is not 0.

    Examples
    --------
    >>> import numpy as np
    >>> from metricmix.metric import metric_violations
    >>> report = metric_violations(np.array([[0.0, 1, 5], [1, 0, 1], [5, 1, 0]]))
    >>> report.triangle, report.worst_triangle
    (3.0, (0, 1, 2))
    """
    where = resolve_device(device)
    if where != "cpu":
        found: MetricViolations = in_torch(
            "violations", "metric_violations", where, D, name="D", directed=directed, tol=tol
        )
        return found
    if isinstance(D, np.ndarray) and not D.flags.c_contiguous:
        check_copies_fit(D, 1, what="a contiguous copy", argument="D")
    checked = check_square(
        D,
        name="D",
        directed=True,
        allow_negative=True,
        require_zero_diagonal=False,
        n_jobs=n_jobs,
    )
    matrix = np.ascontiguousarray(checked)
    n = len(matrix)
    surveys = collected(PairSurvey(matrix), n_jobs)
    on_diagonal = np.abs(np.diagonal(matrix))
    scale = max(float(on_diagonal.max()), *(float(s[0]) for s in surveys))
    tolerance = max(check_number(tol, name="tol", low=0.0), 8 * float(np.finfo(matrix.dtype).eps))
    tolerance *= scale
    asymmetry, *asymmetric = max(((s[1], s[2], s[3]) for s in surveys), key=_amount)
    negativity, *negative = max(((s[4], s[5], s[6]) for s in surveys), key=_amount)
    lowest = float(np.diagonal(matrix).min())
    if -lowest > negativity:
        negativity, negative = -lowest, [int(np.diagonal(matrix).argmin())] * 2

    # A diagonal of zeros makes k = i and k = j harmless: they give D[i, j] itself.
    if on_diagonal.any():
        check_copies_fit(matrix, 1, what="a copy with a zero diagonal", argument="D")
        matrix = matrix.copy()
        np.fill_diagonal(matrix, 0)
    lower = not directed and asymmetry <= tolerance
    scans = collected(TriangleScan(matrix, lower, tolerance), n_jobs)
    triangle, i, j = max(((s[0], s[1], s[2]) for s in scans), key=_amount)
    worst_triangle, lengths = None, None
    if triangle > 0:
        i, j = (int(min(i, j)), int(max(i, j))) if lower else (int(i), int(j))
        detours = matrix[i] + matrix[:, j]
        detours[[i, j]] = np.inf
        k = int(detours.argmin())
        worst_triangle = (int(i), k, int(j))
        lengths = (float(matrix[i, j]), float(matrix[i, k]), float(matrix[k, j]))
    either, both = (sum(s[c] for s in surveys) for c in (7, 8))
    return MetricViolations(
        asymmetry=0.0 if directed else float(asymmetry),
        diagonal=float(on_diagonal.max()),
        negativity=max(0.0, float(negativity)),
        triangle=float(triangle),
        worst_triangle=worst_triangle,
        n_triangle_violations=sum(int(s[3]) for s in scans),
        zero_pairs=int(either + both if directed else either),
        n=n,
        scale=scale,
        tolerance=tolerance,
        directed=directed,
        worst_asymmetry=_pair(asymmetric) if asymmetry > 0 and not directed else None,
        worst_diagonal=int(on_diagonal.argmax()) if on_diagonal.any() else None,
        worst_negative=_pair(negative) if negativity > 0 else None,
        triangle_lengths=lengths,
    )


def is_metric(
    D: ArrayLike,
    tol: float = 1e-9,
    strict: bool = False,
    directed: bool = False,
    *,
    device: str = "cpu",
) -> bool:
    """Return whether `D` is a metric, up to `tol` times its largest entry.

    NaN, infinite entries and matrices that are not square raise an
    :class:`~metricmix.exceptions.InputError`.

    Parameters
    ----------
    D : array of shape (n, n)
    tol : float
        Tolerance relative to the largest entry (at least a few roundings of the type).
    strict : bool
        Whether distance 0 between different items is refused: a metric, not a pseudo-metric.
    directed : bool
        Whether symmetry is left out.
    device : {"cpu", "cuda", "auto"}
        "cuda" computes on a GPU, through PyTorch; "auto" does so if there is one.

    Examples
    --------
    >>> from metricmix.metric import is_metric
    >>> is_metric([[0, 1, 2], [1, 0, 1], [2, 1, 0]])
    True
    >>> is_metric([[0, 1, 5], [1, 0, 1], [5, 1, 0]])
    False
    """
    return metric_violations(D, directed, tol=tol, device=device).is_metric(strict)


def check_metric(
    D: ArrayLike, tol: float = 1e-9, strict: bool = False, directed: bool = False
) -> None:
    """Raise :class:`~metricmix.exceptions.NotAMetricError`, naming the worst violation, or return.

    Parameters
    ----------
    D : array of shape (n, n)
    tol : float
        Tolerance relative to the largest entry (at least a few roundings of the type).
    strict : bool
        Whether distance 0 between different items is refused: a metric, not a pseudo-metric.
    directed : bool
        Whether symmetry is left out.

    Examples
    --------
    >>> from metricmix.metric import check_metric
    >>> check_metric([[0, 1, 5], [1, 0, 1], [5, 1, 0]])
    Traceback (most recent call last):
    ...
    metricmix.exceptions.NotAMetricError: D: expected a metric, found a broken triangle: d(0, 2) = 5
    > d(0, 1) + d(1, 2) = 1 + 1; metricmix.project gives the largest metric below D
    """
    report = metric_violations(D, directed, tol=tol)
    worst = report.worst(strict)
    if worst is not None:
        only_triangles = (
            max(report.asymmetry, report.diagonal, report.negativity) <= report.tolerance
        )
        remedy = (
            "metricmix.project gives the largest metric below D"
            if only_triangles and report.triangle > report.tolerance
            else "set it right first, e.g. by np.abs(D + D.T) / 2 and np.fill_diagonal(D, 0)"
        )
        raise NotAMetricError(
            violations=report,
            argument="D",
            expected=f"a metric, found {worst}",
            remedy=remedy,
        )


def _amount(found: tuple[float, float, float]) -> float:
    return found[0]


def _pair(place: list[float]) -> tuple[int, int]:
    return int(place[0]), int(place[1])


def clip_to_metric(x: Floats, lower: Floats | None = None, upper: Floats | None = None) -> Floats:
    r"""Return a metric near x, in one pass over its entries.

    .. math:: d_{ij} = \min(\max(x_{ij}, c), 2 c)

    satisfies all triangle inequalities, whatever x is.

    Parameters
    ----------
    x, lower, upper : arrays of one shape
        Lengths, and bounds: (n, n) arrays, whose diagonal becomes 0, or one entry per pair.

    Returns
    -------
    array
        Of NaN, if there is no such c for the bounds.

    Examples
    --------
    >>> clip_to_metric(np.array([[0.0, 1.0, 9.0], [1.0, 0.0, 2.0], [9.0, 2.0, 0.0]])).round(2)
    array([[0.  , 1.78, 3.56],
           [1.78, 0.  , 2.  ],
           [3.56, 2.  , 0.  ]])
    """
    c = float(np.mean(x, where=np.isfinite(x))) * 2.0 / 3.0 if x.size else 0.0
    if lower is not None:
        c = max(c, 0.5 * float(lower.max(initial=0.0)))
    if upper is not None:
        c = min(c, float(upper.min(initial=np.inf)))
    d = np.clip(x, c, 2.0 * c)
    if lower is not None:
        d = np.maximum(d, lower)
        if float(lower.max(initial=0.0)) > 2.0 * c:
            return np.full_like(d, np.nan)
    if upper is not None:
        d = np.minimum(d, upper)
    if x.ndim == 2:
        np.fill_diagonal(d, 0.0)
    return d


def smallest_entries(
    floor: Floats, metric: Floats, directed: bool, n_jobs: int | None = None
) -> Floats:
    r"""Return :math:`\max_{uv} \, f_{uv} - d_{ui} - d_{jv}` for all i, j.

    What triangle inequalities leave of the entry (i, j), for lengths d of shortest paths and lower
    bounds f of entries: were it smaller, a path over it would be shorter than its bound.
    """
    back = np.ascontiguousarray(metric.T) if directed else metric
    entries = min_plus(min_plus(back, -floor, n_jobs=n_jobs), back, n_jobs=n_jobs)
    if not directed:
        entries = np.minimum(entries, entries.T)  # they may differ by rounding
    return np.asarray(np.negative(entries, out=entries))
